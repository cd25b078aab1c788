"""The arguments that a call changes, known from its name and arguments before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

from syft.core.trees import iter_tensors
from syft.hook.attributes import FrameworkAttributes
from syft.hook.functions import function_of
from syft.messaging.message import Operation

_FIRST = frozenset(
    {
        "syft.tag",
        "syft.describe",
        "torch.Tensor.__setitem__",
        "torch.Tensor.backward",
    }
)


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


def _changes_first(operation: Operation) -> bool:
    name = operation.cmd_name
    last = name.rpartition(".")[2]
    if name in _FIRST or last == "__set__" or FrameworkAttributes.is_inplace_method(last):
        return True
    if name == "torch.Tensor.module_load":
        return not _assigns(operation)
    position = _inplace_position(name)
    if position is None:
        return False
    args = operation.cmd_args
    return bool(args[position] if len(args) > position else operation.cmd_kwargs.get("inplace"))


def _assigns(operation: Operation) -> bool:
    """Say whether `module_load` returns the other tensor instead of copying it into the first one.

    A tensor passed as `assign` may be true or false, so it counts as a copy.
    """
    value = operation.cmd_args[2] if len(operation.cmd_args) > 2 else operation.cmd_kwargs.get("assign")
    return value is True


def _renormalises(operation: Operation) -> bool:
    """Say whether an embedding shortens the rows of its weight in place (`max_norm`, the fourth argument)."""
    value = operation.cmd_args[3] if len(operation.cmd_args) > 3 else operation.cmd_kwargs.get("max_norm")
    return value is not None


def changed_values(operation: Operation) -> list[Any]:
    """Return the arguments that a call changes.

    Torch also changes the running statistics of norms and, with `max_norm`, the weight of `embedding`.
    """
    values: list[Any] = [operation.cmd_kwargs.get("out")]
    if _changes_first(operation):
        # Without positional arguments, any keyword argument may be the first one.
        values += operation.cmd_args[:1] or operation.cmd_kwargs.values()
    if operation.cmd_name.endswith(".embedding") and _renormalises(operation):
        values += [*operation.cmd_args[1:2], operation.cmd_kwargs.get("weight")]
    if operation.cmd_name.endswith(("batch_norm", "instance_norm")):
        values += [*operation.cmd_args[1:], *operation.cmd_kwargs.values()]
    return values


# Operations of plans that train.
_TRAINING = frozenset(
    {"syft.plan.optimizer_step", "syft.plan.gradient", "torch.Tensor.backward", "torch.autograd.backward"}
)


def trains(operations: Iterable[Operation]) -> bool:
    """Say whether operations compute gradients or run optimizer steps."""
    return any(operation.cmd_name in _TRAINING for operation in operations)


def alters(operations: Iterable[Operation]) -> bool:
    """Say whether operations may change tensors in place: their arguments, or their own results."""
    found = tuple(operations)
    return trains(found) or any(next(iter_tensors(changed_values(o)), None) is not None for o in found)
