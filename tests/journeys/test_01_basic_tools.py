"""Part 01: send, remote arithmetic, pointer metadata, get, remote autograd."""

import re

import pytest
import torch

import syft as sy


def test_send_and_get(workers, nothing_left):
    bob, _ = workers
    x = torch.tensor([1, 2, 3, 4, 5])
    x_ptr = x.send(bob)
    assert list(bob._objects) == [x_ptr.id_at_location]
    assert x_ptr.location is bob and bob == x_ptr.location
    assert x_ptr.owner is sy.local_worker and sy.local_worker.id == "me"
    assert re.fullmatch(rf"\(Wrapper\)>\[PointerTensor \| me:\d+ -> {bob.id}:\d+\]", repr(x_ptr))
    assert torch.equal(x_ptr.get(), x)
    nothing_left(bob)


def test_remote_arithmetic(workers, nothing_left):
    bob, _ = workers
    x = torch.tensor([1, 2, 3, 4, 5]).send(bob)
    y = torch.tensor([1, 1, 1, 1, 1]).send(bob)
    assert torch.equal((x + x).get(), torch.tensor([2, 4, 6, 8, 10]))
    assert torch.equal(torch.add(x, y).get(), torch.tensor([2, 3, 4, 5, 6]))
    z = torch.add(x, x)
    assert z.shape == (5,) and z.location is bob
    del x, y, z
    nothing_left(bob)


@pytest.mark.parametrize("operation", [lambda x, y: (x + y).sum(), lambda x, y: torch.add(x, y).sum()])
def test_remote_autograd(workers, nothing_left, operation):
    bob, _ = workers
    x = torch.tensor([1, 2, 3, 4, 5.0], requires_grad=True).send(bob)
    y = torch.tensor([1, 1, 1, 1, 1.0], requires_grad=True).send(bob)
    z = operation(x, y)
    z.backward()
    x = x.get()
    assert torch.equal(x.grad, torch.ones(5))
    assert x.requires_grad
    del y, z
    nothing_left(bob)
