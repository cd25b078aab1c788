"""SessionRegistry: the sessions of clients, which outlive their connections for a while.

A client comes back to its conversation with a secret that only the two know. Requests are done in order and once: who
comes back hears which was done last. Answers are kept until the client says that it has seen them.
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
# A request that went well is answered only now and then, so that its writer can forget it.
ACKNOWLEDGED = 256
ACKNOWLEDGED_BYTES = 1 << 20
# Answers that a client was sent and has not said it saw.
MAX_UNSEEN = 4096
MAX_UNSEEN_BYTES = 1 << 30
MAX_HELLO = 1 << 12
MAX_PURPOSE = 300
# Conversations of one user whose connections were lost, and that wait for it to come back.
MAX_LEFT = 64
# How often it is looked whether a client's token is still good, in seconds.
_CHECK = 1.0
# How long the end of a conversation waits for what is being done in it, in seconds.
_LAST_WAIT = 5.0


@dataclasses.dataclass(slots=True)
class UnackedResponse:
    """An answer that the client may not have got yet.

    Attributes:
        written: the answer.
        leaving: the objects that leave with it.
    """

    written: bytes
    leaving: Any


def _error_answer(error: Exception) -> bytes:
    return serialize(ErrorMessage((type(error).__name__, str(error), "")))


class ResumableSession:
    """What a node and one client have said to each other, over any number of connections.

    Args:
        worker: the worker that is spoken to.
        session: who speaks.
        check: raises AuthenticationError if the client may not stay.
        responder: answers its requests.
    """

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
        """Speak over a connection until it ends; one that was spoken over before ends with that."""
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
        if number <= self.done:  # it came twice
            return
        if number != self.done + 1:
            raise SerdeError(f"Request {number} does not follow request {self.done}.")
        self.check_stay()
        try:
            written, leaving = self.responder.respond(request)
        except SessionEndedError as error:
            self.is_over = True
            # Before the answer, so that the client's next call begins a new session.
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
        """See whether the session lasts, and now and then whether the token is still good: else AuthenticationError."""
        if self.is_over:
            raise AuthenticationError("The session has ended.")
        now = time.monotonic()
        if now - self._checked_at > _CHECK:
            self.check()
            self._checked_at = now

    def _write_answer(self, connection: FramedConnection, number: int, written: bytes) -> None:
        try:
            connection.write(ANSWER, number, written)
        except SerdeError as error:  # it is too large; saying so is not
            connection.write(ANSWER, number, self._say_instead(number, error))

    def _say_instead(self, number: int, error: Exception) -> bytes:
        """Keep an error in place of an answer, whose objects stay."""
        said = _error_answer(error)
        unseen = self._unseen.pop(number)
        self.responder.put_back(unseen.leaving)
        self._unseen[number] = UnackedResponse(said, None)
        self._unseen_bytes += len(said) - len(unseen.written)
        return said

    def _hold(self) -> None:
        """Hold what unseen answers take in the budget of the user; ByteBudgetError if there is no room."""
        if self._held is None and self.session.byte_budget is not None:
            self._held = Holding(self.session.byte_budget)
        if self._held is not None:
            self._held.follow(self._unseen_bytes)

    def _keep(self, number: int, unseen: UnackedResponse) -> bytes:
        """Keep an answer until the client has seen it, or an error if there is no room; returns the one kept."""
        self._unseen[number] = unseen
        self._unseen_bytes += len(unseen.written)
        crowded = len(self._unseen) > 1 and self._unseen_bytes > MAX_UNSEEN_BYTES
        if len(self._unseen) > MAX_UNSEEN or crowded:
            self.is_over = True
            raise SerdeError("This client does not say which answers it has seen.")
        try:
            self._hold()
        except ByteBudgetError as error:
            return self._say_instead(number, error)
        return unseen.written

    def _see(self, number: int) -> None:
        """Let go of what the client has got."""
        while self._unseen and next(iter(self._unseen)) <= number:
            _, unseen = self._unseen.popitem(last=False)
            self._unseen_bytes -= len(unseen.written)
            if unseen.leaving is not None:
                self.responder.let_go(unseen.leaving)
        if self._held is not None:
            self._held.follow(min(self._unseen_bytes, self._held.size))

    def end(self) -> None:
        """End the session: what left and did not arrive stays, what only the client held goes."""
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
    """The conversations of a node.

    Args:
        worker: the node's worker.
        door: says whether somebody who was let in may stay.
        grace: seconds that a conversation is kept after its connection was lost.
        limit: the largest message that is read.
    """

    def __init__(self, worker: BaseWorker, door: Authenticator, grace: float, limit: int) -> None:
        self.worker = worker
        self.limit = limit
        self.door = door
        self.grace = grace
        # What those did and sent that have ended; others are asked themselves.
        self._ended_requests = 0
        self._ended_bytes = 0
        # Makes what answers the requests of a session: in this process, or in one of its own.
        self.open_responder: Callable[[Session], Responder] = LocalResponder
        self._connections: set[FramedConnection] = set()
        self._open: dict[str, ResumableSession] = {}
        self._lock = threading.Lock()

    def serve(self, connection: FramedConnection, guest: Principal) -> None:
        """Serve a client until its connection ends; who it is was found out before.

        Args:
            connection: the client's.
            guest: who it is.
        """
        conversation: ResumableSession | None = None
        with self._lock:
            self._connections.add(connection)
        try:
            frame = connection.read(within=connection.patience)
            if frame is None or frame[0] != HELLO:
                return
            _, seen, contents = frame
            conversation = self._greet(connection, guest, contents)
            connection.limit = self.limit
            conversation.take(connection, seen)
        except (OSError, SerdeError, AuthenticationError) as error:
            logger.info("The connection of %r ended: %s", guest.user, error)
        except Exception:
            logger.exception("The connection of %r ended", guest.user)
        finally:
            connection.close()
            connection.release()
            with self._lock:
                self._connections.discard(connection)
                self._ended_bytes += connection.read_bytes
            if conversation is not None and conversation.is_over:
                self.end(conversation)

    def _greet(self, connection: FramedConnection, guest: Principal, contents: bytearray) -> ResumableSession:
        """Return the conversation that a client begins or resumes; one that is refused gets the reason."""
        try:
            return self._find(guest, connection.budget, *_parse_hello(contents))
        except SyftError as error:
            connection.write(BYE, 0, str(error)[:MAX_REFUSAL].encode())  # a plain text, which every version can read
            raise SerdeError(str(error)) from None

    def _find(
        self, guest: Principal, budget: ByteBudget | None, session_id: str, secret: bytes, purpose: str
    ) -> ResumableSession:
        """Return the conversation that somebody comes back to, if it is theirs; otherwise a new one."""
        self.sweep()
        with self._lock:
            found = self._open.get(session_id)
            if found is not None and not found.is_over and hmac.compare_digest(found.secret, secret):
                is_theirs = guest.user is None or found.session.client_id == guest.user
                # Who comes back with another role has other rights: that is another session.
                same = found.session.role == guest.role and found.session.via == getattr(guest, "via", None)
                if is_theirs and same and found.session.purpose == purpose:
                    found.check = self._check_of(guest)
                    logger.debug("%s comes back to a session", guest)
                    return found
        conversation = self._begin(guest, budget, purpose)
        session = conversation.session
        logger.debug("%s has a new session; there are %d", guest, len(self))
        if isinstance(guest, DelegatedPrincipal):
            session.via, session.circle = guest.via, guest.circle
            guest.circle.end_with_me(conversation, self.end)
        return conversation

    def _begin(self, guest: Principal, budget: ByteBudget | None, purpose: str) -> ResumableSession:
        """Return a new conversation. A process may have to be started for it, so the lock is not held."""
        name = guest.user if guest.user is not None else f"anonymous-{secrets.token_hex(8)}"
        session = self.worker.open_session(name)
        session.role, session.purpose = guest.role, purpose
        session.may_wait = True
        session.max_message_bytes = self.limit
        session.byte_budget = budget
        try:
            responder = self.open_responder(session)
        except Exception:
            session.close()
            raise
        conversation = ResumableSession(self.worker, session, self._check_of(guest), responder)
        with self._lock:
            self._open[conversation.id] = conversation
        return conversation

    def _check_of(self, guest: Principal) -> Callable[[], None]:
        return guest.check if isinstance(guest, DelegatedPrincipal) else functools.partial(self.door.check, guest)

    def sweep(self) -> None:
        """End the conversations whose clients did not come back."""
        now = time.monotonic()
        with self._lock:
            late = [c for c in self._open.values() if c.left_at is not None and now - c.left_at > self.grace]
        for conversation in late:
            self.end(conversation)

    def end(self, conversation: ResumableSession) -> None:
        """End a conversation for good."""
        with self._lock:
            if self._open.pop(conversation.id, None) is not None:
                self._ended_requests += conversation.done
        logger.debug("A session of %r ended", conversation.session.client_id)
        conversation.end()

    def end_all(self, user: object = None) -> None:
        """End the conversations of a user, or all of them."""
        with self._lock:
            chosen = [c for c in self._open.values() if user is None or c.session.client_id == user]
        for conversation in chosen:
            self.end(conversation)

    @property
    def requests(self) -> int:
        """How many requests were answered so far, those of clients that are here included."""
        with self._lock:
            return self._ended_requests + sum(conversation.done for conversation in self._open.values())

    @property
    def received(self) -> int:
        """How many bytes came so far, also of a request that is not whole or not answered yet."""
        with self._lock:
            return self._ended_bytes + sum(connection.read_bytes for connection in self._connections)

    def __len__(self) -> int:
        return len(self._open)


def _parse_hello(contents: bytearray) -> tuple[str, bytes, str]:
    """Read how a client begins: the session that it resumes, its secret, and what the connection is for."""
    if len(contents) > MAX_HELLO:
        raise SerdeError("This is not how a client begins.")
    parts = read_plain_tuple(contents, MAX_HELLO)
    if parts and type(parts[0]) is int and parts[0] != VERSION:
        raise SerdeError(versions_differ(parts[0], VERSION))  # what follows may be of another kind there
    if len(parts) not in (3, 4) or list(map(type, parts[1:3])) != [str, bytes]:
        raise SerdeError("This is not how a client begins.")
    if parts[0] != VERSION or type(parts[0]) is not int:
        raise SerdeError("This is not how a client begins.")
    purpose = parts[3] if len(parts) == 4 else ""
    if type(purpose) is not str or len(purpose) > MAX_PURPOSE:
        raise SerdeError("This is not how a client begins.")
    return parts[1], parts[2], purpose
