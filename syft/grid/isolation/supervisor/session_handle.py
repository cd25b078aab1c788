"""SessionHandle: the supervisor's side of a session process, and the relay of one connection to it."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import SerdeError, SessionEndedError, SyftError
from syft.grid.isolation.processes.channel import Bytes, Channel, Frame, FrameKind, pair
from syft.grid.isolation.processes.child import ProcessHandle
from syft.grid.isolation.supervisor.call_table import Reply, call
from syft.grid.isolation.supervisor.connection_limits import MAX_PROCESS_RELAYS, ConnectionLimits
from syft.workers.execution.session import Session
from syft.workers.transport.framing import RefusedBody

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.supervisor import Supervisor
    from syft.grid.isolation.supervisor.vault_handle import VaultHandle
    from syft.grid.node.node import Node

logger = logging.getLogger("syft.node")
# Seconds to wait for the exit of a process whose channel closed, so that its exit reason is available.
_LAST_SECONDS = 1.0
# Maximum number of objects moved by one request that are reported to the client.
MAX_MOVED = 256
_MAX_ERROR = 4000
Moved = tuple[tuple[ObjectId, str], ...]


class SessionHandle(ProcessHandle):
    """The supervisor's side of the session process of one user.

    Args:
        supervisor: the supervisor.
        user: the user.
        role: the user's role.
        purpose: "" for a session process; `model:NAME` or `dealer:NAME` for a party process.
    """

    def __init__(self, supervisor: Supervisor, user: str | None, role: str, purpose: str = "") -> None:
        super().__init__()
        self.supervisor = supervisor
        self.user = user
        self.role = role
        self.purpose = purpose
        self.connections: set[Relay] = set()
        self.idle_since: float | None = None
        self.is_retired = False
        self._opening = threading.Lock()
        self.vault: VaultHandle | None = None
        # Logged reads of other users' objects: id -> stamp of the version.
        self.noted_reads: dict[ObjectId, str] = {}
        # The connections with other nodes that the supervisor relays for this process.
        self.relays = ConnectionLimits(MAX_PROCESS_RELAYS, supervisor.relays)
        self._ended = threading.Event()
        self._control, control = pair(0)
        self._shared, shared = pair(supervisor.max_body, supervisor.budget_of(user))
        with control, shared:
            settings = {**supervisor.child_settings(), "purpose": purpose}
            fds = [control.fileno(), shared.fileno()]
            self.start(supervisor.template, "session", fds, settings, supervisor.limits)
        threading.Thread(target=self._serve_shared, name=f"syft process {user}", daemon=True).start()

    def open(self, session: Session) -> Relay:
        """Open the channel of a new connection."""
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
                relay = Relay(self, channel)
                self.connections.add(relay)
                self.idle_since = None
                return relay
        self.end_lost()
        raise SessionEndedError(f"Your session at this node ended: {self.end_reason()}. Connect again.")

    def retire(self, since: float) -> None:
        """End the process if it has had no connections since before a time. It accepts no new ones then."""
        with self._opening:
            if self.connections or self.idle_since is None or self.idle_since > since:
                return
            self.is_retired = True
        self.end()

    def order(self, name: str, *args: object, fds: tuple[int, ...] = ()) -> None:
        """Send an order without an answer."""
        self.send_order(self._control, (name, args), fds)

    def send_order(self, channel: Channel, header: object, fds: tuple[int, ...] = ()) -> None:
        """Send an order over a channel; a process that does not read its orders is ended."""
        try:
            channel.send_at_once(FrameKind.ORDER, header, fds)
        except BlockingIOError:
            self.end()
        except OSError:
            pass  # the connection or the process ended

    def _serve_shared(self) -> None:
        try:
            while (frame := self._shared.receive()) is not None:
                if frame.kind is not FrameKind.CALL:
                    raise SerdeError("A session process may send calls only on this channel.")
                self.answer(self._shared, frame)
        except OSError:
            pass  # it ended while it was answered
        except SerdeError as error:
            logger.warning("The session process of %r violated the protocol and is ended: %s", self.user, error)
            self.end()
        self.end_lost()

    def answer(self, channel: Channel, frame: Frame) -> None:
        """Serve a call of the process."""
        try:
            if isinstance(frame.body, RefusedBody):
                raise frame.body.error
            found = call(self, frame)
        except SyftError as error:
            channel.send(FrameKind.ERROR, (type(error).__name__, str(error)[:_MAX_ERROR]))
            return
        except Exception:
            logger.exception("A call of the session process of %r failed", self.user)
            channel.send(FrameKind.ERROR, ("SyftError", "The call failed at the node; its log has the reason."))
            return
        reply = found if isinstance(found, Reply) else Reply(found)
        try:
            channel.send(FrameKind.RESULT, reply.header, reply.body, reply.fds)
        finally:
            for fd in reply.fds:
                os.close(fd)

    @property
    def node(self) -> Node:
        """The node."""
        return self.supervisor.node

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or is being ended."""
        return self._ended.is_set()

    @property
    def is_open(self) -> bool:
        """Whether the process accepts new connections."""
        return not (self.is_over or self.is_retired)

    def close_connection(self, relay: Relay) -> None:
        """Record that a connection has ended."""
        self.connections.discard(relay)
        if not self.connections:
            self.idle_since = time.monotonic()
            # Anonymous programs rarely connect again, and a party process holds no objects of its user.
            if self.purpose or str(self.user).startswith("anonymous-"):
                self.retire(self.idle_since)

    def end_lost(self) -> None:
        """End the process after its channel closed; usually it has already exited by itself."""
        if not self.is_over:
            with contextlib.suppress(TimeoutError):
                self.child.wait(_LAST_SECONDS)
        self.end()

    def end(self) -> None:
        """Kill the process, and close its channels."""
        if self._ended.is_set():
            return
        self._ended.set()
        self.supervisor.forget(self)
        self.child.kill()
        self.progress.close()
        for channel in (self._control, self._shared):
            channel.close()
        for relay in list(self.connections):
            relay.channel.close()
        if self.vault is not None:
            self.vault.end()


def _answer_header(header: object) -> tuple[bool, Moved]:
    """Return whether objects leave with an answer, and the objects that moved into the vault."""
    match header:
        case (bool() as leaves, tuple() as rows) if len(rows) <= MAX_MOVED:
            if all(type(row) is tuple and len(row) == 2 and is_id(row[0]) and type(row[1]) is str for row in rows):
                return leaves, tuple((obj_id, reason[:300]) for obj_id, reason in rows)
    raise SerdeError("The header of an answer can't be read.")


class Relay:
    """The relay of one connection of a client to its session process."""

    def __init__(self, process: SessionHandle, channel: Channel) -> None:
        self.process = process
        self.channel = channel
        self._number = 0
        # Objects that moved into the vault with the last request, and why.
        self.moved: Moved = ()

    def respond(self, request: Bytes) -> tuple[bytes | bytearray, int | None]:
        """Relay a request, and return the answer and the number under which objects leave with it.

        Raises:
            SessionEndedError: the process ended meanwhile.
            ByteBudgetError: the answer exceeds the byte budget.
        """
        self._number += 1
        try:
            with self.process.supervisor.watchdog.call(self.process.child, self.process.progress.read):
                self._send(request)
                while (frame := self.channel.receive()) is not None:
                    if frame.kind is FrameKind.ANSWER:
                        return self._accept(frame)
                    if frame.kind is not FrameKind.CALL:
                        raise SerdeError("A session process may send answers and calls only.")
                    self.process.answer(self.channel, frame)
        except OSError:
            pass
        except SerdeError as error:
            logger.warning("The session process of %r violated the protocol and is ended: %s", self.process.user, error)
            self.process.end()
        raise self._ended()

    def _accept(self, frame: Frame) -> tuple[bytes | bytearray, int | None]:
        """Return an answer; from here on the connection accounts for its bytes."""
        self.channel.release()
        leaves, self.moved = _answer_header(frame.header)
        leaving = self._number if leaves else None
        if isinstance(frame.body, RefusedBody):
            self.put_back(leaving)
            raise frame.body.error
        return frame.body, leaving

    def _send(self, request: Bytes) -> None:
        """Send a request, or the reason why it was refused: the process counts it as failed."""
        if isinstance(request, RefusedBody):
            self.channel.send(FrameKind.REQUEST, (self._number, str(request.error)))
        else:
            self.channel.send(FrameKind.REQUEST, (self._number, None), request)

    def _ended(self) -> SessionEndedError:
        self.process.end_lost()
        return SessionEndedError(
            f"Your session at this node ended: {self.process.end_reason()}. Its objects that were not published are "
            "lost. Connect again to start a new session."
        )

    def let_go(self, number: int) -> None:
        """Report that the objects of an answer have arrived."""
        self.process.send_order(self.channel, ("seen", number))

    def put_back(self, number: int | None) -> None:
        """Report that the objects of an answer did not arrive and must be restored."""
        if number is not None:
            self.process.send_order(self.channel, ("put_back", number))

    def close(self) -> None:
        """Close the connection, and release its objects."""
        self.channel.close()
        self.process.close_connection(self)
