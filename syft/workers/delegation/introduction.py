"""Introducing: how a client makes nodes known to each other, so that they can do things together for it.

Each node is asked for secrets by which the others may come, and then told those of the others: two messages a node,
all nodes at the same time, once for each set of them. It is done again when a node was restarted, since then the
client has another session there, and before the secrets expire.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from syft.config import current
from syft.exceptions import SyftError
from syft.messaging.message import Operation
from syft.workers.delegation.grants import ADMIT, KEY, MAX_PEERS, MEET
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.transport.handshake import TOKEN_BYTES

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The part of the life of a secret after which another one is asked for.
_FRESH = 0.8
# The part of the time that the client waits for an answer that nodes wait for each other.
_SHARE = 0.8


class Introductions:
    """The introductions that one client made.

    Args:
        client: the client, a worker of this process.
    """

    def __init__(self, client: BaseWorker) -> None:
        self._client = weakref.ref(client)
        self.name = os.urandom(16).hex()
        # stream to who visits -> stream to who is visited -> until when
        self._made: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, float]] = weakref.WeakKeyDictionary()
        # stream -> how long the worker was told that the client waits
        self._told: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        # What was asked for last, and until when nothing is to be done for it.
        self._sure: tuple[tuple[Any, ...], float] = ((), 0.0)
        self._lock = threading.Lock()

    def make(self, streams: Sequence[Any]) -> None:
        """See to it that the workers at the other ends of streams know each other."""
        timeout = current().stream_timeout
        sure, until = self._sure
        if (*streams, timeout) == sure and time.monotonic() < until:
            return
        with self._lock:
            missing = self._missing(streams)
            if missing or any(self._told.get(stream) != timeout for stream in streams):
                self._introduce(streams, missing, timeout)
            until = min(self._made[one][other] for one in streams for other in streams if one is not other)
            self._sure = ((*streams, timeout), until)

    def _missing(self, streams: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the pairs of who visits and who is visited that do not know each other, or not for long any more."""
        now = time.monotonic()
        return [
            (one, other)
            for one in streams
            for other in streams
            if one is not other and self._made.get(one, {}).get(other, 0.0) <= now
        ]

    def _introduce(self, streams: Sequence[Any], pairs: list[tuple[Any, Any]], timeout: float) -> None:
        if len(streams) > MAX_PEERS:
            raise SyftError(f"Up to {MAX_PEERS} nodes can do something together.")
        visited = list(dict.fromkeys(other for _, other in pairs))
        began = time.monotonic()
        admitted = _together([functools.partial(self._admit, other, pairs) for other in visited])
        rows: dict[Any, list[tuple[Any, ...]]] = {stream: [] for stream in streams}
        until: dict[tuple[Any, Any], float] = {}
        for other, secrets in zip(visited, admitted, strict=True):
            for one, (token, proof, seconds) in secrets.items():
                rows[one].append((other.location.id, address_of(other.location), token, proof))
                until[one, other] = began + _FRESH * seconds
        _together([functools.partial(self._tell, one, rows[one], timeout) for one in streams])
        for (one, other), end in until.items():
            self._made.setdefault(one, weakref.WeakKeyDictionary())[other] = end
        for stream in streams:
            self._told[stream] = timeout

    def _admit(self, other: Any, pairs: list[tuple[Any, Any]]) -> dict[Any, tuple[bytes, bytes, float]]:
        """Ask a worker for the secrets by which others may come."""
        visitors = [one for one, visited in pairs if visited is other]
        ids = [stream.location.id for stream in visitors]
        answer = other.ask(Operation(ADMIT, None, (self.name, *ids), {}, ()))
        if type(answer) is not tuple or len(answer) != len(ids) or not all(map(_are_secrets, answer)):
            raise SyftError(f"Worker {other.location.id!r} did not say by what others may come.")
        return dict(zip(visitors, answer, strict=True))

    def _tell(self, one: Any, rows: list[tuple[Any, ...]], timeout: float) -> None:
        # A little less than the client waits, so that it hears from them what went wrong.
        message = Operation(MEET, None, (self.name, _SHARE * timeout, *rows), {}, ())
        if rows:
            one.ask(message)
        else:  # only how long the client waits now, on which nothing depends that follows
            one.post(message)


def _are_secrets(row: object) -> bool:
    if type(row) is not tuple or len(row) != 3 or type(row[2]) not in (int, float):
        return False
    return all(type(secret) is bytes and len(secret) == TOKEN_BYTES for secret in row[:2])


def _together(calls: list[Callable[[], Any]]) -> list[Any]:
    """Make several calls at the same time and return their results; what goes wrong with the first is raised."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls), thread_name_prefix="syft introducing") as pool:
        futures = [pool.submit(contextvars.copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


_made: weakref.WeakKeyDictionary[Any, Introductions] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def introduce(client: BaseWorker, workers: Iterable[Any]) -> None:
    """Make nodes known to each other for a client; workers that are not nodes are left out.

    Args:
        client: the worker of this process that speaks to them.
        workers: who is to do something together.
    """
    nodes = [worker for worker in workers if getattr(worker, "is_node", False)]
    if len(nodes) < 2:
        return
    streams = list(dict.fromkeys(client.stream_to(node) for node in nodes))
    introductions = _made.get(client)
    if introductions is None:
        with _making:
            introductions = _made.setdefault(client, Introductions(client))
    if len(streams) > 1:
        introductions.make(streams)


def fingerprints_of(client: BaseWorker, nodes: Sequence[Any]) -> tuple[str, ...]:
    """Ask nodes for the fingerprints of their identity keys, over the client's own connections.

    Args:
        client: the worker of this process that speaks to them.
        nodes: the nodes.
    """
    question = Operation(KEY, None, (), {}, ())
    answers = _together([functools.partial(client.stream_to(node).ask, question) for node in nodes])
    for node, answer in zip(nodes, answers, strict=True):
        if not is_fingerprint(answer):
            raise SyftError(f"Node {node.id!r} did not tell the fingerprint of its key.")
    return tuple(answers)


def address_of(worker: Any) -> str:
    """Return the address by which other nodes reach a node."""
    return str(getattr(worker, "peer_url", None) or worker.url)
