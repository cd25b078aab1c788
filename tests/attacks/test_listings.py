"""Listings: hidden models and sizes of private values are not shown to other users."""

from __future__ import annotations

import contextlib

import pytest

import syft as sy
from syft.messaging import hosting
from syft.messaging import message as m
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.watchers import http
from tests.helpers.nodes import forget

MODEL = "merger-2027"


@pytest.fixture
def visitors(hospital):
    """Alice, bob and the owner, each with a connection."""
    with contextlib.ExitStack() as stack:
        yield {
            user: stack.enter_context(contextlib.closing(Visitor(hospital.url, hospital.tokens[user])))
            for user in ("alice", "bob", "owner")
        }


def names_of(answer):
    return [facts["name"] for facts in answer]


@pytest.mark.parametrize("offered", [False, True])
def test_a_model_is_listed_to_the_users_it_is_for(hook, hospital, visitors, offered):
    @sy.func2plan(args_shape=[(3,)])
    def double(x):
        return x * 2

    hosted = visitors["alice"].ask(hosting.HostModelMessage(double, MODEL, False, offered, ((3,),)))
    assert not isinstance(hosted, m.ErrorMessage)
    try:
        for user, visitor in visitors.items():
            expected = offered or user != "bob"
            listed = MODEL in names_of(visitor.ask(hosting.ModelsMessage(None)))
            found = f"model:{MODEL}" in [row[0] for row in visitor.ask(m.SearchMessage([]))]
            rows = http(hospital, "GET", "objects?limit=1000&published=false", user=user)
            assert [listed, found, f"model:{MODEL}" in [row["id"] for row in rows]] == [expected] * 3, user
    finally:
        visitors["alice"].ask(hosting.DeleteModelMessage(MODEL))


def test_sizes_of_private_objects_are_not_listed(hook, hospital):
    owner = hospital.connect(hook, "owner")
    kept = [sy.String(text, tags=["#finding"]).send(owner) for text in ("HIV negative", "HIV positive, stage 3")]
    owner.synchronize()

    def sizes(user):
        return [row["size"] for row in http(hospital, "GET", "objects?tag=%23finding", user=user)]

    assert sizes("bob") == [None] * len(kept)
    assert all(sizes("owner"))
    http(hospital, "PUT", f"objects/{kept[0].id_at_location}/users", {"users": ["bob"]})
    assert [size is not None for size in sizes("bob")].count(True) == 1
    for pointer in kept:
        http(hospital, "DELETE", f"objects/{pointer.id_at_location}")
    forget(hook, owner)
