"""Federated runs over nodes: updates leave if the data may be read, or by a budget."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import FederatedError, GetNotPermittedError, TrainingError
from syft.federated.server.clients import WorkerClient
from syft.workers.budget_client import BUDGET
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import Peer

EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def points(seed):
    torch.manual_seed(seed)
    data = torch.randn(40, 3)
    return data, (data.sum(1) > 0).long()


DATA = """
from syft.grid.storage import ObjectAdmin
from torch.utils.data import TensorDataset
from tests.federated.server.test_run_rights import points
data, targets = points(NUMBER)
ObjectAdmin(node.object_manager).publish(data.clone(), tags=("#points",), obj_id="samples")
ObjectAdmin(node.object_manager).publish(targets.clone(), tags=("#points",), obj_id="targets")
node.worker.add_dataset(TensorDataset(data, targets), "points")
node.policy.step_seconds = 0.01
"""


@pytest.fixture(scope="module")
def places():
    """Two nodes; their owners' data is there under a key and as published tensors."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(node_process(f"hospital-{number}", prepare=DATA.replace("NUMBER", str(number))))
            for number in range(2)
        ]


@pytest.fixture
def hospitals(places, hook):
    """The nodes as alice sees them."""
    clients = [place.connect(hook, "alice") for place in places]
    yield clients
    forget(hook, *clients)


@pytest.fixture
def owners(places):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Peer(place, "owner"))) for place in places]


def train(clients, rounds=2, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    settings = {"example": EXAMPLE, "optimizer_args": {"lr": 0.5}, "seed": 1, "attempts": 1, **options}
    return sy.federated.run("fedavg", clients, rounds, model=model, loss_fn=F.cross_entropy, **settings)


def found_at(worker):
    """The published samples and targets of a worker, as a client finds them."""
    return sorted(worker.search("#points"), key=lambda pointer: -len(pointer.shape))


def test_updates_do_not_leave_by_themselves(hospitals):
    with pytest.raises(FederatedError, match="does not release this value to 'alice' .federated train"):
        train(hospitals, dataset="points")
    with pytest.raises(FederatedError, match="does not release"):
        train([sy.BaseDataset(*found_at(worker)) for worker in hospitals])
    with pytest.raises(GetNotPermittedError):
        WorkerClient(hospitals[0], "points").call("run", "train", {"round": 1})
    # A term that pays does so in training alone: no other call goes past the policy by naming it.
    from syft.federated.client.session import CALLS

    assert [name for name, call in CALLS.items() if call.pays] == ["train"]
    with pytest.raises(TrainingError, match="is unknown to this client"):
        WorkerClient(hospitals[0], "points").call("run", "evaluate", {"modifiers": {"dp_sgd": {}}})


def test_updates_leave_when_the_owner_allows_it(hospitals, owners):
    for owner in owners:
        for name in ("samples", "targets"):
            assert owner.share(name, "alice") is None
    # In the order that samples have: a shuffled one depends on the names of clients.
    found = train([sy.BaseDataset(*found_at(worker)) for worker in hospitals], shuffle=False)
    assert [record.answered for record in found.history] == [2, 2]
    free = train([TensorDataset(*points(number)) for number in range(2)], shuffle=False)
    assert found.history.losses == pytest.approx(free.history.losses, rel=1e-5)
    for owner in owners:
        for name in ("samples", "targets"):
            assert owner.share(name) is None
    with pytest.raises(FederatedError, match="does not release"):
        train([sy.BaseDataset(*found_at(worker)) for worker in hospitals])


def test_private_updates_are_paid_from_the_budget_of_each_owner(hospitals, owners):
    privacy = sy.dp.SamplePrivacy(noise_multiplier=1.0, max_grad_norm=1.0, delta=1e-5)
    with pytest.raises(FederatedError, match="no limit|budget"):
        train(hospitals, dataset="points", local_privacy=privacy)
    for owner in owners:
        owner.call(BUDGET, "set", data="dataset:points", epsilon=50.0, delta=1e-5)
    found = train(hospitals, rounds=1, dataset="points", local_privacy=privacy)
    assert found.history[0].answered == 2 and 0 < found.epsilon < 50
    (entry,) = owners[0].call(BUDGET, "entries")
    assert (entry["user"], entry["what"]) == ("alice", "federated train")
    ended = train(hospitals, rounds=200, dataset="points", local_privacy=privacy)
    assert 0 < ended.rounds < 200 and ended.rounds == len(ended.history) and found.epsilon < ended.epsilon < 50
    first = [f"the privacy budget is spent at client {worker.id!r} (and 1 more)" for worker in hospitals]
    assert ended.ending.startswith(tuple(first))  # whichever answers first
    assert ended.ending.endswith("python -m syft node budget set --help")
    assert len(owners[0].call(BUDGET, "entries")) == 1 + ended.rounds, "rounds that were within the limit"
    # A run that never had a round that was paid for has no result to end with.
    with pytest.raises(FederatedError, match="Round 1 failed. .*would exceed the privacy budget"):
        train(hospitals, rounds=2, dataset="points", local_privacy=privacy)
