"""Dispatchers: concurrent calls to the clients of a round, with a deadline."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol


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


class Dispatcher(Protocol):
    """Makes calls to clients."""

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Yield the name of each client and its result or error, as they arrive; ends at the timeout."""
        ...

    def is_busy(self, name: str) -> bool:
        """Return whether a client is still busy with a call that timed out."""
        ...


class ThreadDispatcher:
    """Makes each call in its own thread, for remote clients."""

    def __init__(self, most: int = 256) -> None:
        self.most = most
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Make the calls concurrently, and yield the results as they arrive."""
        end = None if timeout is None else time.monotonic() + timeout
        waiting, done = list(reversed(jobs)), queue.SimpleQueue[Outcome]()
        under_way = 0
        while waiting or under_way:
            while waiting and under_way < self.most:
                self._start(waiting.pop(), end, done)
                under_way += 1
            left = None if end is None else end - time.monotonic()
            try:
                yield done.get(timeout=None if left is None else max(0.0, left))
            except queue.Empty:
                return
            under_way -= 1

    def _start(self, job: Job, end: float | None, done: queue.SimpleQueue[Outcome]) -> None:
        context, name = contextvars.copy_context(), job.client.name

        def work() -> None:
            # Slightly longer than the round: a late client is left out of the round, but its call is not aborted.
            left = None if end is None else max(0.1, end - time.monotonic()) + 30.0
            outcome = context.run(job.do, left)
            with self._lock:
                self._busy.discard(name)
            done.put((name, outcome))

        with self._lock:
            self._busy.add(name)
        threading.Thread(target=work, name=f"syft round {name}"[:40], daemon=True).start()

    def is_busy(self, name: str) -> bool:
        """Return whether a client has not answered an earlier call yet."""
        with self._lock:
            return name in self._busy


class MixedDispatcher:
    """Makes calls to all kinds of clients: remote calls start first, then those of this process."""

    def __init__(self) -> None:
        self._threads = ThreadDispatcher()
        self._pools: dict[int, Dispatcher] = {}

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Make the calls."""
        here = [job for job in jobs if job.client.is_here]
        elsewhere: dict[int, list[Job]] = {}
        for job in jobs:
            if not job.client.is_here:
                pool = getattr(job.client, "dispatcher", self._threads)
                self._pools[id(pool)] = pool
                elsewhere.setdefault(id(pool), []).append(job)
        if not here and len(elsewhere) == 1:
            ((pool_id, some),) = elsewhere.items()
            yield from self._pools[pool_id].run(some, timeout)
            return
        end = None if timeout is None else time.monotonic() + timeout
        done = queue.SimpleQueue[Outcome | None]()
        for pool_id, some in elsewhere.items():
            _follow(self._pools[pool_id], some, timeout, done)
        for job in here:  # one after the other; those after the timeout are skipped
            if end is not None and time.monotonic() >= end:
                break
            yield job.client.name, job.do(None)
        under_way = len(elsewhere)
        while under_way:
            try:
                outcome = done.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                return
            if outcome is None:
                under_way -= 1
            else:
                yield outcome

    def is_busy(self, name: str) -> bool:
        """Return whether a client has not answered an earlier call yet."""
        return any(pool.is_busy(name) for pool in self._pools.values())


def _follow(
    pool: Dispatcher, jobs: Sequence[Job], timeout: float | None, done: queue.SimpleQueue[Outcome | None]
) -> None:
    """Make calls from a thread and put the outcomes into a queue; None marks the end."""
    context = contextvars.copy_context()

    def work() -> None:
        try:
            for outcome in pool.run(jobs, timeout):
                done.put(outcome)
        finally:
            done.put(None)

    threading.Thread(target=context.run, args=(work,), name="syft round", daemon=True).start()
