"""Which of its arguments a call changes, told from its name and arguments before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from syft.core.references import Ref
from syft.core.trees import iter_tensors
from syft.hook.attributes import FrameworkAttributes
from syft.hook.functions import function_of
from syft.messaging.message import Operation

_FIRST = frozenset({"syft.tag", "syft.describe", "torch.Tensor.__setitem__", "torch.Tensor.backward"})


@functools.cache
def _inplace_position(name: str) -> int | None:
    """Return where a function takes `inplace`, or None if it does not."""
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
    position = _inplace_position(name)
    if position is None:
        return False
    args = operation.cmd_args
    return bool(args[position] if len(args) > position else operation.cmd_kwargs.get("inplace"))


def changed_refs(operation: Operation) -> Iterator[Ref]:
    """Yield the references to objects that a call changes, as far as its name and arguments say.

    Batch norm's running statistics in training are the one thing torch changes without saying so.
    """
    values: list[Any] = [operation.cmd_kwargs.get("out")]
    if operation.cmd_args and _changes_first(operation):
        values.append(operation.cmd_args[0])
    if operation.cmd_name.endswith(("batch_norm", "instance_norm")):
        values += [*operation.cmd_args[1:], *operation.cmd_kwargs.values()]
    for value in values:
        for leaf in iter_tensors(value):
            if isinstance(leaf, Ref):
                yield leaf
