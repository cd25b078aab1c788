"""VaultHandle: the supervisor's side of the process that holds private data for one user.

Calls go in, in order, and nothing comes out but sealed copies, which the supervisor keeps and never reads. Whether a
call succeeded, how long it took and whether the process still lives are not reported to the client.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import threading
from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError
from syft.grid.isolation.channel import Frame, FrameKind, pair
from syft.grid.isolation.child import ConfinedProcess
from syft.grid.isolation.history import VaultHistory
from syft.grid.isolation.progress import ProgressPage
from syft.grid.isolation.records import CallRecord, LoadRecord, Record
from syft.grid.isolation.watchdog import Work

logger = logging.getLogger("syft.node")
# Calls that wait for a busy vault: how many, and their bytes.
MAX_QUEUED = 100_000
MAX_QUEUED_BYTES = 1 << 30


class SealedCopy:
    """The bytes of an object that a vault handed over, or why there are none.

    Attributes:
        value: the bytes; None if there are none.
        failure: what went wrong inside the vault. For the owner, and after a decision for the user.
    """

    def __init__(self, value: Any = None, failure: str = "") -> None:
        self.value = value
        self.failure = failure


class VaultHandle:
    """The vault of one user.

    Args:
        supervisor: the supervisor.
        user: the user.
    """

    def __init__(self, supervisor: Any, user: Any) -> None:
        self.user = user
        self.history = VaultHistory()
        self.progress = ProgressPage()
        self._supervisor = supervisor
        self._loaded: dict[ObjectId, str] = {}
        self._order = threading.RLock()
        self._sealing = threading.Condition()
        self._sealed: dict[int, SealedCopy] = {}
        # Sealed copies that were asked for: number -> largest size.
        self._awaited: dict[int, int] = {}
        self._given_up: set[int] = set()
        self._number = 0
        self._is_over = False
        self._overrun = False
        self._waiting = threading.Condition()
        self._queue: collections.deque[tuple[Any, Any, list[int]]] = collections.deque()
        self._queued = 0
        # Orders that the channel has taken.
        self._given = 0
        self._channel, theirs = pair(0)
        with theirs:
            fds = [theirs.fileno(), self.progress.fileno()]
            self.child: ConfinedProcess = supervisor.template.fork(
                "vault", fds, supervisor.child_settings(), supervisor.vault_limits()
            )
        self.progress.close_descriptor()
        supervisor.watchdog.keep(self.child, self.progress.read, self._work)
        for work in (self._listen, self._write):
            threading.Thread(target=work, name=f"syft vault {user}", daemon=True).start()

    # --- what goes in ---------------------------------------------------------------------------------------------

    def load(self, record: LoadRecord, stamp: str, fd: int) -> None:
        """Make a data set available to calls under its id; a changed one replaces the one before."""
        with self._order:
            if self._loaded.get(record.obj_id) != stamp:
                self._loaded[record.obj_id] = stamp
                self.history.append(record)
                self._send(("load", record.obj_id), fds=(fd,))

    def has_loaded(self, obj_id: ObjectId, stamp: str) -> bool:
        """Whether this version of a data set is in the vault."""
        return self._loaded.get(obj_id) == stamp

    def stamp_of(self, obj_id: ObjectId) -> str:
        """Return the version of a data set that is in the vault."""
        return self._loaded.get(obj_id, "")

    def run(self, record: Record, written: Any) -> None:
        """Have a record carried out, after those before it."""
        with self._order:
            self.history.append(record)
            self._send(("record", record.name if isinstance(record, CallRecord) else ""), written)

    def _send(self, header: Any, body: Any = b"", fds: tuple[int, ...] = ()) -> None:
        """Have an order sent after those before it. Never waits, so that no answer depends on how busy the vault is."""
        if self._is_over:
            return
        with self._waiting:
            self._queue.append((header, body, [os.dup(fd) for fd in fds]))
            self._queued += len(body)
            if len(self._queue) > MAX_QUEUED or self._queued > MAX_QUEUED_BYTES:
                self._overrun = True
            self._waiting.notify()

    def _write(self) -> None:
        """Send orders as the vault takes them; one that can't keep up is ended, which sealing reports."""
        while not self._is_over and not self._overrun:
            with self._waiting:
                self._waiting.wait_for(lambda: self._queue or self._is_over or self._overrun)
                if not self._queue:
                    continue
                header, body, fds = self._queue.popleft()
                self._queued -= len(body)
            try:
                self._channel.send(FrameKind.ORDER, header, body, fds)
                self._given += 1
            except OSError:
                break
            finally:
                for fd in fds:
                    os.close(fd)
        if self._overrun:
            self.child.kill("it could not keep up with the calls of its user")
        self.end()

    def _work(self) -> Work:
        return Work(self._given, self.progress.done())

    # --- what comes out -------------------------------------------------------------------------------------------

    def seal(self, ids: tuple[ObjectId, ...], limit: int, timeout: float) -> SealedCopy:
        """Return the bytes of objects as they are after all calls so far.

        Args:
            ids: the objects; one, or several that are released together.
            limit: the largest number of bytes that is accepted.
            timeout: seconds to wait for the calls before it and for the copy.
        """
        with self._order:
            with self._sealing:
                self._number += 1
                number = self._number
                self._awaited[number] = limit
                self._channel.limit = max(self._awaited.values())
            self._send(("seal", number, ids, limit))
        with self._sealing:
            self._sealing.wait_for(lambda: number in self._sealed or self._is_over, timeout)
            found = self._sealed.pop(number, None)
            if found is None:
                self._given_up.add(number)
        if found is not None:
            return found
        why = f"the vault ended: {self.why()}" if self._is_over else f"the vault took longer than {timeout:g} s"
        return SealedCopy(failure=why)

    def _listen(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._take(frame)
        except (SerdeError, OSError) as error:
            logger.warning("The vault of %r broke the protocol and is ended: %s", self.user, error)
        self.end()

    def _take(self, frame: Frame) -> None:
        match frame.kind, frame.header:
            case FrameKind.ANSWER, int() as number:
                copy = SealedCopy(frame.body)
            case FrameKind.FAILED, (int() as number, str() as text):
                copy = SealedCopy(failure=text[:2000])
            case _:
                raise SerdeError("A vault hands over sealed copies only.")
        with self._sealing:
            limit = self._awaited.pop(number, None)
            if limit is None or len(frame.body) > limit:
                raise SerdeError("A vault hands over the sealed copies that it is asked for, each once.")
            if number not in self._given_up:
                self._sealed[number] = copy
            self._sealing.notify_all()

    # --- its end --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the process has ended. Never reported to the client: it may depend on values."""
        return self._is_over

    def why(self) -> str:
        """Say how the process ended, for the owner."""
        with contextlib.suppress(TimeoutError):
            self.child.wait(2.0)
        call = self.progress.read()
        return f"{self.child.end_reason()}{f', while it ran {call}' if call else ''}"

    def end(self) -> None:
        """End the process. Its history stays."""
        self._is_over = True
        self.child.kill()
        self._channel.close()
        self.progress.close()
        with self._waiting:
            for _, _, fds in self._queue:
                for fd in fds:
                    os.close(fd)
            self._queue.clear()
            self._waiting.notify_all()
        with self._sealing:
            self._sealing.notify_all()
