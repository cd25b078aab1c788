"""Websocket clients: refused connections, clients that are closed and connected again, and servers in notebooks."""

from __future__ import annotations

import socket
import ssl

import pytest
import torch

import syft as sy
from syft.exceptions import NodeRefusedError, NodeUnreachableError
from syft.workers.node_client import NodeClient
from syft.workers.websocket_client import WebsocketClientWorker, unreachable


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return port


# --- refused connections --------------------------------------------------------------------------------------


def test_k1_a_refused_connection_is_a_connection_refused_error(hook, free_port):
    for make in (
        lambda: WebsocketClientWorker(hook, "localhost", free_port, id="nobody"),
        lambda: NodeClient(hook, f"ws://localhost:{free_port}"),
        lambda: NodeClient(hook, f"ws://localhost:{free_port}", id="nobody"),
        lambda: sy.connect(f"ws://127.0.0.1:{free_port}", hook=hook),
    ):
        with pytest.raises(ConnectionRefusedError, match="connection refused. Check that the node runs") as refused:
            make()
        assert isinstance(refused.value, NodeRefusedError)
        assert isinstance(refused.value, NodeUnreachableError) and isinstance(refused.value, OSError)
        assert refused.value.code == "SY208"
    assert "nobody" not in hook.local_worker._known_workers


def test_k1_other_failures_are_connection_errors_and_not_refused():
    for error in (
        TimeoutError("late"),
        ConnectionResetError(104, "reset"),
        ssl.SSLError(1, "tls"),
        socket.gaierror(-2, "unknown"),
    ):
        found = unreachable(error, "ws://localhost:1")
        assert isinstance(found, ConnectionError) and not isinstance(found, ConnectionRefusedError)
        assert str(found).startswith("Could not reach ws://localhost:1: ")


def test_k1_a_program_waits_for_its_server_in_a_loop(hook, free_port):
    """The loop of the tutorials: start a server, and connect until it listens."""
    tries, server = 0, None
    try:
        while True:
            try:
                worker = WebsocketClientWorker(hook, "localhost", free_port, id="late-alice")
                break
            except ConnectionRefusedError:
                tries += 1
            if server is None:
                server = sy.WebsocketServerWorker(sy.TorchHook(torch), "localhost", free_port, id="late-alice")
                sy.local_worker._known_workers.pop("late-alice")
                server.start(background=True)
        assert tries >= 1 and torch.ones(2).send(worker).get().tolist() == [1.0, 1.0]
        worker.close()
    finally:
        if server is not None:
            server.stop()
        hook.local_worker._known_workers.pop("late-alice", None)
