"""Hosted encrypted models: the daily number of requests per user is enforced by every party."""

from __future__ import annotations

import time

import pytest
import torch

import syft as sy
from syft.exceptions import ModelError, SyftError
from syft.mpc.serving import client as encrypted
from syft.workers.delegation.introduction import introduce
from tests.helpers.attacks.model_clients import (
    AT_ONCE,
    CLASSES,
    FEATURES,
    QUESTION,
    ask,
    client,
    dealing_for,
    facts_of,
    host,
    run,
    views,
)
from tests.helpers.grid.node_processes import Fleet


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as made:
        yield made


@pytest.fixture(scope="module")
def town(fleet):
    return fleet.nodes("a", "b", "dealer", users=("alice", "mallory"))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(7)
    return torch.nn.Linear(FEATURES, CLASSES)


def test_each_user_has_a_number_of_requests(hook, town, model):
    with client(hook, "alice", town) as (nodes,):
        host(model, nodes, "ab", "rationed", max_requests_per_user=2)
        host(model, nodes, "ab", "another")
    for user in ("mallory", "alice"):
        for calls in (1, 1):  # another session does not start again
            with client(hook, user, town) as (nodes,):
                cast = [nodes["a"], nodes["b"]]
                for _ in range(calls):
                    run(cast, nodes["dealer"], facts_of(cast[0], "rationed"), QUESTION)
        with client(hook, user, town) as (nodes,):
            cast = [nodes["a"], nodes["b"]]
            began = time.monotonic()
            with pytest.raises(ModelError, match="answers 2 requests of a user in a day"):
                run(cast, nodes["dealer"], facts_of(cast[0], "rationed"), QUESTION)
            assert time.monotonic() - began < AT_ONCE
            run(cast, nodes["dealer"], facts_of(cast[0], "another"), QUESTION)  # another model is not concerned


def test_every_party_counts(hook, town, model):
    """A request that reaches one party only is counted there; the other one is not left waiting for the next one."""
    with client(hook, "alice", town) as (nodes,):
        host(model, nodes, "ab", "counted", max_requests_per_user=1)
    with client(hook, "mallory", town) as (nodes,):
        a, b = nodes["a"], nodes["b"]
        facts = facts_of(a, "counted")
        introduce(sy.local_worker, [*views([a, b], facts), nodes["dealer"].for_purpose(dealing_for(facts))])
        with sy.config.override(stream_timeout=3.0), pytest.raises((SyftError, TimeoutError)):
            ask([b], facts, QUESTION)
    with client(hook, "mallory", town) as (nodes,):
        began = time.monotonic()
        with pytest.raises(ModelError, match=r"at 'b' answers 1 requests"):
            run([nodes["a"], nodes["b"]], nodes["dealer"], facts, QUESTION)
        assert time.monotonic() - began < AT_ONCE


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many"])
def test_limits_are_whole_numbers(hook, town, model, limit):
    with client(hook, "alice", town) as (nodes,), pytest.raises(ModelError, match="max_requests_per_user"):
        host(model, nodes, "ab", "limit", max_requests_per_user=limit)


def test_pins_and_counts_outlive_a_restart(hook, fleet, model, tmp_path):
    ships = fleet.nodes("a", "b", "dealer", users=("alice", "mallory"), store=str(tmp_path / "{id}"))
    x = torch.tensor([[0.5, -1.0, 2.0, 0.25]])

    def question(town, user="mallory"):
        with client(hook, user, town) as (nodes,):
            cast = [nodes["a"], nodes["b"]]
            rows = [facts_of(node, "kept") for node in cast]
            return encrypted.ask_encrypted(cast, nodes["dealer"], rows, x)

    with client(hook, "alice", ships) as (nodes,):
        host(model, nodes, "ab", "kept", max_requests_per_user=2)
    assert torch.allclose(question(ships), model(x), atol=1e-2)
    for ship in ships:
        ship.kill()
    ships = [fleet.again(ship) for ship in ships]
    assert torch.allclose(question(ships), model(x), atol=1e-2)
    with pytest.raises(ModelError, match="answers 2 requests of a user in a day"):
        question(ships)
