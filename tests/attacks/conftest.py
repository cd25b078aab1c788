"""Fixtures of the attack tests: a hostile peer, an honest plan, a secret, a node with private data."""

from __future__ import annotations

import contextlib

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError
from syft.workers.access.policy import DenyAll
from tests.helpers.attacks.hostile_peer import Mallory
from tests.helpers.attacks.private_data import PRIVATE_DATA, is_served
from tests.helpers.nodes import forget, node


@pytest.fixture
def mallory(bob):
    return Mallory(bob)


@pytest.fixture
def honest(hook):
    weight = torch.tensor([2.0])

    @sy.func2plan(args_shape=[(3,)])
    def honest(x):
        return x.mul(weight).add(1.0)

    return honest


@pytest.fixture
def secret(bob):
    tensor = torch.tensor([41.4375, -7341.625, 3.0]).tag("#secret")
    bob.load_data([tensor])
    bob.policy = DenyAll()
    return tensor


@pytest.fixture(scope="session")
def hospital_process():
    """A node with private data whose calls may take 2 seconds and a modest amount of memory."""
    users = {"owner": "owner", **dict.fromkeys(("alice", "bob", "carol", "dave", "erin"), "user")}
    with node("hospital", prepare=PRIVATE_DATA, users=users, call_seconds=2.0, max_process_memory=2 << 30) as process:
        yield process


@pytest.fixture
def hospital(hospital_process):
    """The node; started again if an earlier attack ended it."""
    if not is_served(hospital_process):
        hospital_process.kill()
        hospital_process.start()
    return hospital_process


@pytest.fixture
def attacker(hook, hospital):
    """The node as bob sees it."""
    client = hospital.connect(hook, "bob")
    yield client
    with contextlib.suppress(SyftError):
        forget(hook, client)


@pytest.fixture
def patients(attacker):
    """Bob's pointer to the private table."""
    return attacker.search("#patients")[0]
