"""What a call would change: told from its name and arguments before it runs, and kept apart afterwards.

Both are needed where a policy holds. A name tells what changes now; but a view made today is changed by a call of
tomorrow, so a result never shares memory with an object of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from syft.core.references import Ref
from syft.core.trees import iter_tensors, map_tensors
from syft.messaging.changes import alters, changed_values
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN
from syft.pointers.pointer_protocol import RUN_PROTOCOL

# Calls after which an object may share memory with another argument.
_SHARE = frozenset(
    f"torch.{name}"
    for name in "Tensor.data.__set__ Tensor.grad.__set__ Tensor.set_ Tensor.backward autograd.backward".split()
) | {RUN_PROTOCOL}


def changed_refs(operation: Operation) -> Iterator[Ref]:
    """Yield the references to objects that a call changes, as far as its name and arguments say."""
    for leaf in iter_tensors(changed_values(operation)):
        if isinstance(leaf, Ref):
            yield leaf


def _runs_altering_plan(store: Any, operation: Operation) -> bool:
    if operation.cmd_name != RUN_PLAN or type(operation.cmd_args[0]) is not Ref:
        return False
    plan = store.get(operation.cmd_args[0].id)
    return isinstance(plan, Plan) and alters(plan.operations)


class Loan:
    """The tensors of others that one call is given: it may read them, and nothing of them stays in its results.

    Args:
        worker: the worker that runs the call.
        session: the client it runs for.
        operation: the call.
    """

    def __init__(self, worker: Any, session: Any, operation: Operation) -> None:
        store = worker.object_store
        self.copies = operation.cmd_name in _SHARE or _runs_altering_plan(store, operation)
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
            if isinstance(leaf, Plan):
                return leaf.copy() if self.copies else leaf
            if self.copies:
                return leaf.detach().clone()
            return leaf.detach() if leaf.requires_grad else leaf

        return map_tensors(lent, value)

    def settle(self, result: Any, given: Any) -> Any:
        """Return a result without views of what was lent; the very argument stays, for it is not kept again."""
        if any(result is leaf for leaf in iter_tensors(given)):
            return result
        return map_tensors(lambda leaf: leaf.detach().clone() if self._is_lent(leaf) else leaf, result)

    def _is_lent(self, leaf: Any) -> bool:
        return bool(self.memories & _memories(leaf))


def _memories(obj: Any) -> set[int]:
    """Return where the values of a plain tensor and of its gradient are; of a plan, those of its state."""
    if isinstance(obj, Plan):
        return set().union(*(_memories(tensor) for tensor in obj.state.tensors()))
    if type(obj) not in (torch.Tensor, torch.nn.Parameter) or obj.layout is not torch.strided:
        return set()
    found = {obj.untyped_storage().data_ptr()}
    if obj.is_leaf and obj.grad is not None:
        found |= _memories(obj.grad)
    return found - {0}
