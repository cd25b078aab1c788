"""Calls of a session process that its user has taken over: rows of the log, connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from syft.core.references import Ref
from syft.messaging import message as m
from syft.messaging.message import Operation
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.taken_over import taken_over_node
from tests.helpers.attacks.watchers import http
from tests.helpers.nodes import forget

PUBLIC = 'node.worker.load_data([torch.arange(6.0).view(2, 3).tag("#weather")])'


@pytest.fixture(scope="module")
def hospital():
    with taken_over_node("hospital", prepare=PUBLIC) as process:
        yield process


@pytest.fixture
def weather(hook, hospital):
    """The id of a public object."""
    client = hospital.connect(hook, "owner")
    obj_id = client.search("#weather")[0].id_at_location
    forget(hook, client)
    http(hospital, "PUT", f"objects/{obj_id}/users", {"users": [], "public": True})
    return obj_id


def reads_of(hospital, user):
    rows = http(hospital, "GET", "audit?limit=1000")
    return [row["object"] for row in rows if row["user"] == user and row["how"] == "read"]


def test_a_user_who_names_an_object_often_adds_one_row_to_the_log(hospital, weather):
    before = len(http(hospital, "GET", "audit?limit=1000"))
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["alice"])) as alice:
        for result in (91, 92):
            answer = alice.ask(Operation("torch.stack", None, ([Ref(weather)] * 500,), {}, (result,)))
            assert not isinstance(answer, m.ErrorMessage)
    assert reads_of(hospital, "alice") == [str(weather)]
    assert len(http(hospital, "GET", "audit?limit=1000")) - before <= 3


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_process_that_reads_an_object_often_adds_one_row_to_the_log(hospital, weather, call):
    before = len(reads_of(hospital, "mallory"))
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["mallory"])) as visitor:
        again = f"import os\nfor _ in range(100): [os.close(fd) for fd in services.ask({call!r}, {weather}, None).fds]"
        assert [visitor.send(again.encode()) for _ in range(2)] == [b"-", b"-"]
        assert reads_of(hospital, "mallory")[before:] == [str(weather)]
        visitor.send(b"os._exit(0)")  # the next test has a new process


# --- connections --------------------------------------------------------------------------------------------------

DIAL = """
import socket
try:
    answer = services.ask("dial", "ws://127.0.0.1:{port}", 1.0, b"t" * 32, None)
except BaseException as error:
    print(type(error).__name__, error)
else:
    sock = socket.socket(fileno=answer.fds[0])
    sock.sendall(b"CONFIG GET *\\r\\n")
    print("dialled", sock.recv(100))
    sock.close()
"""
# The same for all of them: it does not reveal what answers there.
REFUSAL = "NodeLostError The session at node 'there' is over: it can't be reached."
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: syft-peer\r\n\r\n"
SERVICES = {
    "a database": [b"+SECRET of a local database"],
    "another web server": [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET"],
    "one that asks for a password": [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 6\r\n\r\nSECRET"],
    "another protocol": [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"],
    "bytes after the switch": [SWITCH + b"SECRET"],
    "a head without an end": [b"HTTP/1.1 101 Switching Protocols\r\n", *[b"x" * 1000] * 10],
    "one byte at a time": [bytes([byte]) for byte in b"HTTP/1.1 101 Switching Protocols\r\n" * 4],
    "silence": [],
}


class Service:
    """A service of the node's machine that is no node; it records the bytes that it receives."""

    def __init__(self, pieces):
        self.seen = b""
        self._pieces = pieces
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        with contextlib.suppress(OSError), self._listener.accept()[0] as sock:
            sock.settimeout(10)
            self.seen += sock.recv(1000)
            for piece in self._pieces:
                sock.sendall(piece)
                time.sleep(0.02)
            while data := sock.recv(1000):
                self.seen += data

    def close(self):
        self._thread.join(20)
        assert not self._thread.is_alive(), "its connection was not closed"
        self._listener.close()


@pytest.mark.parametrize("answer", SERVICES)
def test_a_process_gets_no_connection_to_services_that_are_no_nodes(hospital, answer):
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["mallory"])) as visitor:
        with contextlib.closing(Service(SERVICES[answer])) as service:
            began = time.monotonic()
            printed = visitor.send(DIAL.format(port=service.port).encode()).decode()
            assert time.monotonic() - began < 5
        assert printed.startswith(REFUSAL) and "SECRET" not in printed
        assert b"CONFIG" not in service.seen and service.seen.startswith(b"GET /peer HTTP/1.1\r\n")


def test_a_node_that_does_not_know_the_token_is_reported_as_such(hospital):
    with contextlib.closing(Visitor(hospital.url, hospital.tokens["mallory"])) as visitor:
        printed = visitor.send(DIAL.format(port=hospital.port).encode()).decode()
    assert printed.startswith("AuthenticationError")
