"""LocalRound: trains the received model on the client's data for one round and returns the change.

Strategies, privacy and secure aggregation modify it through a closed table of modifiers, one file each in
`syft.federated.client.modifiers`.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import TrainingError
from syft.federated.client.modifiers.clipping import Clipping
from syft.federated.client.modifiers.dp_sgd import DPSGD
from syft.federated.client.modifiers.masking import Masking
from syft.federated.client.modifiers.modifier import MAX_ROUND, Modifier
from syft.federated.client.modifiers.proximal import Proximal
from syft.federated.client.modifiers.scaffold_control import ScaffoldControl
from syft.federated.client.rng import GeneratorLock
from syft.federated.client.state_vector import StateLayout
from syft.federated.client.train_config import ROUND_SETTINGS, TrainConfig
from syft.federated.client.training_loop import build_optimizer, train_steps
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.state import NOT_PARAMETERS
from syft.workers.execution.execute import _reaches_others

if TYPE_CHECKING:
    from syft.federated.client.session import ClientSession

BUFFER = "#buffer"
_NAMES = {"plan", "loss", "round", "seed", "modifiers", *ROUND_SETTINGS}
MODIFIERS: dict[str, type[Modifier]] = {
    kind.name: kind for kind in (Clipping, DPSGD, Masking, Proximal, ScaffoldControl)
}
# Parts of the names of calls that may draw random numbers.
_RANDOM = (
    "dropout rand bernoulli multinomial normal_ poisson uniform exponential cauchy geometric rrelu gumbel lstm gru rnn "
    "attention"
).split()


class LocalRound:
    """One client's training in one round.

    Args:
        client: the client session.
        plan: the model, as received.
        loss: the loss, as received.
        config: the training settings.
        round: the number of the round.

    Attributes:
        generator: decides the order of the samples; None for torch's default generator.
        turn: a context manager that gives each step its own random numbers.
        plan: a copy of the model, which is trained in place.
        tensors: its tensors in the order of the layout.
        parameters: the trained parameters.
        start: the initial state, flat.
        update: the final state minus the initial one, flat.
        samples: number of samples of the client.
        steps: number of optimizer steps.
        answer: the result of the round.
        modifiers: the modifiers of the training.
        is_hidden: whether a modifier put the update into the result in its own encoding.
        draws: whether the model or its loss may draw random numbers.
    """

    def __init__(self, client: ClientSession, plan: Plan, loss: Plan, config: TrainConfig, round: int) -> None:
        self.client, self.config, self.round = client, config, round
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
        self.optimizer = build_optimizer(config, self.parameters)
        self.update = torch.zeros(0)
        self.samples = len(client)
        self.steps = 0
        self.answer: dict[str, Any] = {}
        self.modifiers: list[Modifier] = []
        self.is_hidden = False
        self._losses = 0.0
        self._seen = 0

    @property
    def learning_rate(self) -> float:
        """The learning rate of the optimizer."""
        return float(self.optimizer.param_groups[0]["lr"])

    def train(self) -> None:
        """Train on all batches."""
        steps = train_steps(
            self.plan, self.loss, self.client.dataset, self.config, self.optimizer, self.client.watch(),
            generator=self.generator, turn=self.turn, before_step=self.gradient_hook(),
        )  # fmt: skip
        for loss, target in steps:
            self._losses += loss.item() * len(target)
            self._seen += len(target)
            self.steps += 1

    def gradient_hook(self) -> Callable[[], None]:
        """Return a function that lets the modifiers change the gradients of a step."""
        changes = [each.gradients for each in self.modifiers if type(each).gradients is not Modifier.gradients]

        def before_step() -> None:
            for gradients in changes:
                gradients(self)

        return before_step

    @property
    def mean_loss(self) -> float | None:
        """The mean loss over the samples trained on so far."""
        return self._losses / self._seen if self._seen else None

    def finish(self) -> dict[str, Any]:
        """Return the result of the round."""
        for parameter in self.parameters:
            parameter.grad = None  # the copy is reused
        self.update = self.layout.flatten(self.tensors) - self.start
        self.answer.update(samples=self.samples, steps=self.steps)
        if self.mean_loss is not None:
            self.answer["metrics"] = {"loss": self.mean_loss}
        for each in self.modifiers:
            each.finish(self)
        if not self.is_hidden:
            self.answer["update"] = self.update
        return self.answer


def split_state(plan: Plan) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]:
    """Return the parameters and the buffers of a plan with their names. Constants are neither."""
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
    """Return copies of a model and a loss to train with, cached per thread.

    Also returns the tensors that change, their layout, and whether random numbers may be drawn.
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
    """Return whether a plan may draw random numbers."""
    return any(word in operation.cmd_name.lower() for operation in plan.operations for word in _RANDOM)


# --- input from the server --------------------------------------------------------------------------------------


def modifiers_of(given: object) -> list[Modifier]:
    """Return the modifiers that the server requests, in their order."""
    if given is None:
        return []
    if type(given) is not dict or not all(type(s) is dict for s in given.values()):
        raise TrainingError("The modifiers of a round must be settings by name.")
    for name in given:
        if name not in MODIFIERS:
            raise TrainingError(f"The modifier {str(name)[:50]!r} of a federated round is unknown to this client.")
    return sorted([MODIFIERS[name](settings) for name, settings in given.items()], key=lambda made: made.order)


def _plan_of(payload: dict[str, Any], name: str) -> Plan:
    plan = payload.get(name)
    if not isinstance(plan, Plan) or not plan.is_built:
        raise TrainingError(f"The {name} of a round must be a built plan.")
    if _reaches_others(plan):
        raise TrainingError(f"The {name} of a round holds pointers, which could send data of this client elsewhere.")
    return plan


def _config_of(payload: dict[str, Any]) -> TrainConfig:
    config = TrainConfig(id="round", **{name: payload[name] for name in ROUND_SETTINGS if name in payload})
    config.check()
    return config


def _round_of(payload: dict[str, Any]) -> tuple[int, int | None]:
    """Return the number of the round and the seed for the order of its samples, if any."""
    number, seed = payload.get("round", 1), payload.get("seed")
    if type(number) is not int or not 0 <= number < MAX_ROUND:
        raise TrainingError("The number of a round must be a non-negative integer below 2^53.")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise TrainingError("The seed of a round must be an integer from 0 to below 2^63.")
    return number, seed


def train(client: ClientSession, payload: dict[str, Any]) -> dict[str, Any]:
    """Train the received model on the client's data.

    Returns the change of the model's state as a flat vector, the number of samples and steps, and the mean loss.
    """
    unknown = payload.keys() - _NAMES
    if unknown:  # an ignored request for masks or noise would release more than the server asked for
        raise TrainingError(f"The call 'train' does not support {min(unknown)[:50]!r}.")
    number, seed = _round_of(payload)
    plan, loss, config = _plan_of(payload, "plan"), _plan_of(payload, "loss"), _config_of(payload)
    modifiers = modifiers_of(payload.get("modifiers"))
    work = LocalRound(client, plan, loss, config, number)
    if seed is not None:
        work.generator = torch.Generator().manual_seed(seed)
        if draws(plan) or draws(loss):  # dropout and similar calls use torch's default generator
            work.turn = GeneratorLock(seed).turn
    return _train(work, modifiers)


def _train(work: LocalRound, modifiers: list[Modifier]) -> dict[str, Any]:
    if not work.samples:
        raise TrainingError(f"Client {work.client.name!r} has no samples to train on.")
    work.modifiers = modifiers
    with torch.enable_grad():
        for each in modifiers:
            each.begin(work)
        if not any(each.train(work) for each in modifiers):
            work.train()
    if not math.isfinite(work.mean_loss or 0.0):
        raise TrainingError(
            f"The loss of client {work.client.name!r} is not finite: its training diverged. "
            "Try a smaller learning rate."
        )
    return work.finish()
