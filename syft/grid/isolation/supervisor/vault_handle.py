"""VaultHandle: the supervisor's side of the process that holds private data for one user.

Calls are sent to it in order, and only sealed copies come back, which the supervisor stores and never reads. Whether a
call succeeded, how long it took and whether the process still runs are not reported to the client.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, TypeAlias

from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError
from syft.grid.isolation.processes.channel import Bytes, Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ProcessHandle
from syft.grid.isolation.processes.watchdog import WorkCount
from syft.grid.isolation.records.history import Snapshot, VaultHistory
from syft.grid.isolation.records.records import CallRecord, LoadRecord, Record

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.supervisor import Supervisor

logger = logging.getLogger("syft.node")
# Maximum number and bytes of calls that wait for a busy vault; the bytes also have the limit of a user's messages.
MAX_QUEUED = 100_000
MAX_QUEUED_BYTES = 1 << 30
Opener: TypeAlias = Callable[[], int]


@dataclasses.dataclass(frozen=True, slots=True)
class SealedCopy:
    """The bytes of an object from a vault, or the reason why there are none.

    Attributes:
        value: the bytes; None if there are none.
        failure: the error inside the vault. For the owner, and after a decision for the user.
        failed: the numbers of all records that failed in the vault so far.
        specs: a description of each object in it, for the owner.
    """

    value: Bytes | None = None
    failure: str = ""
    failed: frozenset[int] = frozenset()
    specs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Sealing:
    """A requested sealed copy, and the history at that point: both include the same calls.

    Attributes:
        copy: the copy; cancelled if the vault ends before it.
        history: the records before it.
        stamps: the versions of the data sets that are loaded.
    """

    copy: Future[SealedCopy]
    history: Snapshot
    stamps: Mapping[ObjectId, str]


class VaultHandle(ProcessHandle):
    """The vault of one user."""

    def __init__(self, supervisor: Supervisor, user: str | None) -> None:
        super().__init__()
        self.user = user
        self.history = VaultHistory()
        self._supervisor = supervisor
        self._loaded: dict[ObjectId, str] = {}
        self._order = threading.RLock()
        self._sealing = threading.Lock()
        # Requested sealed copies: number -> maximum size and copy.
        self._awaited: dict[int, tuple[int, Future[SealedCopy]]] = {}
        self._number = 0
        # Never reported to the client: it may depend on values.
        self._is_over = False
        self._overrun = False
        self._waiting = threading.Condition()
        self._queue: collections.deque[tuple[tuple[object, ...], Bytes, Opener | None]] = collections.deque()
        self._queued = 0
        self._max_queued = min(MAX_QUEUED_BYTES, supervisor.node.context.budgets.user_limit)
        # Number of orders written to the channel.
        self._sent = 0
        self._channel, theirs = pair(0)
        with theirs:
            settings, limits = supervisor.child_settings(), supervisor.vault_limits()
            self.start(supervisor.template, "vault", [theirs.fileno()], settings, limits)
        supervisor.watchdog.keep(self.child, self.progress.read, self._work)
        for work in (self._listen, self._write):
            threading.Thread(target=work, name=f"syft vault {user}", daemon=True).start()

    # --- orders ---------------------------------------------------------------------------------------------

    def load(self, record: LoadRecord, stamp: str, opener: Opener) -> None:
        """Make a data set available to calls under its id; a changed data set replaces the previous version.

        Args:
            record: the record of the data set.
            stamp: its version.
            opener: returns a descriptor of its value. Called when the order is sent, since a queue of open files
                could exhaust the descriptors of the node.
        """
        with self._order:
            if self._loaded.get(record.obj_id) != stamp:
                self._loaded[record.obj_id] = stamp
                self.history.append(record)
                self._send(("load", record.obj_id), opener=opener)

    def has_loaded(self, obj_id: ObjectId, stamp: str) -> bool:
        """Return whether this version of a data set is in the vault."""
        return self._loaded.get(obj_id) == stamp

    def run(self, record: Record, written: Bytes) -> None:
        """Send a record to the vault, after all earlier orders."""
        with self._order:
            number = self.history.append(record, len(written))
            self._send(("record", record.name if isinstance(record, CallRecord) else "", number), written)

    def _send(self, header: tuple[object, ...], body: Bytes = b"", opener: Opener | None = None) -> None:
        """Queue an order. Never waits, so that no answer depends on how busy the vault is."""
        if self._is_over or self._overrun:
            return
        with self._waiting:
            self._queue.append((header, body, opener))
            self._queued += len(body)
            if len(self._queue) > MAX_QUEUED or self._queued > self._max_queued:
                self._overrun = True
                self._queue.clear()
                self.child.kill("it could not keep up with the calls of its user")
            self._waiting.notify()

    def _write(self) -> None:
        """Send queued orders as the vault accepts them, until it ends."""
        while not self._is_over and not self._overrun:
            with self._waiting:
                self._waiting.wait_for(lambda: self._queue or self._is_over or self._overrun)
                if not self._queue:
                    continue
                header, body, opener = self._queue.popleft()
                self._queued -= len(body)
            try:
                fds = [] if opener is None else [opener()]
            except Exception as error:  # the data set was deleted meanwhile, so calls on it fail in the vault
                logger.warning("A data set could not be loaded into the vault of %r: %s", self.user, error)
                continue
            try:
                self._channel.send(FrameKind.ORDER, header, body, fds)
                self._sent += 1
            except OSError:
                break
            finally:
                for fd in fds:
                    os.close(fd)
        self.end()

    def _work(self) -> WorkCount:
        return WorkCount(self._sent, self.progress.done())

    # --- sealed copies -------------------------------------------------------------------------------------------

    def begin_seal(self, ids: tuple[ObjectId, ...], limit: int) -> Sealing:
        """Request the bytes of objects after all calls so far."""
        with self._order:
            copy: Future[SealedCopy] = Future()
            with self._sealing:
                self._number += 1
                self._awaited[self._number] = limit, copy
                self._channel.limit = max(size for size, _ in self._awaited.values())
                if self._is_over:
                    copy.cancel()
            self._send(("seal", self._number, ids, limit))
            return Sealing(copy, self.history.snapshot(), dict(self._loaded))

    def finish_seal(self, sealing: Sealing, timeout: float) -> SealedCopy:
        """Return a requested copy."""
        try:
            return sealing.copy.result(timeout)
        except TimeoutError:
            return SealedCopy(failure=f"the vault took longer than {timeout:g} s")
        except CancelledError:
            return SealedCopy(failure=f"the vault ended: {self.end_reason()}")

    def _listen(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._accept(frame)
        except (SerdeError, OSError) as error:
            logger.warning("The vault of %r violated the protocol and is ended: %s", self.user, error)
        self.end()

    def _accept(self, frame: Frame) -> None:
        match frame.kind, frame.header:
            case FrameKind.ANSWER, (int() as number, tuple() as failed) if all(type(one) is int for one in failed):
                copy = SealedCopy(frame.body, failed=frozenset(failed))
            case FrameKind.FAILED, (int() as number, str() as text):
                copy = SealedCopy(failure=text[:2000])
            case _:
                raise SerdeError("A vault may send sealed copies only.")
        with self._sealing:
            limit, awaited = self._awaited.pop(number, (-1, None))
            if awaited is None or len(frame.body) > limit:
                raise SerdeError("A vault may send each requested sealed copy once, within its size limit.")
            if not awaited.cancelled():
                awaited.set_result(copy)

    # --- end --------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the process. Its history stays."""
        self._is_over = True
        self.child.kill()
        self._channel.close()
        self.progress.close()
        with self._waiting:
            self._queue.clear()
            self._waiting.notify_all()
        with self._sealing:
            for _, copy in self._awaited.values():
                copy.cancel()
