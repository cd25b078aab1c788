"""RayScheduler: dispatches the calls of a round to the actors of a `RayPool` in chunks."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from syft.exceptions import ClientLostError, SyftError
from syft.federated.server.dispatch import Job, Outcome
from syft.federated.server.ray.actor import pack, unpack
from syft.messaging.message import ErrorMessage
from syft.workers.ray import cluster
from syft.workers.ray.stream import STARTUP_SECONDS
from syft.workers.transport.request_codec import error_of

# Target duration of a chunk in seconds: long enough to make dispatch cheap, short enough that actors finish together
# and little is lost with one of them.
TARGET = 0.05
# Chunks per actor: one that runs, and one that waits.
WINDOW = 2
# Shared values of a round from this size on are put into Ray's object store.
_LARGE = 1 << 16
_MISSING = object()


class ActorSlot:
    """An actor and its state in the pool."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.began = time.monotonic()
        # Resolves once the actor runs. Renewed when a round starts: if it does not resolve, the actor died
        # earlier.
        self.hello = handle.hello.remote()
        self.is_up = False
        # Calls of earlier rounds that timed out and still run.
        self.late: list[Any] = []


class RayScheduler:
    """The calls of one round."""

    def __init__(self, pool: Any, jobs: Sequence[Job], timeout: float | None) -> None:
        self.pool, self._ray = pool, pool._ray
        self._end = None if timeout is None else time.monotonic() + timeout
        with pool._lock:
            self._number = next(pool._numbers)
            self._slots = list(pool._slots)
        asked = [{"run": job.run, "call": job.call, "payload": job.payload} for job in jobs]
        common = shared(asked) if len(asked) > 1 else {}
        self._own = {id(job): rest(one, common) for job, one in zip(jobs, asked, strict=True)}
        self._common: Any = pack(common)
        if len(self._common) >= _LARGE:
            self._common = self._ray.put(self._common)
        self._waiting = deque(jobs)
        self._under_way: dict[Any, tuple[ActorSlot, list[Job]]] = {}
        self._reason = ""

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes of the calls."""
        for slot in self._slots:
            if slot.is_up and not slot.late:
                slot.hello = slot.handle.hello.remote()
        try:
            while True:
                self._dispatch()
                if not self._under_way and not self._waiting:
                    return
                if not self._slots and not self._under_way:
                    yield from (
                        (job.client.name, ClientLostError(job.client.name, self._reason)) for job in self._waiting
                    )
                    return
                left = None if self._end is None else self._end - time.monotonic()
                if left is not None and left <= 0:
                    return
                for call in self._wait(left):
                    yield from self._take(call)
        finally:
            self._leave()

    # --- dispatching ------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Send chunks to actors that have room."""
        for _ in range(WINDOW):
            for slot in self._slots:
                if self._waiting and slot.is_up and self._has_room(slot):
                    chunk = self._chunk(slot)
                    if chunk:
                        self._send(slot, chunk)

    def _has_room(self, slot: ActorSlot) -> bool:
        here = sum(1 for other, _ in self._under_way.values() if other is slot)
        return here < (WINDOW if self._pace() < TARGET else 1)

    def _pace(self) -> float:
        known: float = self.pool._pace.get(self._waiting[0].call, TARGET)
        return known

    def _chunk(self, slot: ActorSlot) -> list[Job]:
        """Take the next jobs for an actor: of clients with state in it, and of clients without state."""
        most = math.ceil(len(self._waiting) / (2 * len(self._slots)))
        wanted = max(1, min(most, int(TARGET / max(1e-6, self._pace()))))
        chunk: list[Job] = []
        kept: list[Job] = []
        while self._waiting and len(chunk) < wanted:
            job = self._waiting.popleft()
            home = self._home(job)
            (chunk if home is slot or (home is None and not slot.late) else kept).append(job)
        self._waiting.extendleft(reversed(kept))
        return chunk

    def _home(self, job: Job) -> ActorSlot | None:
        """Return the actor that holds a client's state, if any."""
        home: ActorSlot | None = self.pool.homes(job.run).get(job.client.number)
        if home is not None and home not in self._slots:
            if home not in self.pool._slots:
                return None
            self._slots.append(home)  # another round replaced a dead actor by it
        return home

    def _send(self, slot: ActorSlot, chunk: list[Job]) -> None:
        jobs = [(job.client.number, job.client.name, self._own[id(job)]) for job in chunk]
        left = None if self._end is None else max(0.0, self._end - time.monotonic())
        for job in chunk:  # the client may have state here from now on
            self.pool.homes(job.run)[job.client.number] = slot
        call = slot.handle.work.remote(self._number, self._common, pack({"jobs": jobs}), left)
        self._under_way[call] = (slot, chunk)

    # --- collecting -------------------------------------------------------------------------------------------

    def _wait(self, left: float | None) -> list[Any]:
        """Wait for the next event; return the finished calls."""
        news: dict[Any, ActorSlot] = {slot.hello: slot for slot in self._slots if not slot.is_up}
        news.update({call: slot for slot in self._slots for call in slot.late})
        startup_left = min(
            (STARTUP_SECONDS - time.monotonic() + s.began for s in self._slots if not s.is_up), default=None
        )
        limits = [limit for limit in (left, startup_left) if limit is not None]
        calls = [*self._under_way, *news]
        ready = self._ray.wait(calls, timeout=max(0.0, min(limits)) if limits else None)[0]
        if ready:  # include all that are ready
            ready = self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]
        for call in ready:
            if call in news:
                self._greet(news[call], call)
        if not ready and startup_left is not None and startup_left <= 0:
            self._give_up_starting()
        return [call for call in ready if call in self._under_way]

    def _greet(self, slot: ActorSlot, call: object) -> None:
        """Record that an actor runs, has finished late calls, or is dead."""
        try:
            self._ray.get(call)
        except Exception as error:
            self._lose(slot, error, again=slot.is_up)
            return
        slot.is_up = True
        if call in slot.late:
            slot.late.remove(call)

    def _give_up_starting(self) -> None:
        free = self._ray.available_resources().get("CPU", 0.0)
        self._reason = f"Ray has not started its actor. It asks for {self.pool._options}, and {free:g} CPUs are free."
        self._slots = [slot for slot in self._slots if slot.is_up]

    def _take(self, call: Any) -> Iterator[Outcome]:
        """Yield the outcomes of a chunk."""
        slot, chunk = self._under_way.pop(call)
        try:
            found = unpack(self._ray.get(call))
        except SyftError as error:
            yield from ((job.client.name, error) for job in chunk)
            return
        except Exception as error:
            yield from self._lost(slot, chunk, error)
            return
        outcomes = found["outcomes"]
        if outcomes:
            self.pool.record_duration(chunk[0].call, found["seconds"] / len(outcomes))
        for job, (name, answer, remembers) in zip(chunk, outcomes, strict=False):  # shorter if the deadline passed
            if not remembers:
                self.pool.homes(job.run).pop(job.client.number, None)
            yield name, error_of(SimpleNamespace(id=name), answer) if isinstance(answer, ErrorMessage) else answer

    def _lost(self, slot: ActorSlot, chunk: list[Job], error: Exception) -> Iterator[Outcome]:
        """Yield the outcomes of a dead actor's clients; those that had not started are dispatched again."""
        was_gone = True
        with contextlib.suppress(Exception):
            was_gone = not self._ray.wait([slot.hello], timeout=0)[0] or self._ray.get(slot.hello) is None
        self._lose(slot, error, again=was_gone)
        if was_gone:
            self._waiting.extendleft(reversed(chunk))
            return
        for job in chunk:
            yield job.client.name, ClientLostError(job.client.name, self._reason)

    def _lose(self, slot: ActorSlot, error: Exception, again: bool) -> None:
        """Replace a dead actor.

        `again` says whether the new one joins at once; one that died in this round might die again.
        """
        self._reason = cluster.explain(error)
        made = self.pool.replace(slot)
        if slot in self._slots:
            self._slots.remove(slot)
            if again and made is not None:
                self._slots.append(made)

    def _leave(self) -> None:
        """Record the late clients."""
        for call, (slot, chunk) in self._under_way.items():
            slot.late.append(call)
            self.pool._late.update((job.client.name, call) for job in chunk)
        self._under_way = {}


def shared(payloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the common part of all payloads: the same objects under the same names, also in nested dicts."""
    found: dict[str, Any] = {}
    for name, value in payloads[0].items():
        others = [payload.get(name, _MISSING) for payload in payloads]
        if all(other is value for other in others):
            found[name] = value
        elif all(type(other) is dict for other in others):
            inner = shared(others)
            if inner:
                found[name] = inner
    return found


def rest(payload: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a payload that is not common."""
    own: dict[str, Any] = {}
    for name, value in payload.items():
        known = common.get(name, _MISSING)
        if known is not value:
            own[name] = rest(value, known) if type(value) is dict and type(known) is dict else value
    return own
