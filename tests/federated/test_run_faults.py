"""Runs over real processes in which clients, a third of them, or the server are killed in the middle of a round."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.federated.checkpoint import Checkpoint
from syft.federated.clients import LocalClient, WorkerClient
from tests.nodes import websocket_server

COUNT, ROUNDS, PAUSE = 6, 6, 0.02

# A client's process: its part of the data, which it takes its time to read, so that there is a middle of a round.
PREPARE = """
import time
from torch.utils.data import TensorDataset
class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep({pause})
        return super().__getitem__(index)
torch.manual_seed(0)
data = torch.randn(24, 3)
targets = (data.sum(1) > 0).long()
worker.add_dataset(Slow(data[{number}::{count}], targets[{number}::{count}]), "points")
"""

# The server's process: the same run, wherever it begins.
SERVER = """
import sys, torch, syft as sy
import torch.nn.functional as F
torch.set_num_threads(1)
hook = sy.TorchHook(torch)
from tests.federated.test_run_faults import connect, train
workers = connect(hook, list(map(int, sys.argv[3:])))
result = train(sys.argv[1], workers, checkpoint=sys.argv[2])
print(result.rounds, flush=True)
"""


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def train(strategy, clients, rounds=ROUNDS, **options):
    return sy.federated.run(
        strategy,
        clients,
        rounds,
        model=network(),
        loss_fn=F.cross_entropy,
        example=(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)),
        dataset="points",
        optimizer_args={"lr": 0.2},
        batch_size=2,
        shuffle=False,  # the order would depend on the kind of data set
        seed=3,
        **options,
    )


def connect(hook, ports):
    return [
        sy.WebsocketClientWorker(hook, "127.0.0.1", port, id=f"client-{number}", auto_add=False)
        for number, port in enumerate(ports)
    ]


def data(number):
    torch.manual_seed(0)
    points = torch.randn(24, 3)
    return TensorDataset(points[number::COUNT], (points.sum(1) > 0).long()[number::COUNT])


def here(numbers):
    """The same clients in this process."""
    return [LocalClient(f"client-{number}", data(number)) for number in numbers]


def state(model):
    return torch.cat([tensor.detach().flatten() for tensor in model.state_dict().values()])


@pytest.fixture(scope="module")
def running():
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(websocket_server(f"client-{n}", PREPARE.format(pause=PAUSE, number=n, count=COUNT)))
            for n in range(COUNT)
        ]


@contextlib.contextmanager
def connected(hook, servers):
    workers = connect(hook, [server.port for server in servers])
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()


class Killer(WorkerClient):
    """A client whose call in a round is the moment at which processes are killed."""

    def __init__(self, worker, victims):
        super().__init__(worker, "points")
        self.victims = victims

    def call(self, run, name, payload, timeout=None):
        for victim in self.victims.pop(payload["round"], ()):
            victim.process.send_signal(signal.SIGKILL)
        return super().call(run, name, payload, timeout)


@pytest.mark.parametrize("strategy", ["fedavgm", "scaffold"])
def test_a_server_that_is_killed_in_the_middle_of_a_round(hook, running, strategy, tmp_path):
    """What was complete stays, what was not is done again: the model is that of a run that nobody broke off."""
    expected = train(strategy, here(range(COUNT)))
    command = [sys.executable, "-c", SERVER, strategy, str(tmp_path), *(str(server.port) for server in running)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        assert wait_for(lambda: rounds_in(tmp_path) >= 2), "two rounds are complete"
        time.sleep(PAUSE)  # a client needs four times that for its part
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
    assert 2 <= rounds_in(tmp_path) < ROUNDS, "it was killed before the end"
    with connected(hook, running) as workers:
        found = train(strategy, workers, checkpoint=tmp_path)
    assert [record.number for record in found.history] == list(range(1, ROUNDS + 1))
    torch.testing.assert_close(state(found.model), state(expected.model), atol=1e-6, rtol=0)


def test_a_client_and_then_a_third_of_them_are_killed_in_the_middle_of_a_round(hook, running, tmp_path):
    """Each round ends with those who are there; who is gone is counted in none that it did not answer in."""
    victims = {2: running[5:], 3: running[3:5]}
    before = sy.config.current().reconnect_timeout
    sy.config.configure(reconnect_timeout=0.3)
    try:
        with connected(hook, running) as workers:
            clients = [Killer(workers[0], victims), *(WorkerClient(worker, "points") for worker in workers[1:])]
            found = train("fedavg", clients, rounds=4)
    finally:
        sy.config.configure(reconnect_timeout=before)
    assert [record.answered for record in found.history] == [6, 5, 3, 3]
    assert "client-5" in str(found.history[1].reasons)
    expected = network()
    for number, there in ((1, 6), (2, 5), (3, 3), (4, 3)):
        expected = one_round(expected, here(range(there)), number)
    torch.testing.assert_close(state(found.model), state(expected), atol=1e-6, rtol=0)


def one_round(model, clients, number):
    """Round `number` of a run, from a model on: what `train` would do, done by hand."""
    from syft.federated.engine import _number
    from syft.federated.model import SharedModel
    from syft.federated.settings import Settings

    shared = SharedModel(model, F.cross_entropy, (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)))
    settings = Settings(3, optimizer_args={"lr": 0.2}, batch_size=2, shuffle=False).payload()
    total, weight = 0, 0
    for client in clients:
        seed = _number(3, number, client.name)
        task = {"plan": shared.plan, "loss": shared.loss, "round": number, "seed": seed, **settings}
        answer = client.call("by hand", "train", task)
        total, weight = total + answer["update"].double() * answer["samples"], weight + answer["samples"]
    shared.load(shared.state + total / weight)
    return shared.result()


def rounds_in(folder):
    saved = Checkpoint(folder).load()
    return 0 if saved is None else saved["round"]


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False
