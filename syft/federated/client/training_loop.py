"""The training loop of `worker.fit`: a config, its model, its optimizer, and batches of a data set."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from syft.exceptions import TrainingError
from syft.federated.client.train_config import TrainConfig
from syft.messaging.plan.optimizers import KINDS
from syft.messaging.plan.plan import Plan
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.fake_execution import foresee
from syft.workers.access.tensor_spec import TensorSpec

Pair = tuple[Any, Any]
# Type of a data set -> its samples and targets as two tensors, or None to read samples one by one.
AS_TENSORS: dict[type, Callable[[Any], Pair | None]] = {
    TensorDataset: lambda dataset: dataset.tensors if len(dataset.tensors) == 2 else None
}
DEVICES = frozenset({"cpu", "cuda", "mps", "xpu"})
_TARGET = "target"
_NO_SAMPLES = "The data set has no samples to train on."


class Training:
    """The state of one client's training at one worker: a config and the optimizer of its model."""

    def __init__(self, config: TrainConfig) -> None:
        config.check()
        self.config = config
        self.optimizer: torch.optim.Optimizer | None = None
        self._is_assigned = False
        self._model: Any = None
        self._device: torch.device | None = None
        # Privacy loss of the private trainings so far, as written by an accountant.
        self.spent: dict[str, Any] | None = None
        # Two concurrent calls would overwrite each other's gradients.
        self.turn = threading.Lock()

    def assign(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Use an optimizer of the owner from now on; None: the next training builds one."""
        self.optimizer, self._is_assigned = optimizer, optimizer is not None

    def check(self, model: object, loss_fn: object, device: str) -> None:
        """Raise if a model can't be trained. The data is not read."""
        unwrapped(loss_fn)
        build_optimizer(self.config, _parameters(unwrapped(model)))
        _device(device)

    def fit(
        self,
        model: object,
        loss_fn: object,
        dataset: object,
        device: str,
        check_cancelled: Callable[[], None],
    ) -> torch.Tensor:
        """Train a model on a data set, in place, and return the loss of the last batch."""
        run, loss = unwrapped(model), None
        with self.turn, moved_to(model, device) as torch_device, torch.enable_grad(), in_mode(run, training=True):
            optimizer = self._optimizer_of(run, torch_device)
            steps = train_steps(
                run, unwrapped(loss_fn), dataset, self.config, optimizer, check_cancelled, torch_device=torch_device
            )
            for step_loss, _ in steps:
                loss = step_loss
            if loss is None:
                raise TrainingError(_NO_SAMPLES)
            optimizer.zero_grad()  # the returned model must not carry a gradient of the data
            return loss.detach().cpu()

    def fit_privately(
        self, prepared: Any, model: Any, device: str, check_cancelled: Callable[[], None]
    ) -> torch.Tensor:
        """Train a model with differential privacy, in place; see dp_training.py. The caller holds `turn` and has paid.

        Returns NaN instead of a loss, which would not be private.
        """
        run = unwrapped(model)
        with moved_to(model, device) as torch_device, torch.enable_grad():
            optimizer = self._optimizer_of(run, torch_device)
            prepared.run(optimizer, check_cancelled, torch_device=torch_device)
        return torch.tensor(math.nan)

    def _optimizer_of(self, model: object, torch_device: torch.device) -> torch.optim.Optimizer:
        """Return the optimizer of a model. Its state is reused as long as the model is the same."""
        if self.optimizer is not None and self._is_assigned:
            return self.optimizer
        if self.optimizer is None or self._device != torch_device or self._model is not model:
            self.optimizer = build_optimizer(self.config, _parameters(model))
            self._model, self._device = model, torch_device
        return self.optimizer


def _parameters(model: object) -> list[torch.Tensor]:
    """Return the parameters of a module or a plan; none for a function."""
    return list(getattr(model, "parameters", list)())


def train_steps(
    model: Callable[..., Any],
    loss_fn: object,
    dataset: object,
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    check_cancelled: Callable[[], None],
    *,
    generator: torch.Generator | None = None,
    torch_device: torch.device | None = None,
    turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    before_step: Callable[[], None] | None = None,
) -> Iterator[tuple[torch.Tensor, Any]]:
    """Train on the batches of all epochs, up to the config's limit; yields the loss and the targets of each step.

    Args:
        model: the model.
        loss_fn: its loss.
        dataset: pairs of samples and targets.
        config: the training settings.
        optimizer: makes the steps.
        check_cancelled: called before each batch; raises if the result is no longer needed.
        generator: decides the order of the samples; None for torch's default generator.
        torch_device: the device of the model; None if the batches are on it.
        turn: returns a context manager for the forward and backward pass of each step.
        before_step: called after the gradients are computed, before each step.
    """
    call_loss = loss_caller(loss_fn)
    left = config.max_nr_batches if config.max_nr_batches > 0 else -1
    for _ in range(config.epochs):
        for data, target in batches(dataset, config.batch_size, config.shuffle, generator):
            if torch_device is not None:
                data, target = on_device(data, torch_device), on_device(target, torch_device)
            check_cancelled()
            optimizer.zero_grad()
            with turn():
                loss = one_number(call_loss(output_of(model(data)), target))
                loss.backward()  # type: ignore[no-untyped-call]
            if before_step is not None:
                before_step()
            optimizer.step()
            yield loss, target
            left -= 1
            if left == 0:
                return


def build_optimizer(config: TrainConfig, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """Build the optimizer of a config, from the closed table, for the trainable ones of some parameters."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        raise TrainingError("The model has no trainable parameters.")
    try:
        return KINDS[config.optimizer](trained, **config.optimizer_args)
    except (TypeError, ValueError) as error:
        raise TrainingError(f"torch rejected the optimizer_args of {config.optimizer}: {str(error)[:200]}") from None


def predict_step(model: object, loss_fn: object, dataset: object, batch_size: int) -> None:
    """Raise the error of a step that would fail due to the shapes of its first batch. No values are read."""
    first = next(batches(dataset, batch_size, shuffle=False), None)
    if first is None:
        raise TrainingError(_NO_SAMPLES)
    if not isinstance(model, Plan) or not isinstance(loss_fn, Plan):
        return  # a script module can only be run
    output = _predicted(model, first[0])
    if isinstance(output, TensorSpec):
        zeros = output_of(torch.zeros(output.shape, dtype=output.dtype))
        loss = loss_caller(loss_fn, lambda *args: _predicted(loss_fn, *args))(zeros, first[1])
        if isinstance(loss, TensorSpec):
            one_number(torch.zeros(loss.shape))


def _predicted(plan: Plan, *args: object) -> Any:
    """Return the spec of a plan's result; None if it depends on values."""
    found = foresee(RUN_PLAN, (plan, *args), {}, grad_enabled=True)
    found.raise_error()
    return found.result


# --- models and losses --------------------------------------------------------------------------------------


def unwrapped(part: object) -> Any:
    """Return the callable: a plan, or the module or function inside a wrapper."""
    part = part.obj if isinstance(part, ObjectWrapper) else part
    if isinstance(part, Plan) and not part.is_built:
        raise TrainingError(f"The plan {part.name!r} was sent before it was built. Call plan.build(example) first.")
    if not callable(part):
        raise TrainingError(f"A model or a loss must be callable, got a {type(part).__name__}.")
    return part


def loss_caller(loss_fn: Any, call: Callable[..., Any] | None = None) -> Callable[[Any, Any], Any]:
    """Return a function of output and target that passes them in the order the loss expects.

    It calls `call` instead of the loss, if given.
    """
    function = loss_fn if call is None else call
    is_first = _argument_names(loss_fn)[:1] == [_TARGET]
    return lambda output, target: function(target, output) if is_first else function(output, target)


def _argument_names(function: Any) -> list[str]:
    """Return the argument names of a loss, if they can be read."""
    if isinstance(function, Plan):
        return [argument.name or "" for argument in function.program.arguments]
    scripted = function.forward if isinstance(function, torch.jit.ScriptModule) else function
    schema = getattr(scripted, "schema", None)
    if schema is not None:
        return [argument.name for argument in schema.arguments if argument.name != "self"]
    plain = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return list(inspect.signature(plain).parameters)
    except (TypeError, ValueError):
        return []


def output_of(value: object) -> torch.Tensor:
    """Return the model's output, or raise TrainingError if it is not a tensor with rows."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        raise TrainingError(f"A model must return one tensor with a row for each sample, got a {type(value).__name__}.")
    return value


def one_number(loss: object) -> torch.Tensor:
    """Return the loss of a batch as a scalar, or raise TrainingError."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise TrainingError(f"The loss of a batch must be one number, but this loss_fn returns {what}. Use its mean.")
    return loss.reshape(()) if loss.dim() else loss


@contextmanager
def in_mode(model: object, training: bool) -> Iterator[None]:
    """Switch a module to train or eval mode within the context. Plans keep the mode they were recorded in."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


@contextmanager
def moved_to(model: object, device: str) -> Iterator[torch.device]:
    """Move a model to a device within the context, in place."""
    torch_device = _device(device)
    part = unwrapped(model)
    if torch_device.type == "cpu":
        yield torch_device
        return
    tensors = part.state.tensors() if isinstance(part, Plan) else [*part.parameters(), *part.buffers()]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.to(torch_device)
        yield torch_device
    finally:
        for tensor in tensors:
            tensor.data = tensor.data.cpu()


def _device(name: Any) -> torch.device:
    try:
        torch_device = torch.device(name)
        if torch_device.type in DEVICES:
            torch.empty(0, device=torch_device)
            return torch_device
    except (RuntimeError, TypeError, ValueError, AssertionError):  # raised by torch for a missing device
        pass
    raise TrainingError(f"The device {str(name)!r:.50} is not available on this worker. Use device='cpu'.")


# --- data ---------------------------------------------------------------------------------------------------


def tensors_of(dataset: object) -> Pair | None:
    """Return the samples and the targets of a data set that holds them as two tensors; None for any other."""
    as_tensors = AS_TENSORS.get(type(dataset))
    return None if as_tensors is None else as_tensors(dataset)


def pair_of(dataset: Any) -> Pair:
    """Return the samples and the targets of any data set with a length, as two tensors."""
    pair = tensors_of(dataset)
    if pair is not None:
        return pair
    if not hasattr(dataset, "__len__"):
        raise TrainingError(f"A {type(dataset).__name__} can't be read at once: the data set needs a length.")
    found = next(batches(dataset, max(1, len(dataset)), shuffle=False), None)
    if found is None:
        raise TrainingError(_NO_SAMPLES)
    return found


def batches(
    dataset: object, batch_size: int, shuffle: bool, generator: torch.Generator | None = None
) -> Iterator[Pair]:
    """Yield batches of samples and targets as copies, so that changes to them never reach the data set."""
    pair = tensors_of(dataset)
    if pair is None:
        yield from _collated(dataset, batch_size, shuffle, generator)
        return
    data, target = (tensor.detach() for tensor in pair)
    if not shuffle:
        pieces = zip(torch.split(data, batch_size), torch.split(target, batch_size), strict=True)
        yield from ((some.clone(), targets.clone()) for some, targets in pieces if len(some))
        return
    order = torch.randperm(len(data), generator=generator)
    for rows in torch.split(order, batch_size):
        if len(rows):
            yield data[rows], target[rows]


def _collated(dataset: Any, batch_size: int, shuffle: bool, generator: torch.Generator | None) -> Iterator[Pair]:
    has_length = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if has_length and not len(dataset):
        return
    for batch in DataLoader(dataset, batch_size=batch_size, shuffle=shuffle and has_length, generator=generator):
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TrainingError("A data set to train on must yield pairs of a sample and its target.")
        yield batch[0], batch[1]


def on_device(value: object, torch_device: torch.device) -> Any:
    """Return samples or targets on a device."""
    return value.to(torch_device) if isinstance(value, torch.Tensor) else value
