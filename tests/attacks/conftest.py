"""Fixtures of the attack tests: a hostile peer, an honest plan, a secret."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.workers.policy import DenyAll
from tests.attacks.hostile import Mallory


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
