"""Dealing over the network: what the dealer's process and a party's process say to each other.

The dealer gives each party of a group a seed of its own; from then on parties expand their shares of whatever is dealt
by themselves. The dealer sends only values that it computes: corrections of shares to the last party, and words that
all may know to every party. What a protocol needs is learned the first time; afterwards the dealer sends it ahead, so
that nobody waits.

Every deal has a generator of its own, derived from the seed and from what is dealt, where, and for the how-manieth
time. So it does not matter in which order things are prepared, and no word is ever used twice.
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
from syft.core.labels import printable
from syft.exceptions import ByteBudgetError, PartyLostError, ProtocolError, SerdeError
from syft.mpc.dealer.deals import PartyContext, Shape, row_of
from syft.mpc.dealer.queued_deals import QueuedDeals
from syft.mpc.links.party_link import STILL_THERE
from syft.serde import serialize
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe

logger = logging.getLogger("syft.mpc")
# Purposes of connections to a dealer: with the second one both ends prove their keys first (see `workers.proofs`).
PURPOSE, PINNED_PURPOSE = "mpc-deal", "mpc-deal-pinned"
# From a party: who it is; a deal it needs now; a run it begins; what the run before needed.
HELLO, ASK, BEGIN, LEARN = range(10, 14)
# From the dealer: the seed; the answer to ASK; all that a run needs; take a PACK back; what went wrong.
SEED, DEALT, PACK, DROP, FAILED = range(20, 25)
SEEDS = struct.Struct(f"<Q{KEY_BYTES}s")
# key, instance, how many deals, how many instances are sent ahead
PACK_HEAD = struct.Struct("<16sIII")
PACK_ROW = struct.Struct("<16sQ")
# For how many keys the dealer deals ahead.
MAX_KEYS = 4096
# How many runs one party may have begun that another never heard of.
MAX_AHEAD = 1000
# Bytes that a dealer may send ahead; an honest one stays at half of that.
MAX_PACKED = 512 * 2**20


def plain(value: Any) -> Any:
    """Return a specification made of plain numbers, texts and tuples alone, so that all who read it agree on it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, tuple | list):
        return tuple([plain(item) for item in value])
    if isinstance(value, dict):
        return tuple([(plain(key), plain(item)) for key, item in sorted(value.items())])
    raise ProtocolError(f"What is dealt is described by numbers, texts and shapes, not by a {type(value).__name__}.")


def digest(*parts: Any) -> bytes:
    """Return 16 bytes that stand for plain values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def generator_for(seed: bytes, label: bytes) -> Generator:
    """Return the generator of one deal at one party."""
    return Generator(hashlib.blake2b(label, key=seed, digest_size=KEY_BYTES).digest())


def label_of(key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...]) -> bytes:
    """Return what a deal is known by: for which key and how-manieth time, where in the run, and what."""
    return digest(key, instance, position, kind, spec)


class Corrections:
    """What the dealer sends to a party for one deal, handed out shape by shape.

    Args:
        fetch: returns their bytes, when the first is needed.
    """

    def __init__(self, fetch: Callable[[], memoryview]) -> None:
        self._fetch = fetch
        self._rest: memoryview | None = None
        self.bytes = 0

    @property
    def was_fetched(self) -> bool:
        """Whether the dealer had to send anything."""
        return self._rest is not None

    def __call__(self, shape: Shape) -> torch.Tensor:
        """Return the next correction."""
        if self._rest is None:
            self._rest = self._fetch()
        count = math.prod(shape)
        if len(self._rest) < 8 * count:
            raise ProtocolError("The dealer sent less than was to be dealt.")
        piece, self._rest = self._rest[: 8 * count], self._rest[8 * count :]
        self.bytes += len(piece)
        if not count:
            return torch.empty(shape, dtype=torch.int64)
        return torch.frombuffer(piece, dtype=torch.int64).view(shape)

    def check(self) -> None:
        """Raise if something was left over."""
        if self._rest:
            raise ProtocolError("The dealer sent more than was to be dealt.")


@dataclasses.dataclass(slots=True)
class _Learned:
    """What the dealer was told of a key.

    Attributes:
        summary: stands for what its runs need.
        depth: how many instances are sent ahead.
        tell_from: from which instance on the dealer is told that they are used up.
        told: the number of the frame that told it last.
    """

    summary: bytes
    depth: int = 1
    tell_from: int = 0
    told: int = 0


class DealerLink:
    """The connection of a party to the dealer of a group.

    Args:
        sock: the connected socket.
        provider: the id of the dealer.
        name: stands for the group: the same for all its parties, and for no other group.
        parties: the ids of the parties.
        last: whether this is the last party, which gets the corrections of shares.
        keys: the fingerprints of the keys that the parties have to prove to the dealer; empty: they are known by id.
        budget: the bytes that may be in flight for the client; None: any number.
    """

    def __init__(
        self,
        sock: socket.socket,
        provider: Any,
        name: str,
        parties: tuple[Any, ...],
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
        # How often each key was dealt for; these seeds know no other past.
        self.instances: dict[bytes, int] = {}
        self._packs = QueuedDeals()
        self._learned: dict[bytes, _Learned] = {}
        # Every frame to the dealer has a number, which comes back with its answer.
        self._number = 0
        self._say(HELLO, (name, parties, keys) if keys else (name, parties))
        kind, _, contents = self._read()
        if kind != SEED or len(contents) != SEEDS.size:
            raise self._lost()
        self.generation, self._seed = SEEDS.unpack(contents)

    def _say(self, kind: int, parts: tuple[Any, ...]) -> int:
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

    def _hear(self, awaited: tuple[bytes, int]) -> tuple[int, int, bytearray]:
        """Wait for a frame; packs are taken, and whatever else is not an answer closes the connection.

        Args:
            awaited: the key and the instance that are in use.
        """
        kind, number, contents = self._read()
        try:
            if kind == PACK:
                self._take_pack(contents)
            elif kind == DROP:
                self._drop(_read_head(contents), awaited)
            elif kind not in (DEALT, FAILED):
                raise self._lost()
        except struct.error:
            raise self._lost() from None
        if kind == FAILED:  # it does not know a key any more
            for key in [key for key, learned in self._learned.items() if learned.told == number]:
                del self._learned[key]
        return kind, number, contents

    def _take_pack(self, contents: bytearray) -> None:
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
            self._packs.put((key, instance), rows, len(contents))
            self._hold_packs()

    def _hold_packs(self) -> None:
        """Hold what was sent ahead in the budget of the client; a dealer that sends more than fits is left."""
        try:
            if self._packs.bytes > MAX_PACKED:
                raise self._lost()
            if self._held is not None:
                self._held.follow(self._packs.bytes)
        except ByteBudgetError:
            raise self._lost() from None

    def _drop(self, pack: tuple[bytes, int], awaited: tuple[bytes, int]) -> None:
        """Do without a pack: one that is needed now is asked for, and one that is in use stays."""
        key, instance = pack
        if key not in self._learned:
            return
        if pack == awaited and pack not in self._packs:
            self._tell(key, instance)
        elif instance > self.instances.get(key, 0):
            self._packs.drop(pack)
            self._learned[key].tell_from = 0

    def begin(self, key: bytes) -> int:
        """Begin a run; returns for the how-manieth time its key is dealt for."""
        instance = self.instances[key] = self.instances.get(key, 0) + 1
        if key in self._learned:
            self._packs.drop(*[pack for pack in self._packs if pack[0] == key and pack[1] < instance])
            if instance >= self._learned[key].tell_from:
                self._tell(key, instance)
        return instance

    def catch_up(self, key: bytes, instance: int, generation: int) -> None:
        """Take note of how far another party is with a key, so that the next run finds both at the same place.

        Seeds that are not in use any more show when they are needed next: the dealer has closed that connection.
        """
        ahead = instance - self.instances.get(key, 0)
        if generation != self.generation or ahead <= 0:
            return
        if ahead > MAX_AHEAD:  # nobody is so far ahead; with other seeds all begin again
            self.close()
        else:
            self.instances[key] = instance

    def _tell(self, key: bytes, instance: int) -> None:
        """Tell the dealer that a run begins; it sends what that needs, and some for the next ones."""
        learned = self._learned[key]
        learned.told = self._say(BEGIN, (key, instance))
        learned.tell_from = instance + max(1, learned.depth // 2)

    def fetch(
        self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...], label: bytes
    ) -> memoryview:
        """Return the corrections of one deal: sent ahead, or asked for."""
        pack = (key, instance)
        while key in self._learned and pack not in self._packs:
            self._hear(pack)
        row = self._packs.get(pack, {}).pop(position, None)
        if row is not None and row[0] == label:
            return row[1]
        asked = self._say(ASK, (key, instance, position, kind, spec))
        while True:  # what was asked for in a run that failed is not an answer
            found, number, contents = self._hear(pack)
            if number != asked:
                continue
            if found == FAILED:
                why = printable(contents.decode("utf-8", "replace"))
                raise ProtocolError(f"The dealer {self.provider!r} could not deal: {why}")
            return memoryview(contents)

    def hand(self, label: bytes, corrections: Corrections) -> PartyContext:
        """Return what a row of the dealer's table draws from here."""
        return PartyContext(generator_for(self._seed, label), corrections, self.last)

    def end(self, key: bytes, instance: int, sequence: list[tuple[str, tuple[Any, ...]]], fetched: bool) -> None:
        """End a run: report to the dealer what it needed, unless that is known or nothing is sent to this party.

        Args:
            key: what was dealt for.
            instance: which run of this key.
            sequence: what was dealt.
            fetched: whether the dealer had to send anything to this party.
        """
        self._packs.drop((key, instance))
        self._hold_packs()
        summary = digest(sequence)
        if not (self.last or fetched) or (key in self._learned and self._learned[key].summary == summary):
            return
        self._say(LEARN, (key, instance, tuple(sequence)))
        self._learned.pop(key, None)
        while len(self._learned) >= MAX_KEYS:
            oldest = next(iter(self._learned))
            del self._learned[oldest]
            self._packs.drop(*[pack for pack in self._packs if pack[0] == oldest])
        self._learned[key] = _Learned(summary)

    def wait_for(self, seconds: float) -> None:
        """Wait so long for its answers from now on."""
        self._sock.settimeout(seconds)

    def is_open(self) -> bool:
        """Say whether the dealer is still there, as far as is known."""
        try:  # a socket with a time limit would wait for it, so first it is asked whether there is anything to read
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return not poll.poll(0) or self._sock.recv(1, socket.MSG_PEEK) != b""
        except (OSError, ValueError):  # reset by the other end, or closed here
            return False

    def close(self) -> None:
        """Leave the group; its seeds are not used again."""
        self._connection.close()
        self._connection.release()
        self._packs.clear()
        if self._held is not None:
            self._held.release(for_good=True)

    def _lost(self) -> PartyLostError:
        self.close()
        return PartyLostError(self.provider, "the dealer is gone, or did not answer in time", STILL_THERE)


def _read_head(contents: bytearray) -> tuple[bytes, int]:
    key, instance, _, _ = PACK_HEAD.unpack_from(contents)
    return key, instance


class Deals:
    """What is dealt in one run, at one party.

    Args:
        base: stands for the protocol, its options and the forms of its arguments.
        link: returns the connection to the dealer, when something is dealt.
    """

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
        """Return this party's shares of something dealt."""
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
        link = self._link
        corrections = Corrections(lambda: link.fetch(self.key, self.instance, position, kind, spec, label))
        dealt = tuple(row(link.hand(label, corrections), *spec))
        corrections.check()
        self.bytes += corrections.bytes
        self._fetched |= corrections.was_fetched
        return dealt

    def end(self) -> None:
        """End a run that went well; it stays so if the dealer is gone by now."""
        if self._link is not None:
            try:
                self._link.end(self.key, self.instance, self._sequence, self._fetched)
            except ProtocolError as error:
                logger.info("The dealer did not hear what a run needed: %s", type(error).__name__)

    def disagree(self, instance: int, generation: int) -> None:
        """Take note of where another party is."""
        if self._link is not None:
            self._link.catch_up(self.key, instance, generation)
