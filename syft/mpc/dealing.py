"""Dealing over the network: what the dealer's process and a party's process say to each other.

The dealer gives each party of a group a seed of its own; from then on parties expand their shares of whatever is dealt
by themselves. Only the last party hears more: the corrections of values that the dealer computes. What a protocol
needs is learned the first time; afterwards the dealer sends it ahead, so that nobody waits.

Every deal has a generator of its own, derived from the seed and from what is dealt, where, and for the how-manieth
time. So it does not matter in which order things are prepared, and no word is ever used twice.
"""

from __future__ import annotations

import hashlib
import math
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import torch

from syft.config import current
from syft.exceptions import PartyLostError, ProtocolError, WorkerLostError
from syft.mpc.dealer import Hand, Shape, row_of
from syft.mpc.generator import KEY_BYTES, Generator
from syft.serde import serialize
from syft.workers.frames import Connection

PURPOSE = "mpc-deal"
# From a party: who it is; a deal it needs now; a run it begins; what the run before needed.
HELLO, ASK, BEGIN, LEARN = range(10, 14)
# From the dealer: the seed; the answer to ASK; all that a run needs; take a PACK back; what went wrong.
SEED, DEALT, PACK, DROP, FAILED = range(20, 25)
SEEDS = struct.Struct(f"<Q{KEY_BYTES}s")
# key, instance, how many deals, how many instances are sent ahead
PACK_HEAD = struct.Struct("<16sIII")
PACK_ROW = struct.Struct("<16sQ")


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
    """The corrections of one deal, handed out shape by shape.

    Args:
        fetch: returns their bytes, when the first is needed.
    """

    def __init__(self, fetch: Callable[[], memoryview]) -> None:
        self._fetch = fetch
        self._rest: memoryview | None = None
        self.bytes = 0

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


class DealerLink:
    """The connection of a party to the dealer of a group.

    Args:
        sock: the connected socket.
        provider: the id of the dealer.
        name: stands for the group: the same for all its parties, and for no other group.
        parties: the ids of the parties.
        last: whether this is the last party, who gets the corrections.
    """

    def __init__(self, sock: socket.socket, provider: Any, name: str, parties: tuple[Any, ...], last: bool) -> None:
        sock.settimeout(current().stream_timeout)
        self._sock = sock
        self._connection = Connection(sock, current().max_message_bytes)
        self.provider = provider
        self.last = last
        # How often each key was dealt for; these seeds know no other past.
        self.instances: dict[bytes, int] = {}
        self._packs: dict[tuple[bytes, int], dict[int, tuple[bytes, memoryview]]] = {}
        self._learned: dict[bytes, bytes] = {}
        # How many instances of a key are sent ahead, and from which one on the dealer is told that they are used up.
        self._depth: dict[bytes, int] = {}
        self._tell_from: dict[bytes, int] = {}
        self._say(HELLO, (name, parties))
        _, contents = self._hear(SEED)
        self.generation, self._seed = SEEDS.unpack(contents)

    def _say(self, kind: int, parts: tuple[Any, ...]) -> None:
        try:
            self._connection.write(kind, 0, serialize(parts))
        except OSError:
            raise self._lost() from None

    def _hear(self, kind: int, pack: tuple[bytes, int] | None = None) -> tuple[int, bytearray]:
        """Wait for a frame of some kind, or for a pack, and take the packs that come meanwhile."""
        while True:
            frame = self._connection.read()
            if frame is None:
                raise self._lost()
            found, number, contents = frame
            if found == PACK:
                taken = self._take_pack(contents)
                if taken == pack:
                    return number, contents
            elif found == DROP:
                dropped = _read_head(contents)
                if dropped == pack:
                    self._tell(*pack)
                elif dropped[1] > self.instances.get(dropped[0], 0):  # what is in use now stays
                    self._packs.pop(dropped, None)
                    self._tell_from.pop(dropped[0], None)
            elif found == FAILED:
                why = contents.decode("utf-8", "replace")
                raise ProtocolError(f"The dealer {self.provider!r} could not deal: {why}")
            elif found == kind:
                return number, contents
            else:
                raise self._lost()

    def _take_pack(self, contents: bytearray) -> tuple[bytes, int]:
        key, instance, count, self._depth[key] = PACK_HEAD.unpack_from(contents)
        at = PACK_HEAD.size + count * PACK_ROW.size
        view = memoryview(contents)
        rows: dict[int, tuple[bytes, memoryview]] = {}
        for position in range(count):
            label, size = PACK_ROW.unpack_from(contents, PACK_HEAD.size + position * PACK_ROW.size)
            rows[position] = (label, view[at : at + size])
            at += size
        self._packs[key, instance] = rows
        return key, instance

    def begin(self, key: bytes) -> int:
        """Begin a run; returns for the how-manieth time its key is dealt for."""
        instance = self.instances[key] = self.instances.get(key, 0) + 1
        if self.last and key in self._learned:
            for stale in [pack for pack in self._packs if pack[0] == key and pack[1] < instance]:
                del self._packs[stale]
            if instance >= self._tell_from.get(key, 0):
                self._tell(key, instance)
        return instance

    def _tell(self, key: bytes, instance: int) -> None:
        """Tell the dealer that a run begins; it sends what that needs, and some for the next ones."""
        self._say(BEGIN, (key, instance))
        self._tell_from[key] = instance + max(1, self._depth.get(key, 1) // 2)

    def fetch(
        self, key: bytes, instance: int, position: int, kind: str, spec: tuple[Any, ...], label: bytes
    ) -> memoryview:
        """Return the corrections of one deal: sent ahead, or asked for."""
        pack = (key, instance)
        if key in self._learned and pack not in self._packs:
            try:
                self._hear(PACK, pack)
            except PartyLostError:
                raise
            except ProtocolError:  # it does not know this key any more
                del self._learned[key]
        row = self._packs.get(pack, {}).pop(position, None)
        if row is not None and row[0] == label:
            return row[1]
        self._say(ASK, (key, instance, position, kind, spec))
        _, contents = self._hear(DEALT)
        return memoryview(contents)

    def hand(self, label: bytes, corrections: Corrections) -> Hand:
        """Return what a row of the dealer's table draws from here."""
        return Hand(generator_for(self._seed, label), corrections if self.last else None)

    def end(self, key: bytes, instance: int, sequence: list[tuple[str, tuple[Any, ...]]]) -> None:
        """End a run: tell the dealer what it needed, if that is news."""
        self._packs.pop((key, instance), None)
        if self.last:
            summary = digest(sequence)
            if self._learned.get(key) != summary:
                self._say(LEARN, (key, instance, tuple(sequence)))
                self._learned[key] = summary
                self._depth.pop(key, None)
                self._tell_from.pop(key, None)

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

    def _lost(self) -> PartyLostError:
        self.close()
        return PartyLostError(self.provider, "the dealer is gone, or did not answer in time")


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
        return dealt

    def end(self) -> None:
        """End a run that went well."""
        if self._link is not None:
            self._link.end(self.key, self.instance, self._sequence)

    def disagree(self, instance: int, generation: int) -> None:
        """Take note of where another party is, so that the next run finds both at the same place."""
        if self._link is not None and generation == self.generation:
            self._link.instances[self.key] = max(instance, self.instance)
        # Seeds that are not in use any more show when they are needed next: the dealer has closed that connection.


def connect(worker: Any, provider: Any, serve_here: Callable[[socket.socket], None]) -> socket.socket:
    """Connect to the dealer; one that is a party as well (`insecure`) deals to itself in a thread."""
    if provider == worker.id:
        ours, theirs = socket.socketpair()
        threading.Thread(target=serve_here, args=(theirs,), name="syft dealer", daemon=True).start()
        return ours
    known = worker._known_workers.get(provider)
    if known is None or not hasattr(known, "connect"):
        raise ProtocolError(f"Worker {worker.id!r} does not know how to reach the crypto provider {provider!r}.")
    try:
        sock: socket.socket = known.connect(PURPOSE)
    except WorkerLostError:
        raise PartyLostError(provider, "its process can't be reached") from None
    return sock
