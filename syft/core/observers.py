"""Observers of the ATen operations that run on links in one thread. Without observers they cost nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

# Called with the operation, its arguments as links, and the function that runs it; returns the result of that.
Watcher = Callable[[Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


class _ObserverState(threading.local):
    watchers: tuple[Watcher, ...] = ()


state = _ObserverState()


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call a watcher for every ATen operation on links of this thread; the last one is the innermost."""
    before = state.watchers
    state.watchers = (*before, watcher)
    try:
        yield
    finally:
        state.watchers = before


@contextmanager
def unwatched() -> Iterator[None]:
    """Let nobody look on: what watchers do themselves is nobody's business."""
    before = state.watchers
    state.watchers = ()
    try:
        yield
    finally:
        state.watchers = before


def run_watched(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
) -> Any:
    """Run an operation inside all watchers of this thread."""
    return _run(state.watchers, function, args, kwargs, run)


def _run(watchers: Any, function: object, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
    if not watchers:
        return run()
    return watchers[0](function, args, kwargs, partial(_run, watchers[1:], function, args, kwargs, run))
