"""Provider: the dealer in a process of its own, serving the parties of any number of groups.

A group is a client and its parties, in order, and a name that they have in common. For a hosted model the keys of the
parties belong to it too, and each party has to prove its own. Its seeds are given to each party once: when one comes
again (it was restarted, or lost its connection) the whole group gets new seeds, so that nothing dealt is ever used
twice.
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
from syft.mpc.dealer.broadcast import Broadcasts
from syft.mpc.dealer.deal_size import bytes_of_deal
from syft.mpc.dealer.deals import WITH_COMMON, Compute, DealerContext, row_of
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
from syft.serde import deserialize
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PeerIdentity

logger = logging.getLogger("syft.mpc")
MAX_PARTIES = 64
# Bytes that wait at a party for runs that may come; beyond it what was not used for longest is taken back.
AHEAD_BYTES = 256 * 2**20
# Bytes that are dealt for one run at once; what it needs beyond them is asked for when it is needed.
PACK_BYTES = 64 * 2**20
# How many runs of one kind are dealt for ahead, as long as that is not more than so many bytes.
DEPTH = 8
DEPTH_BYTES = 2**20
MAX_DEALS = 100_000
# The largest frame that a party sends, and how many may wait to be dealt with.
MAX_ASKED = 32 * 2**20
MAX_WAITING = 4096
# Seconds that a deal waits for room in the budget of its client.
_PATIENCE = 10.0
Sequence = list[tuple[str, tuple[Any, ...]]]
Key = tuple[Any, str, tuple[Any, ...], tuple[str, ...]]


@dataclasses.dataclass(slots=True)
class ServedGroup:
    """The seeds of a group, and who has got one.

    Attributes:
        generation: which seeds these are.
        seeds: one a party.
        members: the connections of those who have got theirs.
    """

    generation: int
    seeds: list[bytes] = dataclasses.field(repr=False)
    members: dict[int, FramedConnection]

    @classmethod
    def fresh(cls, count: int) -> ServedGroup:
        """Make a group with seeds of its own."""
        generation = int.from_bytes(os.urandom(8), "little") | 1
        return cls(generation, [os.urandom(KEY_BYTES) for _ in range(count)], {})


class Provider:
    """The dealer of one process."""

    def __init__(self) -> None:
        self._common = Broadcasts()
        # by the circle of the client, so that nobody gets into a group of somebody else: its name, parties, their keys
        self._groups: dict[Key, ServedGroup] = {}
        self._lock = threading.Lock()

    def serve(self, visitor: PeerIdentity, sock: socket.socket) -> None:
        """Serve a party until its connection ends.

        Args:
            visitor: who it is, and for which client it comes, as the connection knows it.
            sock: the connected socket.
        """
        peer = visitor.id
        budget = budget_of(visitor.circle)
        connection = FramedConnection(SocketPipe(sock), MAX_ASKED, current().max_message_bytes, budget)
        key, group = None, None
        try:
            frame = connection.read()
            if frame is None or frame[0] != HELLO:
                return
            name, parties, keys = _read_group(frame[2], visitor)
            key = (visitor.circle, name, parties, keys)
            index = parties.index(peer)
            group, stale = self._join(key, index, connection)
            try:
                connection.write(SEED, 0, SEEDS.pack(group.generation, group.seeds[index]))
            finally:
                for other in stale:
                    other.close()
            DealQueue(group, index, connection, self._common, budget).work()
        except (OSError, SerdeError, ProtocolError) as error:
            logger.info("The dealer ended the connection of %r: %s", peer, type(error).__name__)
        finally:
            connection.close()
            connection.release()
            if key is not None and group is not None:
                self._common.forget(group.generation)
                self._leave(key, group)

    def _join(self, key: Key, index: int, connection: FramedConnection) -> tuple[ServedGroup, list[FramedConnection]]:
        """Return the group of a newcomer, and the connections of those whose seeds are not used any more."""
        with self._lock:
            group = self._groups.get(key)
            stale: list[FramedConnection] = []
            if group is None or index in group.members:
                stale = [] if group is None else list(group.members.values())
                group = self._groups[key] = ServedGroup.fresh(len(key[2]))
            group.members[index] = connection
        return group, stale

    def _leave(self, key: Key, group: ServedGroup) -> None:
        """Forget a group that nobody of is connected any more."""
        with self._lock:
            if self._groups.get(key) is group and all(member.is_closed for member in group.members.values()):
                del self._groups[key]


def _read_group(contents: bytearray, visitor: PeerIdentity) -> tuple[str, tuple[Any, ...], tuple[str, ...]]:
    """Read which group a party belongs to; one that proved a key joins groups with keys only."""
    parts = deserialize(contents, max_message_bytes=MAX_ASKED)
    if type(parts) is not tuple or len(parts) not in (2, 3) or not all(type(part) is tuple for part in parts[1:]):
        raise SerdeError("This is not a group.")
    name, parties, keys = parts if len(parts) == 3 else (*parts, ())
    if type(name) is not str or not is_id(name) or not 2 <= len(parties) <= MAX_PARTIES or not all(map(is_id, parties)):
        raise SerdeError("This is not a group.")
    if parties.count(visitor.id) != 1:
        raise ProtocolError("Seeds are given to parties of the group only.")
    if keys or visitor.key is not None:
        if len(keys) != len(parties) or not all(map(is_fingerprint, keys)):
            raise SerdeError("This is not a group.")
        if keys[parties.index(visitor.id)] != visitor.key:
            raise ProtocolError("Seeds are given to parties that prove their key only.")
    return name, parties, keys


@dataclasses.dataclass(slots=True)
class _LearnedProgram:
    """What is known of a key.

    Attributes:
        sequence: what its runs need.
        latest: the last instance that the party began.
        depth: how many instances are dealt for ahead.
        sent: the instances that the party has, or is about to get.
        fits: how many of its deals fit into a pack; None until that is known.
    """

    sequence: Sequence
    latest: int
    depth: int = 1
    sent: set[int] = dataclasses.field(default_factory=set)
    fits: int | None = None


def _is_instance(value: Any) -> bool:
    """Say whether this may be the number of a run, with numbers left for the next ones."""
    return type(value) is int and 0 < value < 2**32 - DEPTH - 1


class DealQueue:
    """Serves one party of a group: what it asks for first, what it may need when there is time.

    Args:
        group: the group.
        index: which party is served.
        connection: its connection.
        common: the words that every party gets.
        budget: the bytes that may be in flight for the client; None: any number.
    """

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
        self._known: dict[bytes, _LearnedProgram] = {}
        # What is to be sent when there is time.
        self._ahead: collections.deque[tuple[bytes, int]] = collections.deque()
        # What was sent and not begun, the oldest first: bytes by key and instance.
        self._waiting: dict[tuple[bytes, int], int] = {}
        self._handlers: dict[int, Callable[..., None]] = {ASK: self._asked, BEGIN: self._begun, LEARN: self._learn}

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
            raise ProtocolError("A party sent something that the dealer does not know.")
        with spending(self._budget):
            try:
                handler(number, *deserialize(contents, max_message_bytes=MAX_ASKED))
            except OSError:
                raise
            except Exception as error:  # of a row of the table, or of arguments that do not fit: the party is told
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
        """Forget the frames that nobody deals with any more."""
        with contextlib.suppress(queue.Empty):
            while True:
                frame = self._frames.get(block=False)
                if frame is not None:
                    self._count(-len(frame[2]))

    def _count(self, size: int) -> None:
        """Count the bytes of frames that wait."""
        if self._budget is not None:
            if size < 0:
                self._budget.give(-size)
            else:
                self._budget.take(size)

    def _asked(self, number: int, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> None:
        pieces = self._compute(key, instance, position, kind, plain(spec))
        self._connection.write_pieces(DEALT, number, pieces)

    def _begun(self, number: int, key: bytes, instance: int) -> None:
        """Send what a run that begins needs, unless it was sent; then prepare the next."""
        known = self._known.get(key)
        if known is None or not _is_instance(instance):
            raise ProtocolError("Nothing is known of this run.")
        for begun in [pack for pack in self._waiting if pack[0] == key and pack[1] <= instance]:
            del self._waiting[begun]
        if instance not in known.sent:
            self._send(key, instance, known)
        known.sent = {other for other in known.sent if other > instance}
        self._look_ahead(key, instance, known)

    def _look_ahead(self, key: bytes, instance: int, known: _LearnedProgram) -> None:
        """Have the next runs dealt for when there is time: several, if little is dealt in each."""
        known.latest = instance
        self._ahead.extend((key, instance + number) for number in range(1, known.depth + 1))

    def _learn(self, number: int, key: bytes, instance: int, sequence: tuple[tuple[str, tuple[Any, ...]], ...]) -> None:
        if type(key) is not bytes or not _is_instance(instance):
            raise ProtocolError("Nothing is known of this run.")
        if type(sequence) is not tuple or len(sequence) > MAX_DEALS:
            raise ProtocolError("This is not a sequence of deals.")
        learned = _LearnedProgram([(kind, plain(spec)) for kind, spec in sequence], instance)
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
        """Send ahead what a run may need; whatever goes wrong shows when it is asked for."""
        known = self._known.get(key)
        if known is None:  # the party may wait for it
            self._take_back(key, instance)
            return
        if instance <= known.latest or instance in known.sent:
            return
        try:
            size = self._send(key, instance, known)
        except OSError:
            raise
        except Exception as error:
            logger.info("Could not deal ahead: %s", error)
            self._take_back(key, instance)
            return
        self._waiting[key, instance] = size
        while sum(self._waiting.values()) > AHEAD_BYTES:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self._known[oldest[0]].sent.discard(oldest[1])
            self._take_back(*oldest)

    def _take_back(self, key: bytes, instance: int) -> None:
        self._connection.write(DROP, 0, PACK_HEAD.pack(key, instance, 0, 0))

    def _send(self, key: bytes, instance: int, known: _LearnedProgram) -> int:
        """Send what a run needs, as far as it fits into a pack; returns its size."""
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
        # It never shrinks: the party relies on what it was told last.
        known.depth = max(known.depth, min(DEPTH, min(DEPTH_BYTES, AHEAD_BYTES) // max(size, 1)))
        head = PACK_HEAD.pack(key, instance, len(rows), known.depth) + b"".join(rows)
        self._connection.write_pieces(PACK, 0, [head, *buffers])
        known.sent.add(instance)
        return size

    def _compute(self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> list[Any]:
        """Return what the dealer sends to this party for one deal."""
        row_of(kind)  # raises for an unknown kind
        if not self._last and kind not in WITH_COMMON:
            return []
        if self._budget is None:
            return self._deal(key, instance, position, kind, spec)
        size = bytes_of_deal(kind, spec, len(self._group.seeds), self._budget.largest)
        with self._budget.holding(size, _PATIENCE):
            pieces = self._deal(key, instance, position, kind, spec)
            ask(sum(map(len, pieces)))
        return pieces

    def _deal(self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> list[Any]:
        label = label_of(key, instance, position, kind, spec)
        numbers = itertools.count()

        def once(compute: Compute) -> torch.Tensor:
            place = (self._group.generation, label, next(numbers))
            return self._common.get(place, len(self._group.seeds) - 1, compute)

        deck = DealerContext([generator_for(seed, label) for seed in self._group.seeds], once)
        row_of(kind)(deck, *spec)
        return [bytes_of(words.contiguous()) for words in (deck.corrections if self._last else deck.commons)]
