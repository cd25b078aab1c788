"""What a call would change: told from its name and arguments before it runs, and kept apart afterwards.

Both are needed where a policy holds. A name tells what changes now; but a view made today is changed by a call of
tomorrow, so a result never shares memory with an object of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from syft.core.references import Ref
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.changes import alters, changed_values, trains
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN
from syft.pointers.pointer_protocol import RUN_PROTOCOL

# Calls after which an object may share memory with another argument, or that may change any of them.
_SHARE = frozenset(
    f"torch.{name}"
    for name in "Tensor.data.__set__ Tensor.grad.__set__ Tensor.set_ Tensor.backward autograd.backward".split()
) | {RUN_PROTOCOL, "syft.call"}


def changed_refs(operation: Operation) -> Iterator[Ref]:
    """Yield the references to objects that a call changes, as far as its name and arguments say."""
    for leaf in iter_tensors(changed_values(operation)):
        if isinstance(leaf, Ref):
            yield leaf


def _runs_altering_plan(store: Any, operation: Operation) -> bool:
    if operation.cmd_name != RUN_PLAN:
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
        self.sent = (*operation.cmd_args, *operation.cmd_kwargs.values())
        self.lends_plan = False
        self.memories: set[int] = set()
        self.own: list[Any] = []
        for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs)):
            if type(leaf) is Ref:
                obj = store.get(leaf.id)
                if store.claims.belongs_to(leaf.id, session):
                    self.own.append(obj)
                else:
                    self.memories |= memories(obj)

    @property
    def is_idle(self) -> bool:
        """Whether nothing that could be changed or kept is lent, and nothing is copied."""
        return not self.memories and not self.copies

    def lend(self, value: Any) -> Any:
        """Return arguments that leave no gradients behind on the tensors of others."""

        def lent(leaf: Any) -> Any:
            if not self._is_lent(leaf):
                return leaf
            if isinstance(leaf, Plan):
                self.lends_plan = True
                return leaf.copy() if self.copies and not trains(leaf.operations) else leaf  # training was allowed
            if self.copies:
                return leaf.detach().clone()
            return leaf.detach() if leaf.requires_grad else leaf

        return map_tensors(lent, value)

    def settle(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a result without views of what was lent.

        The very object of an argument stays, for it is not kept again; a copy of one is a result like others.
        """
        given = (*args, *kwargs.values())
        if not self.copies and any(
            result is arg for sent, arg in zip(self.sent, given, strict=True) if type(sent) is Ref
        ):
            return result
        arguments = {id(leaf) for leaf in iter_tensors(given)} if self.copies else set()
        return map_tensors(lambda leaf: self._settled(leaf, id(leaf) in arguments), result)

    def _settled(self, leaf: Any, is_argument: bool) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if self._is_lent(leaf):
            return leaf.detach().clone()
        # Without its graph: no gradient is left behind on the parameters of a plan of somebody else.
        return leaf.detach() if self.lends_plan or (is_argument and not self._is_own(leaf)) else leaf

    def _is_own(self, leaf: Any) -> bool:
        return any(leaf is obj for obj in self.own)

    def _is_lent(self, leaf: Any) -> bool:
        return bool(self.memories & memories(leaf))


def memories(obj: Any) -> set[int]:
    """Return where the values of a tensor and of its gradient are, below any links; of a plan, those of its state."""
    if isinstance(obj, Plan):
        return set().union(*(memories(tensor) for tensor in obj.state.tensors()))
    if isinstance(obj, SyftTensor | AbstractTensor):
        below = obj.__dict__.get("child")
        return memories(below) if isinstance(below, torch.Tensor | AbstractTensor) else set()
    if not isinstance(obj, torch.Tensor):
        return set()
    found = {part.untyped_storage().data_ptr() for part in _parts(obj)}
    if (obj.is_leaf or obj.retains_grad) and obj.grad is not None:
        found |= memories(obj.grad)
    return found - {0}


def may_change(worker: Any, obj: Any) -> bool:
    """Say whether somebody could still change an object that was taken out of the store: through what shares memory.

    A gradient arrives by a graph; a parameter is part of a plan; another tensor may be a view of it.
    """
    if isinstance(obj, SyftTensor) or not isinstance(obj, torch.Tensor):
        return isinstance(obj, Plan)
    if obj.requires_grad or obj.grad is not None or obj.layout is not torch.strided:
        return True
    # The tensor itself and the handle by which we ask.
    if torch._C._storage_Use_Count(obj.untyped_storage()._cdata) > 2:
        return True
    held = worker.object_store.outlines().values()
    return any(isinstance(other, Plan) and any(obj is part for part in other.state.tensors()) for other in held)


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that a tensor is made of."""
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._values(), tensor._indices()]
    return [tensor.values()]
