"""Session processes that start slowly, or not at all: other users do not wait, and the user gets a reason."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from syft.core.references import TensorMeta
from syft.exceptions import SyftError
from syft.messaging import message as m
from syft.workers.transport.framing import BYE
from tests.grid.isolation.supervisor.test_killed_processes import children_of
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.nodes import forget, node, soon

# The first process starts when a file exists, the second one at once, the third one never.
SLOW = """
import itertools, pathlib, time
from syft.grid.isolation.processes.template import IsolationError
forks, fork = itertools.count(1), node.supervisor.template.fork
def start(*args):
    number, end = next(forks), time.monotonic() + 60
    pathlib.Path({path!r} + str(number)).touch()
    while number == 1 and not pathlib.Path({path!r}).exists() and time.monotonic() < end:
        time.sleep(0.02)
    if number == 3:
        raise IsolationError("the template process ended")
    return fork(*args)
node.supervisor.template.fork = start
"""


def test_a_process_that_starts_slowly_or_not_at_all_delays_no_other_user(hook, tmp_path):
    path = tmp_path / "go"
    users = {"alice": "user", "bob": "user", "carol": "user"}
    with node("slow", users=users, prepare=SLOW.format(path=str(path))) as process:
        visitors = []
        slow = threading.Thread(
            target=lambda: visitors.append(Visitor(process.url, process.tokens["alice"])), daemon=True
        )
        slow.start()
        assert soon(lambda: (tmp_path / "go1").exists())
        bob = process.connect(hook, "bob")
        assert torch.equal((torch.ones(2).send(bob) + 1).get(), torch.full((2,), 2.0))
        forget(hook, bob)
        assert visitors == []
        path.touch()
        slow.join(60)
        visitors.pop().close()
        with pytest.raises(SyftError, match="could not start a process for you"):
            process.connect(hook, "carol")
        carol = process.connect(hook, "carol")
        assert torch.equal((torch.ones(2).send(carol) + 1).get(), torch.full((2,), 2.0))
        forget(hook, carol)


def test_connections_of_one_user_at_once_share_one_process():
    users = {"alice": "user", "bob": "user"}
    with node("busy", users=users) as process, ThreadPoolExecutor(12) as pool:
        names = ["alice", "bob"] * 6
        visitors = list(pool.map(lambda name: Visitor(process.url, process.tokens[name]), names))
        (template,) = children_of(process.pid)
        assert len(children_of(template)) == 2
        for visitor in visitors:
            visitor.close()


# Sweeps idle processes in a loop, and ends each of them slowly.
SWEEPING = """
import threading, time
from syft.grid.isolation.supervisor import supervisor
supervisor.IDLE_SECONDS = 0.0
end = supervisor.SessionHandle.end
def end_slowly(process):
    if threading.current_thread() is sweeper:
        time.sleep(0.4)
    end(process)
supervisor.SessionHandle.end = end_slowly
def sweep():
    while True:
        node.supervisor.sweep()
        time.sleep(0.0005)
sweeper = threading.Thread(target=sweep, daemon=True)
sweeper.start()
"""


def test_a_process_is_not_ended_as_idle_when_its_user_reconnects():
    with node("sweeping", users={"alice": "user"}, prepare=SWEEPING) as process:
        for number in range(3):
            visitor = Visitor(process.url, process.tokens["alice"])
            time.sleep(0.5)  # a process that was about to be ended would be gone
            made = visitor.ask(m.Operation("torch.ones", None, (2,), {}, ((number + 1) << 64,)))
            assert isinstance(made, TensorMeta), made
            visitor.connection.write(BYE, 0, b"")
            visitor.close()
            time.sleep(0.1)  # it is found idle
