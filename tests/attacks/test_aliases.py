"""Aliases: private values written through the memory of another tensor can't be fetched."""

from __future__ import annotations

import contextlib

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError
from tests.helpers.attacks.private_data import private_numbers

SHAPE = (40, 20)

# Each way gets a tensor of the user, and the private one. Those that return a tensor wrote to that one too.


def view_as(x, p):
    x.view_as(p).add_(p)


def view_of_view(x, p):
    x.view(-1).view_as(p).add_(p)


def view_as_data(x, p):
    x.view_as(p).data.copy_(p)


def view_as_item(x, p):
    x.view_as(p)[:] = p


def view_as_out(x, p):
    torch.add(p, 0, out=x.view_as(p))


def reshape_as(x, p):
    x.reshape_as(p).add_(p)


def expand_as(x, p):
    x.expand_as(p).copy_(p)


def meshgrid(x, p):
    cell = torch.zeros(1).send(x.location)
    torch.meshgrid(cell, p[0, :1], indexing="ij")[0].add_(p[0, 0])
    return cell


def set_on_derived(x, p):
    (p * 0).set_(x).copy_(p)


def data_of_derived(x, p):
    derived = p * 0
    derived.data = x
    derived.copy_(p)


def grad_of_derived(x, p):
    derived = p * 0
    derived.grad = x
    derived.grad.copy_(p)


def data_is_a_view(x, p):
    view = x.view_as(p)
    other = torch.zeros(SHAPE).send(x.location)
    other.data = view
    view.copy_(p)
    return other


def grad_is_a_view(x, p):
    view = x.view_as(p)
    other = torch.zeros(SHAPE).send(x.location)
    other.grad = view
    view.add_(p)
    return other


def plan_returns_view(x, p):
    @sy.func2plan(args_shape=[SHAPE, SHAPE])
    def view(x, p):
        return x.view_as(p)

    view.send(x.location)(x, p).add_(p)


def plan_returns_views(x, p):
    @sy.func2plan(args_shape=[SHAPE, SHAPE])
    def views(x, p):
        return x.view(-1), p.view(-1)

    mine, private = views.send(x.location)(x, p)
    mine.copy_(private)


# The sources were followed through these.


def through_set(x, p):
    x.set_(p)


def through_data(x, p):
    x.data = p


def through_grad(x, p):
    x.grad = p


def into_data(x, p):
    x.data.copy_(p)


def out(x, p):
    torch.add(p, 0, out=x)


def setitem(x, p):
    x[:] = p


def by_index(x, p):
    x[0].copy_(p[0])


def by_view(x, p):
    x.view(-1).copy_(p.reshape(-1))


def plan_returns_view_of_own(x, p):
    @sy.func2plan(args_shape=[SHAPE])
    def view(x):
        return x.view(-1)

    view.send(x.location)(x).copy_(p.reshape(-1))


LEAKED = [
    view_as, view_of_view, view_as_data, view_as_item, view_as_out, reshape_as, expand_as, meshgrid, set_on_derived,
    data_of_derived, grad_of_derived, data_is_a_view, grad_is_a_view, plan_returns_view, plan_returns_views,
]  # fmt: skip
FOLLOWED = [
    through_set, through_data, through_grad, into_data, out, setitem, by_index, by_view, plan_returns_view_of_own,
]  # fmt: skip

FETCHES = (lambda p: p.copy().get(), lambda p: p.grad.copy().get(), lambda p: (p + 0).get(), lambda p: p.get())


def most_fetched(pointers):
    """Return the largest number of private numbers that a fetch gives, in any way."""
    most = 0
    for pointer in pointers:
        for fetch in FETCHES:
            with contextlib.suppress(
                SyftError, AttributeError, TypeError
            ):  # TypeError: there is no gradient at the node
                most = max(most, private_numbers(fetch(pointer)))
    return most


@pytest.mark.parametrize("way", [*LEAKED, *FOLLOWED])
def test_values_written_through_aliases_are_kept(attacker, patients, way):
    x = torch.zeros(SHAPE).send(attacker)
    pointers = [x, x.view(-1), x[0]]
    # With views of it the tensor may be refused as the target, so each way runs on another one alone, too.
    alone = torch.zeros(SHAPE).send(attacker)
    for target in (x, alone):
        with contextlib.suppress(SyftError, RuntimeError):
            result = way(target, patients)
            attacker.synchronize()
            pointers += [target] if result is None else [target, result]
    assert most_fetched(pointers) == 0


@pytest.mark.parametrize("returned", ["a view", "a view with its form"])
def test_a_plan_that_returns_its_state_does_not_alias_it(attacker, patients, returned):
    kept = torch.zeros(SHAPE)

    @sy.func2plan(args_shape=[SHAPE], state=(kept,))
    def remember(x, state):
        (kept,) = state.read()
        return kept.view_as(x) if returned == "a view with its form" else kept.view(40, 20)

    plan = remember.send(attacker)
    found = 0
    with contextlib.suppress(SyftError, RuntimeError):
        plan(patients).copy_(patients)
        attacker.synchronize()
    with contextlib.suppress(SyftError):
        found = private_numbers(plan(torch.zeros(SHAPE).send(attacker)).get())
    with contextlib.suppress(SyftError):
        found = max(found, *map(private_numbers, plan.get().state.tensors()))
    assert found == 0
