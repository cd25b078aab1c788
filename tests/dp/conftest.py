"""A node with private data, for the tests of questions about it."""

from __future__ import annotations

import pytest
import torch

from syft.grid.rights import NodePolicy
from syft.workers.policy import ALLOW_ALL
from tests.dp.asking import AGES
from tests.steady import same_words as same_words


@pytest.fixture
def node(bob):
    """A node with ages (object "ages") and a table (object "table")."""
    for name, data in (("ages", AGES.clone()), ("table", torch.stack([AGES, 10 * AGES], 1))):
        data.id = name
        bob.load_data([data.tag(f"#{name}")])
    bob.policy = NodePolicy()
    yield bob
    bob.policy = ALLOW_ALL


@pytest.fixture
def ages(node):
    node.policy.budget.set(node, "ages", 1e6, 1e-3)
    return node.search("#ages")[0]


@pytest.fixture
def table(node):
    node.policy.budget.set(node, "table", 1e6, 1e-3)
    return node.search("#table")[0]
