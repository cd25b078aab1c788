"""ProgramHandle: the supervisor's side of a program process, which runs library code on private data.

A program is a DP query, DP training, an allowed plan, inference with a hosted model, or a replay of recorded calls. Its
process gets the data sets of one job and nothing else, can't reach the network, and sends outputs to the supervisor.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from syft.exceptions import SerdeError, SessionEndedError, SyftError
from syft.grid.isolation.children.services import error_by_name
from syft.grid.isolation.processes.channel import Bytes, Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ProcessHandle
from syft.grid.storage.interface import Item
from syft.workers.transport.framing import RefusedBody

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.supervisor import Supervisor

logger = logging.getLogger("syft.node")
# Maximum seconds between two calls of a federated run; after that its process ends.
IDLE_SECONDS = 900.0
Charge: TypeAlias = Callable[[dict[str, Any], str], None]
# The owner's settings of secure aggregation: minimum clients, secret key, keys of known clients, minimum threshold.
Guard: TypeAlias = tuple[int, str | None, list[str], float | None]


class ProgramHandle(ProcessHandle):
    """A program process. One job at a time.

    Args:
        supervisor: the supervisor.
        user: the user; None for jobs of the owner.
        guard: the owner's settings of secure aggregation, as plain values; None: not required.
    """

    def __init__(self, supervisor: Supervisor, user: str | None = None, guard: Guard | None = None) -> None:
        super().__init__()
        self.used = time.monotonic()
        self._supervisor = supervisor
        self._lock = threading.Lock()
        self._has_paid = False
        self._channel, theirs = pair(supervisor.max_body, supervisor.budget_of(user))
        with theirs:
            settings = {**supervisor.child_settings(), "user": user, "guard": guard}
            self.start(supervisor.template, "program", [theirs.fileno()], settings, supervisor.limits)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return not self.child.is_alive()

    def load(self, items: Iterable[Item]) -> None:
        """Pass stored objects to the process."""
        for item in items:
            fd = self._supervisor.value_fd(item)
            try:
                self._channel.send(FrameKind.ORDER, ("load", item.id), fds=[fd])
            finally:
                os.close(fd)

    def run(
        self,
        job: str,
        args: tuple[object, ...],
        body: Bytes = b"",
        charge: Charge | None = None,
        must_pay: bool = False,
    ) -> bytearray:
        """Run a job and return its output.

        Args:
            job: the name of the job, see `process.JOBS`.
            args: plain values.
            body: bytes.
            charge: called when the job charges a budget for its output, with the event and its name.
            must_pay: discard the output of a job that did not charge a budget.

        Raises:
            SyftError: the error that the job raised.
            SessionEndedError: the process exceeded a limit, or crashed.
        """
        with self._lock, self._supervisor.watchdog.call(self.child, self.progress.read):
            self.used = time.monotonic()
            self._has_paid = False
            frame = self._output(job, args, body, charge)
        if frame is None:
            self.end()
            raise SessionEndedError(f"The program {job!r} ended without a result: {self.end_reason()}.")
        if frame.kind is FrameKind.FAILED:
            raise _error(frame.header)
        if isinstance(frame.body, RefusedBody):
            raise frame.body.error
        if must_pay and not self._has_paid:
            logger.error("The program %r did not charge the budget for its output; the output was discarded.", job)
            raise SyftError(f"The program {job!r} did not charge the privacy budget, so its output was discarded.")
        return frame.body

    def _output(self, job: str, args: tuple[object, ...], body: Bytes, charge: Charge | None) -> Frame | None:
        """Return the last frame of a job; None if the process ended or violated the protocol."""
        try:
            self._channel.send(FrameKind.REQUEST, (job, args), body)
            while (frame := self._channel.receive()) is not None:
                if frame.kind in (FrameKind.ANSWER, FrameKind.FAILED):
                    self._channel.release()
                    return frame
                self._pay(frame, charge)
        except (OSError, SerdeError) as error:
            logger.warning("A program process violated the protocol and is ended: %s", error)
        return None

    def _pay(self, frame: Frame, charge: Charge | None) -> None:
        match frame.kind, frame.header:
            case FrameKind.CALL, ("charge", (dict() as event, str() as what)) if charge is not None:
                try:
                    charge(event, what[:100])
                except SyftError as error:
                    self._channel.send(FrameKind.ERROR, (type(error).__name__, str(error)))
                else:
                    self._has_paid = True
                    self._channel.send(FrameKind.RESULT, None)
            case _:
                raise SerdeError("A program made a call that is not allowed.")

    def end(self) -> None:
        """End the process."""
        self.child.kill()
        self.progress.close()
        self._channel.close()


@contextlib.contextmanager
def fresh_program(
    supervisor: Supervisor, user: str | None = None, items: Iterable[Item] = (), guard: Guard | None = None
) -> Iterator[ProgramHandle]:
    """Start a program process for one job on stored objects."""
    program = ProgramHandle(supervisor, user, guard)
    try:
        program.load(items)
        yield program
    finally:
        program.end()


def _error(header: object) -> Exception:
    match header:
        case (str() as name, str() as text):
            return error_by_name(name, text[:2000], SyftError)
    return SyftError("The program failed.")
