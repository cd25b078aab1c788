"""run: trains a model on the data of many clients, round by round."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Sequence
from typing import Any

import torch

from syft._suggestions import suggests_keywords
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.rng import undisturbed
from syft.federated.history.round_outcome import error_text
from syft.federated.loggers.run_logger import RunStart, loggers_of
from syft.federated.server.aggregation import PlainAggregation
from syft.federated.server.checkpoint import Checkpoint
from syft.federated.server.clients import LocalClient, WorkerClient, as_clients
from syft.federated.server.dispatch import MixedDispatcher
from syft.federated.server.engine import Engine
from syft.federated.server.model import SharedModel
from syft.federated.server.observers import Callback, RunObservers
from syft.federated.server.result import Result
from syft.federated.server.settings import RunSettings
from syft.federated.server.simulation import Simulation, two_tensors
from syft.federated.strategies import strategy_of
from syft.federated.strategies.strategy import Strategy
from syft.messaging.plan.plan import Plan


@suggests_keywords
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
    on_round: Callback | None = None,
    loggers: object = None,
    watch: bool = False,
    threads: int | None = 1,
) -> Result:
    """Train a model at its clients: in each round some clients train it, and their updates make the next model.

    The model and its loss are sent as plans: no code of this process runs at a client. A round is one request to each
    of its clients and one response. Clients that fail, disconnect or are late are left out of the round.

    Args:
        strategy: how updates are combined: `sy.federated.FedAvg()`, or its name, such as "fedavg".
        clients: workers, a FederatedDataset, local data sets, or a Simulation.
        rounds: total number of rounds.
        model: a module, which is not changed, or a built plan.
        loss_fn: a function of output and target, a module, or a built plan.
        example: some samples and their targets, to record the model with; taken from the data where possible.
        dataset: the key of the data set at each worker, if clients are workers.
        optimizer: the optimizer at the clients: its name in torch.optim ("Adam"), or its class.
        optimizer_args: its settings, {"lr": 0.1} by default.
        batch_size: number of samples in a batch.
        epochs: number of passes over a client's data in a round.
        max_nr_batches: maximum number of batches of a client in a round; -1 for no limit.
        shuffle: whether to draw a new order of the samples for each epoch.
        clients_per_round: number of clients in a round (an int), or their share (a float).
        min_clients: minimum number of results for a round to count.
        round_timeout: seconds after which a round ends with the results so far; None to wait for all.
        attempts: maximum number of attempts at a round.
        evaluate: evaluated after each round: a function of the model that returns numbers by name, or a data set.
        checkpoint: a folder to store the run in after each round. If it holds the same run, that one is continued.
        secure: `sy.federated.SecureAggregation()` to show the server only the sum of the updates.
        privacy: `sy.dp.UserPrivacy(...)` for differential privacy of each client.
        local_privacy: `sy.dp.SamplePrivacy(...)` for differential privacy of each sample, at the clients.
        seed: makes a run repeatable; None for a random one.
        progress: whether to show a progress bar; None to show it on a terminal or in a notebook.
        on_round: a function that is called with a `RoundReport` after each round. It ends the run by returning or
            raising `sy.federated.Stop("reason")`.
        loggers: where to log each round: a name such as "run.csv", a `CSVLogger`, `TensorBoardLogger` or
            `MLflowLogger`, any object with on_start, on_round and on_end, or a list of these.
        watch: whether to serve a live page on this machine, until `result.close()`. Its address is printed.
        threads: the number of threads that torch uses for each client in this process; None for torch's own setting.
            Processes and Ray actors have a setting of their own.

    Returns:
        The trained model and the history of the run. If the privacy budgets of clients are spent before the last round,
        or a callback stopped the run, the result covers the completed rounds, and `ending` has the reason.

    Raises:
        FederatedError: a round failed; `error.result` is the result of the rounds before it. Every other error, such as
            one of `evaluate` or Ctrl-C, has a `result` too.

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
            raise TypeError(f"{name} must be a {kind} or None, got a {type(value).__name__}.")
    chosen = strategy_of(strategy)
    members = as_clients(clients, dataset)
    settings.check_clients(len(members), privacy is not None)
    if example is None and not (isinstance(model, Plan) and isinstance(loss_fn, Plan)):
        example = _found_example(members)
    with undisturbed():
        shared = SharedModel(model, loss_fn, example)
    measured = _measured(evaluate)
    if not (on_round is None or callable(on_round)):
        raise TypeError(f"on_round must be a function of a round's report or None, got a {type(on_round).__name__}.")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise TrainingError(f"threads must be an integer of at least 1, or None, got {threads!r:.50}.")
    observers = RunObservers(progress, watch, loggers_of(loggers), on_round)
    if isinstance(measured, torch.utils.data.TensorDataset):  # fail before the first round, not after it
        shared.check_evaluation(measured)
    collect = (lambda run: PlainAggregation()) if secure is None else _secure(secure, chosen)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    with contextlib.nullcontext() if kept is None else kept.held():
        engine = Engine(
            shared, members, chosen, settings, collect, MixedDispatcher(threads), privacy, local_privacy, measured,
            kept, secure is not None,
        )  # fmt: skip
        return _observed(engine, observers)


def _observed(engine: Engine, observers: RunObservers) -> Result:
    """Run the rounds. An error of any kind has the result so far, and all observers learn about the end."""
    try:
        observers.start(_start(engine), engine.history)
        engine.go(observers)
    except BaseException as error:
        if engine.ending is None:
            engine.ending = error_text(error)
        _attach(error, found := _result(engine, observers))
        try:
            observers.end(found)
        except Exception as second:  # the first error matters more
            error.add_note(f"A logger failed too: {error_text(second)}")
        raise
    found = _result(engine, observers)
    try:
        observers.end(found)
    except BaseException as error:
        _attach(error, found)
        raise
    return found


def _attach(error: BaseException, result: Result) -> None:
    with contextlib.suppress(AttributeError, TypeError):  # a class may not accept attributes
        error.result = result  # type: ignore[attr-defined]
    if not isinstance(error, FederatedError):
        rounds = f"{result.rounds} complete round{'s'[: result.rounds != 1]}"
        error.add_note(f"The run ended early. The result of its {rounds} is in `result` of this error.")


def _start(engine: Engine) -> RunStart:
    # The id of the run is a secret between the server and its clients, so loggers get a digest.
    digest = hashlib.blake2b(f"log:{engine.run}".encode(), digest_size=6).hexdigest()
    privacies = (engine.privacy, engine.local_privacy.privacy)
    budgets = {str(p.neighbours): float(p.target_epsilon) for p in privacies if p is not None and p.target_epsilon}
    return RunStart(
        digest, engine.settings.rounds, len(engine.clients), repr(engine.strategy), engine.settings.payload(),
        engine.history[:], budgets,
    )  # fmt: skip


def _result(engine: Engine, observers: RunObservers) -> Result:
    spent = engine.epsilons
    epsilon = next(iter(spent.values()), None)
    view = dataclasses.replace(observers.view, is_live=False, ending=engine.ending, epsilons=spent)
    return Result(
        engine.model.result(), engine.history, engine.done, epsilon, engine.ending, spent, observers.page, view
    )


def _secure(secure: object, strategy: Strategy) -> Any:
    if not hasattr(secure, "collector"):
        raise TypeError("secure must be a sy.federated.SecureAggregation() or None.")
    if not strategy.is_linear:
        raise TrainingError(
            f"{strategy!r} needs each client's update, but secure aggregation reveals only their sum. Omit "
            "secure, or use a strategy based on means, such as FedAvg."
        )
    return secure.collector


def _measured(evaluate: object) -> Any:
    """Return the evaluation: a function, or a data set of two tensors."""
    if evaluate is None or callable(evaluate):
        return evaluate
    if not (hasattr(evaluate, "__len__") and hasattr(evaluate, "__getitem__")) or isinstance(evaluate, str | dict):
        raise TrainingError(
            "evaluate must be a function of the model that returns numbers by name, such as "
            "evaluate=lambda model: {'accuracy': 0.9}, or a data set, such as evaluate=(samples, targets), got "
            f"a {type(evaluate).__name__}."
        )
    return torch.utils.data.TensorDataset(*two_tensors(evaluate))


def _found_example(clients: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return local samples and targets to record a model with, if any; zeros of the same shape for remote ones."""
    if isinstance(clients, Simulation):
        return clients.data[:2], clients.targets[:2]
    first = next((c for c in clients if not isinstance(c, LocalClient) or len(c.dataset)), clients[0])
    if isinstance(first, LocalClient) and len(first.dataset):
        data, targets = two_tensors(first.dataset)
        return data[:2], targets[:2]
    if isinstance(first, WorkerClient) and first._pointers is not None:
        specs = [(pointer.shape, pointer.dtype) for pointer in first._pointers]
        data, targets = (torch.zeros((min(2, shape[0]), *shape[1:]), dtype=dtype) for shape, dtype in specs)
        return data, targets
    return None
