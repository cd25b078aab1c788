"""A node with private data, for the tests of queries."""

from __future__ import annotations

import pytest

from tests.helpers.fixed_randomness import same_words as same_words
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process

DATA = """
from syft.grid.storage import ObjectAdmin
from tests.helpers.dp.queries import AGES
for name, values in (("ages", AGES.clone()), ("table", torch.stack([AGES, 10 * AGES], 1))):
    ObjectAdmin(node.object_manager).publish(values, tags=(f"#{name}",), obj_id=name)
"""


@pytest.fixture(scope="session")
def clinic():
    """A node with ages (object "ages") and a table (object "table")."""
    users = {"owner": "owner", "alice": "user", "carol": "user"}
    with node_process("clinic", users=users, prepare=DATA) as process:
        yield process


@pytest.fixture
def seen(clinic, hook):
    """Connects a user to the node; the connection ends with the test."""
    clients = {}

    def seen(name):
        if name not in clients:
            clients[name] = clinic.connect(hook, name)
        return clients[name]

    yield seen
    forget(hook, *clients.values())


@pytest.fixture
def node(seen):
    """The node as alice sees it."""
    return seen("alice")


@pytest.fixture
def owner(seen):
    """The node as its owner sees it; no limits are left from other tests."""
    found = seen("owner")
    for row in found.budget.limits():
        found.budget.remove(row["data"], row["user"])
    return found


@pytest.fixture
def entries(owner):
    """Returns the charges since the test began."""
    before = len(owner.budget.entries())
    return lambda: owner.budget.entries()[before:]


@pytest.fixture
def ages(node, owner, entries):
    owner.budget.set("ages", 1e9, 1e-1)
    return node.search("#ages")[0]


@pytest.fixture
def table(node, owner, entries):
    owner.budget.set("table", 1e9, 1e-1)
    return node.search("#table")[0]
