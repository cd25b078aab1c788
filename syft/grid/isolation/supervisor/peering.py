"""Peering: connections between nodes on behalf of one user, opened by the supervisor and used by a session process.

The supervisor has the certificates and the network; a session process gets one connected socket at a time. Where TLS
is on, the supervisor encrypts and decrypts between the network and a socket pair.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable

from syft.core.id_provider import ObjectId
from syft.exceptions import AuthenticationError, NodeLostError, QuotaExceededError, SerdeError
from syft.grid.isolation.supervisor.arguments import fingerprint, number, object_id, optional, secret, text
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.server.peering import Headers, accept_socket, refuse, token_in
from syft.workers.delegation.dialer import ask_switch, left, reach
from syft.workers.delegation.grants import LIFETIME, MAX_PEERS
from syft.workers.delegation.node_names import check_peer as check_peer_name
from syft.workers.transport import handshake
from syft.workers.transport.websocket import Endpoint

logger = logging.getLogger("syft.node")
_PIECE = 1 << 16
_MAX_EXPECTED = 64 * MAX_PEERS
_DIAL_SECONDS = 60.0


class SupervisedPeering:
    """Accepts connections of other nodes that a session process expects, and passes them to it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def sweep(self) -> None:
        """Do nothing: connections on behalf of a client end with its session."""

    def take(self, transport: asyncio.Transport, headers: Headers, early: bytes) -> None:
        """Accept a connection, or refuse it; called in the event loop with the headers of its request."""
        try:
            key = handshake.fingerprint(token_in(dict(headers)))
            process, until = self._supervisor.expected.get(key, (None, 0.0))
            if process is None or process.is_over or until < time.monotonic():
                raise AuthenticationError("No client has introduced this worker here, or the introduction has expired.")
            if early:
                raise AuthenticationError("A node must not send anything before the answer.")
            release = _acquire_relay(process)
            try:
                sock = accept_socket(transport, release)
            except OSError:
                release()
                raise
        except (AuthenticationError, QuotaExceededError, OSError) as error:
            logger.info("Another node was refused: %s", error)
            refuse(transport, error)
            return
        with sock:
            process.order("peer", key, fds=(sock.fileno(),))


@serves("expect", fingerprint)
def expect_peers(caller: SessionHandle, body: bytearray, *keys: bytes) -> None:
    """Accept other nodes that present one of these tokens, given by their fingerprints."""
    if len(keys) > MAX_PEERS:
        raise SerdeError(f"A call expects at most {MAX_PEERS} other nodes, got {len(keys)}.")
    supervisor = caller.supervisor
    if any(key in supervisor.expected and supervisor.expected[key][0] is not caller for key in keys):
        raise SerdeError("Another user expects a node with this token.")
    own = sum(process is caller for process, _ in supervisor.expected.values())
    if own + len(keys) > _MAX_EXPECTED:
        raise SerdeError(f"A user expects at most {_MAX_EXPECTED} other nodes.")
    until = time.monotonic() + LIFETIME
    supervisor.expected.update(dict.fromkeys(keys, (caller, until)))


@serves("check_peer", text)
def check_peer(caller: SessionHandle, body: bytearray, url: str) -> None:
    """Raise if the outbound policy of the node forbids an address."""
    caller.supervisor.rules.place(url[:400])


@serves("dial", text, optional(number), secret, optional(object_id))
def dial(
    caller: SessionHandle, body: bytearray, url: str, timeout: float | None, token: bytes, peer: ObjectId | None = None
) -> Reply:
    """Connect to another node, and pass the socket on once that node has switched protocols.

    The process gets no other connections: its bytes could be a command to a service of this machine.
    """
    where = caller.supervisor.rules.place(url[:400])
    seconds = _DIAL_SECONDS if timeout is None else min(float(timeout), _DIAL_SECONDS)
    release = _acquire_relay(caller)
    try:
        sock, binding = _connect(where, time.monotonic() + max(0.1, seconds), token, peer)
        if isinstance(sock, ssl.SSLSocket):
            sock = relay(sock, release)
        else:
            sock.settimeout(None)
            release()  # the process has the connection itself
    except Exception as error:
        release()
        if not isinstance(error, OSError):
            raise
        # The user who named the address must not learn whether or what answers there.
        logger.info("No node could be reached for %r: %s", caller.user, error)
        raise NodeLostError("there", "it can't be reached.") from None
    return Reply(binding, fds=[sock.detach()])


def _connect(
    where: Endpoint, deadline: float, token: bytes, peer: ObjectId | None
) -> tuple[socket.socket, bytes | None]:
    """Connect to a node and switch protocols; return the socket, and the binding to its certificate."""
    host, sock = reach(where, deadline, token)
    binding = None
    try:
        if where.context is not None:
            sock.settimeout(left(deadline))
            sock = secure = where.context.wrap_socket(sock, server_hostname=host)
            if peer is not None:
                check_peer_name(secure.getpeercert(), peer, where.url)
            binding = b"tls" + hashlib.sha256(secure.getpeercert(binary_form=True) or b"").digest()

        def receive(count: int) -> bytes:
            sock.settimeout(left(deadline))
            return sock.recv(count)

        ask_switch(where, sock.sendall, receive, token)
        return sock, binding
    except Exception:
        sock.close()
        raise


def relay(secure: ssl.SSLSocket, at_end: Callable[[], None] = lambda: None) -> socket.socket:
    """Return a plain socket whose bytes one thread relays over a TLS connection, until it calls `at_end`."""
    ours, theirs = socket.socketpair()
    secure.setblocking(False)
    ours.setblocking(False)
    threading.Thread(target=_relay, args=(secure, ours, at_end), name="syft tls relay", daemon=True).start()
    return theirs


def _acquire_relay(process: SessionHandle) -> Callable[[], None]:
    """Count a connection of a process, and return the function that releases it."""
    release = process.relays.acquire()
    if release is None:
        one, node = process.relays, process.supervisor.relays
        raise QuotaExceededError(
            f"{one.used} of {one.limit} connections of this session with other nodes, and {node.used} of "
            f"{node.limit} of this node, are in use. Close connections that are not needed, or try again later."
        )
    return release


def _relay(secure: ssl.SSLSocket, plain: socket.socket, at_end: Callable[[], None]) -> None:
    """Relay bytes in both directions until one side closes."""
    outgoing, incoming = bytearray(), bytearray()
    with contextlib.ExitStack() as stack, secure, plain, contextlib.suppress(OSError):
        stack.callback(at_end)
        while True:
            if not _wait(secure, plain, outgoing, incoming):
                continue
            if not outgoing and not _fill(outgoing, plain):
                break
            if not incoming and not _fill(incoming, secure):
                break
            _drain(outgoing, secure)
            _drain(incoming, plain)


def _wait(secure: ssl.SSLSocket, plain: socket.socket, outgoing: bytearray, incoming: bytearray) -> bool:
    if secure.pending():
        return True
    poll = select.poll()
    poll.register(secure, (0 if incoming else select.POLLIN) | (select.POLLOUT if outgoing else 0))
    poll.register(plain, (0 if outgoing else select.POLLIN) | (select.POLLOUT if incoming else 0))
    return bool(poll.poll(60_000))


def _fill(buffer: bytearray, sock: socket.socket) -> bool:
    """Receive the available bytes; False at the end of the stream."""
    try:
        data = sock.recv(_PIECE)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return True
    buffer += data
    return bool(data)


def _drain(buffer: bytearray, sock: socket.socket) -> None:
    if buffer:
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            del buffer[: sock.send(buffer)]
