"""Ctrl-C while clients are connected: the node stops and prints one line."""

import signal
import threading
import time

import pytest
import torch

import syft as sy
from syft.exceptions import SyftError
from syft.messaging import message as m
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of
from tests.helpers.attacks.live_client import Visitor
from tests.helpers.cli import Served
from tests.helpers.nodes import forget


@pytest.fixture
def served(tmp_path):
    node = Served(tmp_path, "node", "start", "--id", "stopped", "--no-store", "--threads", 1)
    with open(node.told["owner_token_file"]) as file:
        node.token = file.read().strip()
    yield node
    node.end(signal.SIGKILL)


def check_end(node, number):
    """End it, and look at what it said: one line after what it said when it began, and no traceback."""
    began = node.log.read_text()
    assert node.end(number) == 0
    said = node.log.read_text()
    assert "Traceback" not in said and "Exception" not in said and "Error" not in said, said[-3000:]
    assert said.removeprefix(began).splitlines()[-1] == "The node stopped has stopped."


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_of_a_plan(served, hook, number):
    client = sy.connect(served.told["url"], token=served.token, hook=hook)

    @sy.func2plan(args_shape=[(1,)], state=(torch.full((700, 700), 1e-3),))
    def long(x, state):
        (factor,) = state.read()
        product = factor
        for _ in range(100):
            product = torch.tanh(product @ factor)
        return x + product.sum()

    plan, one = long.send(client), torch.ones(1).send(client)
    client.synchronize()
    where = where_of(*parse_address(served.told["url"]), served.token, None)
    figures = lambda: ask(where, "GET", "/v1/status")["figures"]  # noqa: E731
    before, outcome = figures()["syft_received_bytes_total"], []

    def wait():
        try:
            outcome.append(plan(one).get())
        except SyftError as error:
            outcome.append(type(error).__name__)

    waiting = threading.Thread(target=wait)
    waiting.start()
    end = time.monotonic() + 60
    while figures()["syft_received_bytes_total"] == before and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.1)
    assert not outcome
    check_end(served, number)
    forget(hook, client)
    waiting.join(60)
    assert outcome and not waiting.is_alive()


@pytest.mark.timeout(120)
def test_ctrl_c_with_closing_clients_and_unread_answers(served):
    leaving, fetching = (Visitor(served.told["url"], served.token) for _ in range(2))
    fetching.ask(m.ObjectMessage(torch.ones(2), 5, False))
    fetching.ask(m.ObjectRequestMessage((5, None, "")))  # it does not say that it has seen the answer
    fetching.ask(m.ObjectMessage(torch.zeros(3), 5, False))  # and gives the id to another object
    leaving.pipe.finish()  # it says that it goes, and stays
    check_end(served, signal.SIGINT)
    leaving.close(), fetching.close()
