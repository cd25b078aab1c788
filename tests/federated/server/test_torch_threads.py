"""Clients in this process use one torch thread, unless the run says otherwise."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import syft as sy
from syft.exceptions import TrainingError
from syft.federated.server.clients import LocalClient
from syft.federated.server.torch_threads import torch_threads
from tests.federated.server.test_callbacks import EXAMPLE, part


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)


class Counting(LocalClient):
    def __init__(self, error=None):
        super().__init__("counting", part(0))
        self.found, self.error = [], error

    def call(self, run, name, payload, timeout=None):
        self.found.append(torch.get_num_threads())
        if self.error:
            raise self.error
        return super().call(run, name, payload, timeout)


def train(client, **options):
    settings = {"model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "progress": False}
    return sy.federated.run("fedavg", [client], 2, **settings, **options)


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"threads": 2}, 2), ({"threads": None}, 3)])
def test_a_run_chooses_the_threads_of_its_clients(options, expected):
    client, evaluating = Counting(), []
    train(client, evaluate=lambda model: evaluating.append(torch.get_num_threads()) or {}, **options)
    assert client.found == [expected, expected] and evaluating == [3, 3]


def test_the_number_is_restored_after_errors_and_interrupts():
    with pytest.raises(sy.exceptions.FederatedError):
        train(Counting(ValueError("no")), attempts=1)
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyboardInterrupt):
        train(Counting(KeyboardInterrupt()))


def test_runs_within_runs_restore_the_number_of_the_outer_one():
    class Outer(Counting):
        def call(self, *given):
            train(Counting(), threads=2)
            return super().call(*given)

    outer = Outer()
    train(outer)
    assert outer.found == [1, 1]


def test_virtual_workers_are_clients_of_this_process(hook):
    bob = sy.VirtualWorker(hook, id="threads-bob")
    found = []

    class Watched(torch.utils.data.TensorDataset):
        def __getitem__(self, index):
            found.append(torch.get_num_threads())
            return super().__getitem__(index)

    bob.add_dataset(Watched(*part(0).tensors), "data")
    settings = {"model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "progress": False}
    sy.federated.run("fedavg", [bob], 1, dataset="data", **settings)
    assert set(found) == {1}


def test_concurrent_threads_restore_the_number_from_before_the_first():
    inside, leave, after = threading.Event(), threading.Event(), []

    def other():
        with torch_threads(1):
            inside.set()
            assert leave.wait(60)
        after.append(torch.get_num_threads())

    def third():  # meets torch while another thread has changed the number
        with torch_threads(2):
            after.append(torch.get_num_threads())
        after.append(torch.get_num_threads())

    one = threading.Thread(target=other)
    one.start()
    assert inside.wait(60)
    two = threading.Thread(target=third)
    two.start()
    two.join()
    leave.set()
    one.join()
    assert after == [2, 3, 3]


@pytest.mark.parametrize("threads", [0, 1.0, True, "2"])
def test_impossible_numbers_are_refused(threads):
    with pytest.raises(TrainingError, match="threads must be an integer"):
        train(Counting(), threads=threads)
