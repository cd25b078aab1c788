"""Streams: order, lazy errors that name the user's line, counting, separate clients and threads."""

import gc
import inspect
import threading

import pytest
import torch

import syft as sy
from syft import config
from syft.exceptions import ObjectNotFoundError, SyftError
from syft.exceptions.remote_traceback import facts_of
from syft.messaging.message import BatchMessage
from syft.workers.access.policy import ALLOW_ALL


def test_counts(make_worker, kind):
    bob = make_worker("bob", kind)
    x = torch.ones(10)
    with sy.count_messages() as n:
        p = x.send(bob)
    assert (n.messages, n.rounds) == (1, 0) and n.bytes > 40
    with sy.count_messages() as n:
        q = (p + p) * 2
        r = torch.cat([q, p])
    assert (n.messages, n.rounds) == (3, 0)
    with sy.count_messages() as n:
        r.get()
    assert (n.messages, n.rounds) == (1, 1) and n.bytes > 80
    with sy.count_messages() as n:
        q.sum().item()
        bob.search("#nothing")  # and once more, for tags that are similar
    assert (n.messages, n.rounds) == (4, 3)
    with sy.count_messages() as outer:
        with sy.count_messages() as inner:
            del p
            gc.collect()
            q + 1
        q + 2
    assert inner.messages == 1 and outer.messages == 2
    assert set(outer.by_worker) == {("me", bob.id)}
    assert "2 messages" in repr(outer)


def test_the_three_ways_count_alike(make_worker):
    counts = []
    for kind in ("inline", "bytes", "thread"):
        bob = make_worker("bob", kind)
        model = torch.nn.Linear(3, 2)
        with sy.count_messages() as n:
            model.send(bob)
            loss = model(torch.ones(4, 3).send(bob)).pow(2).sum()
            loss.backward()
            model.get()
        counts.append((n.messages, n.rounds))
    assert counts[0] == counts[1] == counts[2] == (7, 1)


def test_backward_is_one_message(bob):
    x = torch.ones(3, requires_grad=True).send(bob)
    loss = (x * 2).sum()
    with sy.count_messages() as n:
        loss.backward()
    assert (n.messages, n.rounds) == (1, 0)


def test_lazy_error_names_the_line(make_worker):
    bob = make_worker("bob", "thread")
    good = torch.arange(4.0).send(bob)
    index = torch.tensor([0, 99]).send(bob)
    line = inspect.currentframe().f_lineno + 1
    bad = good[index]  # the shape is known here; only the worker sees that 99 is out of range
    assert bad.shape == (2,)
    with pytest.raises(IndexError, match="out of range|out of bounds") as caught:  # now, or at the next wait
        worse = bad + 1
        worse.get()
    notes = facts_of(caught.value)
    assert f'{__file__}", line {line}: bad = good[index]' in notes
    assert f"worker '{bob.id}'" in notes and "Traceback on worker" in notes
    with pytest.raises(ObjectNotFoundError, match="the call that should have made it .* failed"):
        bad.get()
    assert torch.equal((good + 1).get(), torch.arange(4.0) + 1)


def test_synchronize_raises_pending_errors(make_worker):
    bob = make_worker("bob", "thread")
    x = torch.arange(4.0).send(bob)
    index = torch.tensor([7]).send(bob)
    x.index_select(0, index)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        bob.synchronize()
    assert bob.synchronize() is bob


def test_errors_keep_their_type_and_place(make_worker, kind):
    bob = make_worker("bob", kind)
    x = torch.ones(2, 3).send(bob)
    with pytest.raises(RuntimeError) as caught:
        x.view(7)
    assert bob.id in facts_of(caught.value)
    with pytest.raises(TypeError):
        torch.add(x, "a")


def test_order_is_kept(make_worker):
    bob = make_worker("bob", "thread")
    x = torch.zeros(1).send(bob)
    for i in range(200):
        x.mul_(2).add_(i % 3)
    local = torch.zeros(1)
    for i in range(200):
        local.mul_(2).add_(i % 3)
    torch.testing.assert_close(x.get(), local)


def test_closing(make_worker):
    bob = make_worker("bob", "thread")
    x = torch.ones(1).send(bob)
    stream = x.child.lease.stream
    bob.stop()
    assert not stream._thread.is_alive()
    with pytest.raises(SyftError, match="is closed"):
        stream.ask(BatchMessage(()))
    assert len(bob.object_store.objects) == 0, "temporaries die with their session"


def test_published_objects_outlive_the_session(make_worker, kind):
    bob = make_worker("bob", kind)
    torch.ones(1).tag("#stays").send(bob)
    torch.ones(1).send(bob).disable_gc
    torch.ones(1).send(bob, garbage_collect_data=False)
    keep = torch.ones(1).send(bob)
    bob.synchronize()
    sy.local_worker.stream_to(bob).close()
    assert len(bob.object_store.objects) == 3
    keep.child.lease.owned = False


def test_a_worker_that_does_not_answer_in_time(make_worker):
    bob = make_worker("bob", "thread")
    go_on = threading.Event()

    class Hesitant:
        def allows(self, release):
            return go_on.wait(60)

    x = torch.ones(3).send(bob)
    bob.synchronize()
    bob.policy = Hesitant()
    try:
        with config.override(stream_timeout=0.001), pytest.raises(TimeoutError, match="did not answer within 0.001 s"):
            x.get()
    finally:
        go_on.set()
    bob.synchronize()
    bob.policy = ALLOW_ALL


def test_two_clients_do_not_mix(make_worker, kind):
    bob = make_worker("bob", kind)
    carol, dave = make_worker("carol"), make_worker("dave")
    with sy.acting_as(carol):
        x = torch.full((2,), 1.0).send(bob)
    with sy.acting_as(dave):
        y = torch.full((2,), 2.0).send(bob)
    assert x.owner is carol and y.owner is dave
    assert torch.equal((x + x).get(), torch.full((2,), 2.0)) and torch.equal((y + y).get(), torch.full((2,), 4.0))
    carol.close()
    bob._objects
    assert torch.equal(y.get(), torch.full((2,), 2.0)), "one client's end leaves the other's objects alone"


def test_two_hooks_are_one():
    first, second = sy.TorchHook(torch), sy.TorchHook(torch)
    assert first.local_worker is second.local_worker
    assert first.__dict__ is second.__dict__


def test_many_threads(make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(40):
            a, b = torch.randn(5, generator=generator), torch.randn(5, generator=generator)
            p = a.send(bob)
            q = b.send(bob)
            if not torch.equal(((p + q) * p).get(), (a + b) * a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    nothing_left(bob)


def test_acting_as_is_per_thread(make_worker):
    carol = make_worker("carol")
    seen = []
    with sy.acting_as(carol):
        thread = threading.Thread(target=lambda: seen.append(sy.local_worker.id))
        thread.start()
        thread.join()
        assert sy.local_worker is carol
    assert seen == ["me"]


def test_asking_a_threaded_worker_for_an_id_does_not_reserve_it(hook):
    worker = sy.VirtualWorker(hook, id="asked", threaded=True, auto_add=False)
    assert [worker._may_hold(7), worker._may_hold(7)] == [False, False]
    worker._reserve(7)
    assert worker._may_hold(7)
