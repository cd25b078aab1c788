"""Runs that end early: trained rounds are kept, and permanent errors are not retried."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import BudgetExceededError, ClientBusyError, FederatedError, StateLostError, TrainingError
from syft.federated.history.round_outcome import RoundOutcome, shortened
from syft.federated.server.clients import LocalClient

EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def part(number, count=24):
    chance = torch.Generator().manual_seed(number)
    data = torch.randn(count, 3, generator=chance)
    return TensorDataset(data, (data.sum(1) > 0).long())


class Refusing(LocalClient):
    """A client that raises an error from some round on."""

    def __init__(self, number, error=None, since=1, until=10**6):
        super().__init__(f"client-{number}", part(number))
        self.error, self.since, self.until = error, since, until
        self.asked = []

    def call(self, run, name, payload, timeout=None):
        if name == "train":
            self.asked.append(payload["round"])
            if self.error is not None and self.since <= payload["round"] and len(self.asked) < self.until:
                raise self.error
        return super().call(run, name, payload, timeout)


def train(clients, rounds=5, strategy="fedavg", **options):
    settings = {
        "model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1,
        "progress": False, **options,
    }  # fmt: skip
    return sy.federated.run(strategy, clients, rounds, **settings)


SPENT = BudgetExceededError("This would pass the budget. Ask the owner: python -m syft node budget set --help")


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_run_whose_budgets_are_spent_ends_with_the_rounds_that_were_paid_for(caplog):
    found = train([Refusing(0, SPENT, since=4), Refusing(1, SPENT, since=3)])
    assert found.rounds == len(found.history) == 3
    assert found.ending.startswith("the privacy budget is spent at client 'client-1' (and 1 more): This would pass")
    assert [record.answered for record in found.history] == [2, 2, 1]
    assert "The run ends after round 3" in caplog.text and "failed" not in caplog.text
    model = nn.Linear(3, 2)
    whole = train([Refusing(0), Refusing(1, SPENT, since=3)], 3, model=model)
    ended = train([Refusing(0, SPENT, since=4), Refusing(1, SPENT, since=3)], model=model)
    assert torch.equal(ended.model.weight, whole.model.weight)


def test_a_target_epsilon_of_samples_ends_a_run_early():
    privacy = sy.dp.SamplePrivacy(noise_multiplier=1.0, delta=1e-5, target_epsilon=12.0)
    found = train([part(0), part(1)], 50, local_privacy=privacy)
    more = sy.dp.SamplePrivacy(noise_multiplier=1.0, delta=1e-5).cost(24, 8, rounds=found.rounds + 1)
    assert 0 < found.rounds < 50 and found.epsilon <= 12.0 < more
    assert "target_epsilon is 12" in found.ending


@pytest.mark.parametrize("secure", [None, sy.federated.SecureAggregation()], ids=["plain", "secure"])
def test_others_go_on_as_long_as_they_are_enough(secure):
    clients = [Refusing(0), Refusing(1, SPENT, since=2), Refusing(2), Refusing(3), Refusing(4)]
    assert [record.answered for record in train(clients, 3, secure=secure).history] == [5, 4, 4]
    clients = [Refusing(0, SPENT, since=3), Refusing(1, SPENT, since=2), Refusing(2, SPENT, since=3), Refusing(3)]
    found = train(clients, 3, secure=secure, **({} if secure else {"min_clients": 2}))
    assert found.rounds == 2 and "at client 'client-1' (and 2 more)" in found.ending


def test_a_budget_that_no_round_was_paid_from_is_an_error():
    with pytest.raises(FederatedError, match="Round 1 failed. .*python -m syft node budget set --help") as caught:
        train([Refusing(0, SPENT), Refusing(1, SPENT)])
    assert caught.value.result.rounds == 0


def test_drawn_clients_whose_budgets_are_spent_end_a_run_too():
    privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3, rate=1.0)
    found = train([Refusing(0, SPENT, since=2), Refusing(1, SPENT, since=2)], privacy=privacy)
    assert found.rounds == 1 and "budget is spent" in found.ending


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_has_the_result_of_the_rounds_before_it():
    clients = [Refusing(0, ConnectionError("the line is cut"), since=3), Refusing(1, OSError("gone"), since=3)]
    with pytest.raises(
        FederatedError, match="Round 3 failed 3 times. .*error.result has the model after round 2"
    ) as caught:
        train(clients)
    result = caught.value.result
    assert result.rounds == len(result.history) == 2 and "Round 3 failed" in result.ending
    assert repr(result).startswith("<Result of 2 rounds (Round 3 failed 3 times.")


def test_a_result_counts_its_rounds():
    assert repr(train([part(0)], 1)).startswith("<Result of 1 round: ")


HOPELESS = {
    "training": TrainingError("no"),
    "permission": sy.exceptions.GetNotPermittedError("no"),
    "budget": SPENT,
    "label": IndexError("Target 9 is out of bounds."),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_a_refusal_of_all_clients_is_not_retried(name, caplog):
    clients = [Refusing(0, HOPELESS[name]), Refusing(1, HOPELESS[name])]
    with caplog.at_level(logging.WARNING), pytest.raises(FederatedError, match="Round 1 failed. 0 of 2"):
        train(clients)
    assert [client.asked for client in clients] == [[1], [1]] and not caplog.records


PASSING = [ConnectionError("cut"), RuntimeError("out of memory"), ClientBusyError("busy"), StateLostError("forgotten")]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_temporary_errors_are_retried(error):
    client = Refusing(0, error, until=3)
    assert train([client, Refusing(1, TrainingError("no"))], 1).rounds == 1 and client.asked == [1, 1, 1]


def test_a_strategy_or_a_sum_that_needs_more_clients_is_not_tried_again():
    for options in ({"strategy": sy.federated.Krum(byzantine=1)}, {"secure": sy.federated.SecureAggregation()}):
        clients = [Refusing(0), Refusing(1)]
        with pytest.raises(FederatedError, match="Round 1 failed. "):
            train(clients, **options)
        assert all(len(client.asked) <= 1 for client in clients)


def test_a_retry_calls_other_clients_if_a_round_has_a_part_of_them():
    clients = [Refusing(i, TrainingError("no samples") if i else None) for i in range(4)]
    assert train(clients, 1, clients_per_round=1, attempts=50).rounds == 1


def test_reasons_end_with_whole_sentences():
    text = "First this happened. Then that. " + "word " * 100
    assert shortened(text, 60) == "First this happened. Then that. …"
    assert shortened(text, 10**4) == text
    assert shortened("word " * 100, 20) == "word word word …"
    assert len(shortened("x" * 100, 20)) <= 20
    command = "Ask the owner for one: python -m syft node budget set --data patients --user ann --epsilon 1"
    answers = RoundOutcome({"a": None})
    answers.fail("a", "What happened is this. " * 10 + command)
    assert answers.first_reason().endswith(command)
