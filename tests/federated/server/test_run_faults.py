"""Runs over real processes: a client, a third of the clients, or the server is killed during a round."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.federated.server.checkpoint import Checkpoint
from syft.federated.server.clients import LocalClient, WorkerClient
from tests.helpers import warm_processes as warm
from tests.helpers.nodes import websocket_server

COUNT, ROUNDS = 6, 6

# A client's process: its part of the data. While there is a file for it, it does not get past its first sample, and
# says so with another file: that is the middle of a round, however slow the machine is.
PREPARE = """
import time
from pathlib import Path
from torch.utils.data import TensorDataset
class Held(TensorDataset):
    def __getitem__(self, index):
        while Path({folder!r}, "hold-{number}").exists():
            Path({folder!r}, "held-{number}").touch()
            time.sleep(0.01)
        return super().__getitem__(index)
torch.manual_seed(0)
data = torch.randn(24, 3)
targets = (data.sum(1) > 0).long()
worker.add_dataset(Held(data[{number}::{count}], targets[{number}::{count}]), "points")
"""

# The server's process. In its third round it goes no further once a client has answered and another was not asked.
SERVER = """
import sys, threading, time, torch, syft as sy
torch.set_num_threads(1)
hook = sy.TorchHook(torch)
from syft.federated.server.clients import WorkerClient
from tests.federated.server.test_run_faults import connect, train
answered = threading.Event()
class Client(WorkerClient):
    def call(self, run, name, payload, timeout=None):
        if payload["round"] == 3 and self.worker is workers[-1]:
            answered.wait()
            print("in the middle", flush=True)
            time.sleep(1000)
        answer = super().call(run, name, payload, timeout)
        if payload["round"] == 3:
            answered.set()
        return answer
workers = connect(hook, list(map(int, sys.argv[3:])))
train(sys.argv[1], [Client(worker, "points") for worker in workers], checkpoint=sys.argv[2])
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
def folder(tmp_path_factory):
    """Where files say which clients are held."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="module")
def running(folder):
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                websocket_server(f"client-{n}", PREPARE.format(folder=str(folder), number=n, count=COUNT))
            )
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
    """A client whose call in a round is the moment at which processes are killed: those that are held by then."""

    def __init__(self, worker, victims, folder):
        super().__init__(worker, "points")
        self.victims, self.folder = victims, folder

    def call(self, run, name, payload, timeout=None):
        for number, victim in self.victims.get(payload["round"], {}).items():
            assert wait_for(Path(self.folder, f"held-{number}").exists)
            victim.process.send_signal(signal.SIGKILL)
        return super().call(run, name, payload, timeout)

    def hold(self, round):
        """Have those who are killed in a round not get past the middle of it."""
        for number in self.victims.get(round, {}):
            Path(self.folder, f"hold-{number}").touch()


@pytest.mark.parametrize("strategy", ["fedavgm", "scaffold"])
def test_a_server_that_is_killed_in_the_middle_of_a_round(hook, running, strategy, tmp_path):
    """Completed rounds stay, others are repeated: the model equals that of an uninterrupted run."""
    expected = train(strategy, here(range(COUNT)))
    arguments = [strategy, tmp_path, *(server.port for server in running)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = warm.popen(SERVER, *arguments, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout.readline() == "in the middle\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process.stdout.close()
    assert rounds_in(tmp_path) == 2, "what was complete"
    with connected(hook, running) as workers:
        found = train(strategy, workers, checkpoint=tmp_path)
    assert [record.number for record in found.history] == list(range(1, ROUNDS + 1))
    torch.testing.assert_close(state(found.model), state(expected.model), atol=1e-6, rtol=0)


def test_a_client_and_then_a_third_of_them_are_killed_in_the_middle_of_a_round(hook, running, folder):
    """Each round ends with the remaining clients; a lost client is not counted in rounds that it did not answer."""
    victims = {2: {5: running[5]}, 3: {3: running[3], 4: running[4]}}
    done = iter(range(1, 100))
    before = sy.config.current().reconnect_timeout
    sy.config.configure(reconnect_timeout=0.3)
    try:
        with connected(hook, running) as workers:
            killer = Killer(workers[0], victims, folder)
            clients = [killer, *(WorkerClient(worker, "points") for worker in workers[1:])]
            found = train("fedavg", clients, rounds=4, evaluate=lambda model: killer.hold(next(done) + 1))
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
    from syft.federated.server.checkpoint import client_seed
    from syft.federated.server.model import SharedModel
    from syft.federated.server.settings import RunSettings

    shared = SharedModel(model, F.cross_entropy, (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)))
    settings = RunSettings(3, optimizer_args={"lr": 0.2}, batch_size=2, shuffle=False).payload()
    total, weight = 0, 0
    for client in clients:
        seed = client_seed(3, number, 1, client.name)
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
