"""The arguments that a call changes, known from its name and arguments before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

from syft.core.trees import iter_tensors
from syft.hook.allowed_functions import function_of
from syft.hook.attributes import FrameworkAttributes
from syft.messaging.message import Operation

_FIRST = frozenset({"syft.tag", "syft.describe", "torch.Tensor.__setitem__", "torch.Tensor.backward"})


@functools.cache
def _inplace_position(name: str) -> int | None:
    """Return the position of the parameter `inplace` of a function; None if it has none."""
    if not name.startswith("torch.nn.functional."):
        return None
    try:
        parameters = list(inspect.signature(function_of(name)).parameters)
    except (TypeError, ValueError):
        return None
    return parameters.index("inplace") if "inplace" in parameters else None


def _argument(operation: Operation, position: int, name: str) -> Any:
    return operation.cmd_args[position] if len(operation.cmd_args) > position else operation.cmd_kwargs.get(name)


def _changes_first(operation: Operation) -> bool:
    name = operation.cmd_name
    last = name.rpartition(".")[2]
    if name in _FIRST or last == "__set__" or FrameworkAttributes.is_inplace_method(last):
        return True
    if name == "torch.Tensor.module_load":
        # With assign=True it returns the other tensor; a tensor as `assign` may be true or false.
        return _argument(operation, 2, "assign") is not True
    position = _inplace_position(name)
    return position is not None and bool(_argument(operation, position, "inplace"))


def changed_values(operation: Operation) -> list[Any]:
    """Return the arguments that a call changes.

    Torch also changes the running statistics of norms and, with `max_norm`, the weight of `embedding`.
    """
    values: list[Any] = [operation.cmd_kwargs.get("out")]
    if _changes_first(operation):
        # Without positional arguments, any keyword argument may be the first one.
        values += operation.cmd_args[:1] or operation.cmd_kwargs.values()
    if operation.cmd_name.endswith(".embedding") and _argument(operation, 3, "max_norm") is not None:
        values += [*operation.cmd_args[1:2], operation.cmd_kwargs.get("weight")]
    if operation.cmd_name.endswith(("batch_norm", "instance_norm")):
        values += [*operation.cmd_args[1:], *operation.cmd_kwargs.values()]
    return values


# Operations of plans that train.
TRAINING = frozenset(
    {"syft.plan.optimizer_step", "syft.plan.gradient", "torch.Tensor.backward", "torch.autograd.backward"}
)


def trains(operations: Iterable[Operation]) -> bool:
    """Say whether operations compute gradients or run optimizer steps."""
    return any(operation.cmd_name in TRAINING for operation in operations)


def alters(operations: Iterable[Operation]) -> bool:
    """Say whether operations may change tensors in place: their arguments, or their own results."""
    found = tuple(operations)
    return trains(found) or any(next(iter_tensors(changed_values(o)), None) is not None for o in found)
