"""Federated runs over workers with a policy: updates derive from the data, and leave by a grant or a budget only."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import FederatedError, GetNotPermittedError, TrainingError
from syft.federated.clients import WorkerClient
from syft.grid.rights import NodePolicy

EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def points(seed):
    torch.manual_seed(seed)
    data = torch.randn(40, 3)
    return data, (data.sum(1) > 0).long()


@pytest.fixture
def hospitals(make_worker, kind):
    """Two workers with the policy of a node; their owners' data is there under a key and as published tensors."""
    made = []
    for number in range(2):
        worker = make_worker(f"hospital-{number}", kind)
        data, targets = (tensor.tag("#points") for tensor in points(number))
        worker.load_data([data, targets])
        worker.add_dataset(TensorDataset(*points(number)), "points")
        worker.policy = NodePolicy(owner="the hospital")
        made.append(worker)
    return made


def train(clients, rounds=2, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    settings = {"example": EXAMPLE, "optimizer_args": {"lr": 0.5}, "seed": 1, "attempts": 1, **options}
    return sy.federated.run("fedavg", clients, rounds, model=model, loss_fn=F.cross_entropy, **settings)


def found_at(worker):
    """The published samples and targets of a worker, as a client finds them."""
    return sorted(worker.search("#points"), key=lambda pointer: -len(pointer.shape))


def test_updates_do_not_leave_by_themselves(hospitals):
    with pytest.raises(FederatedError, match="does not release this value to 'me' .federated train"):
        train(hospitals, dataset="points")
    with pytest.raises(FederatedError, match="does not release"):
        train([sy.BaseDataset(*found_at(worker)) for worker in hospitals])
    with pytest.raises(GetNotPermittedError):
        WorkerClient(hospitals[0], "points").call("run", "train", {"round": 1})
    # A term that pays does so in training alone: no other call goes past the policy by naming it.
    from syft.workers.station import CALLS

    assert [name for name, call in CALLS.items() if call.pays] == ["train"]
    with pytest.raises(TrainingError, match="does not know the call"):
        WorkerClient(hospitals[0], "points").call("run", "evaluate", {"terms": {"dp_sgd": {}}})


def test_updates_leave_when_the_owners_say_so(hospitals):
    for worker in hospitals:
        for pointer in found_at(worker):
            request = pointer.request(reason="to train a model together")
            worker.policy.requests.approve(request.id, scope="sources")
    # In the order that samples have: a shuffled one depends on the names of clients.
    found = train([sy.BaseDataset(*found_at(worker)) for worker in hospitals], shuffle=False)
    assert [record.answered for record in found.history] == [2, 2]
    free = train([TensorDataset(*points(number)) for number in range(2)], shuffle=False)
    assert found.history.losses == pytest.approx(free.history.losses, rel=1e-5)


def test_private_updates_are_paid_from_the_budget_of_each_owner(hospitals):
    privacy = sy.dp.SamplePrivacy(noise_multiplier=1.0, max_grad_norm=1.0, delta=1e-5)
    with pytest.raises(FederatedError, match="no limit|budget"):
        train(hospitals, dataset="points", local_privacy=privacy)
    for worker in hospitals:
        worker.policy.budget.set(worker, "dataset:points", epsilon=20.0, delta=1e-5)
    found = train(hospitals, rounds=1, dataset="points", local_privacy=privacy)
    assert found.history[0].answered == 2 and 0 < found.epsilon < 20
    (entry,) = hospitals[0].policy.budget.entries()
    assert (entry["user"], entry["what"]) == ("me", "federated train")
    ended = train(hospitals, rounds=200, dataset="points", local_privacy=privacy)
    assert 0 < ended.rounds < 200 and ended.rounds == len(ended.history) and found.epsilon < ended.epsilon < 20
    assert ended.ending.startswith(f"the privacy budget is spent at client {hospitals[0].id!r} (and 1 more)")
    assert ended.ending.endswith("python -m syft node budget set --help")
    assert len(hospitals[0].policy.budget.entries()) == 1 + ended.rounds, "rounds that were within the limit"
    # A run that never had a round that was paid for has no result to end with.
    with pytest.raises(FederatedError, match="Round 1 failed. .*would pass the privacy budget"):
        train(hospitals, rounds=2, dataset="points", local_privacy=privacy)
