"""`tensor.private = True`: the worker that holds the tensor gives it to nobody."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.exceptions import CommandNotAllowedError, GetNotPermittedError, UnsupportedOperationError
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process


def refuses(release):
    with pytest.raises(GetNotPermittedError, match="private"):
        release()
    return True


def test_t2_owner_marks_a_held_tensor(workers, nothing_left):
    bob, alice = workers
    pointer = torch.tensor([1.0, 2.0]).send(bob)
    bob._objects[pointer.id_at_location].private = True
    assert refuses(pointer.get)
    assert refuses(lambda: pointer.move(alice))
    assert refuses(lambda: pointer.remote_send(alice))
    assert refuses(pointer.tolist)
    assert refuses(lambda: sy.local_worker.request_obj(pointer.id_at_location, bob))
    assert (pointer + 1).get().tolist() == [2, 3], "results are not private, as with a release policy"
    bob._objects[pointer.id_at_location].private = False
    assert pointer.get().tolist() == [1, 2]


def test_t2_flag_travels_with_a_sent_tensor(workers):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0]).tag("#hidden").describe("a vector")
    assert x.private is False
    x.private = True
    pointer = x.send(bob)
    assert pointer.private and x.private and x.tolist() == [1, 2]
    held = bob._objects[pointer.id_at_location]
    assert held.private and held.tags == {"#hidden"} and held.description == "a vector"
    (found,) = bob.search("#hidden")
    assert refuses(found.get) and refuses(pointer.get) and refuses(lambda: pointer.move(alice))
    assert pointer.shape == (2,) and pointer.sum().get() == 3
    pointer.delete()


def test_t2_pointer_makes_its_tensor_private_and_not_public(workers):
    bob, _ = workers
    pointer = torch.tensor([1.0]).send(bob)
    pointer.private = True
    assert pointer.private and refuses(pointer.get)
    with pytest.raises(GetNotPermittedError, match="owner"):
        pointer.private = False
    bare = torch.tensor([1.0]).send(bob).child
    bare.private = True
    assert refuses(bare.get) and refuses(bare.item)


def test_t2_private_tensors_of_a_model_and_of_several_workers(workers):
    bob, alice = workers
    model = torch.nn.Linear(2, 1)
    model.bias.private = True
    model.send(bob)
    assert refuses(model.bias.get) and model.weight.copy().get().shape == (1, 2)
    assert refuses(model.get)
    both = torch.ones(2).send(bob, alice)
    both.private = True
    assert refuses(both.get)


def test_t2_private_tensor_is_not_shared_by_others(make_worker):
    alice, bob, carol = (make_worker(name) for name in ("alice", "bob", "carol"))
    x = torch.tensor([1.0])
    x.private = True
    pointer = x.send(alice)
    assert refuses(lambda: pointer.share(bob, carol))


def test_t2_flag_is_honoured_in_another_process(hook):
    worker = sy.ProcessWorker(hook, id="t2-process")
    try:
        x = torch.tensor([1.0, 2.0])
        x.private = True
        assert refuses(x.send(worker).get)
    finally:
        worker.stop()


def test_t2_refused_where_it_can_not_be_honoured(hook, bob):
    encoded = torch.tensor([1.0]).fix_precision()
    with pytest.raises(UnsupportedOperationError, match=r"private_tensor\(allowed_users"):
        encoded.private = True
    pointer = torch.tensor([1.0]).fix_precision().send(bob)
    with pytest.raises(CommandNotAllowedError, match=r"private_tensor\(allowed_users"):
        pointer.private = True
    with node_process("t2-node", tokens=False) as node:
        client = node.connect(hook)
        try:
            pointer = torch.tensor([1.0]).send(client)
            with pytest.raises(CommandNotAllowedError, match=r"private_tensor\(allowed_users"):
                pointer.private = True
            x = torch.tensor([2.0])
            x.private = True
            with pytest.raises(CommandNotAllowedError, match=r"private_tensor\(allowed_users"):
                x.send(client)
        finally:
            del pointer
            forget(hook, client)


def test_t2_private_parameters_of_a_sent_module_show_it(make_worker):
    model = torch.nn.Linear(2, 1)
    model.weight.private = True
    model.send(make_worker("holder"))
    assert model.weight.child.private and not model.bias.child.private
