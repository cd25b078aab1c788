"""Programs: library code that runs on private data in a process of its own, and whose output may leave.

A DP query, DP training, an allowed plan, a question to a hosted model, or a replay of recorded calls. The process gets
the data sets of one job and nothing else, cannot reach the network, and answers the supervisor alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from syft import exceptions
from syft.exceptions import SerdeError, SessionEndedError, SyftError
from syft.grid.isolation.processes.channel import Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ConfinedProcess
from syft.grid.isolation.processes.progress import ProgressPage
from syft.workers.transport.framed_pipe import RefusedBody

logger = logging.getLogger("syft.node")
# Seconds that the process of a federated run is kept between two calls.
IDLE_SECONDS = 900.0
_KNOWN = {
    name: kind for name, kind in vars(exceptions).items() if isinstance(kind, type) and issubclass(kind, SyftError)
}
Charge = Callable[[dict[str, Any], str], None]


class ProgramHandle:
    """A program process. One job at a time.

    Args:
        supervisor: the supervisor.
        user: the user it runs for, for texts.
        guard: what the owner insists on in federated runs, as plain values; None: nothing.
    """

    def __init__(self, supervisor: Any, user: Any = None, guard: Any = None) -> None:
        self.used = time.monotonic()
        self.progress = ProgressPage()
        self._supervisor = supervisor
        self._turn = threading.Lock()
        self._has_paid = False
        self._channel, theirs = pair(supervisor.max_body, supervisor.budget_of(user))
        with theirs:
            fds = [theirs.fileno(), self.progress.fileno()]
            settings = {**supervisor.child_settings(), "user": user, "guard": guard}
            self.child: ConfinedProcess = supervisor.template.fork("program", fds, settings, supervisor.limits)
        self.progress.close_descriptor()

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return not self.child.is_alive()

    def load(self, data: Sequence[tuple[Any, int]]) -> None:
        """Hand data sets over, each an id and a descriptor of its value. The descriptors stay the caller's."""
        for obj_id, fd in data:
            self._channel.send(FrameKind.ORDER, ("load", obj_id), fds=[fd])

    def run(
        self, job: str, args: tuple[Any, ...], body: Any = b"", charge: Charge | None = None, must_pay: bool = False
    ) -> bytearray:
        """Run a job and return its output.

        Args:
            job: the name of the job, see `program_process.JOBS`.
            args: plain values.
            body: bytes.
            charge: called when the job asks to pay for its output, with the event and a word for it.
            must_pay: discard the output of a job that did not pay.

        Raises:
            SyftError: the error that the job raised.
            SessionEndedError: the process exceeded a limit, or crashed.
        """
        with self._turn, self._supervisor.watchdog.call(self.child, self.progress.read):
            self.used = time.monotonic()
            self._has_paid = False
            frame = self._output(job, args, body, charge)
        if frame is None:
            self.end()
            with contextlib.suppress(TimeoutError):
                self.child.wait(2.0)
            raise SessionEndedError(f"The program {job!r} ended without a result: {self.child.end_reason()}.")
        if frame.kind is FrameKind.FAILED:
            raise _error(frame.header)
        if isinstance(frame.body, RefusedBody):
            raise frame.body.error
        if must_pay and not self._has_paid:
            logger.error("The program %r gave an output that it did not pay for; it was discarded.", job)
            raise SyftError(f"The program {job!r} did not pay for its output, so there is none.")
        return frame.body

    def _output(self, job: str, args: tuple[Any, ...], body: Any, charge: Charge | None) -> Frame | None:
        """Return the frame that ends a job; None if the process ended, or broke the protocol."""
        try:
            self._channel.send(FrameKind.REQUEST, (job, args), body)
            while (frame := self._channel.receive()) is not None:
                if frame.kind in (FrameKind.ANSWER, FrameKind.FAILED):
                    self._channel.release()
                    return frame
                self._pay(frame, charge)
        except (OSError, SerdeError) as error:
            logger.warning("A program process broke the protocol and is ended: %s", error)
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
                raise SerdeError("A program asked for something that it may not have.")

    def end(self) -> None:
        """End the process."""
        self.child.kill()
        self.progress.close()
        self._channel.close()


@contextlib.contextmanager
def fresh_program(
    supervisor: Any, user: Any = None, data: Sequence[tuple[Any, int]] = (), guard: Any = None
) -> Iterator[ProgramHandle]:
    """Give a program process for one job; descriptors of data are closed when it has them."""
    program = ProgramHandle(supervisor, user, guard)
    try:
        try:
            program.load(data)
        finally:
            for _, fd in data:
                os.close(fd)
        yield program
    finally:
        program.end()


def _error(header: Any) -> SyftError:
    match header:
        case (str() as name, str() as text):
            kind = _KNOWN.get(name, SyftError)
            error: SyftError = kind.__new__(kind)
            Exception.__init__(error, text[:2000])
            return error
    return SyftError("The program failed.")
