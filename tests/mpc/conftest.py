"""Fixtures of the tests of computing on shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.fixed_randomness import same_words as same_words
from tests.helpers.mpc.protocols import cast_of
from tests.helpers.mpc.socket_parties import World


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


@pytest.fixture(scope="module")
def cast(request: pytest.FixtureRequest) -> Iterator[tuple[list[Any], Any]]:
    """Two parties and a crypto provider, which must be empty at the end of a module."""
    yield from cast_of(request.module.__name__.rpartition(".")[2], 2)


@pytest.fixture
def share(cast: tuple[list[Any], Any]) -> Callable[[Any], Any]:
    """Share whole numbers."""
    parties, provider = cast
    return lambda tensor: tensor.share(*parties, crypto_provider=provider)


@pytest.fixture(params=["plain", "shared"])
def fix(request: pytest.FixtureRequest, share: Callable[[Any], Any]) -> Callable[..., Any]:
    """Encode a tensor, and share it in half of the tests."""

    def encode(tensor: Any, **options: Any) -> Any:
        encoded = tensor.fix_precision(**options)
        return share(encoded) if request.param == "shared" else encoded

    return encode
