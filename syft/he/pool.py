"""Threads for Paillier encryption, with a progress bar for work of more than two seconds; and `sy.pool`.

Threads are enough: gmpy2 releases the interpreter lock while it computes.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any, TypeVar

from syft.he.modular import arithmetic

Item = TypeVar("Item")
Result = TypeVar("Result")

# Work that takes less time has no progress bar.
BAR_AFTER_SECONDS = 2.0
# Bounds of the number of elements that a thread takes at once.
MAX_CHUNK = 64
CHUNKS_PER_THREAD = 16


def core_count() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# --- the pool of this library ---------------------------------------------------------------------------------------

# Process id -> its threads: those of the parent do not survive a fork.
_executors: dict[int, ThreadPoolExecutor] = {}


def _executor() -> ThreadPoolExecutor:
    found = _executors.get(os.getpid())
    if found is None:
        made = ThreadPoolExecutor(core_count(), "syft-he", initializer=arithmetic().prepare_thread)
        found = _executors.setdefault(os.getpid(), made)
    return found


def in_threads(title: str, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the results of a function for each item, computed by all cores.

    Args:
        title: a text for the progress bar.
        work: the function; it must release the interpreter lock to profit.
        items: its arguments.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    size = max(1, min(MAX_CHUNK, len(items) // (CHUNKS_PER_THREAD * core_count())))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    executor = _executor()
    futures: list[Future[list[Result]]] = []
    bar = _Bar(title, len(items))
    results: list[Result] = []
    try:
        for chunk in chunks:
            futures.append(executor.submit(_of_chunk, work, chunk))
        for future in futures:
            results.extend(future.result())
            bar.show(len(results))
    finally:  # after an error or an interrupt, the remaining chunks are skipped
        for future in futures:
            future.cancel()
        bar.stop()
    return results


def _of_chunk(work: Callable[[Item], Result], chunk: Sequence[Item]) -> list[Result]:
    return [work(item) for item in chunk]


class _Bar:
    """A progress bar that appears after two seconds, on a terminal or in a notebook only."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._start = time.monotonic()
        self._bar: Any = None

    def show(self, done: int) -> None:
        """Show the number of finished elements."""
        if self._bar is None:
            visible = sys.stderr.isatty() or "ipykernel" in sys.modules
            if not visible or time.monotonic() - self._start < BAR_AFTER_SECONDS:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.add_task(self._title, total=self._total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


# --- the pool of the 0.2 line ---------------------------------------------------------------------------------------

_lock = threading.Lock()
_pools: dict[int, SharedPool] = {}


class SharedPool(ThreadPool):
    """A thread pool with the methods of `multiprocessing.Pool`; a closed one is replaced at the next `sy.pool()`."""

    def close(self) -> None:
        """Accept no more work."""
        self._forget()
        super().close()

    def terminate(self) -> None:
        """Stop at once."""
        self._forget()
        super().terminate()

    def _forget(self) -> None:
        if _pools.get(os.getpid()) is self:
            del _pools[os.getpid()]


def pool() -> ThreadPool:
    """Return the pool of this process, with one thread for each core; it is made at the first call.

    The library itself does not use it.
    """
    with _lock:
        found = _pools.get(os.getpid())
        if found is None:
            found = _pools[os.getpid()] = SharedPool(core_count())
        return found


@atexit.register
def _terminate() -> None:
    found = _pools.get(os.getpid())
    if found is not None:
        found.terminate()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))
