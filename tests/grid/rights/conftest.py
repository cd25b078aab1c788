"""Fixtures of the tests about rights: a node in its own process, with an owner, two data sets and two users."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import Peer

_number = itertools.count(1)


@pytest.fixture(scope="session")
def place():
    """A node that all tests of this package share."""
    users = {"owner": "owner", "alice": "user", "carol": "user"}
    with node_process("clinic", users=users) as process:
        yield process


@pytest.fixture
def connect(place, hook):
    """Connects a user; the connection ends with the test."""
    peers = []

    def connect(name, process=place):
        peers.append(Peer(process, name))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.close()


@pytest.fixture
def alice(connect):
    return connect("alice")


@pytest.fixture
def carol(connect):
    return connect("carol")


@pytest.fixture
def owner(connect):
    return connect("owner")


@pytest.fixture
def data(owner):
    """The ids of two new data sets of the owner."""
    name = f"data-{next(_number)}"
    ids = f"{name}-a", f"{name}-b"
    for obj_id, values in zip(ids, ([1.0, 2.0, 4.0], [10.0, 20.0, 40.0]), strict=True):
        owner.send_tensor(torch.tensor(values).tag("#data", f"#{obj_id}"), obj_id, published=True)
    return ids


@pytest.fixture
def fresh():
    """Gives ids that no other test uses."""
    return lambda: f"mine-{next(_number)}"
