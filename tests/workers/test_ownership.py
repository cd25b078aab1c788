"""PAINS 13: nothing is left behind, and nothing vanishes under somebody's hands."""

import gc

import torch

import syft as sy
from tests import warm

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


def test_pain_13_100_000_operations_grow_no_memory():
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
