"""PartyLink: frames of tensors between two parties of runs, each in a process of its own.

A frame names its run and round and has the layout of its tensors; their bytes follow as they are in memory. Sockets
never block: a party writes and reads at the same time, so two parties that both send large frames can't deadlock. A
partly received frame can be continued later, so an aborted run leaves the connection usable.
"""

from __future__ import annotations

import collections
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from syft.core.byte_budget import ByteBudget, Holding
from syft.core.id_provider import ObjectId
from syft.core.labels import printable
from syft.exceptions import ByteBudgetError, PartyLostError, ProtocolError, RunAbortedError
from syft.mpc.links.frame_layout import FrameTag, Sink, bytes_of, read_layout, write_layout

DATA, ABORT = range(2)
# kind, bytes of the layout, run, round, number of deals of this protocol, generation of seeds, bytes of the tensors
_HEADER = struct.Struct("<BI33sIIQQ")
# The tag of a run: 16 bytes of its id, 16 bytes of the digest that the parties compare, and the attempt number.
ID_BYTES = 16
_INBOX = 1 << 16
_MAX_LAYOUT = 1 << 15
# Views of at least this size are received into directly, without the inbox.
_DIRECT = 1 << 14
# index of the lost member, and the key of the deals
_LOST = struct.Struct("<h16s")
_MAX_PIECES = 64
# Limits the ids of runs that are over, or were aborted before they started here.
MAX_OVER = 2000
# Limits frames of runs that have not started here; a party that is ahead waits after one.
MAX_EARLY = 8
DOUBT_SECONDS = 2.0
# Advice for a lost party whose shares may still exist.
STILL_THERE = "No shares are lost. Retry when it answers again."
UNSURE = "If its process ended, share the values again with other parties; if not, retry."


class PartyLink:
    """The connection of a party to another.

    Args:
        sock: the connected socket.
        peer: the id of the other party, as the connection knows it.
        limit: the largest frame that is read.
        over: the runs that are over, the latest last; their frames are dropped.
        members: the ids of all participants, in order, and of the dealer.
        note: called with the key, the instance and the generation of the deals of a party that aborted a run.
        budget: the budget of received frames that no run has used yet; None: there is no limit.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer: ObjectId,
        limit: int,
        over: dict[bytes, None],
        members: tuple[ObjectId, ...],
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
        # Frames of runs that have not started here.
        self._early: list[tuple[FrameTag, Sink]] = []
        self._doubt: float | None = None
        # Errors of runs that the other party aborted before they started here.
        self._aborted: dict[bytes, ProtocolError] = {}

    # --- writing ----------------------------------------------------------------------------------------------

    def put(self, tag: FrameTag, groups: list[tuple[torch.Tensor, ...] | None], layout: bytes | None = None) -> int:
        """Put a frame into the queue, and return the bytes of its tensors; `layout` if it was computed before."""
        groups = [None if group is None else tuple(t.contiguous() for t in group) for group in groups]
        views = [bytes_of(tensor) for group in groups for tensor in group or ()]
        size = sum(map(len, views))
        self._queue(DATA, write_layout(groups) if layout is None else layout, tag, size)
        self._out.extend(view for view in views if len(view))
        return size

    def put_abort(self, tag: FrameTag, key: bytes, lost: int | None, text: str) -> None:
        """Put an abort frame with the type of the error, and the index of a lost member, into the queue."""
        self._queue(ABORT, _LOST.pack(-1 if lost is None else lost, key) + text.encode()[:200], tag, 0)

    def _queue(self, kind: int, layout: bytes, tag: FrameTag, size: int) -> None:
        if len(layout) > _MAX_LAYOUT or size > self.limit:
            raise ProtocolError(f"A round of {size} bytes exceeds the limit. Compute on smaller tensors.")
        header = _HEADER.pack(kind, len(layout), tag.run, tag.round, tag.instance, tag.seeds, size)
        self._out.append(memoryview(header + layout))

    def flush(self) -> bool:
        """Write as much as the socket accepts now; returns whether the queue is empty."""
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

    def receive(self, tag: FrameTag, layout: bytes | None) -> list[Any] | None:
        """Return the tensors of a frame, or None if it is incomplete; a layout of None is not compared."""
        if _attempt_of(tag.run) in self._aborted:
            raise self._aborted.pop(_attempt_of(tag.run))
        for position, (early, sink) in enumerate(self._early):
            self._check_agreement(early.run, tag.run)
            if early.run == tag.run:
                del self._early[position]
                self._recount()
                self._compare(early, tag)
                if layout is not None and write_layout(sink.groups) != layout:
                    raise ProtocolError(f"Party {self.peer!r} sent shares of another shape than this one has.")
                return sink.groups
        while True:
            if self._sink is None:
                self._sink = self._begin(tag, layout)
            if self._sink is None or not self._fill(self._sink.views):
                return None
            sink, self._sink = self._sink, None
            if sink.tag is None:
                continue
            if sink.tag.run != tag.run and sink.tag.run not in self.over:
                self._early = [*self._early[1 - MAX_EARLY :], (sink.tag, sink)]
                self._doubt = self._doubt or time.monotonic()
            self._recount()
            if sink.tag.run == tag.run:
                return sink.groups

    def _begin(self, tag: FrameTag, layout: bytes | None) -> Sink | None:
        """Read the header of a frame, and return the sink for its tensors."""
        if not self._have(_HEADER.size):
            return None
        kind, length, run, number, instance, seeds, size = _HEADER.unpack_from(self._inbox, self._start)
        if kind not in (DATA, ABORT) or length > _MAX_LAYOUT or size > self.limit:
            raise self._lost("it sent an invalid frame header")
        if not self._have(_HEADER.size + length):
            return None
        self._start += _HEADER.size
        theirs = bytes(self._view[self._start : self._start + length])
        self._start += length
        reason = self._read_abort(theirs, instance, seeds) if kind == ABORT else None
        if run in self.over:
            return Sink.dropping(size)
        if reason is not None:
            if _attempt_of(run) == _attempt_of(tag.run):
                raise reason
            self._drop_early(run)
            self._aborted[_attempt_of(run)] = reason
            while len(self._aborted) > MAX_OVER:
                del self._aborted[next(iter(self._aborted))]
            return Sink.dropping(0)
        self._sink = Sink.dropping(size)  # a frame that is refused below is dropped when it arrives
        self._check_agreement(run, tag.run)
        found = FrameTag(run, number, instance, seeds)
        if run == tag.run:
            self._compare(found, tag)
            if layout is not None and theirs != layout:
                raise ProtocolError(f"Party {self.peer!r} sent shares of another shape than this one has.")
        try:
            self._recount(size)
            groups = read_layout(theirs, size)
        except ByteBudgetError as error:
            raise ProtocolError(f"Party {self.peer!r} sent more than there is room for: {error}") from None
        except ProtocolError as error:
            raise ProtocolError(f"Party {self.peer!r} sent an invalid frame: {error}.") from None
        return Sink(found, groups, [bytes_of(tensor) for group in groups for tensor in group or ()], size)

    def _recount(self, coming: int = 0) -> None:
        """Hold the bytes of received frames and of the next one; ByteBudgetError if they exceed the budget."""
        if self._held is not None:
            arriving = 0 if self._sink is None else self._sink.size
            self._held.follow(coming + arriving + sum(sink.size for _, sink in self._early))

    def drop_old(self) -> None:
        """Drop received frames of runs that are over."""
        try:
            while True:
                if self._sink is None:
                    if not self._have(_HEADER.size):
                        return
                    if _HEADER.unpack_from(self._inbox, self._start)[2] not in self.over:
                        return
                    self._sink = self._begin(FrameTag(b"", 0, 0, 0), None)
                if self._sink is None or self._sink.tag is not None or not self._fill(self._sink.views):
                    return
                self._sink = None
        except ProtocolError:  # the next use of the connection raises it again
            return

    def _read_abort(self, reason: bytes, instance: int, seeds: int) -> ProtocolError:
        lost, key = _LOST.unpack_from(reason) if len(reason) >= _LOST.size else (-1, b"")
        if instance:
            self._note(key, instance, seeds)
        if 0 <= lost < len(self.members):
            return PartyLostError(self.members[lost], f"party {self.peer!r} lost it", UNSURE)
        text = printable(reason[_LOST.size :].decode("utf-8", "replace"))
        return RunAbortedError(f"Party {self.peer!r} aborted this run: {text}.")

    def _check_agreement(self, theirs: bytes, ours: bytes) -> None:
        """Raise if both parties run the same run with different arguments."""
        if theirs[:ID_BYTES] == ours[:ID_BYTES] and theirs[ID_BYTES:-1] != ours[ID_BYTES:-1]:
            raise ProtocolError(f"Party {self.peer!r} received another request for this run than this one.")

    def _compare(self, found: FrameTag, expected: FrameTag) -> None:
        if found != expected:
            raise DisagreementError(self.peer, found)

    def _have(self, count: int) -> bool:
        """Return whether the inbox holds `count` bytes, after a non-blocking read."""
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
        """Receive available bytes; returns their number."""
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
        """Return whether the connection is open, as far as is known."""
        try:
            return self.sock.fileno() >= 0 and self.sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def forget(self, run: bytes) -> None:
        """Drop the frames and the error of a run that is over."""
        self._drop_early(run)
        self._doubt = None
        self._aborted.pop(_attempt_of(run), None)

    def _drop_early(self, run: bytes) -> None:
        self._early = [(tag, sink) for tag, sink in self._early if tag.run != run]
        if not self._early:
            self._doubt = None
        self._recount()

    def wait_limit(self, timeout: float) -> float:
        """Return how long to wait for the other party, which may have started another run already.

        It sends an abort frame for runs that it knows. Its early frame may belong to a run that this party never
        receives, so it gets some seconds to abort that one.
        """
        if self._doubt is None:
            return timeout
        left = self._doubt + DOUBT_SECONDS - time.monotonic()
        if left <= 0:
            raise ProtocolError(f"Party {self.peer!r} takes part in a different run.")
        return min(timeout, left)

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()
        if self._held is not None:
            self._held.release(for_good=True)

    def _lost(self, why: str = "its connection was closed") -> PartyLostError:
        self.close()
        return PartyLostError(self.peer, why)


class DisagreementError(ProtocolError):
    """Two parties are not at the same round, or used different numbers of deals."""

    def __init__(self, peer: ObjectId, tag: FrameTag) -> None:
        self.tag = tag
        super().__init__(
            f"Party {peer!r} is at another round or deal of the run than this one, so the run was aborted."
        )


def _attempt_of(run: bytes) -> bytes:
    """Return the id and the attempt number of a run, without the digest of its arguments."""
    return run[:ID_BYTES] + run[-1:]


# --- several links --------------------------------------------------------------------------------------------


def transfer(
    writing: Iterable[PartyLink], reading: Mapping[PartyLink, Callable[[], list[Any] | None]], timeout: float
) -> dict[PartyLink, list[Any]]:
    """Write all queued frames and read the expected ones, at the same time; a party without progress is lost."""
    unwritten = {link for link in writing if not link.flush()}
    received: dict[PartyLink, list[Any]] = {}
    unread = dict(reading)
    while True:
        for link in list(unread):
            groups = unread[link]()
            if groups is not None:
                received[link] = groups
                del unread[link]
        unwritten = {link for link in unwritten if not link.flush()}
        if not unread and not unwritten:
            return received
        _wait(unwritten, set(unread), timeout)


def _wait(writing: set[PartyLink], reading: set[PartyLink], timeout: float) -> None:
    poll = select.poll()
    for link in writing | reading:
        events = (select.POLLOUT if link in writing else 0) | (select.POLLIN if link in reading else 0)
        poll.register(link.sock, events)
    seconds = min([timeout, *[link.wait_limit(timeout) for link in reading]])
    if not poll.poll(seconds * 1000) and seconds == timeout:
        late = next(iter(reading or writing))
        raise PartyLostError(late.peer, f"it did not answer within {timeout:g} s", STILL_THERE)


def drain(links: Iterable[PartyLink], seconds: float) -> None:
    """Write queued frames for some seconds; connections with frames left are closed."""
    end = time.monotonic() + seconds
    for link in links:
        try:
            while not link.flush():
                left = end - time.monotonic()
                if left <= 0:
                    link.close()
                    break
                _wait({link}, set(), left)
        except (PartyLostError, OSError, ValueError):  # the party is lost anyway
            link.close()
