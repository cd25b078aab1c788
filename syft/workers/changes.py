"""What a call would change: told from its name and arguments before it runs, and kept apart afterwards.

Both are needed where a policy holds. A name tells what changes now; but a view made today is changed by a call of
tomorrow, so a result never shares memory with an object of somebody else.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch

from syft.core.references import Ref
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.attributes import FrameworkAttributes
from syft.hook.functions import function_of
from syft.messaging.message import Operation

_FIRST = frozenset({"syft.tag", "syft.describe", "torch.Tensor.__setitem__", "torch.Tensor.backward"})

# Calls after which an object may share memory with another argument.
_SHARE = frozenset(
    f"torch.{name}"
    for name in "Tensor.data.__set__ Tensor.grad.__set__ Tensor.set_ Tensor.backward autograd.backward".split()
)


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


def _renormalises(operation: Operation) -> bool:
    """Say whether an embedding shortens the rows of its weight in place (`max_norm`, the fourth argument)."""
    given = operation.cmd_args[3] if len(operation.cmd_args) > 3 else operation.cmd_kwargs.get("max_norm")
    return given is not None


def changed_refs(operation: Operation) -> Iterator[Ref]:
    """Yield the references to objects that a call changes, as far as its name and arguments say.

    The running statistics of norms, and weights that `embedding` shortens, are what torch changes without saying so.
    """
    values: list[Any] = [operation.cmd_kwargs.get("out")]
    if _changes_first(operation):
        # Without positional arguments the first one goes by a name; which one does not matter.
        values += operation.cmd_args[:1] or operation.cmd_kwargs.values()
    if operation.cmd_name.endswith(".embedding") and _renormalises(operation):
        values += [*operation.cmd_args[1:2], operation.cmd_kwargs.get("weight")]
    if operation.cmd_name.endswith(("batch_norm", "instance_norm")):
        values += [*operation.cmd_args[1:], *operation.cmd_kwargs.values()]
    for value in values:
        for leaf in iter_tensors(value):
            if isinstance(leaf, Ref):
                yield leaf


class Loan:
    """The tensors of others that one call is given: it may read them, and nothing of them stays in its results.

    Args:
        worker: the worker that runs the call.
        session: the client it runs for.
        operation: the call.
    """

    def __init__(self, worker: Any, session: Any, operation: Operation) -> None:
        store = worker.object_store
        self.copies = operation.cmd_name in _SHARE
        self.memories: set[int] = set()
        for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs)):
            if type(leaf) is Ref and not store.claims.belongs_to(leaf.id, session):
                obj = store.get(leaf.id)
                self.memories |= _memories(obj)

    def lend(self, value: Any) -> Any:
        """Return arguments that leave no gradients behind on the tensors of others."""

        def lent(leaf: Any) -> Any:
            if not self._is_lent(leaf):
                return leaf
            if self.copies:
                return leaf.detach().clone()
            return leaf.detach() if leaf.requires_grad else leaf

        return map_tensors(lent, value)

    def settle(self, result: Any, given: Any) -> Any:
        """Return a result without views of what was lent; the very arguments stay, for they are not kept again."""
        arguments = {id(leaf) for leaf in iter_tensors(given)}
        return map_tensors(
            lambda leaf: leaf.clone() if self._is_lent(leaf) and id(leaf) not in arguments else leaf, result
        )

    def _is_lent(self, leaf: Any) -> bool:
        return bool(self.memories & _memories(leaf))


def _memories(obj: Any) -> set[int]:
    """Return where the values of a plain tensor and of its gradient are."""
    if type(obj) not in (torch.Tensor, torch.nn.Parameter) or obj.layout is not torch.strided:
        return set()
    found = {obj.untyped_storage().data_ptr()}
    if obj.is_leaf and obj.grad is not None:
        found |= _memories(obj.grad)
    return found - {0}
