"""Introductions: a client lets nodes connect to each other, so that they can compute together for it.

Each node issues secrets for the others and then receives theirs: two messages per node, all nodes concurrently, once
for each set of nodes. It is repeated when a node was restarted, since the client then has another session there, and
before the secrets expire.
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

# Fraction of the lifetime of a secret after which it is renewed.
_FRESH = 0.8
# Fraction of the client's timeout that nodes wait for each other.
_SHARE = 0.8


class Introductions:
    """The introductions that one client made."""

    def __init__(self) -> None:
        self.name = os.urandom(16).hex()
        # stream to the connecting worker -> stream to the worker it connects to -> expiry
        self._made: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, float]] = weakref.WeakKeyDictionary()
        # stream -> the client's timeout, as last reported to the worker
        self._timeouts: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def make(self, streams: Sequence[Any]) -> None:
        """Introduce the workers of some streams to each other."""
        timeout = current().stream_timeout
        with self._lock:
            missing = self._missing(streams)
            if missing or any(self._timeouts.get(stream) != timeout for stream in streams):
                self._introduce(streams, missing, timeout)

    def _missing(self, streams: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the (visitor, host) pairs whose introduction is missing or about to expire."""
        now = time.monotonic()
        return [
            (one, other)
            for one in streams
            for other in streams
            if one is not other and self._made.get(one, {}).get(other, 0.0) <= now
        ]

    def _introduce(self, streams: Sequence[Any], pairs: list[tuple[Any, Any]], timeout: float) -> None:
        if len(streams) > MAX_PEERS:
            raise SyftError(f"At most {MAX_PEERS} nodes can compute together, got {len(streams)}. Use fewer nodes.")
        visited = list(dict.fromkeys(other for _, other in pairs))
        began = time.monotonic()
        admitted = _together([functools.partial(self._admit, other, pairs) for other in visited])
        rows: dict[Any, list[tuple[Any, ...]]] = {stream: [] for stream in streams}
        until: dict[tuple[Any, Any], float] = {}
        for other, secrets in zip(visited, admitted, strict=True):
            for one, (token, proof, seconds) in secrets.items():
                rows[one].append((other.location.id, address_of(other.location), token, proof))
                until[one, other] = began + _FRESH * seconds
        _together([functools.partial(self._send_secrets, one, rows[one], timeout) for one in streams])
        for (one, other), end in until.items():
            self._made.setdefault(one, weakref.WeakKeyDictionary())[other] = end
        for stream in streams:
            self._timeouts[stream] = timeout

    def _admit(self, other: Any, pairs: list[tuple[Any, Any]]) -> dict[Any, tuple[bytes, bytes, float]]:
        """Request the secrets by which other workers may connect to a worker."""
        visitors = [one for one, visited in pairs if visited is other]
        ids = [stream.location.id for stream in visitors]
        answer = other.ask(Operation(ADMIT, None, (self.name, *ids), {}, ()))
        if type(answer) is not tuple or len(answer) != len(ids) or not all(map(_are_secrets, answer)):
            raise SyftError(f"Worker {other.location.id!r} did not issue secrets for other workers.")
        return dict(zip(visitors, answer, strict=True))

    def _send_secrets(self, one: Any, rows: list[tuple[Any, ...]], timeout: float) -> None:
        # A little less than the client waits, so that it receives their errors.
        message = Operation(MEET, None, (self.name, _SHARE * timeout, *rows), {}, ())
        if rows:
            one.ask(message)
        else:  # only the timeout of the client has changed, which nothing later depends on
            one.post(message)


def _are_secrets(row: object) -> bool:
    if type(row) is not tuple or len(row) != 3 or type(row[2]) not in (int, float):
        return False
    return all(type(secret) is bytes and len(secret) == TOKEN_BYTES for secret in row[:2])


def _together(calls: list[Callable[[], Any]]) -> list[Any]:
    """Make several calls concurrently and return their results; the first error is raised."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls), thread_name_prefix="syft introducing") as pool:
        futures = [pool.submit(contextvars.copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


_made: weakref.WeakKeyDictionary[Any, Introductions] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def introduce(client: BaseWorker, workers: Iterable[Any]) -> None:
    """Introduce nodes to each other for a client; workers that are not nodes are ignored."""
    nodes = [worker for worker in workers if getattr(worker, "is_node", False)]
    if len(nodes) < 2:
        return
    streams = list(dict.fromkeys(client.stream_to(node) for node in nodes))
    introductions = _made.get(client)
    if introductions is None:
        with _making:
            introductions = _made.setdefault(client, Introductions())
    if len(streams) > 1:
        introductions.make(streams)


def fingerprints_of(client: BaseWorker, nodes: Sequence[Any]) -> tuple[str, ...]:
    """Query the fingerprints of the nodes' identity keys, over the client's own connections."""
    question = Operation(KEY, None, (), {}, ())
    answers = _together([functools.partial(client.stream_to(node).ask, question) for node in nodes])
    for node, answer in zip(nodes, answers, strict=True):
        if not is_fingerprint(answer):
            raise SyftError(f"Node {node.id!r} did not return the fingerprint of its key.")
    return tuple(answers)


def address_of(worker: Any) -> str:
    """Return the address by which other nodes reach a node."""
    return str(getattr(worker, "peer_url", None) or worker.url)
