"""A node with an owner, two data sets and three people: fixtures of the tests about rights."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.grid.rights import NodePolicy
from tests.grid.rights.people import Clock, Peer


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def node(bob, clock):
    """A node with two data sets of its owner: objects 1 and 2."""
    for number, values in ((1, [1.0, 2.0, 4.0]), (2, [10.0, 20.0, 40.0])):
        data = torch.tensor(values).tag("#data", f"#{number}")
        data.id = number
        bob.load_data([data])
    bob.policy = NodePolicy("Dr. Bob", clock=clock)
    yield bob
    bob.policy = sy.workers.policy.ALLOW_ALL


@pytest.fixture
def alice(node):
    return Peer(node, "alice")


@pytest.fixture
def carol(node):
    return Peer(node, "carol")


@pytest.fixture
def owner(node):
    return Peer(node, "dr-bob", role="owner")
