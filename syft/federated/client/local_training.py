"""What a client does in a round: it trains the model that came along on its data, and answers with the change.

Strategies, privacy and secure aggregation modify it through a closed table of modifiers, one file each in
`syft.federated.client.modifiers`.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from syft.exceptions import TrainingError
from syft.federated.client.fit_loop import build_optimizer, loss_caller, one_number, output_of
from syft.federated.client.rng import GeneratorLock
from syft.federated.client.session import ClientSession, answers
from syft.federated.client.state_vector import StateLayout
from syft.federated.client.train_config import TrainConfig
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.state import NOT_PARAMETERS
from syft.workers.execution.execute import _reaches_others

BUFFER = "#buffer"
MAX_ROUND = 2**53
_SETTINGS = ("batch_size", "epochs", "optimizer", "optimizer_args", "max_nr_batches", "shuffle")
# Name of a term -> the module that has it, which is loaded when it is first asked for.
HOMES: dict[str, str] = {
    "proximal": "syft.federated.client.modifiers.proximal",
    "control": "syft.federated.client.modifiers.scaffold_control",
    "clipping": "syft.federated.client.modifiers.clipping",
    "dp_sgd": "syft.federated.client.modifiers.dp_sgd",
    "masking": "syft.federated.client.modifiers.masking",
}
TERMS: dict[str, type[Modifier]] = {}
# Parts of the names of calls that draw random numbers, or do so in some of their modes.
_RANDOM = (
    "dropout rand bernoulli multinomial normal_ poisson uniform exponential cauchy geometric rrelu gumbel lstm gru rnn "
    "attention"
).split()


class Modifier:
    """Something that is added to the training at a client.

    Args:
        settings: what the server wants of it, which may be anything: a subclass checks all of it.
    """

    # Terms act in this order; what hides the update comes last.
    order: ClassVar[int] = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def begin(self, work: LocalRound) -> None:
        """Act before the first batch."""

    def gradients(self, work: LocalRound) -> None:
        """Act when the gradients of a batch are there, before the optimizer's step."""

    def train(self, work: LocalRound) -> bool:
        """Do the whole training in another way; returns whether it did."""
        return False

    def finish(self, work: LocalRound) -> None:
        """Act when the training is done: change `work.update`, or what is answered."""


def term(name: str) -> Callable[[type[Modifier]], type[Modifier]]:
    """Give a class of terms its name."""

    def take(kind: type[Modifier]) -> type[Modifier]:
        if name in TERMS:
            raise ValueError(f"There is a term {name!r} already.")
        TERMS[name] = kind
        return kind

    return take


class LocalRound:
    """One client's training in one round.

    Args:
        station: the client.
        plan: the model, as it came.
        loss: its loss, as it came.
        config: how to train.
        round: the number of the round.

    Attributes:
        generator: what decides the order of the samples; None for torch's own.
        turn: gives the steps random numbers of their own, one step after the other.
        plan: a copy of the model, which changes.
        tensors: its tensors in the order of the layout.
        parameters: those that are trained.
        start: the state that it began with, flat.
        update: the state at the end minus that, flat.
        samples: how many samples the client has.
        steps: how many steps the optimizer made.
        answer: what is answered.
        terms: what was added to the training.
        is_hidden: whether the answer has the update in a form of its own.
        draws: whether the model or its loss may draw random numbers.
    """

    def __init__(self, station: ClientSession, plan: Plan, loss: Plan, config: TrainConfig, round: int) -> None:
        self.station, self.config, self.round = station, config, round
        self.generator: torch.Generator | None = None
        self.turn: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self.plan, self.loss, self.tensors, self.layout, self.draws = _borrowed(plan, loss)
        given = split_state(plan)
        tensors = [tensor for _, tensor in (*given[0], *given[1])]
        self.start = self.layout.flatten(tensors)
        with torch.no_grad():
            for mine, theirs in zip(self.tensors, tensors, strict=True):
                mine.copy_(theirs)
        count = len(given[0])
        self.parameters = [tensor for tensor in self.tensors[:count] if tensor.requires_grad]
        self.optimizer = build_optimizer(config.optimizer, config.optimizer_args, _Trained(self.parameters))
        self.update = torch.zeros(0)
        self.samples = len(station)
        self.steps = 0
        self.answer: dict[str, Any] = {}
        self.terms: list[Modifier] = []
        self.is_hidden = False
        self._losses = 0.0
        self._seen = 0

    @property
    def learning_rate(self) -> float:
        """The learning rate that the optimizer was made with."""
        return float(self.optimizer.param_groups[0]["lr"])

    def batches(self) -> Any:
        """Yield the batches of all epochs, as many as the config wants."""
        left = self.config.max_nr_batches if self.config.max_nr_batches > 0 else -1
        for _ in range(self.config.epochs):
            for pair in self.station.batches(self.config.batch_size, self.config.shuffle, self.generator):
                yield pair
                left -= 1
                if left == 0:
                    return

    def train(self) -> None:
        """Go through the batches."""
        act = [t.gradients for t in self.terms if type(t).gradients is not Modifier.gradients]
        call_loss, optimizer, plan, go_on = loss_caller(self.loss), self.optimizer, self.plan, self.station.watch()
        for data, target in self.batches():
            go_on()
            optimizer.zero_grad()
            with self.turn():
                loss = one_number(call_loss(output_of(plan(data)), target))
                loss.backward()  # type: ignore[no-untyped-call]
            for gradients in act:
                gradients(self)
            optimizer.step()
            self.note(loss, len(target))

    @property
    def mean_loss(self) -> float | None:
        """The mean loss of the samples that were gone through so far."""
        return self._losses / self._seen if self._seen else None

    def note(self, loss: torch.Tensor, samples: int) -> None:
        """Take note of a step."""
        self._losses += loss.item() * samples
        self._seen += samples
        self.steps += 1

    def finish(self) -> dict[str, Any]:
        """Return what is answered."""
        for parameter in self.parameters:
            parameter.grad = None  # the copy is used again
        self.update = self.layout.flatten(self.tensors) - self.start
        self.answer.update(samples=self.samples, steps=self.steps)
        if self.mean_loss is not None:
            self.answer["metrics"] = {"loss": self.mean_loss}
        for each in self.terms:
            each.finish(self)
        if not self.is_hidden:
            self.answer["update"] = self.update
        return self.answer


class _Trained:
    """What an optimizer is made of."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self._parameters = parameters

    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters."""
        return self._parameters


def split_state(plan: Plan) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]:
    """Return the parameters and the buffers of a plan with their names; constants are neither: they stay the same."""
    plan._binding.update()
    parameters, buffers = [], []
    for number, placeholder in enumerate(plan.state.state_placeholders):
        tensor: Any = placeholder.child
        entry = (placeholder.description or f"state_{number}", tensor)
        if placeholder.tags & NOT_PARAMETERS or not tensor.dtype.is_floating_point:
            if BUFFER in placeholder.tags:
                buffers.append(entry)
        else:
            parameters.append(entry)
    return parameters, buffers


_copies = threading.local()


_Borrowed = tuple[Plan, Plan, list[torch.Tensor], StateLayout, bool]


def _borrowed(plan: Plan, loss: Plan) -> _Borrowed:
    """Return copies of a model and a loss to train with, which this thread has made before if it has seen them.

    With them come the tensors that change, their layout, and whether random numbers may be drawn.
    """
    known: weakref.WeakKeyDictionary[Plan, Any] | None = getattr(_copies, "known", None)
    if known is None:
        known = _copies.known = weakref.WeakKeyDictionary()
    found = known.get(plan)
    if found is None or found[0] is not plan.program or found[1]() is not loss:
        copied, judge = plan.copy(), loss.copy()
        parameters, buffers = split_state(copied)
        tensors = [tensor for _, tensor in (*parameters, *buffers)]
        made = (copied, judge, tensors, StateLayout(parameters, buffers), draws(plan) or draws(loss))
        known[plan] = (plan.program, weakref.ref(loss), made)
        return made
    borrowed: _Borrowed = found[2]
    return borrowed


def draws(plan: Plan) -> bool:
    """Say whether a plan may draw random numbers."""
    return any(word in operation.cmd_name.lower() for operation in plan.operations for word in _RANDOM)


# --- what comes from the server ---------------------------------------------------------------------------------


def terms_of(given: object) -> list[Modifier]:
    """Return the terms that a server wants, in their order."""
    if given is None:
        return []
    if type(given) is not dict or not all(type(s) is dict for s in given.values()):
        raise TrainingError("The terms of a round are settings by name.")
    kinds = {}
    for name in given:
        if name not in TERMS and name in HOMES:
            importlib.import_module(HOMES[name])
        if name not in TERMS:
            raise TrainingError(f"A client does not know the term {str(name)[:50]!r} of a federated round.")
        kinds[name] = TERMS[name]
    return sorted([kind(given[name]) for name, kind in kinds.items()], key=lambda made: made.order)


def _plan_of(payload: dict[str, Any], name: str) -> Plan:
    plan = payload.get(name)
    if not isinstance(plan, Plan) or not plan.is_built:
        raise TrainingError(f"A round comes with a {name}: a plan that is built.")
    if _reaches_others(plan):
        raise TrainingError(f"The {name} of a round holds pointers, and data of this client stays here.")
    return plan


def _config_of(payload: dict[str, Any]) -> TrainConfig:
    config = TrainConfig(id="round", **{name: payload[name] for name in _SETTINGS if name in payload})
    config.check()
    return config


def _round_of(payload: dict[str, Any]) -> tuple[int, int | None]:
    """Return the number of the round, and the seed of its order of samples, if there is one."""
    number, seed = payload.get("round", 1), payload.get("seed")
    if type(number) is not int or not 0 <= number < MAX_ROUND:
        raise TrainingError("A round has a number.")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise TrainingError("The seed of a round is a number below 2^63.")
    return number, seed


@answers("train", pays=True)
def train(station: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Train the model that came along on the data of the client.

    Args:
        station: the client.
        payload: the model and its loss, how to train, the number of the round, and terms.

    Returns:
        The change of the model's state as a flat vector, the number of samples and steps, and the mean loss.
    """
    number, seed = _round_of(payload)
    plan, loss, config = _plan_of(payload, "plan"), _plan_of(payload, "loss"), _config_of(payload)
    terms = terms_of(payload.get("terms"))
    work = LocalRound(station, plan, loss, config, number)
    if seed is not None:
        work.generator = torch.Generator().manual_seed(seed)
        if draws(plan) or draws(loss):  # dropout and the like draw from torch's own generator
            work.turn = GeneratorLock(seed).turn
    return _train(work, terms)


def _train(work: LocalRound, terms: list[Modifier]) -> dict[str, Any]:
    if not work.samples:
        raise TrainingError(f"Client {work.station.name!r} has no samples, so there is nothing to train on.")
    work.terms = terms
    with torch.enable_grad():
        for each in terms:
            each.begin(work)
        if not any(each.train(work) for each in terms):
            work.train()
    if not math.isfinite(work.mean_loss or 0.0):
        raise TrainingError(
            f"The loss of client {work.station.name!r} is not finite: its training diverged. "
            "Try a smaller learning rate."
        )
    return work.finish()
