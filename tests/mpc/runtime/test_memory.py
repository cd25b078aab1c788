"""Freed memory stays with the process, unless its user decided otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from syft.mpc.runtime import freed_memory


class Allocator:
    """Stands for the C library."""

    def __init__(self) -> None:
        self.set: dict[int, int] = {}

    def mallopt(self, name: int, value: int) -> int:
        self.set[name] = value
        return 1


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made = Allocator()
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: made)
    monkeypatch.setattr(freed_memory.sys, "platform", "linux")
    for name in freed_memory._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return made


def keep() -> None:
    freed_memory.keep_freed.__wrapped__()


def test_both_limits_are_set(allocator: Allocator) -> None:
    keep()
    assert allocator.set == {-1: freed_memory.KEPT, -3: freed_memory.LARGE}


@pytest.mark.parametrize("name", freed_memory._VARIABLES)
def test_environment_variables_take_precedence(
    name: str, allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    keep()
    assert allocator.set == {}


def test_other_platforms_are_unchanged(allocator: Allocator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory.sys, "platform", "darwin")
    keep()
    assert allocator.set == {}
    monkeypatch.setattr(freed_memory.sys, "platform", "linux")

    def other(name: Any) -> object:
        return object()  # a C library without it

    monkeypatch.setattr(freed_memory.ctypes, "CDLL", other)
    keep()
