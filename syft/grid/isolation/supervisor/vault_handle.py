"""VaultHandle: the supervisor's side of the process that holds private data for one user.

Calls go in, in order, and nothing comes out but sealed copies, which the supervisor keeps and never reads. Whether a
call succeeded, how long it took and whether the process still lives are not reported to the client.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError
from syft.grid.isolation.processes.channel import Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ConfinedProcess
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.processes.watchdog import WorkCount
from syft.grid.isolation.records.history import Snapshot, VaultHistory
from syft.grid.isolation.records.records import CallRecord, LoadRecord, Record

logger = logging.getLogger("syft.node")
# Calls that wait for a busy vault: how many, and their bytes, which also have the bound for a user's messages.
MAX_QUEUED = 100_000
MAX_QUEUED_BYTES = 1 << 30
Opener: TypeAlias = Callable[[], int]


class SealedCopy:
    """The bytes of an object that a vault handed over, or why there are none.

    Attributes:
        value: the bytes; None if there are none.
        failure: what went wrong inside the vault. For the owner, and after a decision for the user.
        failed: the numbers of all records that failed in the vault so far.
        specs: a short text for each object in it, for the owner.
    """

    def __init__(
        self, value: Any = None, failure: str = "", failed: Collection[int] = (), specs: tuple[str, ...] = ()
    ) -> None:
        self.value = value
        self.failure = failure
        self.failed = frozenset(failed)
        self.specs = specs


@dataclasses.dataclass(frozen=True, slots=True)
class Sealing:
    """A sealed copy that was asked for, and the history at that point: both see the same calls.

    Attributes:
        number: names the copy.
        history: the records before it.
        stamps: the versions of the data sets that are loaded.
    """

    number: int
    history: Snapshot
    stamps: Mapping[ObjectId, str]


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
        self._queue: collections.deque[tuple[Any, Any, Opener | None]] = collections.deque()
        self._queued = 0
        self._max_queued = min(MAX_QUEUED_BYTES, supervisor.node.desk.budgets.user_limit)
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

    def load(self, record: LoadRecord, stamp: str, opener: Opener) -> None:
        """Make a data set available to calls under its id; a changed one replaces the one before.

        Args:
            record: the record of the data set.
            stamp: its version.
            opener: returns a descriptor of its value. Called when the vault is about to read it, and not before: a
                queue of open files could use up those of the whole node.
        """
        with self._order:
            if self._loaded.get(record.obj_id) != stamp:
                self._loaded[record.obj_id] = stamp
                self.history.append(record)
                self._send(("load", record.obj_id), opener=opener)

    def has_loaded(self, obj_id: ObjectId, stamp: str) -> bool:
        """Whether this version of a data set is in the vault."""
        return self._loaded.get(obj_id) == stamp

    def run(self, record: Record, written: Any) -> None:
        """Have a record carried out, after those before it."""
        with self._order:
            number = self.history.append(record, len(written))
            self._send(("record", record.name if isinstance(record, CallRecord) else "", number), written)

    def _send(self, header: Any, body: Any = b"", opener: Opener | None = None) -> None:
        """Have an order sent after those before it. Never waits, so that no answer depends on how busy the vault is."""
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
        """Send orders as the vault takes them; one that can't keep up is ended, which sealing reports."""
        while not self._is_over and not self._overrun:
            with self._waiting:
                self._waiting.wait_for(lambda: self._queue or self._is_over or self._overrun)
                if not self._queue:
                    continue
                header, body, opener = self._queue.popleft()
                self._queued -= len(body)
            try:
                fds = [] if opener is None else [opener()]
            except Exception as error:  # the data set was deleted meanwhile: calls on it fail in the vault
                logger.warning("A data set could not be loaded into the vault of %r: %s", self.user, error)
                continue
            try:
                self._channel.send(FrameKind.ORDER, header, body, fds)
                self._given += 1
            except OSError:
                break
            finally:
                for fd in fds:
                    os.close(fd)
        self.end()

    def _work(self) -> WorkCount:
        return WorkCount(self._given, self.progress.done())

    # --- what comes out -------------------------------------------------------------------------------------------

    def begin_seal(self, ids: tuple[ObjectId, ...], limit: int) -> Sealing:
        """Ask for the bytes of objects as they are after all calls so far.

        Args:
            ids: the objects; one, or several that are released together.
            limit: the largest number of bytes that is accepted.
        """
        with self._order:
            with self._sealing:
                self._number += 1
                number = self._number
                self._awaited[number] = limit
                self._channel.limit = max(self._awaited.values())
            self._send(("seal", number, ids, limit))
            return Sealing(number, self.history.snapshot(), dict(self._loaded))

    def give_up(self, sealing: Sealing) -> None:
        """Discard the copy that was asked for, when it comes."""
        with self._sealing:
            if self._sealed.pop(sealing.number, None) is None:
                self._given_up.add(sealing.number)

    def finish_seal(self, sealing: Sealing, timeout: float) -> SealedCopy:
        """Return the copy that was asked for.

        Args:
            sealing: what `begin_seal` returned.
            timeout: seconds to wait for the calls before it and for the copy.
        """
        number = sealing.number
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
            case FrameKind.ANSWER, (int() as number, tuple() as failed) if all(type(one) is int for one in failed):
                copy = SealedCopy(frame.body, failed=failed)
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
            self._queue.clear()
            self._waiting.notify_all()
        with self._sealing:
            self._sealing.notify_all()
