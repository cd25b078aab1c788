"""DP-SGD at the data: per-sample gradients, noise, and reported values."""

from __future__ import annotations

import math
import threading

import pytest
import torch
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from torch import nn

import syft as sy
from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.events import GaussianNoise, PoissonSampled
from syft.dp.mechanisms.noise import granularity
from syft.dp.training.dp_sgd import PrivateTraining, rounded_down, schedule
from syft.dp.training.per_sample import PerSample, clipped
from syft.exceptions import (
    BudgetExceededError,
    FederatedError,
    GetNotPermittedError,
    NotPermittedError,
    SerdeError,
    TrainingError,
)
from syft.federated.client.dp_settings import settings_from
from syft.federated.client.local_round import modifiers_of
from syft.federated.client.rng import undisturbed
from syft.federated.client.session import CALLS, ClientCall, ClientSession
from syft.federated.client.train_config import TrainConfig
from syft.grid.isolation.programs.jobs import fit_privately
from syft.grid.isolation.programs.process import PaidPolicy, ProgramProcess
from syft.serde import msgpack, protobuf, serialize
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from tests.helpers.dp.noise import distance, keyed
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process

PRIVACY = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "delta": 1e-4}
CROSS = nn.CrossEntropyLoss()


class Words(nn.Module):
    """Whole numbers in, classes out."""

    def __init__(self, kind):
        super().__init__()
        self.words, self.rows, self.out = nn.Embedding(10, 6), kind(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.rows(self.words(x))[0][:, -1])


class Counting(nn.Linear):
    """Keeps a sum of what it was given."""

    def __init__(self):
        super().__init__(5, 3)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen += x.sum(0).detach()
        return super().forward(x)


class Mixing(nn.Module):
    """Each row of the output depends on all rows of the input."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Embedding(10, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.inner(x).mean(1) if not x.is_floating_point() else x[:, :4]
        return self.out(x - x.mean(0))


def plans(model, x, y, loss=CROSS):
    plan = sy.Plan(forward_func=model).build(x)
    return plan, sy.Plan(forward_func=loss).build(plan(x).detach(), y)


def classes(*shape, count=8):
    return torch.randn(count, *shape), torch.randint(0, 3, (count,))


def words():
    return torch.randint(0, 10, (8, 4)), torch.randint(0, 3, (8,))


MODELS = {
    "dense": (lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)), lambda: classes(5), True),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
        ),
        lambda: classes(1, 8, 8),
        True,
    ),
    "norm in eval mode": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval(),
        lambda: classes(5),
        True,
    ),
    "lstm": (lambda: Words(nn.LSTM), words, True),
    "gru": (lambda: Words(nn.GRU), words, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_each_sample_alone(name):
    make, data, at_once = MODELS[name]
    model, (x, y) = make(), data()
    training = PrivateTraining(*plans(model, x, y), (x, y), settings(), TrainConfig())
    samples = training._samples
    assert samples.is_vectorised is at_once
    found = samples.gradients(x, y)
    for row in range(len(x)):
        loss = CROSS(model(x[row : row + 1]), y[row : row + 1])
        for gradient, expected in zip(found, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            assert torch.allclose(gradient[row], expected, atol=1e-5)


def test_run_apart_not_even_rounding_depends_on_other_samples():
    x, y = classes(40, count=50)
    made = plans(nn.Sequential(nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 3)), x, y)
    samples = PrivateTraining(*made, (x, y), settings(), TrainConfig(), apart=True)._samples
    assert not samples.is_vectorised
    found = samples.gradients(x, y)
    for count in (1, 2, 7):
        for one, other in zip(found, samples.gradients(x[:count], y[:count]), strict=True):
            assert torch.equal(one[:count], other)


def settings(**changed):
    return sy.dp.SamplePrivacy(**{**PRIVACY, **changed})


def test_samples_are_clipped_and_non_finite_gradients_count_as_zero():
    rows = torch.randn(6, 40) * torch.tensor([1e-3, 1.0, 1e6, 1e30, 1.0, 1.0]).unsqueeze(1)
    rows[4, 3], rows[5, 0] = float("nan"), float("inf")
    found = clipped([rows[:, :10], rows[:, 10:].view(6, 5, 6)], 0.5)
    norms = found.norm(dim=1)
    assert bool((norms <= 0.5).all())
    assert torch.allclose(norms[1:4], torch.tensor(0.5, dtype=torch.float64))
    assert torch.allclose(found[0], rows[0].double()) and not found[4:].any()


def test_a_failing_sample_counts_as_zero_and_the_others_count():
    x, y = words()
    model = nn.Sequential(nn.Embedding(10, 2), nn.Flatten(), nn.Linear(8, 3))
    samples = PerSample(*plans(model, x, y))
    expected = samples.clipped_sum(x[1:], y[1:], 1.0)
    x[0, 0] = 99  # there is no such word
    assert torch.allclose(samples.clipped_sum(x, y, 1.0), expected, atol=1e-6)
    x[0, 0], y[0] = 0, 77  # nor such a class
    assert torch.allclose(samples.clipped_sum(x, y, 1.0), expected, atol=1e-6)


def test_a_sample_changes_the_sum_by_no_more_than_its_norm_whatever_the_loss_does():
    """A loss that mixes rows would let a sample change the gradients of others; here it never sees another one."""
    x, y = classes(5)
    model = nn.Linear(5, 3)
    plan, loss = plans(model, x, y, lambda output, target: (output * output.sum(0) * 1e3).mean() + 0 * target.sum())
    samples = PerSample(plan, loss)
    without = samples.clipped_sum(x[1:], y[1:], 1.0)
    assert float((samples.clipped_sum(x, y, 1.0) - without).norm()) <= 1.0
    with pytest.raises(TrainingError, match="neither the mean nor the sum"):
        PrivateTraining(plan, loss, (x, y), settings(), TrainConfig())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_mean_loss_is_divided_by_the_expected_size_and_a_sum_is_not(reduction):
    x, y = classes(5, count=64)
    training = PrivateTraining(
        *plans(nn.Linear(5, 3), x, y, nn.CrossEntropyLoss(reduction=reduction)), (x, y), settings(), TrainConfig()
    )
    assert training._divisor == (32 if reduction == "mean" else 1)


def test_dropout_is_trained_too():
    x, y = classes(5)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    training = PrivateTraining(*plans(model, x, y), (x, y), settings(), TrainConfig())
    before = torch.get_rng_state()
    training.run(torch.optim.SGD(training._samples.parameters, lr=0.1))
    assert training._samples.is_vectorised and torch.equal(before, torch.get_rng_state())


REFUSED = {
    "batch norm": (nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), classes(5), "GroupNorm"),
    "a sum of the data": (Counting(), classes(5), "changes its own tensors"),
    "rows that mix": (Mixing(), classes(5), "GroupNorm"),
    "words that mix": (Mixing(), words(), "GroupNorm"),
    "rows that go away": (nn.Sequential(nn.Linear(5, 5), nn.Flatten(0)), classes(5), "a row for each"),
    "no trainable parameters": (nn.Sequential(nn.Flatten()), classes(5), "no trainable parameters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_can_not_be_trained_sample_by_sample_are_refused(name):
    model, (x, y), text = REFUSED[name]
    plan = sy.Plan(forward_func=model).build(x)
    loss = sy.Plan(forward_func=CROSS).build(torch.randn(len(y), 3), y)
    with pytest.raises(TrainingError, match=text):
        PrivateTraining(plan, loss, (x, y), settings(), TrainConfig())


def test_script_modules_are_refused():
    x, y = classes(5)
    loss = plans(nn.Linear(5, 3), x, y)[1]
    with pytest.raises(TrainingError, match="plans"):
        PrivateTraining(torch.jit.trace(nn.Linear(5, 3), x), loss, (x, y), settings(), TrainConfig())


# --- noise and what it costs ------------------------------------------------------------------------------------


def still(noise=1.5, norm=0.5, count=300):
    """Return a training whose gradients are all zeros: what is left is noise."""
    x, y = torch.zeros(count, 40), torch.zeros(count, 50)
    model = nn.Linear(40, 50)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    config = TrainConfig(batch_size=30, epochs=2)
    return PrivateTraining(
        *plans(model, x, y, nn.MSELoss()), (x, y), settings(noise_multiplier=noise, max_grad_norm=norm), config
    )


def test_noise_is_normal_with_the_stated_scale_and_not_of_torch():
    training = still()
    before = torch.get_rng_state()
    with keyed():
        noise = torch.cat([training.noisy_sum() for _ in range(3)])
    assert distance(noise, 0.75) < 1.6 and distance(noise, 0.85) > 1.6
    assert not (noise / granularity(0.75)).frac().any()  # on a grid, as floating-point noise is not
    torch.set_rng_state(before)
    assert not torch.equal(training.noisy_sum(), noise[: 40 * 50 + 50])


def test_a_seed_of_torch_repeats_no_training(make_worker):
    found = []
    for _ in range(2):
        torch.manual_seed(5)
        training = still()
        training.run(torch.optim.SGD(training._samples.parameters, lr=0.1))
        found.append(training._samples.parameters[0].detach().clone())
    assert not torch.allclose(found[0], found[1], atol=1e-3)


def test_others_get_torchs_generator_between_the_steps():
    training, seen = still(), []

    def other():
        with undisturbed():
            seen.append(1)

    def check_cancelled():
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    training.run(torch.optim.SGD(training._samples.parameters, lr=0.1), check_cancelled)
    assert len(seen) == training.schedule.steps


@pytest.mark.parametrize("rate", [None, 0.013])
def test_epsilon_lies_above_that_of_dp_accounting_and_near_it(rate):
    drawn = schedule(5000, TrainConfig(batch_size=50, epochs=3), rate)
    oracle = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3)
    oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(drawn.rate, GaussianDpEvent(0.9)), drawn.steps))
    privacy = settings(noise_multiplier=0.9, rate=rate)
    assert oracle.get_epsilon(1e-4) <= privacy.cost(5000, 50, 3) <= 1.4 * oracle.get_epsilon(1e-4)


def test_reports_depend_on_the_rounded_size_only():
    assert [rounded_down(size) for size in (1, 5, 7, 8, 9, 1000, 1023, 1024)] == [1, 5, 7, 8, 8, 896, 896, 1024]
    assert schedule(1000, TrainConfig(batch_size=64)) == schedule(1023, TrainConfig(batch_size=64))
    capped = schedule(1000, TrainConfig(batch_size=64, epochs=5, max_nr_batches=7))
    assert capped.steps == 7 and capped.rate == 64 / 896
    with pytest.raises(TrainingError, match="no samples"):
        schedule(0, TrainConfig())


def test_noise_is_found_for_a_target_and_more_training_is_refused():
    x, y = classes(5, count=200)
    made = plans(nn.Linear(5, 3), x, y)
    wanted = settings(noise_multiplier=None, target_epsilon=2.0)
    config = TrainConfig(batch_size=20)
    training = PrivateTraining(*made, (x, y), wanted, config)
    assert 1.99 < training.spent.epsilon(1e-4) <= 2.0
    with pytest.raises(BudgetExceededError, match="target_epsilon"):
        PrivateTraining(*made, (x, y), wanted, config, training.spent.to_dict())
    twice = PrivateTraining(*made, (x, y), wanted, config, times=2)
    again = PrivateTraining(*made, (x, y), wanted, config, twice.spent.to_dict(), times=2)
    assert twice.spent.epsilon(1e-4) < 1.6 and 1.99 < again.spent.epsilon(1e-4) <= 2.0


# --- at a worker ------------------------------------------------------------------------------------------------


def digits(count):
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.data[:count] / 16, dtype=torch.float32), torch.tensor(found.target[:count])


def test_digits_are_learned_at_a_stated_epsilon(make_worker):
    x, y = digits(1797)
    alice = make_worker("alice")
    alice.add_dataset(sy.BaseDataset(x[:1500], y[:1500]), "digits")
    privacy = settings(noise_multiplier=1.2)
    config = sy.TrainConfig(
        *plans(nn.Linear(64, 10), x[:4], y[:4]), batch_size=128, epochs=8, optimizer_args={"lr": 2.0}, privacy=privacy
    )
    config.send(alice)
    with keyed():  # the same noise each time
        assert math.isnan(alice.fit("digits"))
    accuracy = (config.get_model()(x[1500:]).argmax(1) == y[1500:]).float().mean()
    assert privacy.cost(1500, 128, 8) < 8 and accuracy > 0.75


@pytest.mark.parametrize("kind", ["inline", "bytes"])
def test_a_config_with_privacy_trains_at_the_worker(make_worker, kind):
    alice = make_worker("alice", kind)
    x, y = classes(5, count=40)
    alice.add_dataset(sy.BaseDataset(x, y), "some")
    model = nn.Linear(5, 3)
    config = sy.TrainConfig(*plans(model, x, y), batch_size=8, privacy=settings(target_epsilon=5.5))
    before = [p.detach().clone() for p in model.parameters()]
    config.send(alice)
    assert math.isnan(alice.fit("some"))
    with pytest.raises(BudgetExceededError, match="target_epsilon"):
        alice.fit("some")
    trained = config.get_model()
    for old, kept, new in zip(before, model.parameters(), trained.parameters(), strict=True):
        assert torch.equal(old, kept) and not torch.allclose(old, new) and new.grad is None
    assert config.get(alice).privacy == settings_from(config.privacy.to_dict())


@pytest.mark.parametrize("form", [msgpack, protobuf])
def test_a_config_with_privacy_is_written_and_read(form):
    config = sy.TrainConfig(model_id=1, loss_fn_id=2, privacy=settings(rate=0.5))
    found = form.deserialize(form.serialize(config))
    assert found.privacy.to_dict() == config.privacy.to_dict()


class Budget(DenyAll):
    """Lets stored results be fetched, and takes payments for programs until its purse is empty."""

    def __init__(self, purse=0):
        self.purse, self.events = purse, []

    def allows(self, release):
        return release.how == "get"

    def charge_program(self, event, what):
        if len(self.events) >= self.purse:
            raise BudgetExceededError("The purse is empty.")
        self.events.append(event)


def guarded(make_worker, policy, **changed):
    alice = make_worker("alice", "bytes")
    x, y = classes(5, count=40)
    alice.add_dataset(sy.BaseDataset(x, y), "some")
    alice.policy = policy
    config = sy.TrainConfig(*plans(nn.Linear(5, 3), x, y), batch_size=8, **changed)
    config.send(alice)
    return alice, config


def test_paid_results_leave_and_each_training_is_charged_in_advance(make_worker):
    policy = Budget(purse=2)
    alice, config = guarded(make_worker, policy, privacy=settings())
    assert math.isnan(alice.fit("some"))
    assert policy.events == [
        {"mechanism": "dp_sgd", "noise_multiplier": 1.0, "rate": 8 / 40, "steps": 5, "delta": 1e-4}
    ]
    alice.fit("some")
    with pytest.raises(BudgetExceededError, match="purse"):
        alice.fit("some")
    assert isinstance(config.get_model(), sy.Plan)


@pytest.mark.parametrize(("policy", "is_apart"), [(ALLOW_ALL, False), (Budget(purse=9), True)])
def test_where_a_policy_holds_samples_are_run_apart(make_worker, monkeypatch, policy, is_apart):
    calls, at_once = [], PerSample.at_once
    monkeypatch.setattr(PerSample, "at_once", lambda *args: calls.append(1) or at_once(*args))
    alice, _ = guarded(make_worker, policy, privacy=settings())
    alice.fit("some")
    ask(alice, *classes(5), "train")
    assert is_apart is not bool(calls)


DATA = """
from torch.utils.data import TensorDataset
torch.manual_seed(0)
node.worker.add_dataset(TensorDataset(torch.randn(40, 5), torch.randint(0, 3, (40,))), "some")
"""


@pytest.fixture
def node(hook):
    """A node with a data set, as alice and its owner see it."""
    with node_process("training", prepare=DATA) as process:
        alice, owner = process.connect(hook, "alice"), process.connect(hook, "owner")
        yield alice, owner
        forget(hook, alice, owner)


def test_the_ledger_of_a_node_pays_for_configs_and_rounds_alike(node):
    alice, owner = node
    x, y = classes(5)
    config = sy.TrainConfig(*plans(nn.Linear(5, 3), x, y), batch_size=8, privacy=settings())
    config.send(alice)
    with pytest.raises(BudgetExceededError, match="budget"):
        alice.fit("some")
    owner.budget.set("dataset:some", settings().cost(40, 8, rounds=2) + 0.01, 1e-4)
    config.send(alice)  # in a new session: this client spoke as the owner in between
    alice.fit("some")
    assert isinstance(config.get_model(), sy.Plan)
    assert ask(alice, x, y, "train")["update"].shape == (18,)
    with pytest.raises(BudgetExceededError):
        ask(alice, x, y, "train")
    config.send(alice)
    with pytest.raises(BudgetExceededError):
        alice.fit("some")
    assert [row["what"] for row in owner.budget.entries()] == ["fit", "federated train"]


def test_a_model_that_was_trained_without_privacy_before_stays_in_the_vault(node):
    alice, owner = node
    owner.budget.set("dataset:some", 100.0, 1e-3)
    config = sy.TrainConfig(*plans(nn.Linear(5, 3), *classes(5)), batch_size=8)
    config.send(alice)
    alice.fit("some")
    ids = {"model_id": config._model_id, "loss_fn_id": config._loss_fn_id}
    sy.TrainConfig(None, None, batch_size=8, privacy=settings(), **ids).send(alice)
    with pytest.raises(GetNotPermittedError):
        alice.fit("some")
    with pytest.raises(GetNotPermittedError):
        config.get_model()
    assert owner.budget.entries() == []


def test_only_private_training_runs_as_a_program(node, hook):
    """A session process that was taken over can't have a model trained without noise, and fetch it."""
    alice, owner = node
    owner.budget.set("dataset:some", 100.0, 1e-3)
    config = sy.TrainConfig(*plans(nn.Linear(5, 3), *classes(5)), batch_size=8, privacy=settings())
    config.send(alice)
    alice.fit("some")
    process = object.__new__(ProgramProcess)
    process.data, process.worker = {}, sy.VirtualWorker(hook, id="program", auto_add=False)
    process.worker.policy = PaidPolicy(None, None)
    plain = sy.TrainConfig(*plans(nn.Linear(5, 3), *classes(5)), batch_size=8)
    body = serialize((plain, None, None, None), process.worker)
    with pytest.raises(NotPermittedError, match="differential privacy"):
        fit_privately(process, body, "some", "cpu", ())


def test_without_a_budget_the_policy_decides_before_private_training(make_worker):
    alice, _ = guarded(make_worker, DenyAll(), privacy=settings())
    with pytest.raises(GetNotPermittedError):
        alice.fit("some")


def test_errors_are_raised_before_anything_is_charged(make_worker):
    policy = Budget(purse=1)
    alice, _ = guarded(make_worker, policy, privacy=settings())
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    x, y = classes(5)
    config = sy.TrainConfig(*plans(model, x, y), privacy=settings())
    config.send(alice)
    with pytest.raises(TrainingError, match="GroupNorm"):
        alice.fit("some")
    assert policy.events == []


# --- rounds of a federated run ----------------------------------------------------------------------------------


def clients(make_worker, policy=None, count=3):
    made = []
    for _ in range(count):
        worker = make_worker("client", "bytes")
        x, y = classes(5, count=37)
        worker.add_dataset(sy.BaseDataset(x, y), "some")
        if policy is not None:
            worker.policy = policy
        made.append(worker)
    return made


def run(workers, rounds=2, **changed):
    given = {
        "model": nn.Linear(5, 3), "loss_fn": CROSS, "example": classes(5), "dataset": "some", "batch_size": 8,
        "optimizer_args": {"lr": 0.1}, "local_privacy": settings(), "progress": False, **changed,
    }  # fmt: skip
    return sy.federated.run("fedprox", workers, rounds, **given)


def test_clients_train_with_privacy_and_the_run_reports_the_loss(make_worker):
    result = run(clients(make_worker))
    assert result.epsilon == pytest.approx(settings().cost(37, 8, rounds=2))
    assert all(record.loss is None and record.answered == 3 for record in result.history)


LIES = [
    None, {}, {"noise_multiplier": 1.0}, {"noise_multiplier": 1.0, "rate": 0.5, "steps": 0},
    {"noise_multiplier": 1.0, "rate": 1.5, "steps": 1}, {"noise_multiplier": math.nan, "rate": 0.5, "steps": 1},
    {"noise_multiplier": 1.0, "rate": 0.5, "steps": True}, {"noise_multiplier": 0.9, "rate": 0.5, "steps": 1},
]  # fmt: skip


@pytest.mark.parametrize("spent", LIES)
def test_a_client_that_does_not_report_its_loss_is_not_counted(spent):
    privacy = settings()
    with pytest.raises(FederatedError, match="'bob'"):
        privacy.check("bob", {"privacy": spent})


def test_a_resumed_run_keeps_its_privacy_loss(make_worker, tmp_path):
    workers, model, privacy = clients(make_worker), nn.Linear(5, 3), settings()
    first = run(workers, checkpoint=tmp_path, model=model, local_privacy=privacy, rounds=1)
    resumed = run(workers, checkpoint=tmp_path, model=model, local_privacy=settings())
    assert first.epsilon < resumed.epsilon == pytest.approx(privacy.cost(37, 8, rounds=2))
    anew = run(workers, model=model, local_privacy=privacy, rounds=1)
    assert anew.epsilon == first.epsilon


def test_a_private_result_has_no_loss_and_no_exact_size(make_worker):
    (alice,) = clients(make_worker, count=1)
    x, y = classes(5)
    answer = ask(alice, x, y, "train")
    assert answer.keys() == {"update", "samples", "steps", "privacy"}
    assert answer["samples"] == 32 and answer["steps"] == 4
    spent = answer["privacy"].pop("spent")
    assert answer["privacy"] == {"noise_multiplier": 1.0, "rate": 0.25, "steps": 4}
    assert Accountant.from_dict(spent) == Accountant().compose(PoissonSampled(0.25, GaussianNoise(1.0)), 4)


def ask(worker, x, y, call, **changed):
    from syft.federated.server.clients import WorkerClient

    plan, loss = plans(nn.Linear(5, 3), x, y)
    term = {**settings().to_dict(), "rounds": 1, **changed}
    payload = {"plan": plan, "loss": loss, "batch_size": 8, "modifiers": {"dp_sgd": term}}
    return WorkerClient(worker, "some").call("run", call, payload, None)


def test_a_budget_pays_for_rounds_and_for_nothing_else(make_worker, monkeypatch):
    monkeypatch.setitem(CALLS, "look", ClientCall(lambda session, payload: {"loss": 1.0}, derives=True))
    policy = Budget(purse=3)
    (alice,) = clients(make_worker, policy, count=1)
    x, y = classes(5)
    ask(alice, x, y, "train")
    assert [event["mechanism"] for event in policy.events] == ["dp_sgd"]
    with pytest.raises(GetNotPermittedError, match="federated look"):
        ask(alice, x, y, "look")
    assert len(policy.events) == 1
    policy.purse = 1
    with pytest.raises(BudgetExceededError):
        ask(alice, x, y, "train")


ENDLESS = {"noise_multiplier": 1e5, "rate": 1e-9}  # a billion steps for next to nothing


def test_a_training_that_never_ends_is_refused_before_it_is_paid(make_worker):
    alice, _ = guarded(make_worker, Budget(purse=0), privacy=settings(**ENDLESS))
    with pytest.raises(TrainingError, match="1,000,000 steps"):
        alice.fit("some")
    with pytest.raises(TrainingError, match="1,000,000 steps"):
        ask(alice, *classes(5), "train", **ENDLESS)


def test_a_round_ends_when_its_client_disconnects(make_worker, monkeypatch):
    def gone():
        raise TrainingError("The client that requested this training has disconnected.")

    monkeypatch.setattr(ClientSession, "watch", lambda session: gone)
    (alice,) = clients(make_worker, Budget(purse=9), count=1)
    with pytest.raises(TrainingError, match="has disconnected"):
        ask(alice, *classes(5), "train")


# --- what comes from strangers ----------------------------------------------------------------------------------

BAD = [("noise_multiplier", value) for value in (-1.0, 0.0, 1e-9, float("nan"), float("inf"), 1e300, True, "1", [1.0])]
BAD += [("max_grad_norm", value) for value in (-1.0, 0, None, float("nan"), 1e12, False)]
BAD += [("delta", value) for value in (0.0, 1.0, -1e-5, None, float("nan"), True)]
BAD += [("target_epsilon", value) for value in (0.0, -1.0, float("inf"), True)]
BAD += [("rate", value) for value in (0.0, 1.5, -0.1, float("nan"), 1e-30, True)]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_settings_that_make_no_sense_are_refused_wherever_they_come_from(name, value):
    numbers = {**settings().to_dict(), name: value}
    with pytest.raises(TrainingError, match=name):
        settings_from(numbers)
    with pytest.raises(TrainingError, match=name):
        modifiers_of({"dp_sgd": {**numbers, "rounds": 1}})
    with pytest.raises(TrainingError, match=name):
        TrainConfig.detail(None, (1, 2, 8, 1, "SGD", {"lr": 0.1}, -1, True, 3, numbers))


@pytest.mark.parametrize("given", [None, [], {}, {"noise_multiplier": 1.0}, {**PRIVACY, "rate": None, "more": 1}])
def test_settings_that_are_not_complete_are_refused(given):
    with pytest.raises(TrainingError, match="noise_multiplier, max_grad_norm, delta"):
        settings_from(given)
    if given is not None:  # without settings, training is not private
        with pytest.raises(TrainingError, match="noise_multiplier, max_grad_norm, delta"):
            TrainConfig.detail(None, (1, 2, 8, 1, "SGD", {"lr": 0.1}, -1, True, 3, given))
    with pytest.raises(SerdeError, match="parts"):
        TrainConfig.detail(None, (1, 2, 8, 1, "SGD", {"lr": 0.1}, -1, True, 3, given, 4))


@pytest.mark.parametrize("rounds", [0, -1, True, 1.5, None, 2**40])
def test_rounds_that_are_no_number_are_refused(rounds):
    with pytest.raises(TrainingError, match="rounds"):
        modifiers_of({"dp_sgd": {**settings().to_dict(), "rounds": rounds}})


def test_neither_noise_nor_target_is_refused():
    with pytest.raises(TrainingError, match="noise_multiplier or target_epsilon"):
        sy.dp.SamplePrivacy()


def test_a_config_without_privacy_travels_as_in_earlier_releases():
    config = TrainConfig(model_id=1, loss_fn_id=2)
    assert len(TrainConfig.simplify(None, config)) == 9
    assert TrainConfig.detail(None, TrainConfig.simplify(None, config)).privacy is None
