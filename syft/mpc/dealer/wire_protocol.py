"""The wire protocol between a dealer's process and a party's process, and the party's end.

The dealer sends each party of a group a seed; from then on the parties expand their shares by themselves. The dealer
sends only values that it computes: corrections of shares to the last party, and public tensors to every party. It
learns the deals of a protocol from the first run, and sends those of later runs ahead, so that no party waits.

Every deal has a generator of its own, derived from the seed and from the kind of deal, its position and the number of
the run. So the order of preparation does not matter, and no random value is used twice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

import torch

from syft.config import current
from syft.core.byte_budget import ByteBudget, Holding
from syft.core.generator import KEY_BYTES, Generator
from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.exceptions import ByteBudgetError, PartyLostError, ProtocolError, SerdeError
from syft.mpc.dealer.deals import PartyContext, Shape, row_of
from syft.mpc.links.party_link import STILL_THERE
from syft.serde import serialize
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe

logger = logging.getLogger("syft.mpc")
# Purposes of connections to a dealer; with the second one both ends prove their keys first.
PURPOSE, PINNED_PURPOSE = "mpc-deal", "mpc-deal-pinned"
# From a party: its group; a deal it needs now; the start of a run; the deals of the last run.
HELLO, ASK, BEGIN, LEARN = range(10, 14)
# From the dealer: the seed; the reply to ASK; all deals of a run; the withdrawal of a PACK; an error.
SEED, DEALT, PACK, DROP, FAILED = range(20, 25)
SEEDS = struct.Struct(f"<Q{KEY_BYTES}s")
# key, instance, number of deals, number of instances that are sent ahead
PACK_HEAD = struct.Struct("<16sIII")
PACK_ROW = struct.Struct("<16sQ")
# Limits the keys that the dealer deals ahead for.
MAX_KEYS = 4096
# Limits the runs that one party has started and another has not.
MAX_AHEAD = 1000
# Limits the bytes that a dealer may send ahead; an honest one stays at half of that.
MAX_PACKED = 512 * 2**20


def plain(value: object) -> Any:
    """Return a spec of numbers, strings and tuples only, so that its digest is the same at every party."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, tuple | list):
        return tuple([plain(item) for item in value])
    if isinstance(value, dict):
        return tuple([(plain(key), plain(item)) for key, item in sorted(value.items())])
    raise ProtocolError(f"The spec of a deal has numbers, strings and shapes only, got a {type(value).__name__}.")


def digest(*parts: object) -> bytes:
    """Return a 16-byte digest of plain values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def generator_for(seed: bytes, label: bytes) -> Generator:
    """Return the generator of one deal at one party."""
    return Generator(hashlib.blake2b(label, key=seed, digest_size=KEY_BYTES).digest())


def label_of(key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> bytes:
    """Return the label of a deal: the digest of its key, instance, position in the run, kind and spec."""
    return digest(key, instance, position, kind, spec)


@dataclasses.dataclass(slots=True)
class _Learned:
    """The state of a key that the dealer deals ahead for.

    Attributes:
        summary: the digest of the deals of its runs.
        depth: the number of instances that are sent ahead.
        report_from: the first instance whose start is reported to the dealer.
        frame_number: the number of the last frame about the key.
    """

    summary: bytes
    depth: int = 1
    report_from: int = 0
    frame_number: int = 0


class DealerLink:
    """The connection of a party to the dealer of a group; with keys, the parties prove them to the dealer."""

    def __init__(
        self,
        sock: socket.socket,
        provider: ObjectId,
        name: str,
        parties: tuple[ObjectId, ...],
        last: bool,
        keys: tuple[str, ...] = (),
        budget: ByteBudget | None = None,
    ) -> None:
        sock.settimeout(current().stream_timeout)
        self._sock = sock
        self._connection = FramedConnection(SocketPipe(sock), current().max_message_bytes, budget=budget)
        self._held = None if budget is None else Holding(budget)
        self.provider = provider
        self.last = last
        # The number of runs of each key since these seeds.
        self.instances: dict[bytes, int] = {}
        # Deals that were sent ahead, by key and instance: their bytes, and label and corrections by position.
        self._packs: dict[tuple[bytes, int], tuple[int, dict[int, tuple[bytes, memoryview]]]] = {}
        self._learned: dict[bytes, _Learned] = {}
        # Every frame to the dealer has a number, which its reply repeats.
        self._number = 0
        self._send(HELLO, (name, parties, keys) if keys else (name, parties))
        kind, _, contents = self._read()
        if kind != SEED or len(contents) != SEEDS.size:
            raise self._lost()
        self.generation, self.seed = SEEDS.unpack(contents)

    def _send(self, kind: int, parts: tuple[Any, ...]) -> int:
        self._number += 1
        try:
            self._connection.write(kind, self._number, serialize(parts))
        except (OSError, SerdeError):
            raise self._lost() from None
        return self._number

    def _read(self) -> tuple[int, int, bytearray]:
        try:
            frame = self._connection.read()
        except SerdeError:
            frame = None
        if frame is None or frame[1] > self._number:
            raise self._lost()
        return frame

    def _receive(self, awaited: tuple[bytes, int]) -> tuple[int, int, bytearray]:
        """Wait for a frame; packs are stored, and an unknown frame closes the connection."""
        kind, number, contents = self._read()
        try:
            if kind == PACK:
                self._store_pack(contents)
            elif kind == DROP:
                self._drop(PACK_HEAD.unpack_from(contents)[:2], awaited)
            elif kind not in (DEALT, FAILED):
                raise self._lost()
        except struct.error:
            raise self._lost() from None
        if kind == FAILED:  # the dealer has dropped a key
            for key in [key for key, learned in self._learned.items() if learned.frame_number == number]:
                del self._learned[key]
        return kind, number, contents

    def _store_pack(self, contents: bytearray) -> None:
        key, instance, count, depth = PACK_HEAD.unpack_from(contents)
        at = PACK_HEAD.size + count * PACK_ROW.size
        view = memoryview(contents)
        rows: dict[int, tuple[bytes, memoryview]] = {}
        for position in range(count):
            label, size = PACK_ROW.unpack_from(contents, PACK_HEAD.size + position * PACK_ROW.size)
            rows[position] = (label, view[at : at + size])
            at += size
        if at != len(contents):
            raise self._lost()
        if key in self._learned:
            self._learned[key].depth = depth
            self._packs[key, instance] = (len(contents), rows)
            self._hold_packs()

    def _hold_packs(self) -> None:
        """Hold the bytes of packs in the client's budget; the connection is closed if they exceed it."""
        total = sum(size for size, _ in self._packs.values())
        try:
            if total > MAX_PACKED:
                raise self._lost()
            if self._held is not None:
                self._held.follow(total)
        except ByteBudgetError:
            raise self._lost() from None

    def _drop(self, pack: tuple[bytes, int], awaited: tuple[bytes, int]) -> None:
        """Drop a pack; one that is needed now is requested again, and one that is in use stays."""
        key, instance = pack
        if key not in self._learned:
            return
        if pack == awaited and pack not in self._packs:
            self._report(key, instance)
        elif instance > self.instances.get(key, 0):
            self._packs.pop(pack, None)
            self._learned[key].report_from = 0

    def begin(self, key: bytes) -> int:
        """Start a run; returns its instance, the number of runs of its key."""
        instance = self.instances[key] = self.instances.get(key, 0) + 1
        if key in self._learned:
            for old in [pack for pack in self._packs if pack[0] == key and pack[1] < instance]:
                del self._packs[old]
            if instance >= self._learned[key].report_from:
                self._report(key, instance)
        return instance

    def catch_up(self, key: bytes, instance: int, generation: int) -> None:
        """Skip the instances of a key that another party has used, so that the next run finds both in step.

        Outdated seeds need no handling here: the dealer has closed that connection.
        """
        ahead = instance - self.instances.get(key, 0)
        if generation != self.generation or ahead <= 0:
            return
        if ahead > MAX_AHEAD:  # not plausible; with new seeds all parties start again
            self.close()
        else:
            self.instances[key] = instance

    def _report(self, key: bytes, instance: int) -> None:
        """Report the start of a run to the dealer, which sends the deals of this and of later runs."""
        learned = self._learned[key]
        learned.frame_number = self._send(BEGIN, (key, instance))
        learned.report_from = instance + max(1, learned.depth // 2)

    def fetch(
        self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...], label: bytes
    ) -> memoryview:
        """Return the corrections of one deal: sent ahead, or requested now."""
        pack = (key, instance)
        while key in self._learned and pack not in self._packs:
            self._receive(pack)
        row = self._packs[pack][1].pop(position, None) if pack in self._packs else None
        if row is not None and row[0] == label:
            return row[1]
        request = self._send(ASK, (key, instance, position, kind, spec))
        while True:  # replies to requests of a failed run are skipped
            found, number, contents = self._receive(pack)
            if number != request:
                continue
            if found == FAILED:
                why = printable(contents.decode("utf-8", "replace"))
                raise ProtocolError(f"The dealer {self.provider!r} could not deal: {why}")
            return memoryview(contents)

    def end(self, key: bytes, instance: int, sequence: list[tuple[str, tuple[Any, ...]]], fetched: bool) -> None:
        """End a run: report its deals, unless the dealer knows them or sends nothing to this party."""
        self._packs.pop((key, instance), None)
        self._hold_packs()
        summary = digest(sequence)
        if not (self.last or fetched) or (key in self._learned and self._learned[key].summary == summary):
            return
        self._send(LEARN, (key, instance, tuple(sequence)))
        self._learned.pop(key, None)
        while len(self._learned) >= MAX_KEYS:
            oldest = next(iter(self._learned))
            del self._learned[oldest]
            self._packs = {pack: deals for pack, deals in self._packs.items() if pack[0] != oldest}
        self._learned[key] = _Learned(summary)

    def set_timeout(self, seconds: float) -> None:
        """Set the timeout of replies."""
        self._sock.settimeout(seconds)

    def is_open(self) -> bool:
        """Return whether the connection is open, as far as is known."""
        try:  # recv() on a socket with a timeout would block, so poll first
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return not poll.poll(0) or self._sock.recv(1, socket.MSG_PEEK) != b""
        except (OSError, ValueError):  # reset by the other end, or closed here
            return False

    def close(self) -> None:
        """Close the connection; its seeds are not used again."""
        self._connection.close()
        self._connection.release()
        self._packs.clear()
        if self._held is not None:
            self._held.release(for_good=True)

    def _lost(self) -> PartyLostError:
        self.close()
        return PartyLostError(self.provider, "the dealer is lost, or did not answer in time", STILL_THERE)


class RunDeals:
    """The deals of one run at one party; `base` is the digest of the protocol and its arguments."""

    def __init__(self, base: bytes, link: Callable[[], DealerLink]) -> None:
        self._base = base
        self._open = link
        self._link: DealerLink | None = None
        self._sequence: list[tuple[str, tuple[Any, ...]]] = []
        self.key = b""
        self.instance = 0
        self.generation = 0
        self.bytes = 0
        self._fetched = False

    def deal(self, kind: str, spec: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return this party's shares of a deal."""
        row = row_of(kind)
        spec = plain(spec)
        if self._link is None:
            self._link = self._open()
            self.key = digest(self._base, kind, spec)
            self.instance = self._link.begin(self.key)
            self.generation = self._link.generation
        position = len(self._sequence)
        self._sequence.append((kind, spec))
        label = label_of(self.key, self.instance, position, kind, spec)
        link, rest = self._link, None

        def received(shape: Shape) -> torch.Tensor:
            """Return the next tensor that the dealer sends for this deal; fetched when the first is needed."""
            nonlocal rest
            if rest is None:
                rest, self._fetched = link.fetch(self.key, self.instance, position, kind, spec, label), True
            size = 8 * math.prod(shape)
            if len(rest) < size:
                raise ProtocolError("The dealer sent fewer bytes than the deal needs.")
            piece, rest = rest[:size], rest[size:]
            self.bytes += size
            if not size:
                return torch.empty(shape, dtype=torch.int64)
            return torch.frombuffer(piece, dtype=torch.int64).view(shape)

        dealt = tuple(row(PartyContext(generator_for(link.seed, label), received, link.last), *spec))
        if rest:
            raise ProtocolError("The dealer sent more bytes than the deal needs.")
        return dealt

    def end(self) -> None:
        """End a successful run; a lost dealer does not change its success."""
        if self._link is not None:
            try:
                self._link.end(self.key, self.instance, self._sequence, self._fetched)
            except ProtocolError as error:
                logger.info("The deals of a run could not be reported to the dealer: %s", type(error).__name__)

    def disagree(self, instance: int, generation: int) -> None:
        """Catch up with another party that used more deals."""
        if self._link is not None:
            self._link.catch_up(self.key, instance, generation)
