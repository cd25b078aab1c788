"""run: train a model on the data of many clients, round by round."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import torch

from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.rng import undisturbed
from syft.federated.history.records import History
from syft.federated.history.round_outcome import shortened
from syft.federated.server.aggregation import PlainAggregation
from syft.federated.server.checkpoint import Checkpoint
from syft.federated.server.clients import LocalClient, WorkerClient, as_clients
from syft.federated.server.dispatch import MixedDispatcher
from syft.federated.server.engine import Engine
from syft.federated.server.model import SharedModel
from syft.federated.server.settings import RunSettings
from syft.federated.server.simulation import Simulation, two_tensors
from syft.federated.strategies import strategy_of
from syft.federated.strategies.strategy import Strategy
from syft.messaging.plan.plan import Plan

# How much of why a run ended early a repr shows.
_SHOWN = 160


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a run gives.

    Attributes:
        model: the trained model, of the kind that was given: a module or a plan.
        history: what happened in each round.
        rounds: how many rounds are complete.
        epsilon: how much privacy the run has spent: for clients with `privacy`, for rows with `local_privacy` alone;
            None with neither.
        ending: why the run ended before its last round; None if it did not.
        epsilons: the same by what it is about: "add/remove one client", "replace-one row". The two are never added up.
    """

    model: Any
    history: History
    rounds: int
    epsilon: float | None = None
    ending: str | None = None
    epsilons: dict[str, float] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        spent = "".join(f", epsilon {spent:.3g} ({unit})" for unit, spent in self.epsilons.items())
        early = "" if self.ending is None else f" ({shortened(self.ending, _SHOWN)})"
        return f"<Result of {self.rounds} round{'s'[: self.rounds != 1]}{early}{spent}: {self.history!r}>"


def run(
    strategy: Strategy | str,
    clients: object,
    rounds: int,
    *,
    model: object,
    loss_fn: object,
    example: tuple[torch.Tensor, torch.Tensor] | None = None,
    dataset: str | None = None,
    optimizer: str | type[torch.optim.Optimizer] = "SGD",
    optimizer_args: dict[str, Any] | None = None,
    batch_size: int = 32,
    epochs: int = 1,
    max_nr_batches: int = -1,
    shuffle: bool = True,
    clients_per_round: int | float | None = None,
    min_clients: int = 1,
    round_timeout: float | None = None,
    attempts: int = 3,
    evaluate: object = None,
    checkpoint: str | os.PathLike[str] | None = None,
    secure: object = None,
    privacy: object = None,
    local_privacy: object = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Train a model where the data is: each round some clients train it, and their changes become the next model.

    The model and its loss travel as plans: no code of this process runs at a client. A round is one message to each of
    its clients and one back. Clients that fail, are lost or are too late are left out of the round.

    Args:
        strategy: how changes become the next model: `sy.federated.FedAvg()`, or its name, such as "fedavg".
        clients: workers, a FederatedDataset, data sets of this process, or a Simulation.
        rounds: how many rounds there are in all.
        model: a module, which stays as it is, or a built plan.
        loss_fn: a function of output and target, a module, or a built plan.
        example: some samples and their targets, to record the model with; found by itself where data is at hand.
        dataset: the key of the data set at each worker, if clients are workers.
        optimizer: the optimizer at the clients, by its name in torch.optim ("Adam"), or its class there.
        optimizer_args: its settings, {"lr": 0.1} by default.
        batch_size: how many samples are in a batch.
        epochs: how often a client goes through its data in a round.
        max_nr_batches: after how many batches a client ends; -1 for no limit.
        shuffle: whether each epoch takes the samples in another order.
        clients_per_round: how many clients are asked in a round (an int), or which share of them (a float).
        min_clients: how many have to answer for a round to count.
        round_timeout: after how many seconds a round ends with those who have answered; None: when all have.
        attempts: how often a round is tried before the run gives up.
        evaluate: asked after each round: a function of the model that returns figures by name, or a data set.
        checkpoint: a folder to keep the run in after each round; a run that finds one of its own there goes on with it.
        secure: `sy.federated.SecureAggregation()` to show the server nothing but the sum of the changes.
        privacy: `sy.dp.UserPrivacy(...)` for differential privacy of each client.
        local_privacy: `sy.dp.SamplePrivacy(...)` for differential privacy of each sample, at the clients.
        seed: makes a run repeatable; None for another one each time.
        progress: whether to show a bar; None: if somebody looks.

    Returns:
        The trained model and the history of the run. If the privacy budgets of clients are spent before its last round,
        these are of the rounds that are complete, and `ending` says so.

    Raises:
        FederatedError: a round can't count; `error.result` is what the rounds before it gave.

    Example:
        >>> import torch, syft as sy
        >>> data = torch.linspace(-1, 1, 40).view(-1, 1)
        >>> clients = sy.federated.Simulation((data, 3 * data + 1), 4)
        >>> result = sy.federated.run(
        ...     "fedavg", clients, 20, model=torch.nn.Linear(1, 1), loss_fn=torch.nn.functional.mse_loss,
        ...     optimizer_args={"lr": 0.5}, seed=1,
        ... )
        >>> result.rounds, result.history.losses[-1] < 0.01
        (20, True)
    """
    settings = RunSettings(
        rounds, optimizer, optimizer_args, batch_size, epochs, max_nr_batches, shuffle, clients_per_round, min_clients,
        round_timeout, seed, attempts,
    )  # fmt: skip
    settings.check()
    for name, value, verb, kind in (
        ("privacy", privacy, "choose", "sy.dp.UserPrivacy(...)"),
        ("local_privacy", local_privacy, "add", "sy.dp.SamplePrivacy(...)"),
    ):
        if value is not None and not hasattr(value, verb):
            raise TypeError(f"{name} is a {kind}, or None, not a {type(value).__name__}.")
    chosen = strategy_of(strategy)
    members = as_clients(clients, dataset)
    settings.check_clients(len(members), privacy is not None)
    if example is None and not (isinstance(model, Plan) and isinstance(loss_fn, Plan)):
        example = _found_example(members)
    with undisturbed():
        shared = SharedModel(model, loss_fn, example)
    measured = _measured(evaluate)
    if isinstance(measured, torch.utils.data.TensorDataset):  # before the first round, not after it
        shared.check_evaluation(measured)
    collect = (lambda run: PlainAggregation()) if secure is None else _secure(secure, chosen)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    with contextlib.nullcontext() if kept is None else kept.held():
        engine = Engine(
            shared, members, chosen, settings, collect, MixedDispatcher(), privacy, local_privacy, measured, kept,
            secure is not None,
        )  # fmt: skip
        try:
            engine.go(progress)
        except FederatedError as error:
            error.result = _result(engine)
            raise
    return _result(engine)


def _result(engine: Engine) -> Result:
    spent = engine.epsilons
    epsilon = next(iter(spent.values()), None)
    return Result(engine.model.result(), engine.history, engine.done, epsilon, engine.ending, spent)


def _secure(secure: object, strategy: Strategy) -> Any:
    if not hasattr(secure, "collector"):
        raise TypeError("secure is a sy.federated.SecureAggregation(), or None.")
    if not strategy.is_linear:
        raise TrainingError(
            f"{strategy!r} looks at each client's change, and secure aggregation shows their sum alone. Leave out "
            "secure, or use a strategy of means, such as FedAvg."
        )
    return secure.collector


def _measured(evaluate: object) -> Any:
    """Return what a model is measured with: a function, or a data set of two tensors."""
    if evaluate is None or callable(evaluate):
        return evaluate
    if not (hasattr(evaluate, "__len__") and hasattr(evaluate, "__getitem__")) or isinstance(evaluate, str | dict):
        raise TrainingError(
            "evaluate is a function of the model that returns figures by name, such as "
            "evaluate=lambda model: {'accuracy': 0.9}, or a data set, such as evaluate=(samples, targets), and not "
            f"a {type(evaluate).__name__}."
        )
    return torch.utils.data.TensorDataset(*two_tensors(evaluate))


def _found_example(clients: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return samples and targets to record a model with, if there are some here; zeros in the form of remote ones."""
    if isinstance(clients, Simulation):
        return clients.data[:2], clients.targets[:2]
    first = next((c for c in clients if not isinstance(c, LocalClient) or len(c.dataset)), clients[0])
    if isinstance(first, LocalClient) and len(first.dataset):
        data, targets = two_tensors(first.dataset)
        return data[:2], targets[:2]
    if isinstance(first, WorkerClient) and first._pointers is not None:
        forms = [(pointer.shape, pointer.dtype) for pointer in first._pointers]
        data, targets = (torch.zeros((min(2, shape[0]), *shape[1:]), dtype=dtype) for shape, dtype in forms)
        return data, targets
    return None
