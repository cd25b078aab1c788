"""Fixtures of the tests of computing on shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.mpc.mesh_world import World
from tests.steady import same_words as same_words


@pytest.fixture(params=[2, 3, 4])
def sharers(request: pytest.FixtureRequest, make_worker: Any, kind: str) -> list[Any]:
    """Two, three and four parties, reached in each of the three ways."""
    return [make_worker(f"party{index}", kind) for index in range(request.param)]


@pytest.fixture
def provider(make_worker: Any, kind: str) -> Any:
    """A crypto provider, reached as the parties are."""
    return make_worker("carol", kind)


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    """Make workers that reach each other by sockets, and close them afterwards."""
    made: list[World] = []

    def make(*names: str) -> World:
        made.append(World(*names))
        return made[-1]

    yield make
    for world in made:
        world.close()
