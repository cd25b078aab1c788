"""Runs with a helper on sockets: after failures, with inconsistent parties; no value is opened to the helper."""

from __future__ import annotations

import time

import torch

from syft.exceptions import PartyLostError
from syft.mpc.protocols import securenn
from tests.helpers.mpc.socket_parties import AT_ONCE, opened, shares


async def _ahead(party, x):
    """Fail after one party has taken from the dealer and the other has not."""
    if party.index == 0:
        raise RuntimeError("before it was dealt to")
    if party.index == 1:
        await party.deal("triple", "mul", (5,), (5,), ())
    await party.exchange({}, (0,))


async def _relu(party, x):
    return await securenn.relu(party, x)


def _relu_is_right(world):
    value = torch.tensor([3, -2, 0, 5, -7])
    (first,) = shares(1, 5)
    results, errors = world.run("ab", _relu, [first, value - first, (5,)], helper=True, name="relu")
    return not errors and torch.equal(results[0] + results[1], value.relu())


def test_a_run_with_a_helper_works_after_one_that_failed(make_world):
    world = make_world("a", "b", "dealer")
    began = time.monotonic()
    for _ in range(2):
        assert _relu_is_right(world)
        assert len(world.run("ab", _ahead, [None, None, None], helper=True, name="relu")[1]) == 3
        assert _relu_is_right(world) and _relu_is_right(world)
    assert time.monotonic() - began < AT_ONCE


def test_parties_that_disagree_with_a_helper_give_up_at_once(make_world):
    world = make_world("a", "b", "dealer")
    assert _relu_is_right(world)
    (group,) = world.workers["b"].mpc_runtime._groups.values()
    for key in group._dealer.instances:
        group._dealer.instances[key] += 3  # no other party was informed
    began = time.monotonic()
    _, errors = world.run("ab", _relu, [*shares(2, 5), (5,)], helper=True, name="relu")
    assert {0, 1} <= set(errors) and not any(isinstance(error, PartyLostError) for error in errors.values())
    assert time.monotonic() - began < AT_ONCE
    assert _relu_is_right(world) and _relu_is_right(world)


def test_nothing_is_opened_to_a_helper(make_world):
    world = make_world("a", "b", "dealer")
    _, errors = world.run("ab", opened, [*shares(2, 5), torch.zeros(5).long()], helper=True)
    assert any("knows the masks" in str(error) for error in errors.values()) and len(errors) == 3
    assert world.cost("a").bytes == 0
