"""Repeatable random numbers for tests of random protocols."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from syft.core import generator
from tests.helpers.depth import IS_DEEP


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Let this thread draw the same noise, shares and masks in each run of the tests; a deep run has new ones.

    Rounding on shares is random, and what a party sees is noise: how far a result is off, and how uniform some noise
    looks, would differ from run to run. Words go on within a test: two draws are never the same.
    """
    drawn = vars(generator._threads)
    before = drawn.copy()
    if not IS_DEEP:
        drawn.update(generator=generator.Generator(b"the same always."), pid=os.getpid())
    try:
        yield
    finally:
        drawn.clear()
        drawn.update(before)


@pytest.fixture(autouse=True)
def same_words() -> Iterator[None]:
    """Start each test from the same words. Import it into a conftest.py, for all tests beside it."""
    with repeatable():
        yield
