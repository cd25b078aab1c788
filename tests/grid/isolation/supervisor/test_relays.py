"""The connections that the supervisor relays: bounded for a process and for the node, and counted by itself."""

from __future__ import annotations

import contextlib
import socket
import threading
import types

import pytest

from syft.exceptions import QuotaExceededError
from syft.grid.certificates import client_context, issue, make_authority, server_context
from syft.grid.isolation.supervisor import peering
from syft.grid.isolation.supervisor.call_table import CALLS
from syft.grid.isolation.supervisor.connection_limits import ConnectionLimits
from syft.grid.server.peering import _SWITCH
from syft.workers.transport.websocket import Endpoint
from tests.helpers.nodes import soon


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """A TLS server that switches protocols and echoes bytes; returns its address with a context."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = make_authority(folder / "authority", "town")
    made = issue(authority, ["localhost", "127.0.0.1"], folder / "node", node_id="a")
    context, listener = server_context(made.certificate, made.key), socket.create_server(("127.0.0.1", 0))

    def serve(sock):
        with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secure:
            assert secure.recv(1000).startswith(b"GET /peer HTTP/1.1\r\n")
            secure.sendall(_SWITCH)
            while data := secure.recv(1000):
                secure.sendall(data)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield Endpoint(f"wss://localhost:{listener.getsockname()[1]}", None, client_context(authority.certificate))
    listener.close()


def process_of(supervisor, limit):
    return types.SimpleNamespace(user="alice", supervisor=supervisor, relays=ConnectionLimits(limit, supervisor.relays))


def dial(process, where):
    reply = peering.dial(process, b"", where.url, 10.0, b"t" * 32)
    return socket.socket(fileno=reply.fds[0])


def test_relays_are_bounded_for_a_process_and_for_the_node(echo):
    supervisor = types.SimpleNamespace(relays=ConnectionLimits(3), rules=types.SimpleNamespace(place=lambda url: echo))
    one, other = process_of(supervisor, 2), process_of(supervisor, 2)
    with contextlib.ExitStack() as closing:
        socks = [closing.enter_context(dial(process, echo)) for process in (one, one, other)]
        for process, found in ((one, "2 of 2 connections of this session"), (other, "3 of 3 of this node")):
            with pytest.raises(QuotaExceededError, match=found):
                dial(process, echo)
        for sock in socks:
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
        socks[0].close()
        assert soon(lambda: one.relays.used == 1, 10) and supervisor.relays.used == 2
        closing.enter_context(dial(other, echo))
    assert soon(lambda: supervisor.relays.used == 0, 10)
    assert one.relays.used == other.relays.used == 0


def test_an_address_that_can_not_be_reached_counts_no_connection(echo):
    gone = Endpoint("wss://localhost:1", None, echo.context)
    supervisor = types.SimpleNamespace(relays=ConnectionLimits(1), rules=types.SimpleNamespace(place=lambda url: gone))
    process = process_of(supervisor, 1)
    for _ in range(3):
        with pytest.raises(Exception, match="can't be reached"):
            dial(process, gone)
    assert supervisor.relays.used == 0


def test_no_process_can_release_connections():
    assert "peer_left" not in CALLS


def test_a_connection_is_released_once():
    node = ConnectionLimits(8)
    process = ConnectionLimits(4, node)
    releases = [process.acquire() for _ in range(4)]
    assert process.acquire() is None
    threads = [threading.Thread(target=release) for release in releases * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.used == node.used == 0
