"""A session process as the supervisor sees it, and the relay of one conversation to it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import SerdeError, SessionEndedError
from syft.grid.isolation.processes.channel import Channel, Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ConfinedProcess
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.supervisor.call_table import Principal
from syft.grid.isolation.supervisor.connection_limits import MAX_PROCESS_RELAYS, ConnectionLimits
from syft.workers.execution.session import Session
from syft.workers.transport.framed_pipe import RefusedBody

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.supervisor import Supervisor

logger = logging.getLogger("syft.node")
# Seconds that a process whose channel closed has to end by itself, so that the reason is known.
_LAST_SECONDS = 1.0
# Objects that one request may move into the vault, in what is reported to the client.
MAX_MOVED = 256
Moved = tuple[tuple[ObjectId, str], ...]


class SessionHandle:
    """The session process of one user, as the supervisor sees it.

    Args:
        supervisor: the supervisor.
        user: the user.
        role: the user's role.
        purpose: "" for a session process; else what a party process is for: `model:NAME`, or `dealer:NAME`.
    """

    def __init__(self, supervisor: Supervisor, user: Any, role: str, purpose: str = "") -> None:
        self.supervisor = supervisor
        self.user = user
        self.role = role
        self.purpose = purpose
        self.conversations: set[Relay] = set()
        self.idle_since: float | None = None
        self.is_retired = False
        self._opening = threading.Lock()
        self.vault: Any = None
        self.programs: dict[Any, Any] = {}
        # Objects of others that this process has read, as the log says: id -> stamp of the version.
        self.noted_reads: dict[ObjectId, str] = {}
        # The connections with other nodes that the supervisor carries for this process.
        self.relays = ConnectionLimits(MAX_PROCESS_RELAYS, supervisor.relays)
        self.at_end: list[Callable[[], None]] = []
        self._ended = threading.Event()
        self.progress = ProgressPage()
        self._control, control = pair(0)
        self._shared, shared = pair(supervisor.max_body, supervisor.budget_of(user))
        with control, shared:
            fds = [control.fileno(), shared.fileno(), self.progress.fileno()]
            settings = {**supervisor.child_settings(), "purpose": purpose}
            self.child: ConfinedProcess = supervisor.template.fork("session", fds, settings, supervisor.limits)
        self.progress.close_descriptor()
        threading.Thread(target=self._serve_shared, name=f"syft process {user}", daemon=True).start()

    def open(self, session: Session) -> Relay:
        """Open the channel of a new conversation."""
        channel, theirs = pair(self.supervisor.max_body, session.byte_budget)
        facts = (session.client_id, session.role, session.max_message_bytes)
        with theirs, self._opening:
            try:
                if self.is_retired:
                    raise OSError("retired")
                self._control.send_at_once(FrameKind.ORDER, ("open", facts), fds=[theirs.fileno()])
            except OSError:
                channel.close()
            else:
                relay = Relay(self, session, channel)
                self.conversations.add(relay)
                self.idle_since = None
                return relay
        self.end_lost()
        raise SessionEndedError(f"Your session at this node ended: {self.why()}. Connect again.")

    def retire(self, since: float) -> None:
        """End the process if it has had no conversations since before a time. It takes no new ones then."""
        with self._opening:
            if self.conversations or self.idle_since is None or self.idle_since > since:
                return
            self.is_retired = True
        self.end()

    def order(self, name: str, *args: Any, fds: tuple[int, ...] = ()) -> None:
        """Have the process do something, without an answer; one that does not read its orders is ended."""
        try:
            self._control.send_at_once(FrameKind.ORDER, (name, args), fds=fds)
        except BlockingIOError:
            self.end()
        except OSError:
            pass  # it ended

    def _serve_shared(self) -> None:
        principal = Principal(self.user, self.role, self)
        try:
            while (frame := self._shared.receive()) is not None:
                if frame.kind is not FrameKind.CALL:
                    raise SerdeError("A session process sends calls only.")
                self.supervisor.answer(principal, self._shared, frame)
        except OSError:
            pass  # it ended while it was answered
        except SerdeError as error:
            logger.warning("The session process of %r broke the protocol and is ended: %s", self.user, error)
            self.end()
        self.end_lost()

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or is about to."""
        return self._ended.is_set()

    @property
    def is_open(self) -> bool:
        """Whether the process takes new conversations."""
        return not (self.is_over or self.is_retired)

    def close_conversation(self, relay: Relay) -> None:
        """Take note that a conversation has ended."""
        self.conversations.discard(relay)
        if not self.conversations:
            self.idle_since = time.monotonic()
            # An anonymous user never comes back, and a party process holds nothing to come back to.
            if self.purpose or str(self.user).startswith("anonymous-"):
                self.retire(self.idle_since)

    def why(self) -> str:
        """Say how the process ended, and during which call."""
        with contextlib.suppress(TimeoutError):
            self.child.wait(2.0)
        call = self.progress.read()
        return f"{self.child.end_reason()}{f', while it ran {call}' if call else ''}"

    def end_lost(self) -> None:
        """End the process after its channel closed; usually it has ended by itself, for a reason of its own."""
        if not self.is_over:
            with contextlib.suppress(TimeoutError):
                self.child.wait(_LAST_SECONDS)
        self.end()

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._ended.is_set():
            return
        self._ended.set()
        self.supervisor.forget(self)
        self.child.kill()
        self.progress.close()
        for channel in (self._control, self._shared):
            channel.close()
        for ending in self.at_end:
            try:
                ending()
            except Exception:
                logger.exception("A part of the session of %r could not be ended", self.user)
        for relay in list(self.conversations):
            relay.channel.close()


def _answer_header(header: Any) -> tuple[bool, Moved]:
    """Return whether objects leave with an answer, and what moved into the vault; SerdeError if it says neither."""
    match header:
        case (bool() as leaves, tuple() as rows) if len(rows) <= MAX_MOVED:
            if all(type(row) is tuple and len(row) == 2 and is_id(row[0]) and type(row[1]) is str for row in rows):
                return leaves, tuple((obj_id, reason[:300]) for obj_id, reason in rows)
    raise SerdeError("The header of an answer can't be read.")


class Relay:
    """One conversation of a client with its session process.

    Args:
        process: the process.
        session: the session, as the supervisor knows it.
        channel: the supervisor's end of its channel.
    """

    def __init__(self, process: SessionHandle, session: Session, channel: Channel) -> None:
        self.process = process
        self.session = session
        self.channel = channel
        self._number = 0
        # Objects that moved into the vault with the last request, and why.
        self.moved: Moved = ()
        self._principal = Principal(process.user, process.role, process, session)

    def respond(self, request: Any) -> tuple[bytes | bytearray, int | None]:
        """Pass a request on, and return the answer and the number under which objects leave with it.

        Raises:
            SessionEndedError: the process ended meanwhile.
            ByteBudgetError: there is no room for the answer.
        """
        self._number += 1
        supervisor = self.process.supervisor
        try:
            with supervisor.watchdog.call(self.process.child, self.process.progress.read):
                self._send(request)
                while (frame := self.channel.receive()) is not None:
                    if frame.kind is FrameKind.ANSWER:
                        return self._taken(frame)
                    if frame.kind is not FrameKind.CALL:
                        raise SerdeError("A session process answers, or makes calls.")
                    supervisor.answer(self._principal, self.channel, frame)
        except OSError:
            pass
        except SerdeError as error:
            logger.warning("The session process of %r broke the protocol and is ended: %s", self.process.user, error)
            self.process.end()
        raise self._ended()

    def _taken(self, frame: Frame) -> tuple[bytes | bytearray, int | None]:
        """Return an answer, which the conversation counts from here on."""
        self.channel.release()
        leaves, self.moved = _answer_header(frame.header)
        leaving = self._number if leaves else None
        if isinstance(frame.body, RefusedBody):
            self.put_back(leaving)
            raise frame.body.error
        return frame.body, leaving

    def _send(self, request: Any) -> None:
        """Send a request, or the reason why there was no room for it: the process counts it as failed."""
        if type(request) is RefusedBody:
            self.channel.send(FrameKind.REQUEST, (self._number, str(request.error)))
        else:
            self.channel.send(FrameKind.REQUEST, (self._number, None), request)

    def _ended(self) -> SessionEndedError:
        self.process.end_lost()
        return SessionEndedError(
            f"Your session at this node ended: {self.process.why()}. What it held and had not published is gone. "
            "Connect again to go on in a new session."
        )

    def let_go(self, number: int) -> None:
        """Say that the objects of an answer have arrived."""
        self._order("seen", number)

    def put_back(self, number: int | None) -> None:
        """Say that the objects of an answer did not arrive, and stay."""
        if number is not None:
            self._order("put_back", number)

    def _order(self, name: str, number: int) -> None:
        try:
            self.channel.send_at_once(FrameKind.ORDER, (name, number))
        except BlockingIOError:
            self.process.end()
        except OSError:
            pass  # the conversation or the process ended

    def close(self) -> None:
        """End the conversation; what only it held goes."""
        self.channel.close()
        self.process.close_conversation(self)
