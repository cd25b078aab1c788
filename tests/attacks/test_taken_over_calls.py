"""What a session process that its user has taken over gets from the supervisor: rows of the log, connections."""

from __future__ import annotations

import contextlib

import pytest

from syft.core.references import Ref
from syft.messaging import message as m
from syft.messaging.message import Operation
from tests.attacks.live import Visitor
from tests.attacks.taken_over import taken_over_node
from tests.attacks.watching import http
from tests.nodes import forget

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
