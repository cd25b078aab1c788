"""sy.federated.run: rounds over every kind of client, counted results, and resumed runs."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import FederatedError, TrainingError
from syft.federated.server.clients import LocalClient, WorkerClient
from syft.workers.access.policy import DenyAll


def problem(samples=60, seed=0):
    """Points of a plane in three classes that a line tells apart."""
    torch.manual_seed(seed)
    data = torch.randn(samples, 2)
    return data, (data @ torch.tensor([[1.0, -1.0], [0.5, 1.0], [-1.0, 0.2]]).T).argmax(1)


def network(norm=False):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8) if norm else nn.Tanh(), nn.Linear(8, 3))


def parts(count=4, samples=60):
    data, targets = problem(samples)
    return [TensorDataset(data[i::count].clone(), targets[i::count].clone()) for i in range(count)]


def train(clients, rounds=3, strategy="fedavg", model=None, **options):
    settings = {"loss_fn": F.cross_entropy, "seed": 7, "optimizer_args": {"lr": 0.3}, "batch_size": 8, **options}
    return sy.federated.run(strategy, clients, rounds, model=network() if model is None else model, **settings)


def state(model):
    return torch.cat([tensor.detach().double().flatten() for tensor in model.state_dict().values()])


class Odd(LocalClient):
    """A client that fails in some rounds, waits for an event, or answers nonsense."""

    def __init__(self, name, dataset, fails=(), waits=None, says=None):
        super().__init__(name, dataset)
        self.fails, self.waits, self.says = fails, waits, says
        self.rounds, self.is_here = [], waits is None

    def call(self, run, name, payload, timeout=None):
        self.rounds.append(payload["round"])
        if payload["round"] in self.fails:
            raise ConnectionError("the line is cut")
        if self.waits is not None:
            assert self.waits.wait(100)
        answer = super().call(run, name, payload, timeout)
        return answer if self.says is None else {**answer, **self.says}


# --- the same everywhere ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected():
    return state(train(parts()).model)


def named(datasets):
    return [LocalClient(f"client-{number}", dataset) for number, dataset in enumerate(datasets)]


@pytest.mark.parametrize("kind", [{}, {"serialize": True}, {"threaded": True}], ids=["inline", "bytes", "thread"])
@pytest.mark.parametrize("held", ["key", "pointers"])
def test_workers_train_as_data_sets_of_this_process_do(hook, kind, held, expected):
    workers = [sy.VirtualWorker(hook, id=f"client-{i}", auto_add=False, **kind) for i in range(4)]
    example = (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    if held == "key":
        for worker, dataset in zip(workers, parts(), strict=True):
            worker.add_dataset(dataset, "points")
        found = train(workers, dataset="points", example=example)
    else:
        sent = [sy.BaseDataset(*dataset.tensors).send(w) for w, dataset in zip(workers, parts(), strict=True)]
        found = train(sy.FederatedDataset(sent))
    torch.testing.assert_close(state(found.model), expected, atol=1e-12, rtol=0)
    assert [record.answered for record in found.history] == [4, 4, 4]
    assert found.history.losses[-1] < found.history.losses[0]


def test_one_message_out_and_one_back(hook):
    workers = [sy.VirtualWorker(hook, id=f"counted-{i}", auto_add=False, serialize=True) for i in range(3)]
    for worker, dataset in zip(workers, parts(3), strict=True):
        worker.add_dataset(dataset, "points")
    example = (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    with sy.count_messages() as counted:
        train(workers, rounds=2, dataset="points", example=example)
    assert (counted.messages, counted.rounds) == (6, 6)
    assert [len(worker._objects) for worker in workers] == [0, 0, 0]


def test_run_does_not_change_its_arguments():
    model, datasets = network(norm=True).eval(), parts()
    before, data = state(model), [d.tensors[0].clone() for d in datasets]
    found = train(datasets, model=model)
    assert torch.equal(state(model), before) and not model.training
    assert all(torch.equal(d.tensors[0], kept) for d, kept in zip(datasets, data, strict=True))
    assert type(found.model) is type(model) and not found.model.training
    assert not torch.equal(state(found.model), before)
    assert all(p.grad is None and p.requires_grad for p in found.model.parameters())


def test_a_plan_is_trained_and_given_back_as_a_plan():
    data, targets = problem()
    plan = sy.Plan(forward_func=network()).build(data[:2])
    loss = sy.Plan(forward_func=lambda output, target: F.cross_entropy(output, target)).build(
        torch.zeros(2, 3), targets[:2]
    )
    found = train(parts(), model=plan, loss_fn=loss)
    assert isinstance(found.model, sy.Plan)
    expected = train(parts())
    torch.testing.assert_close(found.model(data), expected.model(data))


def test_buffers_are_averaged_by_the_weight_of_samples():
    data, targets = problem(30)
    datasets = [TensorDataset(data[:10], targets[:10]), TensorDataset(data[10:], targets[10:])]
    found = train(datasets, rounds=1, model=network(norm=True), batch_size=100)
    # Momentum 0.1 of norms: after one batch the mean is a tenth of the batch's.
    model = network(norm=True)
    hidden = [model[0](d.tensors[0]).mean(0) for d in datasets]
    torch.testing.assert_close(found.model[1].running_mean, 0.1 * (10 * hidden[0] + 20 * hidden[1]) / 30)
    assert found.model[1].num_batches_tracked == 1 and found.model[1].num_batches_tracked.dtype == torch.int64


def test_double_precision_and_frozen_parameters():
    model = network().double()
    model[0].weight.requires_grad_(False)
    datasets = [TensorDataset(d.tensors[0].double(), d.tensors[1]) for d in parts()]
    found = train(datasets, model=model)
    assert found.model[2].weight.dtype == torch.float64
    assert torch.equal(found.model[0].weight, model[0].weight) and not found.model[0].weight.requires_grad
    assert not torch.equal(found.model[0].bias, model[0].bias)


def test_dropout_is_repeatable_and_torch_generator_is_left_alone():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    datasets = parts()
    torch.manual_seed(5)
    first = train(datasets, model=model)
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.rand(1) == after
    assert torch.equal(state(first.model), state(train(datasets, model=model).model))
    assert not torch.equal(state(first.model), state(train(datasets, model=model, seed=8).model))


def test_runs_in_threads_are_as_runs_alone():
    """They share torch's generator, which dropout draws from and which recordings look at."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    datasets = parts()
    alone = state(train(datasets, model=model).model)
    found = []
    threads = [threading.Thread(target=lambda: found.append(train(datasets, model=model).model)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 3 and all(torch.equal(state(one), alone) for one in found)


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_sampled_clients_are_repeatable_and_cover_all_clients():
    datasets = parts(10)
    clients = [Odd(f"c{i}", d) for i, d in enumerate(datasets)]
    found = train(clients, rounds=20, clients_per_round=3)
    assert {record.asked for record in found.history} == {3}
    assert all(client.rounds for client in clients), "everybody was asked in 20 rounds of 3 of 10"
    again = [Odd(f"c{i}", d) for i, d in enumerate(datasets)]
    assert torch.equal(state(train(again, rounds=20, clients_per_round=0.3).model), state(found.model))
    assert [c.rounds for c in again] == [c.rounds for c in clients]


def test_a_simulation_makes_clients_when_they_are_chosen():
    data, targets = problem(2000)
    clients = sy.federated.Simulation((data, targets), 500, partition=sy.federated.Dirichlet(0.5), seed=3)
    assert len(clients) == 500 and sum(len(c.dataset) for c in clients) == 2000
    made = []
    original = type(clients).part
    type(clients).part = lambda self, number: made.append(number) or original(self, number)
    try:
        train(clients, rounds=2, clients_per_round=5)
    finally:
        type(clients).part = original
    assert len(made) == 10
    assert "500 clients" in repr(clients) and clients[-1].name == "client-499"
    with pytest.raises(IndexError):
        clients[500]


# --- who does not answer ----------------------------------------------------------------------------------------------


def test_a_client_that_fails_is_left_out_of_its_round_only():
    datasets = parts(3)
    clients = [Odd("a", datasets[0]), Odd("b", datasets[1], fails=(1,)), Odd("c", datasets[2])]
    found = train(clients, rounds=1)
    without = train([Odd("a", datasets[0]), Odd("c", datasets[2])], rounds=1)
    assert torch.equal(state(found.model), state(without.model)), "the mean of those who answered"
    record = found.history[0]
    assert (record.asked, record.answered, record.failed) == (3, 2, 1) and "the line is cut" in str(record.reasons)
    assert train(clients, rounds=2).history[1].answered == 3


@pytest.mark.parametrize(
    "says",
    [
        {"update": torch.zeros(3)},
        {"update": torch.full((51,), float("nan"))},
        {"update": torch.zeros(51, dtype=torch.int64)},
        {"update": [0.0] * 51},
        {"samples": -1},
        {"samples": True},
        {"samples": 2**60},
        {"update": torch.zeros(51).to(torch.float8_e5m2)},
        {"update": torch.zeros(51).to_sparse()},
        {"update": torch.zeros(51, device="meta")},
        {"update": torch.full((51,), 1e40, dtype=torch.float64)},
        {"metrics": {"loss": "low"}},
        {"metrics": {"loss": float("nan")}},
    ],
    ids=str,
)
def test_an_invalid_result_is_not_counted(says):
    datasets = parts(2)
    found = train([Odd("a", datasets[0]), Odd("b", datasets[1], says=says)], rounds=1)
    if "metrics" in says:
        assert found.history[0].answered == 2 and 0 < found.history[0].loss < 10
        return
    assert found.history[0].failed == 1
    assert torch.equal(state(found.model), state(train([Odd("a", datasets[0])], rounds=1).model))


def test_too_few_results_fail_the_round_and_change_nothing(tmp_path):
    datasets = parts(3)
    clients = [Odd("a", datasets[0]), Odd("b", datasets[1], fails=(2,)), Odd("c", datasets[2], fails=(2,))]
    with pytest.raises(
        FederatedError,
        match=r"Round 2 failed 2 times. 1 of 3 clients answered, but 2 are needed.*the line is cut.*continue",
    ):
        train(clients, min_clients=2, attempts=2, checkpoint=tmp_path)
    assert clients[0].rounds == [1, 2, 2]
    clients[1].fails = ()
    found = train(clients, min_clients=2, checkpoint=tmp_path)
    assert [record.answered for record in found.history] == [3, 2, 3]


class Clock:
    """Stands still until a client moves it on: how slow a machine is decides nothing."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The time that runs go by."""
    made = Clock()
    for module in ("dispatch", "engine"):
        monkeypatch.setattr(f"syft.federated.server.{module}.time", made)
    return made


def test_late_clients_are_left_out_and_not_called_until_they_finish(clock):
    class Quick(Odd):
        def call(self, run, name, payload, timeout=None):
            answer = super().call(run, name, payload, timeout)
            if len(quick[0].rounds) == len(quick[1].rounds):  # both are done: now the time is over
                assert asked.wait(60), "the late one is at work"
                clock.now += 60
            return answer

    class Late(Odd):
        def call(self, *args, **options):
            asked.set()
            return super().call(*args, **options)

    datasets, gate, asked = parts(3), threading.Event(), threading.Event()
    late = Late("late", datasets[2], waits=gate)
    quick = [Quick("a", datasets[0]), Quick("b", datasets[1])]
    found = train([*quick, late], rounds=2, round_timeout=60)
    assert late.rounds == [1], "busy in round 2"
    assert [(r.asked, r.answered, r.failed) for r in found.history] == [(3, 2, 1), (2, 2, 0)]
    assert "too late" in str(found.history[0].reasons)
    gate.set()
    expected = train([Odd("a", datasets[0]), Odd("b", datasets[1])], rounds=2)
    assert torch.equal(state(found.model), state(expected.model)), "the late answer counts nowhere"


def test_a_worker_whose_policy_refuses(hook):
    workers = [sy.VirtualWorker(hook, id=f"private-{i}", auto_add=False) for i in range(2)]
    for worker, dataset in zip(workers, parts(2), strict=True):
        worker.add_dataset(dataset, "points")
    workers[1].policy = DenyAll()
    example = (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    found = train(workers, rounds=1, dataset="points", example=example)
    assert found.history[0].answered == 1 and "private-1" in str(found.history[0].reasons)
    assert "does not release" in str(found.history[0].reasons)
    assert len(workers[1]._objects) == 0


def test_a_run_that_diverges_raises():
    with pytest.raises(FederatedError, match="diverged"):
        line = [TensorDataset(d.tensors[0], d.tensors[0][:, :1]) for d in parts()]
        train(line, rounds=30, model=nn.Linear(2, 1), loss_fn=F.mse_loss, optimizer_args={"lr": 50.0}, attempts=1)


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["fedavg", "fedavgm", "fedadam", "scaffold", "fedmedian"])
def test_a_run_in_two_parts_is_the_run_in_one(strategy, tmp_path):
    whole = train(named(parts()), rounds=5, strategy=strategy)
    clients = named(parts())
    first = train(clients, rounds=2, strategy=strategy, checkpoint=tmp_path)
    assert first.rounds == 2
    second = train(clients, rounds=5, strategy=strategy, checkpoint=tmp_path)
    assert torch.equal(state(second.model), state(whole.model))
    assert [r.number for r in second.history] == [1, 2, 3, 4, 5]
    assert second.history.losses == whole.history.losses
    done = train(clients, rounds=5, strategy=strategy, checkpoint=tmp_path)
    assert torch.equal(state(done.model), state(whole.model)) and done.rounds == 5


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    train(parts(), rounds=1, checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="another strategy"):
        train(parts(), rounds=2, strategy="fedavgm", checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="another training"):
        train(parts(), rounds=2, batch_size=9, checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="another model"):
        train(parts(), rounds=2, model=nn.Linear(2, 3), checkpoint=tmp_path)
    path = tmp_path / "checkpoint.syft"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FederatedError, match="damaged"):
        train(parts(), rounds=2, checkpoint=tmp_path)


def test_a_checkpoint_knows_its_model(tmp_path):
    def other():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))

    train(parts(), rounds=1, checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="another model"):
        train(parts(), rounds=2, model=other(), checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="another model"):
        train(parts(), rounds=2, loss_fn=nn.MultiMarginLoss(), checkpoint=tmp_path)
    with pytest.raises(FederatedError, match="can't be written to"):
        train(parts(), rounds=1, checkpoint=tmp_path / "checkpoint.syft" / "below")


def test_an_evaluation_that_fails_loses_no_round(tmp_path):
    def measure(model):
        raise RuntimeError("no such figure")

    with pytest.raises(RuntimeError, match="no such figure"):
        train(parts(), rounds=3, evaluate=measure, checkpoint=tmp_path)
    found = train(parts(), rounds=1, checkpoint=tmp_path)
    assert found.rounds == 1 and torch.equal(state(found.model), state(train(parts(), rounds=1).model))


def test_a_total_that_is_too_large_fails_the_round_and_changes_nothing(tmp_path):
    datasets = parts(2)
    huge = {"update": torch.full((51,), 3e38)}
    evil = Odd("b", datasets[1], says=huge)
    with pytest.raises(FederatedError, match="not finite|diverged"):
        train(
            [Odd("a", datasets[0]), evil],
            strategy=sy.federated.FedAvgM(server_lr=10.0),
            checkpoint=tmp_path,
            attempts=1,
        )
    evil.says = None
    found = train([Odd("a", datasets[0]), evil], strategy=sy.federated.FedAvgM(server_lr=10.0), checkpoint=tmp_path)
    assert [record.answered for record in found.history] == [2, 2, 2]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    gate = threading.Event()
    clients = [Odd("a", parts()[0], waits=gate)]
    thread = threading.Thread(target=train, args=(clients,), kwargs={"rounds": 1, "checkpoint": tmp_path})
    thread.start()
    try:
        for _ in range(1200):
            if clients[0].rounds:
                break
            thread.join(0.05)
        with pytest.raises(FederatedError, match="Another run is writing"):
            train(parts(), checkpoint=tmp_path)
    finally:
        gate.set()
        thread.join(100)
    assert train(clients, rounds=1, checkpoint=tmp_path).rounds == 1


def test_frozen_parameters_do_not_change():
    model = network()
    model[0].weight.requires_grad_(False)
    datasets = parts(4)
    evil = [Odd(f"c{i}", d, says={"update": torch.ones(51)}) for i, d in enumerate(datasets)]
    for options in ({}, {"privacy": sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3)}):
        found = train(evil, model=model, **options)
        assert torch.equal(found.model[0].weight, model[0].weight)
        assert not torch.equal(found.model[0].bias, model[0].bias)


def test_clients_that_time_is_too_short_for_are_not_always_the_same(clock):
    class Slow(Odd):
        def call(self, run, name, payload, timeout=None):
            answer = super().call(run, name, payload, timeout)
            clock.now += 0.2
            return answer

    clients = [Slow(f"c{i}", d) for i, d in enumerate(parts(6))]
    found = train(clients, rounds=6, round_timeout=0.3)
    assert [record.answered for record in found.history] == [2] * 6
    assert sum(bool(client.rounds) for client in clients) > 2


def test_a_round_without_any_client_is_not_a_round_of_noise():
    clients = [Odd(f"c{i}", d, fails=(1,)) for i, d in enumerate(parts(4))]
    privacy = sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3)
    with pytest.raises(FederatedError, match="0 of 4 clients answered, but 1 is needed"):
        train(clients, rounds=1, privacy=privacy)
    with pytest.raises(TrainingError, match="Omit min_clients"):
        train(clients, rounds=1, privacy=privacy, min_clients=2)


def test_privacy_loss_of_a_failed_attempt_counts(tmp_path):
    """Clients train in each attempt, so each counts."""
    datasets = parts(2, samples=64)

    def spent(fails, attempts):
        clients = [LocalClient("a", datasets[0]), Odd("b", datasets[1], fails=fails)]
        privacy = sy.dp.SamplePrivacy(noise_multiplier=1.0, max_grad_norm=1.0)
        options = {"local_privacy": privacy, "min_clients": 2, "attempts": attempts}
        if not fails:
            return train(clients, rounds=1, **options).epsilon
        with pytest.raises(FederatedError, match="1 of 2 clients answered, but 2 are needed"):
            train(clients, rounds=1, checkpoint=tmp_path, **options)
        clients[1].fails = ()
        return train(clients, rounds=1, checkpoint=tmp_path, **options).epsilon

    assert spent((1,), 2) > 1.2 * spent((), 1)


@pytest.mark.parametrize("kind", ["privacy", "local_privacy"])
def test_objects_that_are_given_to_two_runs_count_for_each(kind):
    privates = {
        "privacy": sy.dp.UserPrivacy(noise_multiplier=1.0, clip=1.0, delta=1e-3),
        "local_privacy": sy.dp.SamplePrivacy(noise_multiplier=1.0, max_grad_norm=1.0),
    }
    options = {kind: privates[kind]}
    inner = []

    def measure(model):
        if len(inner) < 2:
            inner.append(train(parts(), rounds=1, **options).epsilon)

    found = train(parts(), rounds=2, evaluate=measure, **options)
    assert found.epsilon == train(parts(), rounds=2, **options).epsilon > inner[0]


# --- reports -------------------------------------------------------------------------------------------------


def test_evaluation_by_a_function_and_by_a_data_set(capfd):
    data, targets = problem(200, seed=5)
    found = train(parts(), rounds=8, evaluate=(data, targets), progress=True)
    accuracy = found.history.metric("accuracy")
    expected = (found.model(data).argmax(1) == targets).double().mean()
    assert accuracy[-1] == pytest.approx(float(expected)) and accuracy[-1] > 0.8
    shown = capfd.readouterr()
    assert "8/8" in shown.err and "accuracy" in shown.err and "kB" in shown.err and not shown.out

    def measure(model):
        assert not model.training
        return {"bias": model[2].bias.abs().sum()}  # as it is, with a gradient

    own = train(parts(), rounds=2, evaluate=measure)
    assert own.history.metric("bias")[-1] == pytest.approx(own.model[2].bias.abs().sum().item())
    assert "2 rounds" in repr(own)
    score = train(parts(), rounds=1, evaluate=lambda model: model[2].bias.detach().sum())
    assert score.history.metric("score") == [pytest.approx(score.model[2].bias.sum().item())]
    assert not train(parts(), rounds=1, evaluate=lambda model: None).history[0].metrics


def test_losses_whose_first_argument_is_the_target():
    def loss(target, pred):
        return F.cross_entropy(pred, target)

    assert torch.equal(state(train(parts(), loss_fn=loss).model), state(train(parts()).model))
    module = nn.CrossEntropyLoss()
    assert torch.equal(state(train(parts(), loss_fn=module).model), state(train(parts()).model))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"rounds": -1}, TrainingError, "rounds"),
        ({"rounds": True}, TrainingError, "rounds"),
        ({"batch_size": 0}, TrainingError, "batch_size"),
        ({"optimizer": "Nope"}, TrainingError, "optimizer .* unknown"),
        ({"clients_per_round": 0}, TrainingError, "clients_per_round"),
        ({"clients_per_round": 1.5}, TrainingError, "clients_per_round"),
        ({"min_clients": 0}, TrainingError, "min_clients"),
        ({"round_timeout": 0}, TrainingError, "round_timeout"),
        ({"seed": "x"}, TrainingError, "seed"),
        ({"strategy": "fedsgd"}, TrainingError, "fedsgd"),
        ({"loss_fn": 3}, TrainingError, "loss_fn"),
        ({"model": nn.Tanh()}, TrainingError, "no trainable parameters"),
        ({"model": "cnn"}, TrainingError, "can't be recorded"),
        ({"min_clients": 5}, TrainingError, "min_clients is 5"),
        ({"model": nn.Bilinear(2, 2, 3)}, TrainingError, "takes input1, input2"),
        ({"secure": True}, TypeError, "SecureAggregation"),
        ({"privacy": sy.dp.SamplePrivacy(noise_multiplier=1.0)}, TypeError, "UserPrivacy"),
        ({"local_privacy": sy.dp.UserPrivacy(noise_multiplier=1.0)}, TypeError, "SamplePrivacy"),
    ],
    ids=str,
)
def test_bad_settings(change, error, text):
    with pytest.raises(error, match=text):
        train(parts(), **change)


def test_bad_clients(hook):
    bob = sy.VirtualWorker(hook, id="bob-without", auto_add=False)
    with pytest.raises(TrainingError, match="dataset='key'"):
        train([bob])
    with pytest.raises(TrainingError, match="example="):
        train([bob], dataset="points")
    with pytest.raises(FederatedError, match="no clients"):
        train([])
    with pytest.raises(FederatedError, match="named 'twice'"):
        train([LocalClient("twice", parts()[0]), LocalClient("twice", parts()[1])])
    with pytest.raises(TypeError, match="int is not a client"):
        train([3])
    with pytest.raises(TypeError, match="clients must be workers"):
        train({"a": parts()[0]})
    pairs = [dataset.tensors for dataset in parts()]
    assert torch.equal(state(train(pairs).model), state(train(parts()).model))
    sent = [tuple(part.send(bob) for part in pairs[0])]
    assert train(sent, rounds=1).history[0].answered == 1
    del sent
    example = (torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(FederatedError, match="no data set 'points'"):
        train([bob], dataset="points", example=example, attempts=1)
    empty = TensorDataset(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    with pytest.raises(FederatedError, match="no samples"):
        train([empty], example=example, attempts=1)


# --- what a stranger may send -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no such call", "__class__", 3, None])
def test_calls_that_are_not_in_the_table(hook, name):
    bob = sy.VirtualWorker(hook, id="bob-station", auto_add=False, serialize=True)
    bob.add_dataset(parts()[0], "points")
    with pytest.raises(TrainingError, match="is unknown to this client"):
        WorkerClient(bob, "points").call("run", name, {})
    assert len(bob._objects) == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"plan": None}, "plan of a round"),
        ({"loss": torch.ones(1)}, "loss of a round"),
        ({"batch_size": -1}, "batch_size"),
        ({"optimizer": "__init__"}, "optimizer .* unknown"),
        ({"optimizer_args": {"lr": "1"}}, "optimizer_args"),
        ({"round": -1}, "number"),
        ({"seed": 2**70}, "seed"),
        ({"modifiers": []}, "modifiers"),
        ({"modifiers": {"os": {}}}, "is unknown to this client"),
        ({"modifiers": {"proximal": {"mu": float("nan")}}}, "mu"),
    ],
    ids=str,
)
def test_payloads_that_do_not_fit(hook, change, text):
    bob = sy.VirtualWorker(hook, id="bob-payload", auto_add=False, serialize=True)
    bob.datasets.clear()
    bob.add_dataset(parts()[0], "points")
    data, targets = problem(4)
    plan = sy.Plan(forward_func=network()).build(data)
    loss = sy.Plan(forward_func=lambda output, target: F.cross_entropy(output, target)).build(
        torch.zeros(4, 3), targets
    )
    payload = {"plan": plan, "loss": loss, "batch_size": 8, "round": 1, **change}
    with pytest.raises(TrainingError, match=text):
        WorkerClient(bob, "points").call("run", "train", payload)
    good = WorkerClient(bob, "points").call("run", "train", {"plan": plan, "loss": loss})
    assert good["samples"] == len(parts()[0]) and len(bob._objects) == 0


def test_a_model_that_holds_pointers_is_refused(hook):
    bob, alice = (sy.VirtualWorker(hook, id=f"{n}-reach", auto_add=True) for n in ("bob", "alice"))
    bob.add_dataset(parts()[0], "points")
    data, targets = problem(4)
    plan = sy.Plan(forward_func=network()).build(data)
    loss = sy.Plan(forward_func=lambda output, target: F.cross_entropy(output, target)).build(
        torch.zeros(4, 3), targets
    )
    away = copy.deepcopy(plan)
    for placeholder in away.state.state_placeholders:
        placeholder.child = placeholder.child.detach().send(alice)
    with pytest.raises(TrainingError, match="holds pointers"):
        WorkerClient(bob, "points").call("run", "train", {"plan": away, "loss": loss})
