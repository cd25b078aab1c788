"""Peering: connections between nodes on behalf of one user, opened by the supervisor and used by a session process.

The supervisor has the certificates and the network; a session process gets one connected socket at a time. Where TLS
is on, the supervisor encrypts and decrypts between the network and a socket pair.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from syft.core.id_provider import is_id
from syft.exceptions import AuthenticationError, NodeLostError, QuotaExceededError, SerdeError
from syft.grid.isolation.processes.channel import Frame
from syft.grid.isolation.supervisor.arguments import fingerprint, number, object_id, optional, secret, text
from syft.grid.isolation.supervisor.call_table import Principal, Reply, serves
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.server.peering import Headers, accept_socket, refuse, token_in
from syft.workers.delegation.dialer import ask_switch, left, reach
from syft.workers.delegation.grants import LIFETIME, MAX_PEERS
from syft.workers.delegation.node_names import check_peer as check_peer_name
from syft.workers.transport import framing
from syft.workers.transport.websocket import Endpoint

logger = logging.getLogger("syft.node")
_PIECE = 1 << 16
_MAX_EXPECTED = 64 * MAX_PEERS
_DIAL_SECONDS = 60.0


class SupervisedPeering:
    """Lets other nodes in that a session process expects, and hands their connections to it.

    Args:
        supervisor: the supervisor.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def sweep(self) -> None:
        """Do nothing: what belongs to a client ends with its conversation."""

    def take(self, transport: Any, headers: Headers, early: bytes) -> None:
        """Take a connection over, or refuse it; called in the event loop with the head of its request."""
        try:
            key = framing.fingerprint(token_in(dict(headers)))
            process, until = self._supervisor.expected.get(key, (None, 0.0))
            if process is None or process.is_over or until < time.monotonic():
                raise AuthenticationError("No client has introduced this worker here, or that was too long ago.")
            if early:
                raise AuthenticationError("A node must not send anything before the answer.")
            leave = _place_of(process)
            try:
                sock = accept_socket(transport, leave)
            except OSError:
                leave()
                raise
        except (AuthenticationError, QuotaExceededError, OSError) as error:
            logger.info("Another node was refused: %s", error)
            refuse(transport, error)
            return
        with sock:
            process.order("peer", key, fds=(sock.fileno(),))


@serves("expect", fingerprint)
def expect_peers(supervisor: Supervisor, principal: Principal, frame: Frame, *keys: Any) -> None:
    """Let other nodes in that show one of these tokens, given by their fingerprints."""
    if not all(type(key) is bytes and len(key) == 32 for key in keys) or len(keys) > MAX_PEERS:
        raise SerdeError("Other nodes are expected by the fingerprints of their tokens.")
    if any(key in supervisor.expected and supervisor.expected[key][0] is not principal.process for key in keys):
        raise SerdeError("Another user expects a node with this token.")
    own = sum(process is principal.process for process, _ in supervisor.expected.values())
    if own + len(keys) > _MAX_EXPECTED:
        raise SerdeError(f"A user expects at most {_MAX_EXPECTED} other nodes.")
    until = time.monotonic() + LIFETIME
    supervisor.expected.update(dict.fromkeys(keys, (principal.process, until)))


@serves("unexpect", fingerprint)
def forget_peers(supervisor: Supervisor, principal: Principal, frame: Frame, *keys: Any) -> None:
    """Let other nodes in no longer."""
    for key in keys:
        if supervisor.expected.get(key, (None, 0.0))[0] is principal.process:
            supervisor.expected.pop(key, None)


@serves("check_peer", text)
def check_peer(supervisor: Supervisor, principal: Principal, frame: Frame, url: Any) -> None:
    """Raise if the node does not connect to an address."""
    supervisor.rules.place(str(url)[:400])


@serves("dial", text, optional(number), secret, optional(object_id))
def dial(
    supervisor: Supervisor, principal: Principal, frame: Frame, url: Any, timeout: Any, token: Any, peer: Any = None
) -> Any:
    """Connect to another node, and hand over the socket once that node has switched to bytes.

    The process gets no connection to anything else: what it writes could be a command to a service of this machine.
    """
    where = supervisor.rules.place(str(url)[:400])
    seconds = min(float(timeout), _DIAL_SECONDS) if isinstance(timeout, int | float) else _DIAL_SECONDS
    leave = _place_of(principal.process)
    try:
        sock, binding = _connect(where, time.monotonic() + max(0.1, seconds), token, peer)
        if isinstance(sock, ssl.SSLSocket):
            sock = relay(sock, leave)
        else:
            sock.settimeout(None)
            leave()  # the process has the connection itself
    except Exception as error:
        leave()
        if not isinstance(error, OSError):
            raise
        # What answers there, or that nothing does, is no business of the user who named the address.
        logger.info("No node could be reached for %r: %s", principal.user, error)
        raise NodeLostError("there", "it can't be reached.") from None
    return Reply(binding, fds=[sock.detach()])


def _connect(where: Endpoint, deadline: float, token: bytes, peer: Any) -> tuple[socket.socket, bytes | None]:
    """Connect to a node and have it switch to bytes; returns the socket, and the binding to its certificate."""
    host, sock = reach(where, deadline, token)
    binding = None
    try:
        if where.context is not None:
            sock.settimeout(left(deadline))
            sock = secure = where.context.wrap_socket(sock, server_hostname=host)
            if is_id(peer):
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
    """Return a plain socket whose bytes travel over a TLS connection; one thread carries them.

    Args:
        secure: the TLS connection.
        at_end: called when the thread has ended.
    """
    ours, theirs = socket.socketpair()
    secure.setblocking(False)
    ours.setblocking(False)
    threading.Thread(target=_relay, args=(secure, ours, at_end), name="syft tls relay", daemon=True).start()
    return theirs


def _relay(secure: ssl.SSLSocket, plain: socket.socket, at_end: Callable[[], None]) -> None:
    try:
        _carry(secure, plain)
    finally:
        at_end()


def _place_of(process: SessionHandle) -> Callable[[], None]:
    """Take a place for a connection of a process; returns the function that gives it back."""
    leave = process.relays.take()
    if leave is None:
        one, node = process.relays, process.supervisor.relays
        raise QuotaExceededError(
            f"{one.taken} of {one.limit} connections of this session with other nodes, and {node.taken} of "
            f"{node.limit} of this node, are in use. Close connections that are not needed, or try again later."
        )
    return leave


def _carry(secure: ssl.SSLSocket, plain: socket.socket) -> None:
    """Carry bytes both ways until one side ends."""
    outgoing, incoming = bytearray(), bytearray()
    with secure, plain, contextlib.suppress(OSError):
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
    """Receive what is there; False at the end of the stream."""
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
