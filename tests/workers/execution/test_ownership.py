"""Ownership: no object is leaked, and none is deleted while a pointer to it exists."""

import gc

import pytest
import torch

import syft as sy
from syft.messaging import message as m
from syft.workers.transport.request_codec import read_answer, respond, write_request
from tests.helpers import warm_processes as warm

# In a process of its own: what other tests left of the heap would blur the measurement.
LONG_RUN = """
import gc, resource, sys
import torch
import syft as sy

def memory():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() // 1024

bob = sy.VirtualWorker(sy.TorchHook(torch), id="bob")
x = torch.ones(10).send(bob)
for _ in range(5000):
    x + x
gc.collect()
before, objects = memory(), len(gc.get_objects())
for _ in range(100_000):
    x + x
gc.collect()
assert len(bob._objects) == 1
assert len(gc.get_objects()) - objects < 100
assert memory() - before < 3000, f"{memory() - before} KiB"
del x
assert not bob._objects
"""


def test_memory_does_not_grow_over_100_000_operations():
    done = warm.run(LONG_RUN, timeout=100)
    assert done.returncode == 0, done.stderr


def test_departed_ids_are_remembered_for_a_while_only(bob):
    for _ in range(3000):
        torch.ones(1).send(bob).get()
    assert len(bob.object_store._departed) <= 1000


def test_training_leaves_nothing(make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)).send(bob)
    optimizer = torch.optim.Adam(model.parameters())
    data, target = torch.randn(16, 4).send(bob), torch.randn(16, 1).send(bob)
    held = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        gc.collect()
        held.append(len(bob._objects))
    assert held[1:] == [held[1]] * 4
    del model, optimizer, data, target, loss
    nothing_left(bob)


def test_exceptions_leave_nothing(bob, nothing_left):
    x = torch.ones(2, 3).send(bob)
    for _ in range(3):
        try:
            x @ x
        except RuntimeError:
            pass
    del x
    nothing_left(bob)


def test_multi_pointer_frees_everywhere(bob, alice, nothing_left):
    p = torch.ones(2).send(bob, alice)
    q = p + p
    assert len(bob._objects) == len(alice._objects) == 2
    del p, q
    nothing_left(bob, alice)


def test_pointer_kept_by_another_worker_keeps_the_data(bob, alice):
    near = torch.ones(2).send(bob)
    far = near.send(alice)
    key = near.id_at_location
    del near
    assert key in bob._objects
    del far
    gc.collect()
    assert key not in bob._objects and not alice._objects


def test_finalizers_never_raise(hook, capfd):
    worker = sy.VirtualWorker(hook, id="gone soon")
    x = torch.ones(1).send(worker)
    worker.stop()
    hook.local_worker._known_workers.pop("gone soon")
    del x, worker
    gc.collect()
    assert "Exception ignored" not in capfd.readouterr().err


WAYS_TO_SPEND = {
    "get": lambda pointer, other: pointer.get(),
    "delete": lambda pointer, other: pointer.delete(),
    "move": lambda pointer, other: pointer.move(other),
    "get, then a request to collect": lambda pointer, other: (pointer.get(), setattr(pointer, "gc", True)),
}


@pytest.mark.parametrize("way", WAYS_TO_SPEND)
def test_a_spent_pointer_does_not_release_a_new_object_with_its_id(way, workers, nothing_left):
    there, other = workers
    pointer = torch.ones(2).send(there).child
    obj_id, stream = pointer.id_at_location, pointer.lease.stream
    WAYS_TO_SPEND[way](pointer, other)
    assert pointer.lease.spent
    stream.store(torch.tensor([5.0]), obj_id, published=False)
    del pointer
    gc.collect()
    there.synchronize()
    assert there._objects[obj_id].tolist() == [5.0]
    stream.delete(obj_id)
    there.synchronize()
    nothing_left(there, other)


def test_a_pointer_whose_object_was_put_back_releases_it_again(workers, nothing_left):
    there, _ = workers
    pointer = torch.ones(2).send(there).child
    pointer.put_back(pointer.get())
    assert pointer.lease.spent is None and pointer.garbage_collect_data
    del pointer
    gc.collect()
    there.synchronize()
    nothing_left(there)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("leave", ["get", "delete"])
def test_a_session_does_not_release_an_object_of_another_one_with_an_id_that_it_had(leave, published, bob):
    first, second = bob.open_session("first"), bob.open_session("second")

    def ask(session, message):
        return read_answer(None, bob, respond(bob, session, write_request(None, (), message, True))[0])

    ask(first, m.ObjectMessage(torch.ones(2), 7, published))
    ask(first, m.ObjectRequestMessage((7, None, "")) if leave == "get" else m.ForceObjectDeleteMessage(7))
    assert 7 not in bob._objects
    ask(second, m.ObjectMessage(torch.tensor([5.0]), 7))
    assert not bob.object_store.claims.was_published(7)
    ask(first, m.ReleaseMessage((7,)))
    assert bob._objects[7].tolist() == [5.0]
    first.close()
    assert bob._objects[7].tolist() == [5.0]
    ask(second, m.ReleaseMessage((7,)))
    assert not bob._objects
    second.close()
