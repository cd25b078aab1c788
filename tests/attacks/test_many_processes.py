"""Processes per user are bounded, however many models and dealers the connections are for."""

from __future__ import annotations

import contextlib
import threading

import pytest

from syft.serde import serialize
from syft.workers.transport.framing import BYE, HELLO, WELCOME, FramedConnection
from syft.workers.transport.greeting import VERSION
from syft.workers.transport.websocket import Endpoint, WebsocketPipe
from tests.grid.isolation.supervisor.test_killed_processes import children_of
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.attacks.watchers import undisturbed
from tests.helpers.nodes import node, soon

LIMIT = 6


@pytest.fixture(scope="module")
def hospital():
    with node("hospital", users={"alice": "user", "mallory": "user"}, max_user_processes=LIMIT) as process:
        yield process


class Connection:
    """A connection of mallory for a purpose; has the reason if the node refused it."""

    def __init__(self, hospital, purpose):
        pipe = WebsocketPipe(Endpoint(hospital.url, hospital.tokens["mallory"], None).at("/stream"), 60)
        self._connection = FramedConnection(pipe, 1 << 30)
        self._connection.write(HELLO, 0, serialize((VERSION, "", b"", purpose)))
        kind, _, contents = self._connection.read()
        self.is_welcome = kind == WELCOME
        self.reason = "" if self.is_welcome else bytes(contents).decode()

    def close(self):
        with contextlib.suppress(OSError):
            self._connection.write(BYE, 0, b"")
        self._connection.close()


def processes_of(hospital):
    """The number of processes of users, which are forked from the template of the node."""
    return sum(len(children_of(template)) for template in children_of(hospital.pid))


def test_a_party_process_ends_with_its_last_connection(hospital):
    before = processes_of(hospital)
    for number in range(2 * LIMIT):
        with contextlib.closing(Connection(hospital, f"dealer:{number}")) as connection:
            assert connection.is_welcome, connection.reason
        assert soon(lambda: processes_of(hospital) == before, 10), number


def test_a_party_process_stays_while_one_of_its_connections_is_open(hospital):
    before = processes_of(hospital)
    with contextlib.closing(Connection(hospital, "dealer:shared")):
        for _ in range(3):
            with contextlib.closing(Connection(hospital, "dealer:shared")) as other:
                assert other.is_welcome
            assert processes_of(hospital) == before + 1
    assert soon(lambda: processes_of(hospital) == before, 10)


def test_a_user_has_a_bounded_number_of_processes(hospital):
    before, made = processes_of(hospital), []

    def connect(number):
        made.append(Connection(hospital, f"dealer:{number}"))

    with undisturbed(hospital), contextlib.closing(Visitor(hospital.url, hospital.tokens["mallory"])):
        threads = [threading.Thread(target=connect, args=(number,)) for number in range(3 * LIMIT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        welcome, refused = ([c for c in made if c.is_welcome is wanted] for wanted in (True, False))
        assert len(welcome) == LIMIT - 1 and len(refused) == 2 * LIMIT + 1  # the session has one
        assert all(
            f"You have {LIMIT} processes at this node" in c.reason and "max_user_processes" in c.reason for c in refused
        )
        assert processes_of(hospital) <= before + LIMIT + 1  # and alice has one
        welcome[0].close()
        assert soon(lambda: connect("next") or made[-1].is_welcome, 10)
        for connection in made:
            connection.close()
