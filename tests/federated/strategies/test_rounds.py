"""Strategies in whole runs: least squares with known solutions, and clients that lose their state."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

from syft.exceptions import FederatedError, StateLostError, TrainingError
from syft.federated import FedAvg, FedProx, Scaffold, run
from syft.federated.client.session import ClientSession, client_sessions_of
from syft.federated.server.clients import LocalClient
from syft.federated.server.model import SharedModel
from syft.federated.strategies import STRATEGIES

SIZE, LR, EPOCHS = 3, 0.3, 5


def squares(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean() / 2


class Problem:
    """Least squares at clients whose data is unlike, in float64: all that matters has a closed form."""

    def __init__(self, count: int = 4) -> None:
        chance = torch.Generator().manual_seed(3)
        curves = torch.diag(torch.tensor([1.0, 0.8, 0.3], dtype=torch.float64))

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=chance, dtype=torch.float64)

        turns = [torch.linalg.qr(draw(SIZE, SIZE)).Q for _ in range(count)]
        self.minima = [3 * draw(SIZE, 1) for _ in range(count)]
        self.hessians = [turn @ curves @ turn.T for turn in turns]
        self.inputs = [(SIZE * curves).sqrt() @ turn.T for turn in turns]  # so that x^T x / rows is the hessian
        self.targets = [x @ minimum for x, minimum in zip(self.inputs, self.minima, strict=True)]

    def clients(self) -> list[LocalClient]:
        """New ones, who remember nothing."""
        pairs = zip(self.inputs, self.targets, strict=True)
        return [LocalClient(f"client-{i}", TensorDataset(x, y)) for i, (x, y) in enumerate(pairs)]

    def optimum(self) -> torch.Tensor:
        """The minimum of the mean loss."""
        return torch.linalg.solve(
            sum(self.hessians), sum(h @ m for h, m in zip(self.hessians, self.minima, strict=True))
        )

    def fixed_point(self, mu: float = 0.0) -> torch.Tensor:
        """Where averaging stays, if clients make many steps of gradient descent on their loss and a proximal term.

        From w, such a client gets to M w + (I - M) (H + mu)^-1 (H m + mu w) with M = (I - lr (H + mu))^steps.
        """
        eye = torch.eye(SIZE, dtype=torch.float64)
        slope, rest = torch.zeros_like(eye), torch.zeros(SIZE, 1, dtype=torch.float64)
        for hessian, minimum in zip(self.hessians, self.minima, strict=True):
            curved = hessian + mu * eye
            stays = torch.linalg.matrix_power(eye - LR * curved, EPOCHS)
            slope += stays + (eye - stays) @ torch.linalg.solve(curved, mu * eye)
            rest += (eye - stays) @ torch.linalg.solve(curved, hessian @ minimum)
        count = len(self.hessians)
        return torch.linalg.solve(eye - slope / count, rest / count)

    def solve(self, strategy, rounds: int, clients=None, **options):
        given = {"loss_fn": squares, "batch_size": 9, "epochs": EPOCHS, "optimizer_args": {"lr": LR}, "seed": 1}
        given["model"] = line()
        return run(strategy, self.clients() if clients is None else clients, rounds, **{**given, **options})


def line() -> nn.Module:
    return nn.Linear(SIZE, 1, bias=False).double()


def weights(result) -> torch.Tensor:
    return result.model.weight.detach().T


def test_fedavg_with_many_local_steps_drifts_to_a_known_point():
    problem = Problem()
    found = weights(problem.solve(FedAvg(weighted=False), 25))
    torch.testing.assert_close(found, problem.fixed_point(), rtol=1e-6, atol=1e-8)
    assert torch.dist(found, problem.optimum()) > 0.1  # which is not what was wanted


def test_scaffold_with_as_many_local_steps_finds_the_optimum():
    problem = Problem()
    found = weights(problem.solve(Scaffold(), 30))
    torch.testing.assert_close(found, problem.optimum(), rtol=1e-6, atol=1e-7)


def test_scaffold_finds_it_with_some_of_the_clients_a_round():
    problem = Problem(6)
    found = weights(problem.solve(Scaffold(), 60, clients_per_round=3))
    torch.testing.assert_close(found, problem.optimum(), rtol=1e-5, atol=1e-5)


def test_fedprox_stays_at_the_theoretical_optimum():
    problem, mu = Problem(), 0.7
    found = weights(problem.solve(FedProx(mu, weighted=False), 40))
    torch.testing.assert_close(found, problem.fixed_point(mu), rtol=1e-6, atol=1e-8)
    drift, less = (torch.dist(problem.fixed_point(m), problem.optimum()) for m in (0.0, mu))
    assert less < drift


# --- federated averaging and central training -------------------------------------------------------------------


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)).double()


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    return torch.as_tensor(bunch.data[:500]).double() / 16, torch.as_tensor(bunch.target[:500]).long()


def central(data: torch.Tensor, targets: torch.Tensor, steps: int) -> nn.Module:
    """SGD on all data in one place, one step with the gradient of all of it at a time."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), targets).backward()
        optimizer.step()
    return model


def parts(digits, sizes):
    return [TensorDataset(*pair) for pair in zip(*(part.split(sizes) for part in digits), strict=True)]


@pytest.mark.parametrize("sizes", [[50] * 10, [1, 499], [7, 93, 100, 250, 50], [5] * 100], ids=["10", "2", "5", "100"])
def test_fedavg_with_one_full_step_is_central_sgd_on_the_union(digits, sizes):
    options = {"loss_fn": nn.functional.cross_entropy, "batch_size": 1000, "optimizer_args": {"lr": 0.5}, "seed": 1}
    rounds = 2 if len(sizes) > 10 else 6
    found = run("fedavg", parts(digits, sizes), rounds, model=network(), **options).model
    for mine, theirs in zip(found.parameters(), central(*digits, rounds).parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_without_weights_unlike_sizes_are_not_central_sgd(digits):
    options = {"loss_fn": nn.functional.cross_entropy, "batch_size": 1000, "optimizer_args": {"lr": 0.5}, "seed": 1}
    found = run(FedAvg(weighted=False), parts(digits, [1, 499]), 2, model=network(), **options).model
    assert not torch.allclose(found[0].weight, central(*digits, 2)[0].weight, atol=1e-3)


# --- going on, and forgetting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_is_resumed_ends_where_it_would_have(tmp_path, name):
    problem = Problem(6)
    options = {"clients_per_round": 5, "epochs": 2, "batch_size": 3}
    torch.manual_seed(9)
    model = line()
    whole = problem.solve(name, 4, model=model, **options)
    clients = problem.clients()
    problem.solve(name, 2, clients, model=model, checkpoint=tmp_path, **options)
    resumed = problem.solve(name, 4, clients, model=model, checkpoint=tmp_path, **options)
    assert torch.equal(weights(whole), weights(resumed))
    assert resumed.history.losses == whole.history.losses


def test_scaffold_goes_on_with_clients_that_lost_everything(tmp_path):
    problem = Problem()
    problem.solve(Scaffold(), 8, checkpoint=tmp_path)
    strategy = Scaffold()
    # New clients, as after a restart of a simulation: the round counts, like one of FedAvg, and controls are reset.
    once = problem.solve(strategy, 9, checkpoint=tmp_path)
    assert (once.history[-1].answered, once.history[-1].failed) == (4, 0)
    assert strategy.state() == {"sum": None, "versions": {}}
    found = weights(problem.solve(Scaffold(), 35, checkpoint=tmp_path))
    torch.testing.assert_close(found, problem.optimum(), rtol=1e-6, atol=1e-6)


def test_scaffold_bears_that_one_client_forgets_now_and_then():
    problem = Problem()
    clients = problem.clients()
    number = iter(range(10_000))

    class Forgetful(LocalClient):
        def call(self, *args, **options):
            if next(number) in (5, 9):
                self._client_sessions.clear()
            return super().call(*args, **options)

    clients[2] = Forgetful(clients[2].name, clients[2].dataset)
    found = weights(problem.solve(Scaffold(), 35, clients))
    torch.testing.assert_close(found, problem.optimum(), rtol=1e-6, atol=1e-6)


def test_a_lost_result_is_not_counted():
    """A client that trained but was not heard keeps the control that was counted."""
    problem = Problem()
    clients = problem.clients()
    number = iter(range(10_000))

    class Unheard(LocalClient):
        def call(self, *args, **options):
            answer = super().call(*args, **options)
            if next(number) % 3 == 1:
                raise ConnectionError("lost on its way")
            return answer

    clients[1] = Unheard(clients[1].name, clients[1].dataset)
    result = problem.solve(Scaffold(), 40, clients)
    assert sum(record.failed for record in result.history) == 13
    torch.testing.assert_close(weights(result), problem.optimum(), rtol=1e-5, atol=1e-5)


def test_scaffold_needs_plain_sgd():
    problem = Problem()
    for options in (
        {"optimizer": "Adam"},
        {"optimizer_args": {"lr": 0.1, "momentum": 0.9}},
        {"optimizer_args": {"lr": 0.1, "maximize": True}},
        {"optimizer_args": {"lr": 0.0}},
    ):
        with pytest.raises(FederatedError, match="Scaffold needs plain SGD"):
            problem.solve(Scaffold(), 1, **options)


# --- modifiers, as a stranger may ask for them ----------------------------------------------------------------------


class Norm(nn.Module):
    """A model with buffers, a frozen parameter and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.first = nn.Linear(2, 4)
        self.norm = nn.BatchNorm1d(4)
        self.idle = nn.Parameter(torch.ones(3))
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(self.norm(self.first(x * self.frozen)))


@pytest.fixture
def shared() -> SharedModel:
    return SharedModel(Norm(), squares, (torch.zeros(4, 2), torch.zeros(4, 1)))


def session() -> ClientSession:
    torch.manual_seed(2)
    return ClientSession("bob", "run", TensorDataset(torch.randn(8, 2), torch.randn(8, 1)))


def train(shared: SharedModel, where: ClientSession, modifiers, round: int = 1, **options):
    payload = {"plan": shared.plan, "loss": shared.loss, "round": round, "seed": 4, "batch_size": 4, "epochs": 2}
    return where.call("train", {**payload, "optimizer_args": {"lr": 0.1}, "modifiers": modifiers, **options})


def test_terms_leave_buffers_and_frozen_parameters_alone(shared):
    count = shared.layout.parameters
    control = torch.full((count,), 0.5)
    plain = train(shared, session(), {})["update"]
    held = train(shared, session(), {"proximal": {"mu": 2.0}})["update"]
    first = train(shared, session(), {"control": {"control": control, "version": 0, "plain": False}})
    places = shared.layout.places()
    frozen, idle = (slice(*next(p for name, p in places.items() if part in name)) for part in ("frozen", "idle"))
    assert count < shared.layout.size
    for update in (plain, held, first["update"]):
        assert update[frozen].tolist() == [0, 0]
        assert update[-1] == 4  # batches counted
    assert held[:count].norm() < plain[:count].norm()
    assert plain[idle].tolist() == held[idle].tolist() == [0, 0, 0]
    # A gradient of zero is corrected too: four steps of 0.1 along 0.5.
    torch.testing.assert_close(first["update"][idle], torch.full((3,), -0.2))
    torch.testing.assert_close(first["control"], -control - first["update"][:count] / (4 * 0.1))


def test_a_client_keeps_the_control_that_was_counted_and_the_pending_one(shared):
    where, control = session(), torch.zeros(shared.layout.parameters)

    def ask(round: int, version: int, plain: bool = False):
        return train(shared, where, {"control": {"control": control, "version": version, "plain": plain}}, round)

    first = ask(1, 0)
    assert set(where.memory["control"]) == {1}
    again = ask(1, 0)  # the server was restarted before it could count
    assert torch.equal(first["control"], again["control"])
    torch.testing.assert_close(where.memory["control"][1], first["control"])
    second = ask(2, 1)
    assert set(where.memory["control"]) == {1, 2}
    third = ask(3, 1)  # round 2 did not count
    assert set(where.memory["control"]) == {1, 3}
    assert torch.equal(second["control"], third["control"])
    with pytest.raises(StateLostError, match="'bob' no longer has its control of round 2"):
        ask(4, 2)
    assert set(where.memory["control"]) == {1, 3}
    without = ask(4, 0, plain=True)
    assert not without["control"].any()
    assert torch.equal(without["update"], train(shared, session(), {}, 4)["update"])
    assert "control" not in where.memory


@pytest.mark.parametrize(
    "settings",
    [
        {"mu": -1.0}, {"mu": float("nan")}, {"mu": float("inf")}, {"mu": True}, {"mu": "1"}, {"mu": torch.ones(())}, {},
        {"mu": 1.0, "nu": 1.0},
    ],
)  # fmt: skip
def test_invalid_proximal_settings_from_peers_are_refused(shared, settings):
    with pytest.raises(TrainingError, match="one setting: mu"):
        train(shared, session(), {"proximal": settings})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"control": [0.0]}, "one floating-point vector"), ({"control": torch.zeros(2, 2)}, "one floating-point vector"),
        ({"control": torch.zeros(3)}, "has 3 numbers"), ({"control": torch.zeros(3, dtype=torch.int64)}, "one floating-point vector"),
        ({"control": torch.tensor([float("nan")])}, "not finite"), ({"version": -1}, "number of a round"),
        ({"version": True}, "number of a round"), ({"version": 2**60}, "number of a round"), ({"plain": 1}, "True or"),
        ({"version": 7}, "earlier round"), ({"more": 1}, "three settings"),
    ],
)  # fmt: skip
def test_invalid_control_settings_from_peers_are_refused(shared, changes, text):
    where = session()
    fitting = {"control": torch.zeros(shared.layout.parameters), "version": 0, "plain": False}
    with pytest.raises(TrainingError, match=text):
        train(shared, where, {"control": {**fitting, **changes}}, round=7)
    assert where.memory == {}


def test_scaffold_with_workers_that_forget(make_worker):
    """Across real bytes: the kind of the error tells the server what happened."""
    problem = Problem()
    workers = [make_worker("keeper", "bytes") for _ in problem.inputs]
    for worker, x, y in zip(workers, problem.inputs, problem.targets, strict=True):
        worker.add_dataset(TensorDataset(x, y), key="squares")
    rounds = iter(range(100))

    def forget(model):
        if next(rounds) == 3:
            assert client_sessions_of(workers[3]) is workers[3].__dict__.pop("_client_sessions")  # as after a restart
        return {}

    strategy, example = Scaffold(), (problem.inputs[0], problem.targets[0])
    result = problem.solve(strategy, 25, workers, dataset="squares", example=example, evaluate=forget)
    assert all(record.failed == 0 for record in result.history)
    assert strategy.state()["versions"] == {}, "a run works on a copy"
    torch.testing.assert_close(weights(result), problem.optimum(), rtol=1e-5, atol=1e-5)
