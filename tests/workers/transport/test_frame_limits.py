"""Limits of frames: each direction has its own."""

import socket

import pytest

from syft.workers.transport import framing
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def test_a_response_may_be_larger_than_a_request():
    here, there = socket.socketpair()
    with here, there:
        FramedConnection(SocketPipe(here), 100, 10_000).write(framing.ANSWER, 1, bytes(5_000))
        kind, number, contents = FramedConnection(SocketPipe(there), 10_000).read()
        assert (kind, number, len(contents)) == (framing.ANSWER, 1, 5_000)
