"""torch functions on bare links, and the ids of clones and copies."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import syft as sy
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError


@pytest.fixture
def cast(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol", "dealer")]


def _chains(cast):
    """Return functions that make a chain of a tensor, by name."""
    alice, bob, carol, dealer = cast
    shared = {"crypto_provider": dealer}
    return {
        "pointer": lambda t: t.send(alice),
        "multi": lambda t: t.send(alice, bob),
        "encoded": lambda t: t.fix_prec(),
        "shared": lambda t: t.fix_prec().share(alice, bob, **shared),
        "three parties": lambda t: t.fix_prec().share(alice, bob, carol, **shared),
        "whole shares": lambda t: t.long().share(alice, bob, **shared),
        "logging": lambda t: sy.LoggingTensor().on(t),
        "autograd": lambda t: sy.AutogradTensor().on(t),
        "autograd pointer": lambda t: sy.AutogradTensor().on(t.send(alice)),
        "autograd encoded": lambda t: sy.AutogradTensor().on(t.fix_prec()),
        "private": lambda t: t.private_tensor(allowed_users=["ann"]),
        "placeholder": lambda t: sy.PlaceHolder().instantiate(t).wrap(),
    }


FUNCTIONS = {
    "abs": (torch.abs, lambda x: x.abs()),
    "unbind": (lambda x: torch.unbind(x)[1], lambda x: x.unbind()[1]),
    "add": (lambda x: torch.add(x, x), lambda x: x.add(x)),
    "add 1": (lambda x: torch.add(x, 1), lambda x: x.add(1)),
    "stack": (lambda x: torch.stack([x, x]), lambda x: x.reshape(1, 2).expand(2, 2)),
    "cat": (lambda x: torch.cat((x, x), dim=0), lambda x: x.repeat(2)),
    "sum": (lambda x: torch.sum(x, dim=0), lambda x: x.sum(0)),
    "max": (torch.max, lambda x: x.max()),
    "F.relu": (F.relu, lambda x: x.relu()),
    "eq": (lambda x: torch.eq(x, 4), lambda x: x.eq(4)),
}


def value(link, user="ann"):
    """Return the values behind a link."""
    if isinstance(link, sy.PrivateTensor):
        link = link.get(user=user)
    if isinstance(link, sy.FixedPrecisionTensor):
        link = link.get().float_precision()
    elif isinstance(link, sy.AutogradTensor):
        link = value(link.child) if isinstance(link.child, AbstractTensor) else link.child
    elif isinstance(link, sy.MultiPointerTensor):
        link = link.get()[0]
    elif isinstance(link, AbstractTensor):
        link = link.get() if not hasattr(link, "child") or isinstance(link, sy.AdditiveSharingTensor) else link.child
    return link.detach()


def test_s_a_functions_of_shares_return_links(cast):
    alice, bob, _, dealer = cast
    first, second = torch.unbind(torch.tensor([3, 4]).share(alice, bob, crypto_provider=dealer).child)
    assert type(first) is sy.AdditiveSharingTensor
    assert first.get() == torch.tensor(3) and second.get() == torch.tensor(4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_s_a_functions_of_links_do_what_methods_do(name, cast, capsys):
    function, method = FUNCTIONS[name]
    numbers = torch.tensor([-3.0, 4.0])
    for kind, make in _chains(cast).items():
        result = function(make(numbers.clone()).child)
        assert isinstance(result, AbstractTensor), (kind, name)
        assert torch.allclose(value(result).float(), method(numbers).float()), (kind, name)


def test_s_a_links_and_wrappers_mix(cast, capsys):
    for kind, make in _chains(cast).items():
        x = make(torch.tensor([-3.0, 4.0]))
        for result in (torch.add(x.child, x), x.child + x, x.child.add(x)):
            assert isinstance(result, AbstractTensor), kind
            assert value(result).tolist() == [-6, 8], kind
        for result in (torch.add(x, x.child), x + x.child, x.add(x.child)):
            assert isinstance(result, torch.Tensor), kind
            assert value(result.child).tolist() == [-6, 8], kind


def test_s_a_links_and_plain_tensors_mix(cast):
    alice, bob, _, dealer = cast
    plain = torch.tensor([2, 3])
    for link in (
        torch.tensor([3.0, 4.0]).fix_prec().child,
        torch.tensor([3.0, 4.0]).fix_prec().share(alice, bob, crypto_provider=dealer).child,
        torch.tensor([3, 4]).share(alice, bob, crypto_provider=dealer).child,
    ):
        assert value(torch.mul(link, plain)).tolist() == value(torch.mul(plain, link)).tolist() == [6, 12]


def test_s_a_refused_functions_say_so(cast):
    alice, bob, _, dealer = cast
    with pytest.raises(SyftError, match="sort is not supported"):
        torch.sort(torch.tensor([3, 4]).share(alice, bob, crypto_provider=dealer).child)


def _ids(tensor):
    """Return the ids of a wrapper and of the links below it."""
    found, link = [tensor.id], tensor.child
    while isinstance(link, AbstractTensor):
        found.append(link.id)
        link = link.__dict__.get("child")
    return found


def test_s_b_clone_keeps_ids_and_copy_does_not(cast, capsys):
    for kind, make in _chains(cast).items():
        x = make(torch.tensor([1.0, 2.0]))
        clone, copy = x.clone(), x.copy()
        assert _ids(clone) == _ids(x), kind
        assert clone.child.clone().id == clone.child.id, kind
        assert not set(_ids(copy)) & set(_ids(x)), kind
        assert copy.child.copy().id != copy.child.id, kind
        assert x.owner is clone.owner
    c = torch.tensor([1.0]).fix_prec()
    assert c.clone().id == torch.clone(c).id == c.id
    p = torch.tensor([1.0]).send(cast[0])
    assert p.clone().id == torch.clone(p).id == p.id


def test_s_b_clones_are_independent_and_delete_their_own_data(workers, nothing_left):
    bob, alice = workers
    pointer = torch.tensor([1.0]).send(bob)
    clone = pointer.clone()
    assert clone.id == pointer.id and clone.id_at_location != pointer.id_at_location
    pointer.add_(1)
    del pointer
    assert clone.get().item() == 1.0
    shared = torch.tensor([1.0]).fix_prec().share(bob, alice)
    clone = shared.clone()
    assert shared.get().float_prec().item() == clone.get().float_prec().item() == 1.0
    sent = clone.fix_prec() if not clone.is_wrapper else torch.tensor([1.0]).fix_prec()
    first, second = sent.send(bob), sent.clone().send(bob)
    assert first.id_at_location != second.id_at_location
    assert first.get().float_prec().item() == second.get().float_prec().item() == 1.0
    del first, second, shared, clone
    nothing_left(bob, alice)


def test_s_b_gradients_flow_through_clones(cast):
    alice, bob, _, dealer = cast
    x = torch.tensor([1.0, 2.0]).fix_prec().share(alice, bob, crypto_provider=dealer, requires_grad=True)
    (x.clone() * 3).backward()
    assert x.grad.get().float_prec().tolist() == [3, 3]
