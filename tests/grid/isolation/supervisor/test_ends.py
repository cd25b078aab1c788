"""Ends of session processes: the user gets one clear error, and the next call starts a new session."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from syft.exceptions import SessionEndedError
from tests.grid.isolation.supervisor.test_killed_processes import children_of
from tests.helpers.nodes import NodeProcess, forget


@pytest.fixture(scope="module")
def node():
    process = NodeProcess("ends")
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def alice(hook, node):
    client = node.connect(hook, "alice")
    yield client
    forget(hook, client)


def end_sessions(node):
    """Kill all session processes of a node."""
    (template,) = children_of(node.pid)
    for pid in children_of(template):
        os.kill(pid, signal.SIGKILL)


def fetch(pointer):
    pointer.get()


def chain(pointer):
    for _ in range(200):
        pointer = pointer + 1
    pointer.get()


def post(pointer):
    torch.ones(3).send(pointer.location)
    pointer.location.synchronize()


@pytest.mark.parametrize("call", [fetch, chain, post])
def test_a_process_killed_between_two_calls_ends_the_session_with_the_reason(node, alice, call):
    for _ in range(3):
        pointer = torch.arange(3.0).send(alice)
        alice.synchronize()
        end_sessions(node)
        with pytest.raises(SessionEndedError, match="killed from outside.*Connect again"):
            call(pointer)
        assert torch.ones(2).send(alice).get().tolist() == [1, 1]


def test_a_call_that_nobody_waited_for_reports_the_end_of_the_session_once(node, alice):
    torch.arange(3.0).send(alice)
    alice.synchronize()
    end_sessions(node)
    torch.ones(3).send(alice)
    with pytest.raises(SessionEndedError, match="killed from outside"):
        for _ in range(1000):
            torch.ones(3).send(alice)
            alice.synchronize()
    assert torch.ones(2).send(alice).get().tolist() == [1, 1]
