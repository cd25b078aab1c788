"""Mistakes of first users of sy.federated.run: one error that says what to type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import syft as sy
from syft.exceptions import FederatedError, PrivacyError, TrainingError
from syft.federated.partition import PARTITIONS

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(60) % 3


def train(data=DATA, targets=LABELS, rounds=1, strategy="fedavg", **options):
    given = {"model": nn.Linear(4, 3), "loss_fn": cross_entropy, "seed": 1, "progress": False, **options}
    return sy.federated.run(strategy, sy.federated.Simulation((data, targets), 3), rounds, **given)


@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions_go_by_name_and_by_class(name):
    kind = PARTITIONS[name]
    made = [sy.federated.Simulation((DATA, LABELS), 3, partition=p) for p in (name, name.upper(), kind, kind())]
    rows = [[part.tensors[0] for part in map(simulation.part, range(3))] for simulation in made]
    assert all(torch.equal(a, b) for other in rows[1:] for a, b in zip(rows[0], other, strict=True))


@pytest.mark.parametrize("given", ["evenly", 3, int, [0, 1]])
def test_unknown_partitions_are_refused(given):
    with pytest.raises(TrainingError, match=r"partition .* unknown.*iid, dirichlet.*Dirichlet\(alpha=0.5\)"):
        sy.federated.Simulation((DATA, LABELS), 3, partition=given)


@pytest.mark.parametrize("given", [3, "accuracy", {"accuracy": 1.0}])
def test_evaluate_is_a_function_or_a_data_set(given):
    with pytest.raises(TrainingError, match=r"evaluate must be a function of the model .* got a (int|str|dict)"):
        train(evaluate=given)


@pytest.mark.parametrize(
    ("gives", "text"),
    [
        (None, "a NoneType"),
        (torch.zeros(3), r"one of shape \(3,\)"),
        (torch.zeros(15).long(), "a Tensor"),
        (1.0, "a float"),
    ],
)
def test_a_strategy_gives_the_next_state(gives, text):
    class Own(sy.federated.FedAvg):
        name = "own"

        def apply(self, state, total, round):
            return gives

    with pytest.raises(TrainingError, match=f"own.apply must return .* vector of 15 numbers .*got {text}"):
        train(strategy=Own())


MISTAKES = {
    "width": (
        {"model": nn.Linear(5, 3)},
        r"Linear\) rejects samples of shape \(2, 4\) and dtype float32: .* shape \(4,\)",
    ),
    "layers": ({"model": nn.Sequential(nn.Linear(4, 5), nn.Linear(6, 3))}, r"Sequential\).* the one before it"),
    "doubles": (
        {"data": DATA.double()},
        r"dtype float64: .* The model is float32. Pass the samples as data.to\(torch.float32",
    ),
    "double model": (
        {"model": nn.Linear(4, 3).double()},
        r"The model is float64. Pass the samples as data.to\(torch.f",
    ),
    "short labels": ({"targets": LABELS.int()}, r"targets of shape \(2,\) and dtype int32: .* targets.long\(\)"),
    "label": (
        {"targets": LABELS + 3},
        r"outputs of shape \(2, 3\) and dtype float32 .*from 0 to below the number of outputs, 3",
    ),
    "targets": ({"loss_fn": binary_cross_entropy_with_logits, "targets": LABELS.float()}, "that the loss accepts"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_data_that_does_not_fit_is_named(name):
    given, text = MISTAKES[name]
    with pytest.raises(TrainingError, match=text):
        train(**given)


def test_a_data_set_to_evaluate_with_fits_before_the_first_round():
    for data, text in (
        (torch.randn(9, 5), r"\(2, 5\) and dtype float32"),
        (DATA.double(), r"data.to\(torch.float32\)"),
    ):
        with pytest.raises(TrainingError, match=f"rejects samples of .*{text}"):
            train(evaluate=(data, LABELS[: len(data)]), strategy=Untouched())
    with pytest.raises(TrainingError, match="below the number of outputs, 3"):
        train(evaluate=(DATA, LABELS + 3), strategy=Untouched())
    assert 0 <= train(evaluate=(DATA, LABELS)).history.metric("accuracy")[0] <= 1


class Untouched(sy.federated.FedAvg):
    """A strategy that must not be asked."""

    def apply(self, state, total, round):
        raise AssertionError("no round should have been done")


def test_labels_that_no_client_can_have_are_the_reason_of_one_error():
    targets = LABELS.clone()
    targets[2:] = 7  # those that the model is recorded with are fine
    with pytest.raises(FederatedError, match="Round 1 failed. 0 of 3 clients answered.*out of bounds"):
        train(targets=targets, seed=2)


def test_an_optimizer_is_named_by_its_class_too():
    model = nn.Linear(4, 3)
    by_name, by_class = (train(model=model, optimizer=o).model.weight for o in ("Adam", torch.optim.Adam))
    assert torch.equal(by_name, by_class)
    assert sy.TrainConfig(optimizer=torch.optim.Adam).optimizer == "Adam"

    class Adam(torch.optim.Adam):
        pass

    with pytest.raises(TrainingError, match="Use one of .*Adam"):
        train(optimizer=Adam)


def test_a_data_set_has_a_target_for_each_sample():
    with pytest.raises(TrainingError, match="60 samples and 4 targets"):
        sy.BaseDataset(DATA, LABELS[:4])


def test_query_errors_name_the_accepted_types(make_worker):
    bob = make_worker("bob")
    with pytest.raises(PrivacyError, match="'data' .* or 'targets', got 'labels': sy.dp.dataset"):
        sy.dp.dataset(bob, "patients", "labels")
    for data in ([1.0, 2.0], np.ones(3)):
        with pytest.raises(PrivacyError, match=r"got a (list|ndarray). .*torch.as_tensor"):
            sy.dp.mean(data, 0, 1, epsilon=1.0)
