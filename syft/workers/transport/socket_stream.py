"""Workers on sockets: the stream of a client, and the listener that serves announced clients.

The identity of a client follows from its token, which the process that made both ends issued for it. Nothing that a
client says about itself counts.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.exceptions import SerdeError, WorkerLostError
from syft.messaging.message import ErrorMessage
from syft.serde import serialize
from syft.workers.execution.session import Session
from syft.workers.transport import handshake
from syft.workers.transport.fork_safety import belongs_here, drop
from syft.workers.transport.framing import AFTER, ANSWER, REQUEST, FramedConnection
from syft.workers.transport.handshake import HANDSHAKE_SECONDS, Address
from syft.workers.transport.pipe import Bytes, SocketPipe
from syft.workers.transport.pipelined import Line, PipelinedStream, pass_on_releases
from syft.workers.transport.request_codec import answer

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")
# Successful requests are acknowledged at intervals, so that the client can forget them.
ACKNOWLEDGED = 256
# Concurrent handshakes, beyond which the oldest is closed; threads for them; and dismissed tokens that are remembered.
MAX_HANDSHAKES = 64
MAX_VISITORS = 4 * MAX_HANDSHAKES
MAX_DISMISSED = 1024
# Seconds that a listener waits after it could not accept a connection.
_PAUSE = 0.1
# Purpose of a connection, up to its first colon -> its handler: function(worker, peer, purpose, socket).
PURPOSES: dict[str, Callable[[Any, PeerIdentity, str, socket.socket], None]] = {}
# Called with the worker of a new process, before it serves clients.
SERVED: list[Callable[[Any], None]] = []


class PeerIdentity(NamedTuple):
    """The authenticated peer of a connection.

    Attributes:
        id: its id.
        delegation: the delegation that it acts under; None: it acts for itself, among processes of one program.
        key: the fingerprint of the key that it proved to hold on this connection; None without proof.
    """

    id: ObjectId
    delegation: Any = None
    key: str | None = None


class SocketStream(PipelinedStream):
    """A stream to a worker in another process, over a socket; the worker knows the client's identity."""

    def __init__(self, client: BaseWorker, location: BaseWorker, sock: socket.socket) -> None:
        super().__init__(client, location)
        self.largest = current().max_message_bytes
        self._pipe = SocketPipe(sock)
        self._connection = FramedConnection(self._pipe, self.largest)
        # Orders of the worker's maker that precede what was written so far.
        self._orders = 0
        self._start(self._read_all)

    def detach_after_fork(self) -> None:
        """Leave the stream to the process from which this one was forked."""
        super().detach_after_fork()
        self._pipe.detach_after_fork()

    def _put(self, request: bytes, line: Line, future: Future[Bytes] | None) -> None:
        with self._order:
            if self._lost is None:
                self._number += 1
                self._pending.append((self._number, line, future))
                orders = getattr(self.location, "orders_given", 0)
                if orders > self._orders:
                    self._orders = orders
                    self._connection.write_soon(AFTER, orders, b"")
                self._connection.write_soon(REQUEST, self._number, request)
                return
        raise WorkerLostError(self.location.id, self._lost)

    def _read_all(self) -> None:
        reason = ""
        try:
            while (frame := self._connection.read()) is not None:
                self._receive_answer(*frame)
        except SerdeError as error:
            reason = str(error)
        self._connection.close()
        self._fail_pending(reason or ("it was closed." if self._closed else self.location.why_lost()))

    def close(self) -> None:
        """Deliver what is queued and end the session."""
        if not self._closed:
            self._closed = True
            self._connection.drain(current().stream_timeout)
            self._pipe.finish()
            self._thread.join(timeout=current().stream_timeout)
            self._connection.close()
            self.raise_failure()


def serve(worker: BaseWorker, session: Session, connection: FramedConnection) -> None:
    """Serve the requests of one client until its connection ends."""
    session.may_wait = True
    try:
        while (frame := connection.read()) is not None:
            kind, number, request = frame
            if kind == AFTER and hasattr(worker, "await_orders"):
                worker.await_orders(number)
                continue
            if kind != REQUEST:
                return
            written = answer(worker, session, request)
            if written or number % ACKNOWLEDGED == 0:
                _write_answer(connection, number, written)
            pass_on_releases(worker)
    except (OSError, SerdeError) as error:
        logger.info("The connection of %r to %r ended: %s", session.client_id, worker.id, error)
    finally:
        session.close()
        connection.close()


def _write_answer(connection: FramedConnection, number: int, written: bytes) -> None:
    try:
        connection.write(ANSWER, number, written)
    except SerdeError as error:  # an error about its size fits
        connection.write(ANSWER, number, serialize(ErrorMessage((type(error).__name__, str(error), ""))))


class Listener:
    """Accepts clients that show an announced token, and serves each in a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.port: int = sock.getsockname()[1]
        # fingerprint of a token -> (worker, id of the client, proof of the worker, the only purpose or None)
        self._announced: dict[bytes, tuple[weakref.ref[Any], ObjectId, bytes, str | None]] = {}
        # Tokens that were valid once, so a handshake does not wait for them to be announced. The oldest are dropped.
        self._dismissed: dict[bytes, None] = {}
        self._news = threading.Condition()
        self._closed = threading.Event()
        self._visitors = threading.BoundedSemaphore(MAX_VISITORS)
        self._handshakes: dict[socket.socket, None] = {}
        self._counting = threading.Lock()
        belongs_here(self)
        threading.Thread(target=self._accept_all, name="syft listener", daemon=True).start()

    def detach_after_fork(self) -> None:
        """Leave it to the process from which this one was forked, which makes a hub of its own."""
        drop(self._sock)
        if self in _hub:
            _hub.clear()

    def announce(self, worker: BaseWorker, client_id: ObjectId, address: Address, purpose: str | None = None) -> None:
        """Accept a client of a worker from now on, by its token; for one purpose only, if it is given."""
        with self._news:
            for gone in [key for key, (known, *_) in self._announced.items() if known() is None]:
                del self._announced[gone]
            visit = (weakref.ref(worker), client_id, address.proof, purpose)
            self._announced[handshake.fingerprint(address.token)] = visit
            self._news.notify_all()

    def dismiss(self, address: Address) -> None:
        """Reject the token of an address from now on."""
        key = handshake.fingerprint(address.token)
        with self._news:
            self._announced.pop(key, None)
            self._dismissed[key] = None
            while len(self._dismissed) > MAX_DISMISSED:
                del self._dismissed[next(iter(self._dismissed))]

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._sock.close()

    def _accept_all(self) -> None:
        while True:
            self._visitors.acquire()
            try:
                sock, _ = self._sock.accept()
            except OSError as error:  # a connection that is gone already, or too many open files
                self._visitors.release()
                if self._closed.wait(_PAUSE):
                    return
                logger.warning("A connection could not be accepted: %s", error)
                continue
            self._make_room(sock)
            threading.Thread(target=self._meet, args=(sock,), name="syft visitor", daemon=True).start()

    def _make_room(self, sock: socket.socket) -> None:
        """Register a handshake; a client that sends nothing must not block others."""
        with self._counting:
            self._handshakes[sock] = None
            slowest = next(iter(self._handshakes))
            if len(self._handshakes) <= MAX_HANDSHAKES:
                return
            del self._handshakes[slowest]
        with contextlib.suppress(OSError):
            slowest.shutdown(socket.SHUT_RDWR)

    def _meet(self, sock: socket.socket) -> None:
        try:
            worker, client_id, purpose = self._shake_hands(sock)
        except (OSError, LookupError) as error:
            logger.info("A connection was rejected: %s", error)
            sock.close()
            return
        finally:
            with self._counting:
                self._handshakes.pop(sock, None)
            self._visitors.release()
        handler = PURPOSES.get(purpose.partition(":")[0])
        if not purpose:
            connection = FramedConnection(SocketPipe(sock), current().max_message_bytes)
            serve(worker, worker.open_session(client_id), connection)
        elif handler is None:
            sock.close()
        else:
            handler(worker, PeerIdentity(client_id), purpose, sock)

    def _shake_hands(self, sock: socket.socket) -> tuple[Any, ObjectId, str]:
        token, purpose = handshake.receive_hello(sock)
        key = handshake.fingerprint(token)
        # A client may connect before it is announced; with many handshakes of unknown tokens the wait is shorter.
        wait = HANDSHAKE_SECONDS / 2 if len(self._handshakes) <= MAX_HANDSHAKES // 2 else _PAUSE
        with self._news:
            self._news.wait_for(lambda: key in self._announced or key in self._dismissed, wait)
            reference, client_id, proof, only = self._announced[key]
        if only is not None and purpose != only:
            raise LookupError("its token is valid for another purpose only")
        worker = reference()
        if worker is None:
            raise LookupError("the worker is gone")
        sock.sendall(proof)
        handshake.ready(sock)
        return worker, client_id, purpose


_hub: list[Listener] = []
_opening_hub = threading.Lock()


def hub() -> Listener:
    """Return the listener through which other processes reach workers of this process."""
    with _opening_hub:
        if not _hub:
            _hub.append(Listener(handshake.listen()))
        return _hub[0]
