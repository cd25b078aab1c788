"""Mesh: frames of tensors between the parties of runs, each in a process of its own.

A frame says which run and which round it belongs to, and the forms of its tensors; their bytes follow as they are in
memory. Sockets never block: a party writes and reads at the same time, so two that both send a lot can't wait for each
other. Whatever was begun can be gone on with, so a run that was given up leaves the connection usable.
"""

from __future__ import annotations

import collections
import dataclasses
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import torch

from syft.core.byte_budget import ByteBudget, Holding
from syft.core.labels import printable
from syft.exceptions import ByteBudgetError, PartyLostError, ProtocolError
from syft.mpc.links.frame_layout import bytes_of, read_forms, write_forms
from syft.mpc.links.frame_sinks import Sink, nowhere

DATA, ABORT = range(2)
# kind, bytes of the forms, run, round, how often this protocol was dealt for, which seeds, bytes of the tensors
_HEADER = struct.Struct("<BI33sIIQQ")
# The tag of a run: 16 bytes of its id, 16 bytes of the digest that the parties compare, and the attempt number.
ID_BYTES = 16
_INBOX = 1 << 16
_MAX_FORMS = 1 << 15
# From here on bytes are received where they belong, without the inbox.
_DIRECT = 1 << 14
# whom the party that gives up lost, and what it was dealt for
_LOST = struct.Struct("<h16s")
_MAX_PIECES = 64
# How many runs that are over, or were given up early, are remembered.
MAX_OVER = 2000
# How many frames of runs that have not begun here are kept; a party that is ahead waits after one.
MAX_EARLY = 8
DOUBT_SECONDS = 2.0
# What the loss of a party means where its shares need not be gone.
STILL_THERE = "No shares are gone with it: what was asked for can be asked for again once it answers."
UNSURE = "If its process ended, share the values again with parties that are there; if not, ask for the result again."


@dataclasses.dataclass(frozen=True, slots=True)
class FrameTag:
    """Where in which run a frame belongs.

    Attributes:
        run: the tag of the run, 33 bytes.
        round: its round.
        instance: how often its key was dealt for, 0 before anything was dealt.
        seeds: which seeds of the dealer are in use, 0 before anything was dealt.
    """

    run: bytes
    round: int
    instance: int
    seeds: int


class PartyLink:
    """The connection of a party to another.

    Args:
        sock: the connected socket.
        peer: the id of the other party, as the connection knows it.
        limit: the largest frame that is read.
        over: the runs that are over, the latest last; what still arrives of them is dropped.
        members: the ids of all who take part, in order, and of the dealer.
        note: told how far a party that gave up is with the dealer: what it was dealt for, how often, which seeds.
        budget: the budget that frames take their bytes from until the run has them; None: there is no limit.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer: Any,
        limit: int,
        over: dict[bytes, None],
        members: tuple[Any, ...],
        note: Callable[[bytes, int, int], None],
        budget: ByteBudget | None = None,
    ) -> None:
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        self.sock = sock
        self.peer = peer
        self.limit = limit
        self.over = over
        self.members = members
        self._note = note
        self._held = None if budget is None else Holding(budget)
        self._out: collections.deque[memoryview] = collections.deque()
        self._inbox = bytearray(_INBOX)
        self._view = memoryview(self._inbox)
        self._start = self._end = 0
        self._sink: Sink | None = None
        # Frames of runs that this party has not begun yet.
        self._early: list[tuple[FrameTag, Sink]] = []
        self._doubt: float | None = None
        # Why the other party gave up runs that this one has not begun yet.
        self._given_up: dict[bytes, ProtocolError] = {}

    # --- writing ----------------------------------------------------------------------------------------------

    def put(self, stamp: FrameTag, groups: list[tuple[torch.Tensor, ...] | None], forms: bytes | None = None) -> int:
        """Put a frame into the queue, and return its size; its forms if they are known already."""
        groups = [None if group is None else tuple(t.contiguous() for t in group) for group in groups]
        views = [bytes_of(tensor) for group in groups for tensor in group or ()]
        size = sum(map(len, views))
        self._queue(DATA, write_forms(groups) if forms is None else forms, stamp, size)
        self._out.extend(view for view in views if len(view))
        return size

    def put_abort(self, stamp: FrameTag, key: bytes, lost: int | None, text: str) -> None:
        """Put the news that this party gives a run up into the queue.

        Args:
            stamp: which run, and how far this party is with the dealer.
            key: what it was dealt for.
            lost: whom it lost.
            text: what went wrong.
        """
        self._queue(ABORT, _LOST.pack(-1 if lost is None else lost, key) + text.encode()[:200], stamp, 0)

    def _queue(self, kind: int, forms: bytes, stamp: FrameTag, size: int) -> None:
        if len(forms) > _MAX_FORMS or size > self.limit:
            raise ProtocolError("A round with so many or so large tensors can't be sent; make fewer at once.")
        header = _HEADER.pack(kind, len(forms), stamp.run, stamp.round, stamp.instance, stamp.seeds, size)
        self._out.append(memoryview(header + forms))

    def flush(self) -> bool:
        """Write what the socket takes now; says whether all is written."""
        while self._out:
            pieces = [self._out[i] for i in range(min(len(self._out), _MAX_PIECES))]
            try:
                sent = self.sock.sendmsg(pieces)
            except BlockingIOError:
                return False
            except OSError:
                raise self._lost() from None
            while sent:
                size = len(self._out[0])
                if sent < size:
                    self._out[0] = self._out[0][sent:]
                    break
                self._out.popleft()
                sent -= size
        return True

    # --- reading ----------------------------------------------------------------------------------------------

    def take(self, stamp: FrameTag, forms: bytes | None) -> list[Any] | None:
        """Return the tensors of the frame that belongs there, or None if it has not arrived yet.

        Args:
            stamp: where it belongs.
            forms: the forms it must have; None if only the other party knows.
        """
        if _begun(stamp.run) in self._given_up:
            raise self._given_up.pop(_begun(stamp.run))
        for position, (early, kept) in enumerate(self._early):
            self._check_told(early.run, stamp.run)
            if early.run == stamp.run:
                del self._early[position]
                self._recount()
                self._compare(early, stamp)
                if forms is not None and write_forms(kept.groups) != forms:
                    raise ProtocolError(f"Party {self.peer!r} sent shares of another shape.")
                return kept.groups
        while True:
            if self._sink is None:
                self._sink = self._begin(stamp, forms)
            if self._sink is None or not self._fill(self._sink.views):
                return None
            sink, self._sink = self._sink, None
            if sink.stamp is None:
                continue
            if sink.run != stamp.run and sink.run not in self.over:
                self._early = [*self._early[1 - MAX_EARLY :], (sink.stamp, sink)]
                self._doubt = self._doubt or time.monotonic()
            self._recount()
            if sink.run == stamp.run:
                return sink.groups

    def _begin(self, stamp: FrameTag, forms: bytes | None) -> Sink | None:
        """Read the head of a frame and say where the rest of it goes."""
        if not self._have(_HEADER.size):
            return None
        kind, length, run, number, instance, seeds, size = _HEADER.unpack_from(self._inbox, self._start)
        if kind not in (DATA, ABORT) or length > _MAX_FORMS or size > self.limit:
            raise self._lost("it sent something that is not a frame")
        if not self._have(_HEADER.size + length):
            return None
        self._start += _HEADER.size
        theirs = bytes(self._view[self._start : self._start + length])
        self._start += length
        reason = self._read_abort(theirs, instance, seeds) if kind == ABORT else None
        if run in self.over:
            return nowhere(size)
        if reason is not None:
            if _begun(run) == _begun(stamp.run):
                raise reason
            self._drop_early(run)
            self._given_up[_begun(run)] = reason
            while len(self._given_up) > MAX_OVER:
                del self._given_up[next(iter(self._given_up))]
            return nowhere(0)
        self._sink = nowhere(size)  # what is refused below is dropped when it arrives
        self._check_told(run, stamp.run)
        found = FrameTag(run, number, instance, seeds)
        if run == stamp.run:
            self._compare(found, stamp)
            if forms is not None and theirs != forms:
                raise ProtocolError(f"Party {self.peer!r} sent shares of another shape than this one has.")
        try:
            self._recount(size)
            groups = read_forms(theirs, size)
        except ByteBudgetError as error:
            raise ProtocolError(f"Party {self.peer!r} sent more than there is room for: {error}") from None
        except ProtocolError as error:
            raise ProtocolError(f"Party {self.peer!r} was not understood: {error}.") from None
        return Sink(found, groups, [bytes_of(tensor) for group in groups for tensor in group or ()], size)

    def _recount(self, coming: int = 0) -> None:
        """Hold the bytes of the frames that are here and of one that comes; ByteBudgetError if that is too much."""
        if self._held is not None:
            arriving = 0 if self._sink is None else self._sink.size
            self._held.follow(coming + arriving + sum(kept.size for _, kept in self._early))

    def sweep(self) -> None:
        """Take what is left of runs that are over, as far as it is there."""
        try:
            while True:
                if self._sink is None:
                    if not self._have(_HEADER.size):
                        return
                    if _HEADER.unpack_from(self._inbox, self._start)[2] not in self.over:
                        return
                    self._sink = self._begin(FrameTag(b"", 0, 0, 0), None)
                if self._sink is None or self._sink.stamp is not None or not self._fill(self._sink.views):
                    return
                self._sink = None
        except ProtocolError:  # who needs the connection finds out
            return

    def _read_abort(self, reason: bytes, instance: int, seeds: int) -> ProtocolError:
        lost, key = _LOST.unpack_from(reason) if len(reason) >= _LOST.size else (-1, b"")
        if instance:
            self._note(key, instance, seeds)
        if 0 <= lost < len(self.members):
            return PartyLostError(self.members[lost], f"party {self.peer!r} lost it", UNSURE)
        text = printable(reason[_LOST.size :].decode("utf-8", "replace"))
        return ProtocolError(f"Party {self.peer!r} gave this run up: {text}.")

    def _check_told(self, theirs: bytes, ours: bytes) -> None:
        """Raise if a run is the same one, but was asked for differently."""
        if theirs[:ID_BYTES] == ours[:ID_BYTES] and theirs[ID_BYTES:-1] != ours[ID_BYTES:-1]:
            raise ProtocolError(f"Party {self.peer!r} was asked for something else in this run than this one.")

    def _compare(self, found: FrameTag, expected: FrameTag) -> None:
        if found != expected:
            raise Disagreement(self.peer, found)

    def _have(self, count: int) -> bool:
        """Say whether the inbox holds so many bytes, after receiving what there is."""
        while self._end - self._start < count:
            if len(self._inbox) - self._start < count or self._start == self._end:
                rest = self._view[self._start : self._end].tobytes()
                self._view[: len(rest)] = rest
                self._start, self._end = 0, len(rest)
            received = self._receive(self._view[self._end :])
            if not received:
                return False
            self._end += received
        return True

    def _fill(self, views: collections.deque[memoryview]) -> bool:
        while views:
            view = views[0]
            ready = min(self._end - self._start, len(view))
            if ready:
                view[:ready] = self._view[self._start : self._start + ready]
                self._start += ready
                count = ready
            elif len(view) >= _DIRECT:
                count = self._receive(view)
            else:
                if not self._have(1):
                    return False
                continue
            if not count:
                return False
            if count == len(view):
                views.popleft()
            else:
                views[0] = view[count:]
        return True

    def _receive(self, into: memoryview) -> int:
        """Receive what there is; 0 if that is nothing."""
        try:
            count = self.sock.recv_into(into)
        except BlockingIOError:
            return 0
        except OSError:
            raise self._lost() from None
        if not count:
            raise self._lost()
        return count

    def is_open(self) -> bool:
        """Say whether the other party is still there, as far as is known."""
        try:
            return self.sock.fileno() >= 0 and self.sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def forget(self, run: bytes) -> None:
        """Drop what was kept for a run that is over."""
        self._drop_early(run)
        self._doubt = None
        self._given_up.pop(_begun(run), None)

    def _drop_early(self, run: bytes) -> None:
        self._early = [(stamp, kept) for stamp, kept in self._early if stamp.run != run]
        if not self._early:
            self._doubt = None
        self._recount()

    def patience(self, timeout: float) -> float:
        """Return how long to wait for the other party, which may be at another run already.

        It tells when it gives a run up, but may never have heard of one. What it sent may also be left of a run that
        this party never heard of, so it gets a little time to say so.
        """
        if self._doubt is None:
            return timeout
        left = self._doubt + DOUBT_SECONDS - time.monotonic()
        if left <= 0:
            raise ProtocolError(f"Party {self.peer!r} is at another run than this one.")
        return min(timeout, left)

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()
        if self._held is not None:
            self._held.release(for_good=True)

    def _lost(self, why: str = "its connection was closed") -> PartyLostError:
        self.close()
        return PartyLostError(self.peer, why)


class Disagreement(ProtocolError):
    """Two parties are not at the same place of a run.

    Args:
        peer: the id of the other party.
        stamp: where it is.
    """

    def __init__(self, peer: Any, stamp: FrameTag) -> None:
        self.stamp = stamp
        super().__init__(f"Party {peer!r} is at another place of the run than this one; it was given up.")


def _begun(run: bytes) -> bytes:
    """Return what stands for a run and the how-manieth time it is begun, whatever was asked for."""
    return run[:ID_BYTES] + run[-1:]
