"""Failures of asynchronous calls: no object is lost, each error is reported; forks and exits of processes."""

from __future__ import annotations

import subprocess
import threading

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.exceptions import NotDoneError, ObjectNotFoundError, RunAbortedError, SyftError, WorkerLostError
from syft.messaging import message as m
from syft.workers.process.worker import ProcessWorker
from syft.workers.transport import fork_safety
from syft.workers.transport.request_codec import answer, read_answer, respond, write_request
from syft.workers.transport.stream import FailureGroup, close_all
from syft.workers.websocket_client import WebsocketClientWorker
from tests.helpers import warm_processes as warm
from tests.helpers.nodes import forget, node, websocket_server


@pytest.fixture(params=["thread", "process", "websocket"])
def far(request, hook, make_worker):
    """A worker that is not waited for."""
    if request.param == "thread":
        yield make_worker("far", "thread")
    elif request.param == "process":
        worker = ProcessWorker(hook, id="far-process")
        yield worker
        worker.stop()
    else:
        with websocket_server("far-ws") as server:
            worker = WebsocketClientWorker(hook, host="localhost", port=server.port, id="far-ws")
            yield worker
            forget(hook, worker)


def fail(worker):
    """Make a call that fails there, and that nobody waits for."""
    x, index = torch.tensor([1.0, 2.0]).send(worker), torch.tensor([5]).send(worker)
    x.index_select(0, index)
    return x


# --- what is asked after a failure ----------------------------------------------------------------------------


def test_get_loses_nothing(far):
    w = torch.tensor([10.0, 20.0]).send(far)
    fail(far)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        w.get()
    assert torch.equal((w + 1).get(), torch.tensor([11.0, 21.0])), "the pointer is as good as before"
    assert torch.equal(w.get(), torch.tensor([10.0, 20.0]))


def test_fetching_several_loses_nothing(far):
    pair = [torch.tensor([1.0]).send(far), torch.tensor([2.0]).send(far)]
    stream, ids = pair[0].child.lease.stream, [each.child.id_at_location for each in pair]
    fail(far)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        stream.fetch_many(ids)
    assert [each.item() for each in stream.fetch_many(ids)] == [1, 2]
    for each in pair:
        each.child.lease.spend("it was fetched")


def test_moves_lose_nothing(hook, make_worker):
    far, other = make_worker("far", "thread"), make_worker("other", "thread")
    w = torch.tensor([10.0]).send(far)
    fail(far)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        w.move(other)
    assert torch.equal(w.move(other).get(), torch.tensor([10.0]))


def test_a_request_after_a_failure_is_not_done(far):
    w = torch.ones(1, 2).send(far)
    far.synchronize()
    fail(far)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        w.t_()  # changes the form, so the worker is asked
    assert w.shape == w.copy().get().shape == (1, 2)


def test_synchronize_waits_for_all_and_raises_one_error(far):
    x = torch.tensor([1.0, 2.0]).send(far)
    index = torch.tensor([5]).send(far)
    stream = x.child.lease.stream
    told = 0
    for _ in range(20):
        try:
            x.index_select(0, index)
        except (IndexError, RuntimeError):
            told += 1
    try:
        stream.synchronize()
    except (IndexError, RuntimeError):
        told += 1
    assert told and stream._failed is None
    stream.synchronize()


def test_a_failure_reported_elsewhere_blocks_no_requests(make_worker):
    far = make_worker("far", "thread")
    w = torch.tensor([10.0]).send(far)
    stream = w.child.lease.stream
    stream._record_failure = lambda written, line: (
        None
    )  # as for a call that failed at several workers, and was reported once
    fail(far)
    assert torch.equal(w.get(), torch.tensor([10.0]))


def test_a_worker_without_requests_is_not_polled(make_worker, monkeypatch):
    far = make_worker("far", "thread")
    torch.ones(1).send(far)
    stream = sy.local_worker.stream_to(far)

    def refuse(message, heard):
        error = NotDoneError("no")
        error.syft_step = str(heard + 1)
        raise error

    monkeypatch.setattr(stream, "_ask", refuse)
    with pytest.raises(SyftError, match="again and again"):
        stream.search([])


def test_requests_carry_the_number_of_known_failures(make_worker):
    worker = make_worker("far")
    session = worker.open_session("alice")

    def ask(message, waits):
        return read_answer(None, worker, respond(worker, session, write_request(None, (), message, waits))[0])

    ask(m.ObjectMessage(torch.ones(2), 1), False)
    for count in (1, 2):
        with pytest.raises(ObjectNotFoundError, match="99"):
            ask(m.RetainMessage(99), False)
        with pytest.raises(NotDoneError) as caught:
            ask(m.ObjectRequestMessage((1, None, "")), count - 1)
        assert caught.value.syft_step == str(count)
    with pytest.raises(ObjectNotFoundError, match="99"):
        ask(m.GetShapeMessage(Ref(99)), True)
    assert session.failures == 2, "the error of a call that is waited for is raised at once"
    assert torch.equal(ask(m.ObjectRequestMessage((1, None, "")), 2), torch.ones(2))
    answer(worker, session, b"nonsense")
    with pytest.raises(NotDoneError):
        ask(m.BatchMessage(()), 2)


# --- closing --------------------------------------------------------------------------------------------------


def test_closing_raises_pending_errors(hook, make_worker):
    far = make_worker("far", "thread")
    stream = fail(far).child.lease.stream
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        far.stop()
    assert not stream._thread.is_alive() and len(far.object_store.objects) == 0
    far.stop()


def test_stopping_a_process_raises_pending_errors(hook):
    worker = ProcessWorker(hook, id="far-stopped")
    fail(worker)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        worker.stop()
    assert not worker.is_alive()
    worker.stop()


def test_closing_a_connection_raises_pending_errors(hook):
    with node("far-node") as there:
        worker = there.connect(hook)
        x = torch.tensor([1.0, 2.0]).send(worker).tag("#model")
        x.index_fill_(0, torch.tensor([5]).send(worker), 0.0)
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            worker.close()
        worker.close()
        assert [p.tags for p in worker.search("#model")] == [{"#model"}], (
            "what is published is there, and a new session"
        )
        forget(hook, worker)


def test_all_are_closed_before_an_error_is_raised():
    class Closing:
        def __init__(self, error=None):
            self.error, self.is_closed = error, False

        def close(self):
            self.is_closed = True
            if self.error is not None:
                raise self.error

    streams = [Closing(ValueError("first")), Closing(), Closing(ValueError("second"))]
    with pytest.raises(ValueError, match="first"):
        close_all(streams)
    assert all(stream.is_closed for stream in streams)


def run(program, *args):
    """Run a program in a process of its own; returns what it said, and what it warned of."""
    process = warm.popen(program, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, warned = process.communicate(timeout=100)
    assert process.returncode == 0, warned
    return said.splitlines(), warned


HEAD = """
import os, sys, warnings
import torch, syft as sy
hook = sy.TorchHook(torch)
from syft.workers.process.worker import ProcessWorker
"""
END = (
    HEAD
    + """
kind, url, token = sys.argv[1:4]
far = {
    "thread": lambda: sy.VirtualWorker(hook, id="far", threaded=True),
    "process": lambda: ProcessWorker(hook, id="far"),
    "websocket": lambda: sy.connect(url, token=token, hook=hook),
}[kind]()
x = torch.zeros(2).send(far).tag("#kept")
far.synchronize()
x.add_(1)
x.index_fill_(0, torch.tensor([5]).send(far), 0.0)
"""
)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_the_exit_of_a_program_logs_pending_errors(kind):
    _, warned = run(END, kind, "", "")
    assert "A call to 'far' had failed: index 5 is out of bounds" in warned and "index_fill_" in warned


def test_the_exit_of_a_program_delivers_batched_calls(hook):
    with node("far-end", users={"alice": "user"}) as there:
        _, warned = run(END, "websocket", there.url, there.tokens["alice"])
        assert "A call to 'far-end' had failed: index 5 is out of bounds" in warned
        worker = there.connect(hook)
        (kept,) = worker.search("#kept")
        assert kept.copy().get().tolist() == [1, 1]
        forget(hook, worker)


# --- forks ----------------------------------------------------------------------------------------------------

FORK = (
    HEAD
    + """
url, token = sys.argv[1:3]
thread = sy.VirtualWorker(hook, id="far-thread", threaded=True)
workers = [sy.connect(url, token=token, hook=hook), ProcessWorker(hook, id="far-process"), thread]
pointers = [torch.zeros(2).send(worker) for worker in workers]
for worker in workers:
    worker.synchronize()
pointers[0].add_(1)  # gathered, and the parent's to send
sys.stdout.flush()
# From 3.12 on, Python warns the author of a program with threads that forks, as this one means to.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
child = os.fork()
if child == 0:
    for pointer in pointers:
        for use in (lambda: pointer.add_(1), lambda: pointer + 1, pointer.get, lambda: pointer.child.lease.stream.synchronize()):
            try:
                for _ in range(100):
                    use()
                print("used")
            except sy.exceptions.WorkerLostError as error:
                print("opened by another process" in str(error))
    print(torch.ones(2).send(workers[0]).get().tolist(), torch.ones(2).send(thread).get().tolist())
    again = ProcessWorker(hook, id="far-process")
    print(again is workers[1], torch.ones(2).send(again).get().tolist())
    again.stop()
    for worker in workers:
        (worker.close if worker is not thread else worker.stop)()
    del pointer, pointers
    sys.exit(0)
print(os.waitpid(child, 0)[1])
for pointer in pointers:
    for _ in range(64):
        pointer.add_(1)
    print(pointer.get().tolist())
workers[1].stop()
"""
)


def test_a_process_that_is_forked_leaves_streams_alone():
    with node("far-fork", users={"alice": "user"}) as there:
        said, warned = run(FORK, there.url, there.tokens["alice"])
    assert said[:12] == ["True"] * 12, "no pointer of the parent's can be used"
    assert said[12:15] == ["[1.0, 1.0] [1.0, 1.0]", "False [1.0, 1.0]", "0"], "but there are new ones"
    assert said[15:] == ["[65.0, 65.0]", "[64.0, 64.0]", "[64.0, 64.0]"], "and the parent goes on"
    assert warned == ""


def test_detaching_after_a_fork_takes_no_lock(far):
    """As in a child that was forked while other threads of the parent held everything."""
    x = torch.ones(2).send(far)
    stream = x.child.lease.stream
    for lock in ("_order",):
        if hasattr(stream, lock):
            getattr(stream, lock).acquire()
    done = threading.Thread(target=stream.detach_after_fork)
    try:
        done.start()
        done.join(10)
        assert not done.is_alive() and stream.is_replaced
        with pytest.raises(WorkerLostError, match="another process"):
            stream.synchronize()
        stream.close()
    finally:
        fork_safety._streams.discard(stream)


def _written(error):
    return sy.serialize(m.ErrorMessage((type(error).__name__, str(error), "")))


@pytest.mark.parametrize("first", [0, 1])
def test_of_calls_that_fail_together_the_cause_is_raised(hook, make_worker, first):
    """A party that another one stopped reports that only; whichever error arrives first, the cause is raised once."""
    streams = [hook.local_worker.stream_to(make_worker(name, "thread")) for name in ("bob", "alice")]
    group = FailureGroup()
    errors = [RunAbortedError("Party 'alice' aborted this run: ObjectNotFoundError."), ObjectNotFoundError(5, "alice")]
    for stream in streams:
        stream.post(m.BatchMessage(()), group)
    for index in (first, 1 - first):
        streams[index]._on_failure(_written(errors[index]), ("here.py", 1, group))
    with pytest.raises(ObjectNotFoundError, match="alice"):
        streams[0].raise_failure()
    for stream in streams:
        stream.synchronize()


def test_an_aborted_run_without_a_cause_is_reported(hook, make_worker):
    streams = [hook.local_worker.stream_to(make_worker(name, "thread")) for name in ("bob", "alice")]
    group = FailureGroup()
    for stream in streams:
        stream.post(m.BatchMessage(()), group)
    for stream in streams:
        stream._on_failure(_written(RunAbortedError("stopped")), ("here.py", 1, group))
    with pytest.raises(RunAbortedError, match="stopped"):
        streams[1].synchronize()
    streams[0].synchronize()
