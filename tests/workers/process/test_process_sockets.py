"""Sockets between processes: listeners that fail, clients that leave, lost streams, and frames over the limit."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading

import pytest
import torch

from syft.exceptions import SerdeError
from syft.workers.process.worker import ProcessWorker
from syft.workers.transport import framing, handshake, socket_stream
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.request_codec import read_answer
from tests.helpers import warm_processes as warm
from tests.helpers.mpc.socket_parties import World


@pytest.fixture
def world():
    """Two workers that reach each other by sockets."""
    with contextlib.closing(World("a", "b")) as made:
        yield made


def test_closing_a_connection_wakes_its_writer():
    ours, theirs = socket.socketpair()
    connection = framing.FramedConnection(SocketPipe(ours), 1 << 30)
    failed = []

    def write():
        try:
            connection.write(0, 0, bytes(50_000_000))
        except OSError as error:
            failed.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert select.select([theirs], [], [], 60)[0], "the writer has begun, and nobody reads"
    closer = threading.Thread(target=connection.close, daemon=True)
    closer.start()
    closer.join(60)
    writer.join(60)
    assert not closer.is_alive() and failed
    theirs.close()


def test_frames_over_the_limit_are_not_sent():
    ours, theirs = socket.socketpair()
    connection = framing.FramedConnection(SocketPipe(ours), 100)
    with pytest.raises(SerdeError, match="limit"):
        connection.write_pieces(0, 0, [bytes(60), bytes(60)])
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    connection.close(), theirs.close()


class _Failing:
    """A listening socket that fails to accept now and then."""

    def __init__(self, sock):
        self._sock = sock
        self.failures = [errno.ECONNABORTED, errno.EMFILE]

    def accept(self):
        if self.failures:
            raise OSError(self.failures.pop(), "as if")
        return self._sock.accept()

    def __getattr__(self, name):
        return getattr(self._sock, name)


def test_a_listener_goes_on_after_it_failed(world):
    listener = socket_stream.Listener(_Failing(handshake.listen()))
    address = handshake.Address.fresh(listener.port)
    listener.announce(world.workers["a"], "me", address)
    handshake.connect(address, "mpc-knock", timeout=60).close()
    listener.close()


def test_clients_that_are_gone_are_not_admitted_any_more(hook):
    before = len(socket_stream.hub()._announced)
    bob = ProcessWorker(hook, id="sockets-bob")
    torch.ones(2).send(bob).get()
    admitted = len(bob._admitted)  # this client, and all other known workers
    for _ in range(3):
        torch.ones(2).send(bob).get()
        for stream in list(bob._incoming):
            stream.close()
            stream.client._streams.pop(bob.id, None)
    torch.ones(2).send(bob).get()
    assert len(bob._incoming) == 1 and len(bob._admitted) == admitted
    bob.stop()
    assert len(socket_stream.hub()._announced) == before


def test_a_lost_stream_does_not_hold_its_lock_while_it_asks_why(hook):
    bob = ProcessWorker(hook, id="sockets-lost")
    torch.ones(2).send(bob).get()
    (stream,) = bob._incoming
    asked, go_on = threading.Event(), threading.Event()
    bob.why_lost = lambda: asked.set() or str(go_on.wait(100))
    stream._pipe._sock.shutdown(socket.SHUT_RDWR)
    assert asked.wait(60)
    free = stream._order.acquire(timeout=30)
    go_on.set()
    assert free
    stream._order.release()
    bob.stop()


def test_a_process_is_started_with_the_path_of_its_maker(hook):
    with warm.cold():
        bob = ProcessWorker(hook, id="sockets-path")
    torch.ones(2).send(bob).get()
    with open(f"/proc/{bob.pid}/environ", "rb") as file:
        environment = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0") if entry)
    assert environment.get(b"PYTHONPATH") == os.environb.get(b"PYTHONPATH")
    bob.stop()


def test_a_response_over_the_limit_becomes_an_error(world):
    ours, theirs = socket.socketpair()
    connection, other = (
        framing.FramedConnection(SocketPipe(ours), 300),
        framing.FramedConnection(SocketPipe(theirs), 1000),
    )
    socket_stream._write_answer(connection, 7, bytes(500))
    kind, number, written = other.read()
    assert (kind, number) == (framing.ANSWER, 7)
    with pytest.raises(SerdeError, match="limit"):
        read_answer(None, world.workers["a"], bytes(written))
    connection.close(), other.close()
