"""Duration of private training: it does not depend on the data, and sizes are fixed."""

import math
import time

import pytest
import torch
from torch import nn

import syft as sy
from syft.dp.training.dp_sgd import PrivateTraining
from syft.dp.training.pacing import LEAST_SECONDS, ReleaseTime
from syft.exceptions import TrainingError
from syft.federated.client.train_config import TrainConfig
from syft.federated.server.clients import WorkerClient
from syft.workers.access.policy import DenyAll

SETTINGS = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "delta": 1e-4}
CROSS = nn.CrossEntropyLoss()


class Timing(nn.Module):
    """Takes long if the first column of a sample is large, and has no other effect."""

    def __init__(self, slow):
        super().__init__()
        self.inner, self.slow = nn.Linear(5, 3), slow

    def forward(self, x):
        return self.inner(x) + 0.0 * self.slow(x).sum()


SLOW = {
    "repeat_interleave": lambda x: torch.ones_like(x[:, 0]).repeat_interleave((x[:, 0] > 41).long() * 2_000_000),
    "nonzero": lambda x: torch.nonzero(x).float(),
    "masked_select": lambda x: torch.masked_select(x, x > 41),
    "boolean index": lambda x: x[x > 41],
    "unique": lambda x: torch.unique(x.detach()),
    "bincount": lambda x: torch.bincount((x[:, 0] > 41).long() * 2_000_000).float(),
}


def data(count=40):
    return torch.rand(count, 5) + 1, torch.randint(0, 3, (count,))


def plans(model, loss=CROSS):
    x, y = data(4)
    return sy.Plan(forward_func=model).build(x), sy.Plan(forward_func=loss).build(model(x).detach(), y)


def make(pair, model=None, settings=None, **options):
    chosen = sy.dp.SamplePrivacy(**SETTINGS) if settings is None else settings
    made = plans(model or nn.Linear(5, 3))
    return PrivateTraining(*made, pair, chosen, TrainConfig(batch_size=8), **{"apart": True, **options})


def optimizer(training):
    return torch.optim.SGD(training._samples.parameters, lr=0.1)


# --- sizes that depend on values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SLOW)
def test_a_plan_whose_sizes_depend_on_values_is_refused(name):
    with pytest.raises(TrainingError, match="size that depends on values"):
        make(data(), Timing(SLOW[name]))


def test_a_loss_whose_sizes_depend_on_values_is_refused():
    made = plans(nn.Linear(5, 3), lambda output, target: CROSS(output, target) + 0 * output[output > 9].sum())
    with pytest.raises(TrainingError, match="size that depends on values"):
        PrivateTraining(*made, data(), sy.dp.SamplePrivacy(**SETTINGS), TrainConfig(batch_size=8), apart=True)


FIXED = {
    "mlp": lambda: nn.Sequential(nn.Linear(5, 7), nn.Dropout(0.5), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 3)),
    "conv": lambda: nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(12, 3)),
    "gru": lambda: Rows(nn.GRU),
    "lstm": lambda: Rows(nn.LSTM),
    "where": lambda: Timing(lambda x: torch.where(x > 41, x.exp(), x)),
}  # fmt: skip


class Rows(nn.Module):
    """Reads a sample as a row of five steps."""

    def __init__(self, kind):
        super().__init__()
        self.rows, self.out = kind(1, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.rows(x.unsqueeze(-1))[0][:, -1])


@pytest.mark.parametrize("name", FIXED)
def test_ordinary_models_have_fixed_sizes(name):
    training = make(data(), FIXED[name](), step_seconds=1e-3)
    training.run(optimizer(training))


def guarded(make_worker, policy, model):
    alice = make_worker("alice", "bytes")
    alice.add_dataset(sy.BaseDataset(*data()), "some")
    alice.policy = policy
    config = sy.TrainConfig(*plans(model), batch_size=8, privacy=sy.dp.SamplePrivacy(**SETTINGS))
    config.send(alice)
    return alice, config


class Purse(DenyAll):
    """Takes payments, and remembers them."""

    step_seconds = 0.1

    def __init__(self):
        self.paid = []

    def allows(self, release):
        return True

    def charge_program(self, event, what):
        self.paid.append(event)


def ask(alice, model):
    plan, loss = plans(model)
    term = {**sy.dp.SamplePrivacy(**SETTINGS).to_dict(), "rounds": 1}
    payload = {"plan": plan, "loss": loss, "batch_size": 8, "modifiers": {"dp_sgd": term}}
    return WorkerClient(alice, "some").call("run", "train", payload, None)


def test_the_membership_attack_is_refused_before_anything_is_paid(make_worker):
    policy, model = Purse(), Timing(SLOW["repeat_interleave"])
    alice, _ = guarded(make_worker, policy, model)
    with pytest.raises(TrainingError, match="size that depends on values"):
        alice.fit("some")
    with pytest.raises(TrainingError, match="size that depends on values"):
        ask(alice, model)
    assert policy.paid == []


# --- the time of the answer ---------------------------------------------------------------------------------------


class Clock:
    """A clock that stands still between the moments at which somebody lets time pass; each look takes a millisecond."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-3
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def released(pair, step):
    """Return the release time of a training whose steps take the given number of seconds by a fake clock."""
    clock = Clock()
    training = make(pair, clock=clock, sleep=clock.sleep)
    began = clock.now

    def check_cancelled():
        clock.now += step(pair)

    training.run(optimizer(training), check_cancelled)
    return clock.now - began, training.seconds


def test_the_release_time_depends_on_shapes_only():
    slow = data()
    slow[0][7, 0] = 42.0  # the row that the client asks about
    times = [released(pair, lambda pair: 0.05 if bool((pair[0] > 41).any()) else 1e-3) for pair in (data(), slow)]
    assert times[0][1] == times[1][1] > LEAST_SECONDS / 2
    assert times[0][0] == pytest.approx(times[1][0], abs=0.1 * times[0][1])
    assert all(seconds >= planned for seconds, planned in times)


def test_the_plan_is_made_from_shapes_and_the_owners_setting():
    found = []
    for values in (0.0, 41.5, math.nan, 1e-310):
        clock = Clock()
        pair = torch.full((40, 5), values), torch.zeros(40, dtype=torch.long)
        found.append(make(pair, clock=clock, sleep=clock.sleep).seconds)
    assert len(set(found)) == 1
    assert make(data(), step_seconds=0.3).seconds == pytest.approx(5 * 0.3)
    assert make(data(), apart=False).seconds is None


def test_a_training_that_takes_longer_is_answered_at_a_doubled_time():
    clock = Clock()
    pace = ReleaseTime(10.0, clock, clock.sleep)
    began = clock.now
    for passed, due in ((3.0, 10.0), (9.0, 10.0), (11.0, 20.0), (19.0, 20.0), (25.0, 40.0), (41.0, 80.0)):
        clock.now = began + passed
        assert pace.due() - began == pytest.approx(due)
    clock.now = began + 12.0
    pace.wait(lambda: None)
    assert clock.now - began == pytest.approx(20.0, abs=0.5)


def test_an_error_comes_no_sooner_than_an_answer():
    clock = Clock()
    training = make(data(), clock=clock, sleep=clock.sleep, step_seconds=2.0)

    def fail():
        raise ValueError("made up")

    with pytest.raises(ValueError, match="made up"):
        training.run(optimizer(training), before_step=fail)
    assert clock.now >= 10.0


def test_a_wait_ends_when_the_client_disconnects():
    def gone():
        raise TrainingError("gone")

    clock = Clock()
    with pytest.raises(TrainingError, match="gone"):
        ReleaseTime(1000.0, clock, clock.sleep).wait(gone)
    assert clock.now < 1


def test_a_worker_answers_after_the_owners_time(make_worker):
    alice, _ = guarded(make_worker, Purse(), nn.Linear(5, 3))
    for call in (lambda: alice.fit("some"), lambda: ask(alice, nn.Linear(5, 3))):
        began = time.monotonic()
        call()
        assert time.monotonic() - began >= 5 * Purse.step_seconds
    alice.policy.step_seconds = "long"
    with pytest.raises(TrainingError, match="step_seconds"):
        alice.fit("some")
