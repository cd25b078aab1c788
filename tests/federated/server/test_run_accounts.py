"""Reported costs of runs, in privacy and bytes, whatever happens to clients, rounds and the server."""

from __future__ import annotations

import logging
import threading

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, TensorDataset

import syft as sy
from syft.dp.accounting.accountant import Accountant
from syft.exceptions import FederatedError
from syft.federated.secure_aggregation.collector import SecureCollector
from syft.federated.server.clients import LocalClient

EXAMPLE = (torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))
DELTA = 1e-5


def part(number, count=32):
    chance = torch.Generator().manual_seed(number)
    data = torch.randn(count, 3, generator=chance)
    return TensorDataset(data, (data.sum(1) > 0).long())


def train(clients, rounds=3, **options):
    settings = {
        "model": nn.Linear(3, 2), "loss_fn": cross_entropy, "example": EXAMPLE, "batch_size": 8, "seed": 1,
        "progress": False, **options,
    }  # fmt: skip
    return sy.federated.run("fedavg", clients, rounds, **settings)


class Broken(BaseException):
    """The server ends here, as if it was killed."""


class Told(LocalClient):
    """A client that does something of a test's before it is asked to train, or after."""

    def __init__(self, name, dataset, before=None, after=None, is_here=True):
        super().__init__(name, dataset)
        self.before, self.after, self.is_here = before, after, is_here
        self.asked = []

    def call(self, run, name, payload, timeout=None):
        if name == "train":
            self.asked.append((payload["round"], payload["seed"]))
            if self.before is not None:
                self.before(payload["round"])
        answer = super().call(run, name, payload, timeout)
        if name == "train" and self.after is not None:
            answer = self.after(payload["round"], answer)
        return answer

    @property
    def spent(self):
        """The epsilon that the client itself counts."""
        (run,) = self._memories._runs.values()
        return Accountant.from_dict(run[self.name].memory["dp_sgd"]).epsilon(DELTA)


# --- privacy of samples -----------------------------------------------------------------------------------------------


def sample_privacy(**more):
    return sy.dp.SamplePrivacy(noise_multiplier=1.0, delta=DELTA, **more)


def broken_off(tmp_path, model, at):
    """A run whose server is killed in a round, when the first of two clients has answered; returns the clients."""
    is_doomed = [True]

    def stop(round):
        if round == at and is_doomed.pop():
            raise Broken

    clients = [Told("first", part(0)), Told("second", part(1), before=stop)]
    with pytest.raises(Broken):
        train(clients, 3, checkpoint=tmp_path, model=model, local_privacy=sample_privacy())
    return clients


def test_results_for_a_killed_server_are_charged(tmp_path):
    model = nn.Linear(3, 2)
    clients = broken_off(tmp_path, model, at=2)
    found = train(clients, 3, checkpoint=tmp_path, model=model, local_privacy=sample_privacy())
    assert [len(client.asked) for client in clients] == [4, 4]  # of the second one's, one failed
    assert found.epsilon == pytest.approx(clients[0].spent) == sample_privacy().cost(32, 8, rounds=4)


def test_losses_reported_to_a_killed_server_are_collected_at_the_end(tmp_path):
    model = nn.Linear(3, 2)
    clients = broken_off(tmp_path, model, at=1)
    found = train(clients, 0, checkpoint=tmp_path, model=model, local_privacy=sample_privacy())
    assert found.rounds == 0 and 0 < found.epsilon == pytest.approx(clients[0].spent)


def test_privacy_loss_of_a_late_client_counts():
    slow = threading.Event()

    def late(round, answer):
        if round == 1:
            slow.wait(60)
        return answer

    # The late one spends more: its batches are a larger share of its samples.
    clients = [Told("late", part(0), after=late, is_here=False), Told("quick", part(1, 256), is_here=False)]
    found = train(clients, 1, round_timeout=3.0, evaluate=lambda model: slow.set(), local_privacy=sample_privacy())
    assert found.history[0].reasons == ("late: it was too late",)
    assert found.epsilon == pytest.approx(clients[0].spent) == sample_privacy().cost(32, 8)


def test_clients_that_can_not_report_their_loss_are_named(caplog):
    class Gone(Told):
        def call(self, run, name, payload, timeout=None):
            answer = super().call(run, name, payload, timeout)
            raise ConnectionError(f"lost after {name}, {len(answer)}")

    with caplog.at_level(logging.WARNING):
        found = train([Told("first", part(0)), Gone("gone", part(1))], 1, local_privacy=sample_privacy())
    assert found.history[0].answered == 1
    assert "can't be asked for their loss: gone." in caplog.text


@pytest.mark.parametrize("said", [None, {}, {"kind": "rdp", "events": 3}, {"kind": "rdp", "events": [1] * 2000}, 7])
def test_reported_losses_are_untrusted(said):
    def lie(round, answer):
        return {**answer, "privacy": {**answer["privacy"], "spent": said}}

    found = train([Told("first", part(0)), Told("liar", part(1), after=lie)], 1, local_privacy=sample_privacy())
    assert found.history[0].reasons == ("liar: Client 'liar' did not report its privacy loss in this run.",)


def test_a_client_that_reports_too_little_loss_is_not_trusted():
    def forget(round, answer):
        return {**answer, "privacy": {**answer["privacy"], "spent": {"kind": "rdp", "events": []}}}

    found = train([Told("liar", part(1), after=forget)], 2, local_privacy=sample_privacy())
    assert found.epsilon == pytest.approx(sample_privacy().cost(32, 8, rounds=2))


# --- privacy of clients -----------------------------------------------------------------------------------------------


def user_privacy(rate=0.5):
    return sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3, rate=rate)


def drawn(monkeypatch, *draws):
    """Let chance draw these clients; returns what is left to be drawn."""
    left = [torch.tensor(draw, dtype=torch.long) for draw in draws]
    monkeypatch.setattr("syft.dp.training.user_privacy.poisson", lambda count, rate: left.pop(0))
    return left


def cost(rounds, clients=10):
    privacy = user_privacy()
    privacy.begin(clients, rounds)
    return privacy.cost(rounds)


def test_too_few_for_a_secure_sum_are_a_round_of_noise_not_another_draw(monkeypatch):
    left = drawn(monkeypatch, [1, 4], [0, 2, 5, 7], [], [3])
    clients = [Told(f"client-{i}", part(i)) for i in range(40)]
    found = train(clients, 4, privacy=user_privacy(), secure=sy.federated.SecureAggregation())
    assert [record.answered for record in found.history] == [0, 4, 0, 0] and not left
    assert [len(client.asked) for client in clients] == [1, 0, 1, 0, 0, 1, 0, 1] + [0] * 32
    assert cost(4, 40) < found.epsilon < 1.001 * cost(4, 40)  # a draw of two or fewer is charged to delta


def test_clients_take_part_as_often_as_is_accounted_for():
    clients = sy.federated.Simulation((torch.randn(80, 3), torch.arange(80) % 2), 40)
    found = train(clients, 30, privacy=user_privacy(0.4), secure=sy.federated.SecureAggregation())
    rate = sum(record.answered for record in found.history) / 1200
    assert 0.33 < rate < 0.47


def test_a_round_that_can_hardly_have_enough_clients_is_refused():
    with pytest.raises(FederatedError, match="2 clients on average.*secure aggregation needs 3"):
        train([part(i) for i in range(10)], privacy=user_privacy(0.2), secure=sy.federated.SecureAggregation())


def test_a_threshold_near_the_expected_draw_is_refused():
    """One more client would switch the whole sum on, and no noise hides that."""
    clients = sy.federated.Simulation((torch.randn(400, 3), torch.arange(400) % 2), 200)
    with pytest.raises(FederatedError, match="min_clients=50.*SecureAggregation\\(min_clients=.*UserPrivacy\\(rate="):
        train(clients, 1, privacy=user_privacy(0.3), secure=sy.federated.SecureAggregation(min_clients=50))


def test_a_secure_run_that_loses_too_many_clients_for_its_epsilon_ends(monkeypatch):
    drawn(monkeypatch, list(range(6)), list(range(40)))
    clients = [Told(f"client-{i}", part(i), before=lose(100) if i < 3 else None) for i in range(40)]
    with pytest.raises(FederatedError, match="epsilon would not hold.*dropout") as error:
        train(clients, 2, privacy=user_privacy(), secure=sy.federated.SecureAggregation(), attempts=1)
    assert error.value.result.rounds == 0


def lose(times):
    """Return a call that loses a client the given number of times."""
    left = [times]

    def before(round):
        if left[0]:
            left[0] -= 1
            raise ConnectionError("the line is cut")

    return before


def test_all_attempts_use_the_same_draw(monkeypatch):
    left = drawn(monkeypatch, [0], [1, 2])
    clients = [Told("client-0", part(0), before=lose(2)), *(Told(f"client-{i}", part(i)) for i in range(1, 4))]
    found = train(clients, 2, privacy=user_privacy())
    assert [record.answered for record in found.history] == [1, 2] and not left
    rounds = [round for round, _ in clients[0].asked]
    assert rounds == [1, 1, 1] and [len(client.asked) for client in clients[1:]] == [1, 1, 0]


def test_a_resumed_run_calls_the_same_drawn_clients(monkeypatch, tmp_path):
    def stop(round):
        if is_doomed and round == 2:
            raise Broken

    is_doomed = True
    left = drawn(monkeypatch, [0, 1], [1, 2], [0, 3])
    clients = [Told(f"client-{i}", part(i), before=stop) for i in range(4)]
    model = nn.Linear(3, 2)
    with pytest.raises(Broken):
        train(clients, 3, privacy=user_privacy(), checkpoint=tmp_path, model=model)
    is_doomed = False
    found = train(clients, 3, privacy=user_privacy(), checkpoint=tmp_path, model=model)
    assert not left and [len(client.asked) for client in clients] == [2, 3, 1, 1]
    assert found.epsilon == pytest.approx(cost(3, 4))


def test_a_round_without_clients_is_noise_and_two_in_a_row_fail(monkeypatch, tmp_path, caplog):
    drawn(monkeypatch, [0], [1], [0], [0], [2])
    lost = Told("client-0", part(0), before=lose(100))
    clients = [lost, *(Told(f"client-{i}", part(i)) for i in range(1, 4))]
    model, options = nn.Linear(3, 2), {"attempts": 2, "checkpoint": tmp_path}
    with pytest.raises(FederatedError, match="Round 4 failed 2 times. 0 of 1 clients answered.*Run again"):
        train(clients, 5, privacy=user_privacy(), model=model, **options)
    assert "the round consists of noise" in caplog.text
    found = train(clients, 5, privacy=user_privacy(), model=model, **options)
    assert [record.answered for record in found.history] == [0, 1, 0, 0, 1]
    assert found.history[3].reasons[0].startswith("client-0: ") and found.epsilon == pytest.approx(cost(5, 4))


def test_with_all_clients_lost_nothing_is_spent(monkeypatch):
    drawn(monkeypatch, [0, 1])
    with pytest.raises(FederatedError, match="0 of 2 clients answered"):
        train([Told(f"client-{i}", part(i), before=lose(100)) for i in range(2)], privacy=user_privacy())


# --- sums -------------------------------------------------------------------------------------------------------------


def test_a_sum_that_would_not_count_is_not_unmasked(monkeypatch):
    """Two sums of the same updates, with and without one client, would tell what that client gave."""
    unmasked = []
    original = SecureCollector._total
    monkeypatch.setattr(
        SecureCollector, "_total", lambda self, total: unmasked.append(list(self._answered)) or original(self, total)
    )
    times = []

    def stray(round, answer):
        times.append(round)
        return {**answer, "context": bytes(32)} if len(times) == 1 else answer

    clients = [Told("client-0", part(0), after=stray), *(Told(f"client-{i}", part(i)) for i in range(1, 6))]
    found = train(clients, 1, min_clients=6, secure=sy.federated.SecureAggregation())
    assert found.history[0].answered == 6 and unmasked == [[client.name for client in clients]]
    seeds = [seed for _, seed in clients[1].asked]
    assert len(seeds) == 2 and seeds[0] != seeds[1]  # another order of samples in each attempt


# --- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first, then, what",
    [
        ({"secure": sy.federated.SecureAggregation()}, {}, "secure"),
        ({}, {"secure": sy.federated.SecureAggregation()}, "secure"),
        ({"seed": 3}, {"seed": 4}, "seed"),
    ],
)
def test_a_run_does_not_go_on_as_another_one(tmp_path, first, then, what):
    clients, model = [part(i) for i in range(4)], nn.Linear(3, 2)
    train(clients, 1, model=model, checkpoint=tmp_path, **first)
    with pytest.raises(FederatedError, match=f"another {what}"):
        train(clients, 2, model=model, checkpoint=tmp_path, **then)
    assert train(clients, 2, model=model, checkpoint=tmp_path, **{**first, "seed": None}).rounds == 2


# --- bytes and threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy, options",
    [("fedavg", {}), ("scaffold", {}), ("fedavg", {"secure": sy.federated.SecureAggregation()})],
    ids=["fedavg", "scaffold", "secure"],
)
def test_bytes_are_those_that_messages_carry(make_worker, strategy, options, monkeypatch):
    monkeypatch.setattr(sy.local_worker, "compression", "none")  # controls begin with zeros
    workers = [make_worker("client", "bytes") for _ in range(4)]
    for number, worker in enumerate(workers):
        worker.add_dataset(part(number), "points")
    settings = {"dataset": "points", "example": EXAMPLE, "progress": False, "seed": 1, **options}
    with sy.count_messages() as counted:
        found = sy.federated.run(strategy, workers, 1, model=nn.Linear(3, 400), loss_fn=cross_entropy, **settings)
    (record,) = found.history
    told = record.bytes_out + record.bytes_in
    # Heads of messages, names and ids are left: some hundred bytes for each message.
    assert told < counted.bytes < told + 600 * counted.messages
    here = sy.federated.run(
        strategy, [part(i) for i in range(4)], 1, model=nn.Linear(3, 400), loss_fn=cross_entropy,
        **{**settings, "dataset": None},
    )  # fmt: skip
    assert here.history[0].bytes_in == pytest.approx(record.bytes_in, rel=0.01)


class Meeting(Dataset):
    """Samples that are there when somebody else asks for theirs at the same time."""

    def __init__(self, barrier):
        self.barrier = barrier

    def __len__(self):
        return 2

    def __getitem__(self, index):
        self.barrier.wait(60)
        return torch.zeros(3), 0


def test_workers_with_threads_train_at_the_same_time(make_worker):
    barrier = threading.Barrier(3)
    workers = [make_worker("client", "thread") for _ in range(3)]
    for worker in workers:
        worker.add_dataset(Meeting(barrier), "points")
    found = train(workers, 1, dataset="points", attempts=1)
    assert found.history[0].answered == 3
