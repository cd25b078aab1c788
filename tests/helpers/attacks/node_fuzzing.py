"""Fuzz a live node: users that make random calls, pipelined, and get a new session when a call ended theirs.

Each call is one request with its tensors inside, and is answered by itself, so the outcome of every call is known and
the call that ended a session is the first one without an answer. A call that ends a session costs a new process, and
up to `call_seconds` if it was a hang. So a call like one that has ended a session is not made again: the same function
with arguments of the same kinds (see `kind_of`). `Fuzzer.skipped` counts these; they are not counted as calls.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import random
import threading
import time
from typing import Any

import torch

from syft.core.references import Ref, TensorMeta
from syft.messaging import message as m
from syft.messaging.call_batch import ID_BYTES, MAX_ARGUMENTS, StepsMessage
from syft.serde import deserialize
from syft.workers.transport.framing import ANSWER, BYE, NOTICE, REQUEST, SEEN
from syft.workers.transport.request_codec import write_request
from tests.helpers.attacks.call_fuzzing import Call, random_call, shown
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.watchers import decide
from tests.helpers.remote.sample import tensors, transform

# Calls that are on their way at once.
WINDOW = 128
# Calls of one session; the next one has a new process and a new vault.
SESSION_CALLS = 600
# Users who are connected at once.
THREADS = 3
PRIVATE_SHARE = 0.25
FETCH_SHARE = 0.25
FETCHED = 1 << 16
ROW_SHARE = 0.3
# Answers of the node that say that it did not run a call.
REFUSALS = {
    "CommandNotAllowedError",
    "GetNotPermittedError",
    "NotPermittedError",
    "QuotaExceededError",
    "ByteBudgetError",
}


def kind_of(value: Any) -> Any:
    """Return the kind of an argument: numbers by sign and magnitude, tensors by dtype."""
    if isinstance(value, torch.Tensor):
        return value.is_floating_point(), value.is_complex(), value.dim() > 0
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value < 0, value.bit_length() // 16
    if isinstance(value, float):
        return math.isfinite(value), abs(value) > 1e6
    if isinstance(value, list | tuple):
        return tuple(dict.fromkeys(map(kind_of, value)))
    return type(value).__name__


def key_of(call: Call) -> Any:
    """Return what a call has in common with others like it: the last part of its name, the kinds of its arguments."""
    name, args, kwargs = call
    named = sorted((key, repr(kind_of(arg))) for key, arg in kwargs.items())
    return name.rpartition(".")[2], tuple(map(kind_of, args)), tuple(named)


class Fuzzer:
    """Users that make random calls at once, each in a session of its own.

    Args:
        node: the node.
        users: their names; THREADS of them are connected at once, by turns, so that the processes of the others end.
        count: the number of calls, of all users together.
        seed: the seed of the first user's calls; the others' follow.

    Attributes:
        outcomes: the number of calls by outcome.
        errors: the number of errors by type.
        ended: the calls that ended a session, as (reason, call).
        failures: reasons why the calls could not be made, if there are any.
        skipped: the number of calls that were not made because they are like one that ended a session.
        sessions: the number of sessions.
        private: the number of calls with an argument that depends on private values.
    """

    def __init__(self, node: Any, users: list[str], count: int, seed: int) -> None:
        self.node = node
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.errors: collections.Counter[str] = collections.Counter()
        self.ended: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self.skipped = self.sessions = self.private = 0
        self._bad: set[Any] = set()
        self._left = count
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(users[number::THREADS], random.Random(seed + number)), daemon=True)
            for number in range(THREADS)
        ]

    @property
    def done(self) -> int:
        """The number of calls that reached the node."""
        return sum(self.outcomes.values())

    def run(self, seconds: float) -> None:
        """Make all calls."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                self.failures.append(f"the calls took longer than {seconds:g} s")

    def _run(self, users: list[str], rng: random.Random) -> None:
        waiting: list[Call] = []
        turns = itertools.cycle(users)
        try:
            while self._left > 0 or waiting:
                self.sessions += 1
                with contextlib.closing(_Session(self, next(turns), rng)) as session:
                    waiting = session.work(waiting)
        except Exception as error:
            self.failures.append(repr(error))
            raise

    def draw(self, rng: random.Random) -> Call | None:
        """Return a call that is to be made; None if there were enough."""
        with self._lock:
            while self._left > 0:
                call = random_call(rng)
                if key_of(call) in self._bad:
                    self.skipped += 1
                    continue
                self._left -= 1
                return call
        return None

    def note(self, outcome: str, error: str = "", count: int = 1) -> None:
        """Count calls."""
        with self._lock:
            self.outcomes[outcome] += count
            if error:
                self.errors[error] += 1

    def note_end(self, reason: str, call: Call | None) -> None:
        """Count a call that ended its session, and do not make it again."""
        if call is None:
            self.failures.append(f"a session ended between calls: {reason}")
            return
        is_late = "wall_seconds" in reason or "cpu_seconds" in reason
        self.note("timed out" if is_late else "crashed")
        with self._lock:
            self._bad.add(key_of(call))
            self.ended.append((reason, shown(call)))


class _Session:
    """One session of a user."""

    def __init__(self, fuzzer: Fuzzer, user: str, rng: random.Random) -> None:
        self.fuzzer, self.rng = fuzzer, rng
        self.visitor = Visitor(fuzzer.node.url, fuzzer.node.tokens[user])
        # Ids of results; the results of one call follow its first one. The user's last session may still hold others.
        self.ids = itertools.count((1 + rng.getrandbits(50)) << 64, 1 << 16)
        self.released: list[int] = []
        self.wanted: list[int] = []
        (found,) = self.visitor.ask(m.SearchMessage(["#private"]))
        self.bit = next(self.ids)
        made = self.visitor.ask(m.Operation("torch.Tensor.sum", None, (Ref(found[0]),), {}, (self.bit,)))
        if not isinstance(made, TensorMeta):
            raise RuntimeError(f"the private argument could not be made: {made}")

    def work(self, waiting: list[Call]) -> list[Call]:
        """Make calls until there were enough or the session has ended; returns those that were not made."""
        for _ in range(0, SESSION_CALLS, WINDOW):
            while len(waiting) < WINDOW and (call := self.fuzzer.draw(self.rng)) is not None:
                waiting.append(call)
            if not waiting:
                break
            left = self._exchange(_Batch(self, waiting))
            if left is not None:
                return left
            waiting = []
        self._seal()
        return []

    def _seal(self) -> None:
        """Have the vault finish its calls and seal an object; the owner's row says whether the vault ended before."""
        row = self.visitor.ask(m.RequestReleaseMessage(self.bit, "to see whether the vault has ended"))
        if isinstance(row, m.ErrorMessage):
            raise RuntimeError(row.contents[1])
        decide(self.fuzzer.node, row["id"], "deny")

    def _exchange(self, batch: _Batch) -> list[Call] | None:
        """Send requests and read their answers; returns the calls that were not made if the session ended."""
        visitor = self.visitor
        for request in batch.requests:
            visitor.number += 1
            visitor.connection.write_soon(REQUEST, visitor.number, request)
        for position in range(len(batch.requests)):
            while (frame := visitor.connection.read()) is not None and (frame[0] in (NOTICE, BYE) or not frame[2]):
                pass
            if frame is None or frame[0] != ANSWER:
                raise ConnectionError("the node hung up without an answer")
            answer = deserialize(frame[2])
            name, text = answer.contents[:2] if isinstance(answer, m.ErrorMessage) else ("", "")
            if name == "SessionEndedError":
                return batch.end(position, text)
            batch.take(position, name, answer)
        visitor.connection.write_soon(SEEN, visitor.number, b"")
        return None

    def close(self) -> None:
        """Leave, so that the node ends the process soon."""
        with contextlib.suppress(OSError):
            self.visitor.connection.write(BYE, 0, b"")
        self.visitor.close()


class _Batch:
    """Calls as requests: some with a private argument, some in a row; and requests for results of the batch before."""

    def __init__(self, session: _Session, calls: list[Call]) -> None:
        self._session, self._rng = session, session.rng
        self.requests: list[bytes] = []
        # For each request the calls that it makes, and the id of its first result.
        self._made: list[tuple[list[Call], int]] = []
        for obj_id in session.wanted:
            self._add(m.ObjectRequestMessage((obj_id, None, "")), [])
        session.wanted = []
        row: list[tuple[Call, Any]] = []
        for call in calls:
            step = self._step(call) if self._rng.random() < ROW_SHARE else None
            if step is None:
                self._add_call(call)
            else:
                row.append((call, step))
        if row:
            self._add(StepsMessage(tuple(step for _, step in row)), [call for call, _ in row])

    def _add(self, message: Any, calls: list[Call], first: int = 0) -> None:
        released, self._session.released = tuple(self._session.released), []
        self.requests.append(write_request(None, released, message, True))
        self._made.append((calls, first))

    def _add_call(self, call: Call) -> None:
        """Add a call with its tensors inside; sometimes the first one of floats depends on private values."""
        name, args, kwargs = call
        given = [one for one in tensors((args, kwargs)) if one.dtype.is_floating_point]
        spent = []
        if given and self._rng.random() < PRIVATE_SHARE:
            made = next(self._session.ids)
            self._add(m.Operation("torch.add", None, (given[0], Ref(self._session.bit)), {}, (made,)), [])
            args, kwargs = transform((args, kwargs), lambda one: Ref(made) if one is given[0] else one)
            spent.append(made)
            self._session.fuzzer.private += 1
        first = next(self._session.ids)
        self._add(m.Operation(name, None, args, kwargs, (first,)), [call], first)
        self._session.released += spent

    def _step(self, call: Call) -> Any:
        """Return a call for a row, its tensors sent before; None if it is not of pointers and numbers alone."""
        name, args, kwargs = call
        if kwargs or len(args) > MAX_ARGUMENTS:
            return None
        if not all(isinstance(arg, torch.Tensor | float | bool | None) or _is_small(arg) for arg in args):
            return None
        step: list[Any] = [b"", True, name, next(self._session.ids).to_bytes(ID_BYTES, "big")]
        for arg in args:
            if isinstance(arg, torch.Tensor):
                obj_id = next(self._session.ids)
                self._add(m.ObjectMessage(arg, obj_id), [])
                arg = obj_id.to_bytes(ID_BYTES, "big")
            step.append(arg)
        return tuple(step)

    def take(self, position: int, error: str, answer: Any) -> None:
        """Count the calls of a request, and decide what becomes of their results."""
        calls, first = self._made[position]
        fuzzer, session = self._session.fuzzer, self._session
        if not calls:
            return
        if len(calls) > 1 or not first:
            fuzzer.note("in a row", error, len(calls))
        elif error:
            fuzzer.note("refused" if error in REFUSALS else "failed", error)
        else:
            fuzzer.note("returned")
            if isinstance(answer, TensorMeta) and self._rng.random() < FETCH_SHARE and answer.shape.numel() < FETCHED:
                session.wanted.append(first)
            else:
                session.released += range(first, first + _count(answer))

    def end(self, position: int, reason: str) -> list[Call]:
        """Count the call that ended the session, and return those that were not made."""
        calls, _ = self._made[position]
        fuzzer = self._session.fuzzer
        rest = [call for made, _ in self._made[position + 1 :] for call in made]
        if not calls:
            fuzzer.note_end(reason, None)
            return rest
        at = next((number for number, call in enumerate(calls) if f" {call[0]}." in reason), 0)
        fuzzer.note("in a row", "", at)
        fuzzer.note_end(reason, calls[at])
        return calls[at + 1 :] + rest


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**64


def _count(answer: Any) -> int:
    """Return the number of tensors in an answer."""
    if isinstance(answer, TensorMeta):
        return 1
    if isinstance(answer, dict):
        return sum(map(_count, answer.values()))
    return sum(map(_count, answer)) if isinstance(answer, list | tuple) else 0
