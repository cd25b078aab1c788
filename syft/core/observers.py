"""Observers of the ATen operations that run on links in one thread. Without observers they cost nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

# Called with the operation, its arguments as links, and the function that runs it; returns the result of that.
Watcher = Callable[[Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


class _ObserverState(threading.local):
    watchers: tuple[Watcher, ...] = ()


state = _ObserverState()


@contextmanager
def _observed_by(watchers: tuple[Watcher, ...]) -> Iterator[None]:
    before = state.watchers
    state.watchers = watchers
    try:
        yield
    finally:
        state.watchers = before


def watching(watcher: Watcher) -> AbstractContextManager[None]:
    """Call a watcher for every ATen operation on links of this thread; the last one is the innermost."""
    return _observed_by((*state.watchers, watcher))


def unwatched() -> AbstractContextManager[None]:
    """Run operations of watchers themselves, which are not observed."""
    return _observed_by(())


def run_watched(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
) -> Any:
    """Run an operation inside all watchers of this thread."""
    for watcher in reversed(state.watchers):
        run = partial(watcher, function, args, kwargs, run)
    return run()
