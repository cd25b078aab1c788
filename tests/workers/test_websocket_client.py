"""Workers behind WebSockets in child processes, and connections that are cut."""

import threading
import time

import pytest
import torch

import syft as sy
from syft import config
from syft.exceptions import AuthenticationError, NodeLostError, NodeUnreachableError, SyftError, WorkerLostError
from syft.exceptions.remote_traceback import facts_of
from syft.grid import certificates
from syft.workers.transport import framing
from syft.workers.websocket_client import WebsocketClientWorker, where_of
from tests.helpers.nodes import Line, websocket_server


@pytest.fixture(scope="module")
def server():
    with websocket_server("ws-alice") as process:
        yield process


@pytest.fixture
def line(server):
    line = Line(server.port)
    yield line
    line.close()


@pytest.fixture
def alice(hook, line):
    worker = WebsocketClientWorker(hook, "localhost", line.port, id="ws-alice")
    yield worker
    worker.close()
    hook.local_worker._known_workers.pop("ws-alice", None)


def stream_of(worker):
    return sy.local_worker.stream_to(worker)


def soon(condition, seconds=60.0):
    """Wait until something holds: a server ends the session of who left a moment after that."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_worker_shows_its_address(alice):
    assert repr(alice) == f"<WebsocketClientWorker id:ws-alice at {alice.url}>"


def test_a_message_larger_than_a_fragment_is_sent_in_fragments(alice):
    x = torch.arange(5 * (1 << 20), dtype=torch.float32)  # 20 MB, in pieces of 1 MB
    pointer = x.send(alice)
    assert torch.equal((pointer * 2).get(), x * 2)
    assert torch.equal(pointer.get(), x)


def test_thousand_calls_need_few_messages(alice, line, monkeypatch):
    monkeypatch.setattr(framing, "_GATHER", 0.1)  # on a slow machine a call takes longer than what is waited by default
    x, one = torch.zeros(10).send(alice), torch.ones(10).send(alice)
    alice.synchronize()
    connection = stream_of(alice)._connection
    sent = []
    send = connection._pipe.send
    connection._pipe.send = lambda data: (sent.append(len(data)), send(data))
    for _ in range(1000):
        x = x + one
    assert torch.equal(x.get(), torch.full((10,), 1000.0))
    assert len(sent) < 500


def test_errors_come_back_with_type_worker_traceback_and_line(alice):
    x = torch.ones(3).send(alice)
    with pytest.raises(torch.linalg.LinAlgError, match="singular") as caught:
        torch.linalg.inv(torch.zeros(2, 2).send(alice)).get()
    notes = facts_of(caught.value)
    assert "ws-alice" in notes and "Traceback" in notes
    assert torch.equal(x.get(), torch.ones(3))  # the connection goes on


def test_published_objects_stay_when_the_client_leaves(hook, server):
    first = WebsocketClientWorker(hook, "localhost", server.port, id="ws-alice")
    torch.tensor([7.0]).tag("#kept").send(first)
    torch.tensor([8.0]).send(first)
    first.close()
    hook.local_worker._known_workers.pop("ws-alice")
    second = WebsocketClientWorker(hook, "localhost", server.port, id="ws-alice")
    (found,) = second.search("#kept")
    assert soon(lambda: second.objects_count_remote() == 1)
    assert "#kept" in second.list_objects_remote()
    assert found.get().item() == 7.0
    second.clear_objects_remote()
    assert second.objects_count_remote() == 0
    second.close()
    hook.local_worker._known_workers.pop("ws-alice")


def test_names_must_be_the_servers_own(hook, server):
    with pytest.raises(SyftError, match="is called 'ws-alice', not 'somebody'"):
        WebsocketClientWorker(hook, "localhost", server.port, id="somebody")


def test_an_id_that_is_known_gives_that_worker_back_however_it_is_written(hook, server, alice):
    assert WebsocketClientWorker(hook, "localhost", server.port, False, "ws-alice") is alice
    assert WebsocketClientWorker(hook, "localhost", server.port, id="ws-alice") is alice
    apart = WebsocketClientWorker(
        hook, "localhost", server.port, False, "ws-alice", False, False, False, None, None, None, False
    )
    assert apart is not alice and hook.local_worker.get_worker("ws-alice") is alice
    apart.close()


def test_a_server_of_an_id_that_is_known_is_that_server(hook):
    first = sy.WebsocketServerWorker(hook, "localhost", 0, "ws-twice")
    try:
        assert sy.WebsocketServerWorker(hook, "localhost", 0, "ws-twice") is first
        assert sy.WebsocketServerWorker(hook, "localhost", 0, id="ws-twice") is first
    finally:
        first.stop()
        hook.local_worker._known_workers.pop("ws-twice", None)


def test_a_server_lists_its_objects_without_values(hook):
    held = sy.WebsocketServerWorker(hook, id="ws-holding", data=[torch.full((2, 3), 41.5).tag("#rows", "#a")])
    try:
        (obj_id,) = held._objects
        assert held.list_objects() == f"{obj_id}: (2, 3) #a #rows"
        assert held.objects_count() == 1
        more = torch.tensor([43.5]).send(held)
        assert held.objects_count() == 2 and "43.5" not in held.list_objects() and "41.5" not in held.list_objects()
        del more
    finally:
        held.stop()
        hook.local_worker._known_workers.pop("ws-holding", None)


@pytest.mark.timeout(120)
def test_a_server_with_a_certificate_requires_verified_tls(hook, tmp_path):
    ours = certificates.make_authority(tmp_path / "a", "ours").certificate
    pair = certificates.issue(tmp_path / "a", ["localhost"], tmp_path / "n")
    strangers = certificates.make_authority(tmp_path / "b", "strangers").certificate
    settings = {"cert_path": str(pair.certificate), "key_path": str(pair.key)}
    with websocket_server("ws-tls", **settings) as process:
        told = {"hook": hook, "host": "localhost", "port": process.port, "id": "ws-tls"}
        for wrong in ({"ca": strangers, "secure": True}, {"secure": True}, {"secure": False}):
            with pytest.raises(NodeLostError):
                WebsocketClientWorker(**told, **wrong)
        worker = WebsocketClientWorker(**told, secure=True, ca=ours)
        assert worker.url.startswith("wss://") and torch.ones(2).send(worker).get().tolist() == [1.0, 1.0]
        worker.close()
        hook.local_worker._known_workers.pop("ws-tls", None)


def test_a_token_may_have_the_line_end_of_its_file():
    assert where_of("localhost", 1, False, " abc.def-g_h\r\n", None).token == "abc.def-g_h"


@pytest.mark.parametrize("token", ["", " \n", "geheim\nes", "geheim es", "geheim\u20ac", b"geheim", "geheim\x00"])
def test_an_invalid_token_is_refused_and_not_shown(hook, server, token):
    with pytest.raises(AuthenticationError, match="is not a valid token") as refused:
        WebsocketClientWorker(hook, "localhost", server.port, id="ws-alice", token=token)
    assert "geheim" not in str(refused.value)


def test_a_missing_server_is_a_clear_error(hook):
    with pytest.raises(
        NodeUnreachableError, match="Could not reach ws://localhost:1: connection refused. Check"
    ) as told:
        WebsocketClientWorker(hook, "localhost", 1, id="nobody")
    assert "session" not in str(told.value)  # there was none


def test_other_machines_require_tls(hook):
    with pytest.raises(SyftError, match="secure=True"):
        WebsocketClientWorker(hook, "node.example", 8777, id="far")


# --- a line that is cut ---------------------------------------------------------------------------------------


def test_a_lost_connection_resumes_and_each_call_runs_once(alice, line):
    counter = torch.zeros(1).send(alice)
    for number in range(60):
        counter.add_(1)
        if number % 20 == 10:
            line.cut()
    assert counter.get().item() == 60
    assert stream_of(alice).reconnects >= 1


def test_a_connection_lost_in_the_middle_of_a_large_send(alice, line):
    x = torch.randn(4 << 20)
    line.cut_after_sent = 5 << 20
    pointer = x.send(alice)
    assert torch.equal(pointer.get(), x)
    assert line.cuts == 1


def test_a_connection_lost_in_the_middle_of_a_large_answer(alice, line):
    x = torch.randn(4 << 20)
    pointer = x.send(alice)
    alice.synchronize()
    line.cut_after_received = 5 << 20
    assert torch.equal(pointer.get(), x)
    assert line.cuts == 1
    assert soon(lambda: alice._objects == {})


def test_connections_lost_at_every_point_of_an_exchange(alice, line):
    for position in (0, 1, 5, 17, 40, 100, 300):
        line.cut_after_received = position
        x = torch.arange(10.0).send(alice)
        assert torch.equal((x + 1).get(), torch.arange(10.0) + 1)
        line.cut_after_received = None
        line.cut_after_sent = position
        y = x * 2
        assert torch.equal(y.get(), torch.arange(10.0) * 2)
        line.cut_after_sent = None
        del x, y
    assert soon(lambda: alice._objects == {})


def test_a_server_that_stays_away_raises_after_the_timeout(hook, line, server):
    with config.override(reconnect_timeout=1.0):
        worker = WebsocketClientWorker(hook, "localhost", line.port, id="ws-alice")
    x = torch.ones(3).send(worker)
    worker.synchronize()
    stream = stream_of(worker)
    config.configure(reconnect_timeout=1.0)
    try:
        line.refuse()
        line.cut()
        started = time.monotonic()
        with pytest.raises(WorkerLostError, match="Published objects stay there"):
            x.get()
        assert time.monotonic() - started < 60
        assert stream.is_over
    finally:
        config.configure(reconnect_timeout=30.0)
        line.refuse(False)
    again = torch.ones(2).send(worker)  # a fresh stream
    assert torch.equal(again.get(), torch.ones(2))
    worker.close()
    hook.local_worker._known_workers.pop("ws-alice")


def test_many_clients_at_once_get_their_own_answers(hook, server):
    wrong = []

    def work(number):
        me = sy.VirtualWorker(hook, id=f"client-{number}", auto_add=False)
        there = WebsocketClientWorker(hook, "localhost", server.port, id="ws-alice", auto_add=False)
        for step in range(20):
            value = torch.full((50,), float(1000 * number + step))
            pointer = me.send_object(value, there, f"{number}-{step}", published=False)
            found = me.stream_to(there).fetch(pointer.id_at_location)
            pointer.lease.spend("fetched")
            if not torch.equal(found, value):
                wrong.append(number)
        me.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not wrong and not any(thread.is_alive() for thread in threads)
