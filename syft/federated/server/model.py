"""The model of a run: a plan recorded once, with its state as one flat vector."""

from __future__ import annotations

import contextlib
import copy
import inspect
import numbers
from typing import Any

import torch

from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.evaluation import Evaluation, evaluate
from syft.federated.client.local_round import draws, split_state
from syft.federated.client.state_vector import StateLayout
from syft.federated.client.train_config import TrainConfig
from syft.federated.client.training_loop import loss_caller, output_of
from syft.federated.server.shape_errors import explained
from syft.messaging.plan.plan import Plan

_EXAMPLE = (
    "The model must be recorded as a plan, which needs an example of samples and targets: "
    "run(..., example=(torch.zeros(2, 10), torch.zeros(2).long()))."
)


class SharedModel:
    """A model and its loss as plans, and their state.

    The example, some samples and their targets, is needed if the model or the loss must be recorded.
    """

    def __init__(self, model: object, loss_fn: object, example: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        self._modes: dict[str, bool] = {}
        self._module: torch.nn.Module | None = None
        if isinstance(model, Plan):
            if not model.is_built:
                raise TrainingError("The model is a plan that is not built. Call plan.build(example) first.")
            self.plan = model.copy()
        elif isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
            # A copy: the given model is not changed.
            self._module = copy.deepcopy(model)
            self._modes = {name: part.training for name, part in self._module.named_modules()}
            data, target = _example(example)
            with explained(self._module, data, target, "model"):
                self.plan = _recorded_model(self._module.train(), data)
        else:
            raise TrainingError(f"A {type(model).__name__} can't be recorded as a model. Pass a module or a plan.")
        parameters, buffers = split_state(self.plan)
        self.tensors = [tensor for _, tensor in (*parameters, *buffers)]
        if not any(tensor.requires_grad for tensor in self.tensors):
            raise TrainingError("The model has no trainable parameters.")
        self.loss = self._recorded(loss_fn, example)
        self.layout = StateLayout(parameters, buffers)
        self.state = self.layout.flatten(self.tensors, torch.float64)
        places = self.layout.places()
        self._frozen = [places[name] for name, tensor in parameters if not tensor.requires_grad]

    def _recorded(self, loss_fn: object, example: object) -> Plan:
        if isinstance(loss_fn, Plan):
            if not loss_fn.is_built:
                raise TrainingError("The loss_fn is a plan that is not built. Call plan.build(output, target) first.")
            return loss_fn
        if not callable(loss_fn):
            raise TrainingError(
                "loss_fn must be a function of output and target, such as torch.nn.functional.cross_entropy."
            )
        data, target = _example(example)
        # Threads share torch's generator, so it is changed only if needed.
        kept = torch.random.fork_rng(devices=[]) if draws(self.plan) else contextlib.nullcontext()
        with torch.no_grad(), kept, explained(self._module, data, target, "model"):
            output = self.plan.copy()(data)  # a copy: norms update their running statistics
        with explained(self._module, data, target, "loss", output):
            return Plan(name="loss", forward_func=loss_caller(loss_fn)).build(output, target)

    def load(self, state: torch.Tensor) -> None:
        """Replace the state."""
        state = state.clone()
        for start, end in self._frozen:  # frozen parameters never change, despite updates and noise
            state[start:end] = self.state[start:end]
        # In the dtypes of the model, whose range may be smaller than that of float64.
        if not all(bool(torch.isfinite(piece).all()) for piece in self.layout.unflatten(state)):
            raise FederatedError("The model is no longer finite: training diverged. Try a smaller learning rate.")
        self.state = state
        self.layout.load(self.tensors, state)

    def result(self) -> Any:
        """Return a copy of the current model, a module or a plan like the one given."""
        if self._module is None:
            return self.plan.copy()
        found = copy.deepcopy(self._module)
        for name, part in found.named_modules():
            part.training = self._modes[name]
        for parameter in found.parameters():
            parameter.grad = None
        return found

    def evaluate(self, wanted: object) -> dict[str, float]:
        """Return measurements of the model: from a function of it, or on a local data set."""
        if callable(wanted):
            found = wanted(self.result().eval() if self._module is not None else self.result())
            if found is None:
                return {}
            if isinstance(found, numbers.Real) or (isinstance(found, torch.Tensor) and found.numel() == 1):
                found = {"score": found}
            return {str(name): _figure(value) for name, value in dict(found).items()}
        return self._measured(wanted)

    def check_evaluation(self, dataset: torch.utils.data.TensorDataset) -> None:
        """Raise if the model or its loss rejects the samples or targets of a data set; two samples are tried."""
        data, target = (tensor[:2] for tensor in dataset.tensors)
        model: Any = self.plan.copy() if self._module is None else copy.deepcopy(self._module).eval()
        kept = torch.random.fork_rng(devices=[]) if draws(self.plan) else contextlib.nullcontext()
        with torch.no_grad(), kept:
            with explained(self._module, data, target, "model"):
                output = output_of(model(data))
            with explained(self._module, data, target, "loss", output):
                loss_caller(self.loss.copy())(output, target)

    def _measured(self, dataset: Any) -> dict[str, float]:
        model: Any = self.plan if self._module is None else copy.deepcopy(self._module)
        targets = dataset[0][1] if not isinstance(dataset, tuple) else None
        counted = targets is None or not torch.as_tensor(targets).dtype.is_floating_point
        wanted = Evaluation(False, -1, True, counted)
        found = evaluate(TrainConfig(batch_size=256, id="evaluate"), model, self.loss, dataset, "cpu", wanted)
        measured = {"test_loss": float(found["loss"])}
        if counted:
            measured["accuracy"] = found["nr_correct_predictions"] / max(1, found["nr_predictions"])
        return measured


def _figure(value: Any) -> float:
    """Return a measurement as a number."""
    return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)


def _recorded_model(module: torch.nn.Module, data: torch.Tensor) -> Plan:
    plan = Plan(name=type(module).__name__, forward_func=module)
    required = [p for p in inspect.signature(module.forward).parameters.values() if p.default is p.empty]
    named = [p for p in required if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(named) > 1:
        names = ", ".join(p.name for p in named)
        raise TrainingError(
            f"A model is called with the samples alone, but this one takes {names}. Wrap it in a module."
        )
    return plan.build(data)


def _example(example: object) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(example, tuple | list) or len(example) != 2:
        raise TrainingError(_EXAMPLE)
    data, target = example
    if not isinstance(data, torch.Tensor) or not isinstance(target, torch.Tensor) or len(data) != len(target):
        raise TrainingError(_EXAMPLE)
    return data.detach(), target.detach()
