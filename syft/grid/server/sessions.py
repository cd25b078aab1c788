"""SessionRegistry: the sessions of clients, which outlive their connections for a while.

A client resumes its session with a secret that only the two know. Requests are run in order and once: on resumption
the client is informed of the last one. Responses are kept until the client confirms them.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.core.byte_budget import ByteBudget, Holding
from syft.exceptions import AuthenticationError, ByteBudgetError, SerdeError, SessionEndedError, SyftError
from syft.grid.server.auth import Authenticator, DelegatedPrincipal, Principal
from syft.grid.server.responders import LocalResponder, Responder
from syft.messaging.message import ErrorMessage
from syft.serde import serialize
from syft.serde.msgpack.serde import read_plain_tuple
from syft.workers.execution.session import Session
from syft.workers.transport.framing import ANSWER, BYE, HELLO, NOTICE, REQUEST, SEEN, WELCOME, FramedConnection
from syft.workers.transport.greeting import MAX_REFUSAL, VERSION, versions_differ

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.node")
# Successful requests are acknowledged at intervals, so that the client can forget them.
ACKNOWLEDGED = 256
ACKNOWLEDGED_BYTES = 1 << 20
# Responses that were sent and are not confirmed by the client.
MAX_UNSEEN = 4096
MAX_UNSEEN_BYTES = 1 << 30
MAX_HELLO = 1 << 12
MAX_PURPOSE = 300
# Seconds between checks whether a client's token is still valid.
_CHECK = 1.0
# Seconds that the end of a session waits for a running request.
_LAST_WAIT = 5.0


@dataclasses.dataclass(slots=True)
class UnackedResponse:
    """A response that the client may not have received yet."""

    written: bytes
    leaving: Any


def _error_answer(error: Exception) -> bytes:
    return serialize(ErrorMessage((type(error).__name__, str(error), "")))


class ResumableSession:
    """The session of one client, over any number of connections."""

    def __init__(self, worker: BaseWorker, session: Session, check: Callable[[], None], responder: Responder) -> None:
        self.responder = responder
        self.id = secrets.token_hex(16)
        self.secret = secrets.token_bytes(32)
        self.worker = worker
        self.session = session
        self.done = 0
        self.check = check
        session.conversation = self
        self._checked_at = 0.0
        self.left_at: float | None = None
        self.is_over = False
        self._connection: FramedConnection | None = None
        self._turn = threading.Lock()
        self._unseen: collections.OrderedDict[int, UnackedResponse] = collections.OrderedDict()
        self._unseen_bytes = 0
        self._held: Holding | None = None
        self._quiet_bytes = 0

    def take(self, connection: FramedConnection, seen: int) -> None:
        """Serve a connection until it ends; an earlier connection of the session is closed."""
        earlier, self._connection = self._connection, connection
        if earlier is not None:
            earlier.close()
        with self._turn:
            if self.is_over:
                return
            self.left_at = None
            try:
                self._see(seen)
                connection.write(WELCOME, self.done, serialize(self._welcome(connection.limit)))
                for number, unseen in list(self._unseen.items()):
                    connection.write(ANSWER, number, unseen.written)
                while (frame := connection.read()) is not None and not self.is_over:
                    self._take_frame(connection, *frame)
            finally:
                connection.close()
                self.left_at = time.monotonic()

    def _welcome(self, limit: int) -> tuple[int, str, bytes, Any, int]:
        return VERSION, self.id, self.secret, self.worker.id, limit

    def _take_frame(self, connection: FramedConnection, kind: int, number: int, contents: bytearray) -> None:
        if kind == REQUEST:
            self._do(connection, number, contents)
        elif kind == SEEN:
            self._see(number)
        elif kind == BYE:
            self.is_over = True
        else:
            raise SerdeError("This is not a frame that a client sends.")

    def _do(self, connection: FramedConnection, number: int, request: bytearray) -> None:
        if number <= self.done:  # sent twice
            return
        if number != self.done + 1:
            raise SerdeError(f"Request {number} does not follow request {self.done}.")
        self.check_stay()
        try:
            written, leaving = self.responder.respond(request)
        except SessionEndedError as error:
            self.is_over = True
            # Before the response, so that the client's next call begins a new session.
            connection.write(BYE, 0, str(error)[:MAX_REFUSAL].encode())
            written, leaving = _error_answer(error), None
        except ByteBudgetError as error:
            written, leaving = _error_answer(error), None
        if moved := getattr(self.responder, "moved", ()):
            connection.write(NOTICE, 0, serialize(moved))
        self.done = number
        self._quiet_bytes += len(request)
        if written:
            written = self._keep(number, UnackedResponse(written, leaving))
        if written or number % ACKNOWLEDGED == 0 or self._quiet_bytes >= ACKNOWLEDGED_BYTES:
            self._quiet_bytes = 0
            self._write_answer(connection, number, written)

    def check_stay(self) -> None:
        """Raise AuthenticationError if the session has ended, or, checked at intervals, its token is not valid."""
        if self.is_over:
            raise AuthenticationError("The session has ended.")
        now = time.monotonic()
        if now - self._checked_at > _CHECK:
            self.check()
            self._checked_at = now

    def _write_answer(self, connection: FramedConnection, number: int, written: bytes) -> None:
        try:
            connection.write(ANSWER, number, written)
        except SerdeError as error:  # an error about its size fits
            connection.write(ANSWER, number, self._say_instead(number, error))

    def _say_instead(self, number: int, error: Exception) -> bytes:
        """Keep an error in place of a response, whose objects stay."""
        said = _error_answer(error)
        unseen = self._unseen.pop(number)
        self.responder.put_back(unseen.leaving)
        self._unseen[number] = UnackedResponse(said, None)
        self._unseen_bytes += len(said) - len(unseen.written)
        return said

    def _hold(self) -> None:
        """Charge unconfirmed responses to the budget of the user; ByteBudgetError if there is no room."""
        if self._held is None and self.session.byte_budget is not None:
            self._held = Holding(self.session.byte_budget)
        if self._held is not None:
            self._held.follow(self._unseen_bytes)

    def _keep(self, number: int, unseen: UnackedResponse) -> bytes:
        """Keep a response until the client confirms it, or an error if there is no room; returns the one kept."""
        self._unseen[number] = unseen
        self._unseen_bytes += len(unseen.written)
        crowded = len(self._unseen) > 1 and self._unseen_bytes > MAX_UNSEEN_BYTES
        if len(self._unseen) > MAX_UNSEEN or crowded:
            self.is_over = True
            raise SerdeError("This client does not confirm responses.")
        try:
            self._hold()
        except ByteBudgetError as error:
            return self._say_instead(number, error)
        return unseen.written

    def _see(self, number: int) -> None:
        """Release responses that the client has confirmed."""
        while self._unseen and next(iter(self._unseen)) <= number:
            _, unseen = self._unseen.popitem(last=False)
            self._unseen_bytes -= len(unseen.written)
            if unseen.leaving is not None:
                self.responder.let_go(unseen.leaving)
        if self._held is not None:
            self._held.follow(min(self._unseen_bytes, self._held.size))

    def end(self) -> None:
        """End the session: objects that did not arrive stay, those that only the client claimed are deleted."""
        self.is_over = True
        connection = self._connection
        if connection is not None:
            connection.close()
        had_turn = self._turn.acquire(timeout=_LAST_WAIT)
        try:
            for unseen in self._unseen.values():
                self.responder.put_back(unseen.leaving)
            self._unseen.clear()
            if self._held is not None:
                self._held.release(for_good=True)
            self.responder.close()
            self.session.close()
        finally:
            if had_turn:
                self._turn.release()


class SessionRegistry:
    """The sessions of a node."""

    def __init__(self, worker: BaseWorker, authenticator: Authenticator, grace: float, limit: int) -> None:
        self.worker = worker
        self.limit = limit
        self.authenticator = authenticator
        self.grace = grace
        # Totals of ended sessions and connections.
        self._ended_requests = 0
        self._ended_bytes = 0
        # Makes the responder of a session: in this process, or in one of its own.
        self.open_responder: Callable[[Session], Responder] = LocalResponder
        self._connections: set[FramedConnection] = set()
        self._open: dict[str, ResumableSession] = {}
        self._lock = threading.Lock()

    def serve(self, connection: FramedConnection, principal: Principal) -> None:
        """Serve an authenticated client until its connection ends."""
        resumable: ResumableSession | None = None
        with self._lock:
            self._connections.add(connection)
        try:
            frame = connection.read(within=connection.pause_timeout)
            if frame is None or frame[0] != HELLO:
                return
            _, seen, contents = frame
            resumable = self._greet(connection, principal, contents)
            connection.limit = self.limit
            resumable.take(connection, seen)
        except (OSError, SerdeError, AuthenticationError) as error:
            logger.info("The connection of %r ended: %s", principal.user, error)
        except Exception:
            logger.exception("The connection of %r ended", principal.user)
        finally:
            connection.close()
            connection.release()
            with self._lock:
                self._connections.discard(connection)
                self._ended_bytes += connection.read_bytes
            if resumable is not None and resumable.is_over:
                self.end(resumable)

    def _greet(self, connection: FramedConnection, principal: Principal, contents: bytearray) -> ResumableSession:
        """Return the session that a client begins or resumes; a refused client receives the reason."""
        try:
            return self._find(principal, connection.budget, *_parse_hello(contents))
        except SyftError as error:
            connection.write(BYE, 0, str(error)[:MAX_REFUSAL].encode())  # a plain text, which every version can read
            raise SerdeError(str(error)) from None

    def _find(
        self, principal: Principal, budget: ByteBudget | None, session_id: str, secret: bytes, purpose: str
    ) -> ResumableSession:
        """Return the session that a client resumes, if it belongs to it; otherwise a new one."""
        self.sweep()
        with self._lock:
            found = self._open.get(session_id)
            if found is not None and not found.is_over and hmac.compare_digest(found.secret, secret):
                is_nameless = principal.user is None and not principal.program
                is_theirs = is_nameless or found.session.client_id == principal.session_name
                # A client with another role has other rights: that is another session.
                same = found.session.role == principal.role and found.session.via == getattr(principal, "via", None)
                if is_theirs and same and found.session.purpose == purpose:
                    found.check = self._check_of(principal)
                    logger.debug("%s resumes a session", principal)
                    return found
        resumable = self._begin(principal, budget, purpose)
        session = resumable.session
        logger.debug("%s has a new session; there are %d", principal, len(self))
        if isinstance(principal, DelegatedPrincipal):
            session.via, session.delegation = principal.via, principal.delegation
            principal.delegation.end_with_me(resumable, self.end)
        return resumable

    def _begin(self, principal: Principal, budget: ByteBudget | None, purpose: str) -> ResumableSession:
        """Return a new session. A process may have to be started for it, so the lock is not held."""
        session = self.worker.open_session(principal.session_name)
        session.role, session.purpose = principal.role, purpose
        session.may_wait = True
        session.max_message_bytes = self.limit
        session.byte_budget = budget
        try:
            responder = self.open_responder(session)
        except Exception:
            session.close()
            raise
        resumable = ResumableSession(self.worker, session, self._check_of(principal), responder)
        with self._lock:
            self._open[resumable.id] = resumable
        return resumable

    def _check_of(self, principal: Principal) -> Callable[[], None]:
        return (
            principal.check
            if isinstance(principal, DelegatedPrincipal)
            else functools.partial(self.authenticator.check, principal)
        )

    def sweep(self) -> None:
        """End the sessions that were not resumed in time."""
        now = time.monotonic()
        with self._lock:
            late = [c for c in self._open.values() if c.left_at is not None and now - c.left_at > self.grace]
        for resumable in late:
            self.end(resumable)

    def end(self, resumable: ResumableSession) -> None:
        """End a session."""
        with self._lock:
            if self._open.pop(resumable.id, None) is not None:
                self._ended_requests += resumable.done
        logger.debug("A session of %r ended", resumable.session.client_id)
        resumable.end()

    def end_all(self, user: object = None) -> None:
        """End the sessions of a user, or all of them."""
        with self._lock:
            chosen = [c for c in self._open.values() if user is None or c.session.client_id == user]
        for resumable in chosen:
            self.end(resumable)

    @property
    def requests(self) -> int:
        """The number of requests processed so far, including those of open sessions."""
        with self._lock:
            return self._ended_requests + sum(resumable.done for resumable in self._open.values())

    @property
    def received(self) -> int:
        """The number of bytes received so far, including incomplete requests."""
        with self._lock:
            return self._ended_bytes + sum(connection.read_bytes for connection in self._connections)

    def __len__(self) -> int:
        return len(self._open)


def _parse_hello(contents: bytearray) -> tuple[str, bytes, str]:
    """Read the hello of a client: the session that it resumes, its secret, and the purpose of the connection."""
    if len(contents) > MAX_HELLO:
        raise SerdeError("This is not a valid hello.")
    parts = read_plain_tuple(contents, MAX_HELLO)
    if parts and type(parts[0]) is int and parts[0] != VERSION:
        raise SerdeError(versions_differ(parts[0], VERSION))  # later fields may differ between versions
    if len(parts) not in (3, 4) or list(map(type, parts[1:3])) != [str, bytes]:
        raise SerdeError("This is not a valid hello.")
    if parts[0] != VERSION or type(parts[0]) is not int:
        raise SerdeError("This is not a valid hello.")
    purpose = parts[3] if len(parts) == 4 else ""
    if type(purpose) is not str or len(purpose) > MAX_PURPOSE:
        raise SerdeError("This is not a valid hello.")
    return parts[1], parts[2], purpose
