"""The service of a dealer in a process of its own, for the parties of any number of groups.

A group is a client, its parties in order, and a common name. The group of a hosted model also has the keys of the
parties, and each party must prove its own. Each party gets its seed once: if one connects again (it was restarted, or
lost its connection), the whole group gets new seeds, so that no random value is used twice.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

import torch

from syft.config import current
from syft.core.byte_budget import ByteBudget, ask, spending
from syft.core.generator import KEY_BYTES
from syft.core.id_provider import is_id
from syft.exceptions import ByteBudgetError, ProtocolError, SerdeError
from syft.mpc.dealer.deals import WITH_COMMON, Broadcasts, Compute, DealerContext, bytes_of_deal, row_of
from syft.mpc.dealer.wire_protocol import (
    ASK,
    BEGIN,
    DEALT,
    DROP,
    FAILED,
    HELLO,
    LEARN,
    MAX_KEYS,
    PACK,
    PACK_HEAD,
    PACK_ROW,
    SEED,
    SEEDS,
    generator_for,
    label_of,
    plain,
)
from syft.mpc.links.frame_layout import bytes_of
from syft.mpc.runtime.group import budget_of
from syft.mpc.runtime.party import MAX_PARTIES
from syft.serde import deserialize
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PeerIdentity

logger = logging.getLogger("syft.mpc")
# Limits the bytes that wait at a party for later runs; the oldest are withdrawn.
AHEAD_BYTES = 256 * 2**20
# Limits the bytes that are sent ahead for one run; further deals are requested when they are needed.
PACK_BYTES = 64 * 2**20
DEPTH_BYTES = 2**20
# Limits the runs of one kind that are dealt ahead.
DEPTH = 8
MAX_DEALS = 100_000
# Limits the frames of a party: their size, and their number in the queue.
MAX_FRAME_BYTES = 32 * 2**20
MAX_WAITING = 4096
# Seconds that a deal waits for room in the budget of its client.
_BUDGET_TIMEOUT = 10.0
Key = tuple[Any, str, tuple[Any, ...], tuple[str, ...]]


@dataclasses.dataclass(slots=True)
class ServedGroup:
    """The seeds of a group, and the parties that have theirs.

    Attributes:
        generation: a random number that identifies the seeds.
        seeds: one for each party.
        members: the connections of parties that have their seed.
    """

    generation: int
    seeds: list[bytes] = dataclasses.field(repr=False)
    members: dict[int, FramedConnection]

    @classmethod
    def fresh(cls, count: int) -> ServedGroup:
        """Return a group with new seeds."""
        generation = int.from_bytes(os.urandom(8), "little") | 1
        return cls(generation, [os.urandom(KEY_BYTES) for _ in range(count)], {})


class Provider:
    """The dealer of one process."""

    def __init__(self) -> None:
        self._common = Broadcasts()
        # The key has the client's delegation, so that no client can join a group of another one.
        self._groups: dict[Key, ServedGroup] = {}
        self._lock = threading.Lock()

    def serve(self, peer: PeerIdentity, sock: socket.socket) -> None:
        """Serve a party until its connection ends."""
        budget = budget_of(peer.delegation)
        connection = FramedConnection(SocketPipe(sock), MAX_FRAME_BYTES, current().max_message_bytes, budget)
        key, group = None, None
        try:
            frame = connection.read()
            if frame is None or frame[0] != HELLO:
                return
            name, parties, keys = _read_group(frame[2], peer)
            key = (peer.delegation, name, parties, keys)
            index = parties.index(peer.id)
            group, stale = self._join(key, index, connection)
            try:
                connection.write(SEED, 0, SEEDS.pack(group.generation, group.seeds[index]))
            finally:
                for other in stale:
                    other.close()
            DealQueue(group, index, connection, self._common, budget).work()
        except (OSError, SerdeError, ProtocolError) as error:
            logger.info("The dealer ended the connection of %r: %s", peer.id, type(error).__name__)
        finally:
            connection.close()
            connection.release()
            if key is not None and group is not None:
                self._common.forget(group.generation)
                self._leave(key, group)

    def _join(self, key: Key, index: int, connection: FramedConnection) -> tuple[ServedGroup, list[FramedConnection]]:
        """Return the group of a new connection, and the connections with outdated seeds."""
        with self._lock:
            group = self._groups.get(key)
            stale: list[FramedConnection] = []
            if group is None or index in group.members:
                stale = [] if group is None else list(group.members.values())
                group = self._groups[key] = ServedGroup.fresh(len(key[2]))
            group.members[index] = connection
        return group, stale

    def _leave(self, key: Key, group: ServedGroup) -> None:
        """Drop a group without open connections."""
        with self._lock:
            if self._groups.get(key) is group and all(member.is_closed for member in group.members.values()):
                del self._groups[key]


def _read_group(contents: bytearray, peer: PeerIdentity) -> tuple[str, tuple[Any, ...], tuple[str, ...]]:
    """Return the group of a party; a party that proved a key can join groups with keys only."""
    parts = deserialize(contents, max_message_bytes=MAX_FRAME_BYTES)
    if type(parts) is not tuple or len(parts) not in (2, 3) or not all(type(part) is tuple for part in parts[1:]):
        raise SerdeError("The group of a party is not valid.")
    name, parties, keys = parts if len(parts) == 3 else (*parts, ())
    if not is_id(name) or type(name) is not str or not 2 <= len(parties) <= MAX_PARTIES or not all(map(is_id, parties)):
        raise SerdeError("The group of a party is not valid.")
    if parties.count(peer.id) != 1:
        raise ProtocolError("Only parties of the group get seeds.")
    if keys or peer.key is not None:
        if len(keys) != len(parties) or not all(map(is_fingerprint, keys)):
            raise SerdeError("The group of a party is not valid.")
        if keys[parties.index(peer.id)] != peer.key:
            raise ProtocolError("Only parties that prove their key get seeds.")
    return name, parties, keys


@dataclasses.dataclass(slots=True)
class LearnedProgram:
    """The deals of a key.

    Attributes:
        sequence: the deals of one run.
        latest: the last instance that the party started.
        depth: the number of instances that are dealt ahead.
        sent: the instances that were sent to the party.
        fits: the number of deals that fit into a pack; None until it is known.
    """

    sequence: list[tuple[str, tuple[Any, ...]]]
    latest: int
    depth: int = 1
    sent: set[int] = dataclasses.field(default_factory=set)
    fits: int | None = None


def is_instance(value: object) -> bool:
    """Return whether a value is a valid number of a run, with numbers left for later runs."""
    return type(value) is int and 0 < value < 2**32 - DEPTH - 1


class DealQueue:
    """Serves one party of a group: its requests first, deals of later runs in idle time."""

    def __init__(
        self,
        group: ServedGroup,
        index: int,
        connection: FramedConnection,
        common: Broadcasts,
        budget: ByteBudget | None = None,
    ) -> None:
        self._group = group
        self._last = index == len(group.seeds) - 1
        self._connection = connection
        self._common = common
        self._budget = budget
        self._is_over = False
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._known: dict[bytes, LearnedProgram] = {}
        # The instances to send in idle time.
        self._ahead: collections.deque[tuple[bytes, int]] = collections.deque()
        # Bytes of instances that were sent and not started, the oldest first.
        self._waiting: dict[tuple[bytes, int], int] = {}
        self._handlers: dict[int, Callable[..., None]] = {ASK: self._answer, BEGIN: self._begin, LEARN: self._learn}

    def work(self) -> None:
        """Serve until the connection ends."""
        threading.Thread(target=self._listen, name="syft dealer", daemon=True).start()
        try:
            while True:
                try:
                    frame = self._frames.get(block=not self._ahead)
                except queue.Empty:
                    with spending(self._budget):
                        self._prepare(*self._ahead.popleft())
                    continue
                if frame is None:
                    return
                try:
                    self._handle(*frame)
                finally:
                    self._count(-len(frame[2]))
        finally:
            self._is_over = True
            self._drop_frames()

    def _handle(self, kind: int, number: int, contents: bytearray) -> None:
        handler = self._handlers.get(kind)
        if handler is None:
            raise ProtocolError(f"A party sent a frame of the unknown kind {kind}.")
        with spending(self._budget):
            try:
                handler(number, *deserialize(contents, max_message_bytes=MAX_FRAME_BYTES))
            except OSError:
                raise
            except Exception as error:  # of the deal's function, or of invalid arguments: reported to the party
                logger.info("Could not deal: %s", error)
                self._connection.write(FAILED, number, type(error).__name__.encode())

    def _listen(self) -> None:
        frame: Any = True
        while frame is not None:
            try:
                frame = self._connection.read() if self._frames.qsize() < MAX_WAITING else None
                if frame is not None:
                    self._count(len(frame[2]))
            except (SerdeError, ByteBudgetError):
                frame = None
            self._frames.put(frame)
        if self._is_over:
            self._drop_frames()

    def _drop_frames(self) -> None:
        """Drop queued frames."""
        with contextlib.suppress(queue.Empty):
            while True:
                frame = self._frames.get(block=False)
                if frame is not None:
                    self._count(-len(frame[2]))

    def _count(self, size: int) -> None:
        """Count the bytes of queued frames."""
        if self._budget is not None:
            if size < 0:
                self._budget.give(-size)
            else:
                self._budget.take(size)

    def _answer(self, number: int, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> None:
        pieces = self._compute(key, instance, position, kind, plain(spec))
        self._connection.write_pieces(DEALT, number, pieces)

    def _begin(self, number: int, key: bytes, instance: int) -> None:
        """Send the deals of a run that starts, unless they were sent; then prepare later runs."""
        known = self._known.get(key)
        if known is None or not is_instance(instance):
            raise ProtocolError("The key or the instance of this run is unknown.")
        for begun in [pack for pack in self._waiting if pack[0] == key and pack[1] <= instance]:
            del self._waiting[begun]
        if instance not in known.sent:
            self._send(key, instance, known)
        known.sent = {other for other in known.sent if other > instance}
        self._look_ahead(key, instance, known)

    def _look_ahead(self, key: bytes, instance: int, known: LearnedProgram) -> None:
        """Schedule the deals of later runs: several runs, if their deals are small."""
        known.latest = instance
        self._ahead.extend((key, instance + number) for number in range(1, known.depth + 1))

    def _learn(self, number: int, key: bytes, instance: int, sequence: tuple[tuple[str, tuple[Any, ...]], ...]) -> None:
        if type(key) is not bytes or not is_instance(instance):
            raise ProtocolError("The key or the instance of this run is unknown.")
        if type(sequence) is not tuple or len(sequence) > MAX_DEALS:
            raise ProtocolError(f"The deals of a run are a tuple of at most {MAX_DEALS} deals.")
        learned = LearnedProgram([(kind, plain(spec)) for kind, spec in sequence], instance)
        earlier = self._known.pop(key, None)
        if earlier is not None:
            learned.depth = earlier.depth
        while len(self._known) >= MAX_KEYS:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._waiting = {pack: size for pack, size in self._waiting.items() if pack[0] != oldest}
        self._known[key] = learned
        self._look_ahead(key, instance, learned)

    def _prepare(self, key: bytes, instance: int) -> None:
        """Send the deals of a later run; errors are reported when the run requests them."""
        known = self._known.get(key)
        if known is None:  # the party may wait for this pack
            self._withdraw(key, instance)
            return
        if instance <= known.latest or instance in known.sent:
            return
        try:
            size = self._send(key, instance, known)
        except OSError:
            raise
        except Exception as error:
            logger.info("Could not deal ahead: %s", error)
            self._withdraw(key, instance)
            return
        self._waiting[key, instance] = size
        while sum(self._waiting.values()) > AHEAD_BYTES:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._known[oldest[0]].sent.discard(oldest[1])
            self._withdraw(*oldest)

    def _withdraw(self, key: bytes, instance: int) -> None:
        self._connection.write(DROP, 0, PACK_HEAD.pack(key, instance, 0, 0))

    def _send(self, key: bytes, instance: int, known: LearnedProgram) -> int:
        """Send the deals of a run that fit into a pack; returns their bytes."""
        rows: list[bytes] = []
        buffers: list[Any] = []
        size = 0
        for position, (kind, spec) in enumerate(known.sequence[: known.fits]):
            pieces = self._compute(key, instance, position, kind, spec)
            length = sum(map(len, pieces))
            if size + length > min(PACK_BYTES, AHEAD_BYTES):
                known.fits = position
                break
            rows.append(PACK_ROW.pack(label_of(key, instance, position, kind, spec), length))
            buffers += pieces
            size += length
        # It never shrinks: the party relies on the last value it received.
        known.depth = max(known.depth, min(DEPTH, min(DEPTH_BYTES, AHEAD_BYTES) // max(size, 1)))
        head = PACK_HEAD.pack(key, instance, len(rows), known.depth) + b"".join(rows)
        self._connection.write_pieces(PACK, 0, [head, *buffers])
        known.sent.add(instance)
        return size

    def _compute(self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> list[Any]:
        """Return the buffers that the dealer sends to this party for one deal."""
        row_of(kind)  # raises for an unknown kind
        if not self._last and kind not in WITH_COMMON:
            return []
        if self._budget is None:
            return self._deal(key, instance, position, kind, spec)
        size = bytes_of_deal(kind, spec, len(self._group.seeds), self._budget.largest)
        with self._budget.holding(size, _BUDGET_TIMEOUT):
            pieces = self._deal(key, instance, position, kind, spec)
            ask(sum(map(len, pieces)))
        return pieces

    def _deal(self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> list[Any]:
        label = label_of(key, instance, position, kind, spec)
        numbers = itertools.count()

        def once(compute: Compute) -> torch.Tensor:
            key = (self._group.generation, label, next(numbers))
            return self._common.get(key, len(self._group.seeds) - 1, compute)

        context = DealerContext([generator_for(seed, label) for seed in self._group.seeds], once)
        row_of(kind)(context, *spec)
        return [bytes_of(tensor.contiguous()) for tensor in (context.corrections if self._last else context.commons)]
