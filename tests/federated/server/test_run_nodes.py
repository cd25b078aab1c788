"""Federated runs over nodes in child processes, with users, tokens and budgets: the results of in-process workers."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.exceptions import FederatedError
from tests.helpers.nodes import forget, node

PREPARE = """
import torch
from torch.utils.data import TensorDataset
torch.manual_seed({number})
data = torch.randn(300, 3)
node.worker.add_dataset(TensorDataset(data, (data.sum(1) > 0).long()), "points")
node.worker.policy.budget.set(node.worker, "dataset:points", 30.0, 1e-5)
shared = [data.clone().tag("#samples"), (data.sum(1) > 0).long().tag("#targets")]
node.worker.load_data(shared)
for tensor in shared:
    node.worker.policy.share(node.worker, tensor.id, ["alice"])
"""
EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))
PRIVACY = {"noise_multiplier": 0.8, "max_grad_norm": 1.0, "delta": 1e-5}


@pytest.fixture(scope="module")
def hospitals():
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(node(f"ward-{n}", prepare=PREPARE.format(number=n))) for n in range(3)]


@pytest.fixture
def workers(hook, hospitals):
    made = [hospital.connect(hook, "alice") for hospital in hospitals]
    yield made
    forget(hook, *made)


def train(clients, rounds=3, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    settings = {"example": EXAMPLE, "dataset": "points", "optimizer_args": {"lr": 1.0}, "batch_size": 100, **options}
    return sy.federated.run("fedavg", clients, rounds, model=model, loss_fn=F.cross_entropy, **settings)


def test_private_updates_of_nodes_within_their_budgets(workers):
    torch.manual_seed(9)
    test = torch.randn(300, 3)
    found = train(workers, local_privacy=sy.dp.SamplePrivacy(**PRIVACY), evaluate=(test, (test.sum(1) > 0).long()))
    # Nodes draw noise that no test knows: the accuracy is 0.98, with a deviation of 0.006.
    assert [record.answered for record in found.history] == [3, 3, 3]
    assert found.history.metric("accuracy")[-1] > 0.75 and 0 < found.epsilon < 30
    assert workers[0].budget.entries()[0]["user"] == "alice"


def test_shared_data_at_nodes_trains_the_same_model_as_local_data(workers):
    pairs = [(worker.search("#samples")[0], worker.search("#targets")[0]) for worker in workers]
    here = []
    for number in range(3):
        torch.manual_seed(number)
        data = torch.randn(300, 3)
        here.append((data, (data.sum(1) > 0).long()))
    options = {"shuffle": False, "dataset": None, "seed": 1}  # the order would depend on the names
    for secure in (None, sy.federated.SecureAggregation()):
        found, expected = (train(clients, secure=secure, **options) for clients in (pairs, here))
        assert [record.answered for record in found.history] == [3, 3, 3]
        for mine, theirs in zip(found.model.parameters(), expected.model.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
        assert found.history.losses == pytest.approx(expected.history.losses, abs=1e-6)


def test_plain_updates_stay(workers):
    with pytest.raises(FederatedError, match="does not release this value to 'alice'"):
        train(workers, attempts=1)


def test_masked_updates_are_updates(workers):
    """Masks hide an update from the server; what the policy of a node asks is who gets something out of the data."""
    with pytest.raises(FederatedError, match="does not release this value to 'alice'"):
        train(workers, attempts=1, secure=sy.federated.SecureAggregation())


def test_secure_sums_of_private_updates(workers):
    privacy = sy.dp.SamplePrivacy(
        **PRIVACY, rate=1 / 3
    )  # without a rate, what is spent tells how many samples there are
    found = train(workers, rounds=1, secure=sy.federated.SecureAggregation(), local_privacy=privacy)
    assert found.history[0].answered == 3
