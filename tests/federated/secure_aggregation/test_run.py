"""Runs with secure aggregation: the models of plain runs, over every kind of client, with drop-outs and privacy."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import FederatedError, TrainingError
from syft.federated.server.clients import LocalClient, WorkerClient
from syft.workers.process.worker import ProcessWorker

SECURE = sy.federated.SecureAggregation()
EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def parts(count=4):
    torch.manual_seed(0)
    data = torch.randn(10 * count + 5, 3)
    targets = (data.sum(1) > 0).long()
    return [TensorDataset(data[i::count].clone(), targets[i::count].clone()) for i in range(count)]


def network(norm=False):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6) if norm else nn.Tanh(), nn.Linear(6, 2))


def train(clients, rounds=2, strategy="fedavg", **options):
    settings = {
        "model": network(), "loss_fn": F.cross_entropy, "seed": 7, "optimizer_args": {"lr": 0.3}, "batch_size": 8,
        "example": EXAMPLE, **options,
    }  # fmt: skip
    return sy.federated.run(strategy, clients, rounds, **settings)


def state(found):
    return torch.cat([tensor.detach().double().flatten() for tensor in found.model.state_dict().values()])


@pytest.fixture(scope="module")
def expected():
    return train(parts())


STRATEGIES = ["fedavg", "fedprox", "fedavgm", "fedadam", "fedyogi", "scaffold", sy.federated.FedAvg(weighted=False)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_models_are_those_of_a_run_in_the_clear(strategy):
    found, plain = (train(parts(), 3, strategy, model=network(norm=True), secure=s) for s in (SECURE, None))
    torch.testing.assert_close(state(found), state(plain), atol=1e-5, rtol=0)
    assert found.history.losses == pytest.approx(plain.history.losses, abs=1e-5)
    assert [record.answered for record in found.history] == [4, 4, 4]


@pytest.mark.parametrize("strategy", ["fedmedian", "krum", sy.federated.TrimmedMean(0.2)], ids=str)
def test_strategies_that_look_at_each_update_are_refused(strategy):
    with pytest.raises(TrainingError, match="secure aggregation"):
        train(parts(), strategy=strategy, secure=SECURE)
    with pytest.raises(TypeError, match="SecureAggregation"):
        train(parts(), secure=True)


def test_chosen_clients_and_a_simulation():
    data = torch.randn(60, 3)
    clients = sy.federated.Simulation((data, (data.sum(1) > 0).long()), 12)
    found, plain = (train(clients, 4, clients_per_round=5, secure=s) for s in (SECURE, None))
    torch.testing.assert_close(state(found), state(plain), atol=1e-6, rtol=0)
    assert [record.asked for record in found.history] == [5] * 4
    assert len(clients._memories) == 0  # what rounds needed is gone
    with pytest.raises(FederatedError, match="2 clients are available"):
        train(clients, 1, clients_per_round=2, secure=SECURE)


class Failing(LocalClient):
    """Fails at a call of a round."""

    def __init__(self, name, dataset, at, round=1):
        super().__init__(name, dataset)
        self.at, self.round, self.failed = at, round, 0

    def call(self, run, name, payload, timeout=None):
        if name == self.at and payload["round"] == self.round:
            self.failed += 1
            raise ConnectionError("the line is cut")
        return super().call(run, name, payload, timeout)


@pytest.mark.parametrize("at", ["secure.keys", "secure.shares", "train", "secure.agree", "secure.unmask"])
def test_a_round_goes_on_without_a_client(at):
    datasets = parts()
    clients = [LocalClient(f"client-{i}", d) for i, d in enumerate(datasets[:3])]
    failing = Failing("client-3", datasets[3], at)
    found = train([*clients, failing], secure=SECURE)
    who = 3 if at in ("secure.keys", "secure.shares", "train") else 4
    assert [record.answered for record in found.history] == [who, 4]
    assert found.history[0].failed == 4 - who
    first = Failing("client-3", datasets[3], "train" if who == 3 else None)
    plain = train([*clients, first])
    torch.testing.assert_close(state(found), state(plain), atol=1e-6, rtol=0)


def test_a_round_with_too_few_clients_counts_nothing_and_is_tried_again():
    datasets = parts()
    lost = [Failing(f"client-{i}", d, "train", round=2) for i, d in enumerate(datasets[:2])]
    others = [LocalClient(f"client-{i}", d) for i, d in enumerate(datasets[2:], 2)]
    text = "Round 2 failed 3 times. 2 of 4 clients sent a masked result.* needs 3.*'client-0'.*the line is cut"
    with pytest.raises(FederatedError, match=text):
        train([*lost, *others], secure=SECURE)
    assert [one.failed for one in lost] == [3, 3]


class Stray(LocalClient):
    """Answers as if it had been asked something else, and notes its calls."""

    def __init__(self, name, dataset, strays, calls):
        super().__init__(name, dataset)
        self.strays, self.calls = strays, calls

    def call(self, run, name, payload, timeout=None):
        self.calls.append(name)
        answer = super().call(run, name, payload, timeout)
        return {**answer, "context": bytes(32)} if self.strays and name == "train" else answer


@pytest.mark.parametrize("min_clients", [3, 4])
def test_a_run_unmasks_no_sum_of_fewer_clients_than_min_clients(min_clients):
    """All clients answer, but one of them can't be counted: three are left, enough to unmask."""
    calls = []
    clients = [Stray(f"client-{i}", d, i == 0, calls) for i, d in enumerate(parts())]
    if min_clients == 3:
        assert train(clients, 1, secure=SECURE, min_clients=3).history[0].answered == 3
        return
    with pytest.raises(FederatedError, match="3 clients can be counted, but at least 4 are needed"):
        train(clients, 1, secure=SECURE, min_clients=4, attempts=1)
    assert "train" in calls and not {"secure.agree", "secure.unmask"} & set(calls)


def test_a_run_is_resumed(tmp_path, expected):
    first = train(parts(), 1, secure=SECURE, checkpoint=tmp_path)
    second = train(parts(), 2, secure=SECURE, checkpoint=tmp_path)
    assert (first.rounds, second.rounds, len(second.history)) == (1, 2, 2)
    torch.testing.assert_close(state(second), state(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["inline", "bytes", "thread"])
def test_workers(make_worker, kind, expected):
    workers = [make_worker("client", kind) for _ in range(4)]
    for worker, dataset in zip(workers, parts(), strict=True):
        worker.add_dataset(dataset, "points")
    with sy.count_messages() as counted:
        found = train(workers, secure=SECURE, dataset="points", shuffle=False)
    plain = train(parts(), shuffle=False)  # the order of samples would depend on the names
    torch.testing.assert_close(state(found), state(plain), atol=1e-6, rtol=0)
    assert counted.messages == 4 * 5 * 2  # keys, shares, train, agree, unmask
    assert [len(worker._objects) for worker in workers] == [0] * 4


def test_some_clients_are_workers_and_some_are_here(make_worker):
    """What masks are bound to is the same, whichever way the model took."""
    datasets = parts()
    worker = make_worker("client", "bytes")
    worker.add_dataset(datasets[0], "points")
    clients = [WorkerClient(worker, "points"), *(LocalClient(f"client-{i}", datasets[i]) for i in (1, 2, 3))]
    options = {"optimizer": "Adam", "optimizer_args": {"lr": 0.01, "betas": (0.9, 0.99)}, "shuffle": False}
    found = train(clients, secure=SECURE, **options)
    assert [record.answered for record in found.history] == [4, 4]
    torch.testing.assert_close(state(found), state(train(datasets, **options)), atol=1e-6, rtol=0)


def test_the_policies_of_owners_are_enforced(make_worker):
    workers, identities = [make_worker("client") for _ in range(4)], [sy.federated.Identity() for _ in range(4)]
    known = [identity.public for identity in identities]
    for worker, dataset, identity in zip(workers, parts(), identities, strict=True):
        worker.add_dataset(dataset, "points")
        sy.federated.require_secure(worker, min_clients=4, identity=identity, known=known)
    with pytest.raises(FederatedError, match="requires secure aggregation"):
        train(workers, dataset="points", attempts=1)
    assert train(workers, dataset="points", secure=SECURE).history[1].answered == 4
    with pytest.raises(FederatedError, match="requires 4 clients"):
        train(workers[:3], dataset="points", secure=SECURE, attempts=1)
    sy.federated.require_secure(workers[0])
    assert train(workers[:1] + parts()[1:], 1, dataset="points", secure=SECURE).history[0].answered == 4


class Doomed(WorkerClient):
    """A worker whose process ends when it is asked to train in round 2."""

    def call(self, run, name, payload, timeout=None):
        if name == "train" and payload["round"] == 2:
            self.worker.stop()
        return super().call(run, name, payload, timeout)


def test_a_process_that_ends_in_the_middle_of_a_round(hook):
    datasets = parts(3)
    here = [LocalClient(f"client-{i}", dataset) for i, dataset in enumerate(datasets)]
    worker = ProcessWorker(hook, id=f"secure-{os.getpid()}")
    try:
        worker.add_dataset(datasets[0], "points")
        secure = sy.federated.SecureAggregation(threshold=2)
        found = train([Doomed(worker, "points"), *here[1:]], secure=secure, shuffle=False)
        assert [record.answered for record in found.history] == [3, 2]
    finally:
        worker.stop()
        hook.local_worker._known_workers.pop(worker.id, None)
    first = train(here, 1, shuffle=False)
    second = train(here[1:], 1, model=first.model, shuffle=False)
    torch.testing.assert_close(state(found), state(second), atol=1e-6, rtol=0)


def test_with_privacy_of_each_client(monkeypatch):
    monkeypatch.setattr("syft.dp.training.user_privacy.add_gaussian", lambda vector, sigma: vector)
    monkeypatch.setattr("syft.dp.training.user_privacy.poisson", lambda count, rate: torch.arange(count))

    def privacy():
        return sy.dp.UserPrivacy(noise_multiplier=1.0, clip=0.05, delta=1e-5)

    found, plain = (train(parts(), privacy=privacy(), secure=secure) for secure in (SECURE, None))
    torch.testing.assert_close(state(found), state(plain), atol=1e-6, rtol=0)
    assert found.epsilon == plain.epsilon > 0
    moved = state(found) - torch.cat([p.detach().double().flatten() for p in network().parameters()])
    assert 0 < float(moved.norm()) <= 2 * 0.05


def test_with_privacy_of_each_sample():
    def privacy(rate):
        return sy.dp.SamplePrivacy(noise_multiplier=1.0, max_grad_norm=1.0, delta=1e-5, rate=rate)

    found = train(parts(), local_privacy=privacy(0.5), secure=SECURE)
    assert found.epsilon > 0 and found.history[1].answered == 4
    with pytest.raises(FederatedError, match="reveals the number of samples.*rate"):
        train(parts(), local_privacy=privacy(None), secure=SECURE, attempts=1)
