"""Dispatchers: concurrent calls to the clients of a round, with a deadline."""

from __future__ import annotations

import contextvars
import functools
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from syft.federated.server.torch_threads import torch_threads


class Job(NamedTuple):
    """One call to one client."""

    client: Any
    run: str
    call: str
    payload: dict[str, Any]

    def do(self, timeout: float | None) -> Any:
        """Make the call; returns its result, or the error that it raised."""
        try:
            return self.client.call(self.run, self.call, self.payload, timeout)
        except Exception as error:
            return error


Outcome = tuple[str, Any]
# Maximum number of concurrent remote calls.
_MOST_THREADS = 256


class Dispatcher(Protocol):
    """Makes calls to clients."""

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Yield the name of each client and its result or error, as they arrive; ends at the timeout."""
        ...

    def is_busy(self, name: str) -> bool:
        """Return whether a client is still busy with a call that timed out."""
        ...


class MixedDispatcher:
    """Makes calls to all kinds of clients.

    Each remote call has its own thread, clients of a pool are called by the pool, and those of this process last, one
    after the other.

    Args:
        threads: the number of threads that torch uses for a client of this process; None for torch's own setting.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._pools: dict[int, Dispatcher] = {}
        self._busy: set[str] = set()  # remote clients

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Make the calls concurrently, and yield the results as they arrive; ends at the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        here, remote, pooled = self._sorted(jobs)
        if len(pooled) == 1 and not here and not remote:
            ((pool_id, some),) = pooled.items()
            yield from self._pools[pool_id].run(some, timeout)
            return
        done = queue.SimpleQueue[Outcome | None]()
        for pool_id, some in pooled.items():
            _start(functools.partial(self._pools[pool_id].run, some, timeout), done)
        waiting = iter(remote)
        for job in itertools.islice(waiting, _MOST_THREADS):
            self._start_call(job, end, done)
        for job in here:  # those after the timeout are skipped
            if end is not None and time.monotonic() >= end:
                break
            with torch_threads(self._threads):
                outcome = job.do(None)
            yield job.client.name, outcome
        under_way = len(pooled) + min(len(remote), _MOST_THREADS)
        while under_way:
            try:
                outcome = done.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                return
            if outcome is not None:
                yield outcome
                continue
            under_way -= 1
            for job in itertools.islice(waiting, 1):
                self._start_call(job, end, done)
                under_way += 1

    def _sorted(self, jobs: Sequence[Job]) -> tuple[list[Job], list[Job], dict[int, list[Job]]]:
        """Return the jobs of this process, those of remote clients, and those of pools by the pool's identity."""
        here: list[Job] = []
        remote: list[Job] = []
        pooled: dict[int, list[Job]] = {}
        for job in jobs:
            pool = getattr(job.client, "dispatcher", None)
            if job.client.is_here:
                here.append(job)
            elif pool is None:
                remote.append(job)
            else:
                self._pools[id(pool)] = pool
                pooled.setdefault(id(pool), []).append(job)
        return here, remote, pooled

    def _start_call(self, job: Job, end: float | None, done: queue.SimpleQueue[Outcome | None]) -> None:
        def call() -> Iterator[Outcome]:
            # Slightly longer than the round: a late client is left out of the round, but its call is not aborted.
            left = None if end is None else max(0.1, end - time.monotonic()) + 30.0
            outcome = job.do(left)
            self._busy.discard(job.client.name)
            yield job.client.name, outcome

        self._busy.add(job.client.name)
        _start(call, done)

    def is_busy(self, name: str) -> bool:
        """Return whether a client has not answered an earlier call yet."""
        return name in self._busy or any(pool.is_busy(name) for pool in self._pools.values())


def _start(outcomes: Callable[[], Iterator[Outcome]], done: queue.SimpleQueue[Outcome | None]) -> None:
    """Put outcomes into a queue, from a thread; None marks their end."""

    def work() -> None:
        try:
            for outcome in outcomes():
                done.put(outcome)
        finally:
            done.put(None)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="syft round", daemon=True).start()
