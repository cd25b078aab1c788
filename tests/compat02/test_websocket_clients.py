"""Websocket clients: refused connections, clients that are closed and connected again, and servers in notebooks."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import urllib.request

import pytest
import torch

import syft as sy
from syft.exceptions import NodeLostError, NodeRefusedError, NodeUnreachableError
from syft.workers.node_client import NodeClient
from syft.workers.transport import fork_safety
from syft.workers.websocket_client import WebsocketClientWorker, unreachable
from tests.helpers.nodes import soon, websocket_server


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


# --- closed, and connected again ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with websocket_server("again-alice") as process:
        yield process


@pytest.fixture
def alice(hook, server):
    worker = WebsocketClientWorker(hook, "localhost", server.port, id="again-alice")
    yield worker
    worker.clear_objects()
    worker.close()
    hook.local_worker._known_workers.pop("again-alice", None)


def test_k2_objects_and_pointers_survive_close_and_connect(alice):
    x = torch.tensor([1.0, 2.0], requires_grad=True).tag("#kept").send(alice)
    published = torch.ones(2).send(alice, garbage_collect_data=False)
    y = x * 2
    alice.close()
    alice.connect()
    assert y.get().tolist() == [2.0, 4.0]
    (x * published).sum().backward()
    assert x.grad.copy().get().tolist() == [1.0, 1.0]
    assert [pointer.id_at_location for pointer in alice.search("#kept")] == [x.id_at_location]
    assert (torch.ones(2).send(alice) + x).get().tolist() == [2.0, 3.0]
    assert x.get().tolist() == [1.0, 2.0] and published.get().tolist() == [1.0, 1.0]
    assert alice.objects_count_remote() == 0


def test_k2_the_next_call_connects_again(alice):
    x = torch.tensor([3.0]).send(alice)
    for _ in range(3):
        alice.close()
        x = x + 1
    alice.close()
    assert x.get().tolist() == [6.0]


def test_k2_models_and_plans_survive(alice):
    model = torch.nn.Linear(2, 1).send(alice)
    alice.close()
    data = torch.ones(3, 2).send(alice)
    assert model(data).get().shape == (3, 1)
    alice.close()
    alice.connect()
    assert model.get().weight.shape == (1, 2)


def test_k2_pointers_that_were_dropped_in_between_are_released(alice):
    x, y = torch.zeros(1).send(alice), torch.zeros(2).send(alice)
    assert alice.objects_count_remote() == 2
    alice.close()
    del x
    alice.connect()
    assert alice.objects_count_remote() == 1
    assert y.get().tolist() == [0.0, 0.0]


def test_k2_without_pointers_the_session_ends_at_once(hook, server, alice):
    """Nothing of the client is kept then; a second client sees that the sessions are gone."""
    x = torch.ones(3).send(alice)
    x.get()
    stream = sy.local_worker.stream_to(alice)
    alice.close()
    assert stream.is_over and not stream.is_suspended
    alice.connect()
    assert sy.local_worker.stream_to(alice) is not stream


def test_k2_closing_twice_and_connecting_twice_is_fine(alice):
    x = torch.ones(1).send(alice)
    alice.close()
    alice.close()
    alice.connect()
    alice.connect()
    assert x.get().tolist() == [1.0]


def test_k2_errors_of_earlier_calls_are_raised_by_close(alice):
    x = torch.zeros(2, 2).send(alice)
    y = torch.linalg.inv(x)
    with pytest.raises(torch.linalg.LinAlgError):
        alice.close()
    alice.connect()
    assert x.get().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    del y


SHORT = """
from syft.grid.server import app
app._SWEEP = 0.05
worker._context.sessions.grace = 0.0
"""


def has_no_sessions(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        return b"syft_sessions 0\n" in answer.read()


def test_k2_after_the_grace_time_there_is_a_clear_error(hook):
    with websocket_server("short-alice", prepare=SHORT) as server:
        worker = WebsocketClientWorker(hook, "localhost", server.port, id="short-alice")
        kept = torch.ones(2).tag("#kept").send(worker, garbage_collect_data=False)
        x = torch.ones(2).send(worker)
        worker.close()
        assert soon(lambda: has_no_sessions(server))
        with pytest.raises(NodeLostError, match="away for too long.*Published objects stay there"):
            x.get()
        worker.connect()
        for old in (x, kept):
            with pytest.raises(NodeLostError, match="node.search"):
                old.get()
        assert worker.search("#kept")[0].get().tolist() == [1.0, 1.0]
        worker.close()
        hook.local_worker._known_workers.pop("short-alice", None)


# --- a server in a notebook -----------------------------------------------------------------------------------


def test_t7_start_in_a_running_event_loop_returns_and_serves(hook, free_port):
    """As in a notebook cell: the loop goes on, clients are served, and the server can be stopped and started again."""
    server = sy.WebsocketServerWorker(hook, "localhost", free_port, id="cell-bob", data=[torch.ones(2).tag("#data")])
    hook.local_worker._known_workers.pop("cell-bob")

    async def cell():
        assert server.start() is None
        server.start()  # the cell was run again
        ticks = 0
        served = asyncio.create_task(asyncio.to_thread(use_server, hook, free_port))
        while not served.done():
            await asyncio.sleep(0)
            ticks += 1
        assert await served == ([2.0, 3.0], 1) and ticks
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            WebsocketClientWorker(hook, "localhost", free_port, id="cell-bob")
        server.start()
        assert await asyncio.to_thread(use_server, hook, free_port) == ([2.0, 3.0], 1)

    try:
        asyncio.run(cell())
        assert server.port == free_port and server.url.endswith(f":{free_port}")
    finally:
        server.stop()


def use_server(hook, port):
    worker = WebsocketClientWorker(hook, "localhost", port, id="cell-bob")
    try:
        return (torch.tensor([1.0, 2.0]).send(worker) + 1).get().tolist(), len(worker.search("#data"))
    finally:
        worker.close()
        hook.local_worker._known_workers.pop("cell-bob", None)


def test_t7_without_an_event_loop_start_serves_until_stopped(hook, free_port):
    server = sy.WebsocketServerWorker(hook, "localhost", free_port, id="main-bob")
    hook.local_worker._known_workers.pop("main-bob")
    serving = threading.Thread(target=server.start)
    serving.start()
    try:
        worker = WebsocketClientWorker(hook, "localhost", free_port, id="main-bob")
        assert serving.is_alive() and torch.ones(1).send(worker).get().tolist() == [1.0]
        worker.close()
    finally:
        server.stop()
        hook.local_worker._known_workers.pop("main-bob", None)
    serving.join(30)
    assert not serving.is_alive()


def test_k1_a_refused_connection_leaves_nothing_to_do_at_exit(hook, free_port, caplog):
    with pytest.raises(ConnectionRefusedError) as refused:
        WebsocketClientWorker(hook, "localhost", free_port, id="t-refused")
    streams = [stream for stream in fork_safety._streams if stream.location.id == "t-refused"]
    for stream in streams:  # the traceback keeps it alive
        stream.close()
    assert refused.value and len(streams) == 1
    assert "t-refused" not in hook.local_worker._known_workers and not caplog.records
