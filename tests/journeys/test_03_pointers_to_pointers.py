"""Part 03: pointers to pointers, remote operations through two hops, move."""

import torch

from syft.pointers.pointer_tensor import PointerTensor


def test_pointer_to_pointer(workers, nothing_left):
    bob, alice = workers
    x = torch.tensor([1, 2, 3, 4.0])
    x_ptr = x.send(bob)
    pointer_to_x_ptr = x_ptr.send(alice)
    assert len(bob._objects) == 1 and len(alice._objects) == 1
    assert isinstance(next(iter(alice._objects.values())).child, PointerTensor)
    back = pointer_to_x_ptr.get()
    assert len(alice._objects) == 0 and len(bob._objects) == 1
    assert torch.equal(back.get(), x)
    del x_ptr, pointer_to_x_ptr, back
    nothing_left(bob, alice)


def test_dropping_one_of_two_claims_is_safe(workers, nothing_left):
    bob, alice = workers
    x_ptr = torch.tensor([1, 2.0]).send(bob)
    far = x_ptr.send(alice)
    del x_ptr
    assert len(bob._objects) == 1
    near = far.get()
    assert torch.equal(near.get(), torch.tensor([1, 2.0]))
    del far, near
    nothing_left(bob, alice)


def test_operations_through_two_hops(workers, nothing_left):
    bob, alice = workers
    p = torch.tensor([1, 2, 3, 4, 5.0]).send(bob).send(alice)
    y = p + p
    assert len(alice._objects) == 2 and len(bob._objects) == 2
    assert torch.equal(y.get().get(), torch.tensor([2, 4, 6, 8, 10.0]))
    assert torch.equal(p.get().get(), torch.tensor([1, 2, 3, 4, 5.0]))
    del p, y
    nothing_left(bob, alice)


def test_losing_the_outer_pointer_frees_both(workers, nothing_left):
    bob, alice = workers
    p = torch.ones(3).send(bob).send(alice)
    del p
    nothing_left(alice, bob)


def test_move(workers, nothing_left):
    bob, alice = workers
    x = torch.tensor([1, 2, 3, 4, 5.0]).send(bob)
    assert (len(bob._objects), len(alice._objects)) == (1, 0)
    y = x.move(alice)
    assert (len(bob._objects), len(alice._objects)) == (0, 1)
    assert y.location is alice
    assert y.move(alice) is y
    assert torch.equal(y.get(), torch.tensor([1, 2, 3, 4, 5.0]))
    nothing_left(bob, alice)


def test_remote_send_and_remote_get(workers, nothing_left):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0]).send(bob)
    x = x.remote_send(alice)
    assert (len(bob._objects), len(alice._objects)) == (1, 1)
    assert isinstance(next(iter(bob._objects.values())).child, PointerTensor)
    x = x.remote_get()
    assert (len(bob._objects), len(alice._objects)) == (1, 0)
    assert torch.equal(x.get(), torch.tensor([1.0, 2.0]))
    y = torch.tensor([3.0]).send(bob).remote_send(alice, change_location=True)
    assert y.location is alice
    assert torch.equal(y.get(), torch.tensor([3.0]))
    nothing_left(bob, alice)
