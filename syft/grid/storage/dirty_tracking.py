"""Find the stored objects that a call changed or may have changed.

A call names the objects it changes, but they may be views, so stored objects are indexed by memory address. Objects
that a backward pass or a training plan changes are not named; they are found by torch's version counters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import description_of, tags_of
from syft.core.references import Ref
from syft.core.trees import iter_tensors
from syft.grid.storage.quotas import memory_of
from syft.messaging.message import Operation
from syft.messaging.mutation import alters, changed_values
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.execution.execute import WORKER_COMMANDS

_LABELS = frozenset({"syft.tag", "syft.describe"})
_BACKWARD = frozenset({"torch.Tensor.backward", "torch.autograd.backward"})
Labels = tuple[frozenset[str], str | None]


def is_quiet(operation: Operation) -> bool:
    """Return whether a call changes nothing; fast, and False if unsure."""
    return not operation.cmd_kwargs and _is_quiet(operation.cmd_name)


@functools.cache
def _is_quiet(name: str) -> bool:
    """Return whether a call with positional arguments only changes nothing, for all arguments."""
    last = name.rpartition(".")[2]
    return not (
        name.startswith(("torch.nn.functional.", "syft."))
        or name in _BACKWARD
        or name in WORKER_COMMANDS
        or last.startswith("__")
        or last.endswith(("_", "embedding", "norm"))
    )


def labels_of(obj: object) -> Labels:
    """Return the tags and the description of an object."""
    return frozenset(tags_of(obj)), description_of(obj)


def fingerprint(obj: object) -> Any:
    """Return a value that differs after a change visible to version counters; None if there are no counters."""
    if isinstance(obj, Plan):
        return tuple(fingerprint(tensor) for tensor in obj.state.tensors())
    if not isinstance(obj, torch.Tensor) or type(obj) not in (torch.Tensor, torch.nn.Parameter):
        return None
    grad = obj.grad if obj.is_leaf or obj.retains_grad else None
    return (
        obj._version if not obj.is_inference() else None,
        obj.data_ptr() if obj.layout is torch.strided else None,
        obj.shape,
        obj.dtype,
        obj.requires_grad,
        None if grad is None else (id(grad), fingerprint(grad)),
    )


class DirtyTracker:
    """The stored objects in memory: the addresses of their values, and their fingerprints when last written."""

    def __init__(self) -> None:
        self._at: dict[int, ObjectId] = {}
        self._addresses: dict[ObjectId, list[int]] = {}
        self._seen: dict[ObjectId, tuple[Any, Labels]] = {}
        self._trainable: set[ObjectId] = set()

    def track(self, obj_id: ObjectId, obj: object) -> None:
        """Record an object whose current state is on disk."""
        self.forget(obj_id)
        addresses = self._addresses[obj_id] = list(memory_of(obj))
        for address in addresses:
            self._at[address] = obj_id
        self._seen[obj_id] = fingerprint(obj), labels_of(obj)
        tensors = obj.state.tensors() if isinstance(obj, Plan) else [obj] if isinstance(obj, torch.Tensor) else []
        if any(tensor.requires_grad for tensor in tensors):
            self._trainable.add(obj_id)

    def forget(self, obj_id: ObjectId) -> None:
        """Stop tracking an object."""
        for address in self._addresses.pop(obj_id, ()):
            if self._at.get(address) == obj_id:
                del self._at[address]
        self._seen.pop(obj_id, None)
        self._trainable.discard(obj_id)

    def same_values(self, obj_id: ObjectId, obj: object) -> bool:
        """Return whether the values of an object are certainly unchanged."""
        now = fingerprint(obj)
        return now is not None and obj_id in self._seen and self._seen[obj_id][0] == now

    def same_labels(self, obj_id: ObjectId, obj: object) -> bool:
        """Return whether the labels of an object are unchanged."""
        return obj_id in self._seen and self._seen[obj_id][1] == labels_of(obj)

    def changed_by(self, operation: Operation, held: Callable[[ObjectId], object]) -> Iterator[tuple[ObjectId, bool]]:
        """Yield the ids of objects that a call changed (True), or may have changed (False)."""
        name = operation.cmd_name
        for ref in iter_tensors(changed_values(operation)):
            if type(ref) is not Ref:
                continue
            yield ref.id, name not in _LABELS
            for address in memory_of(held(ref.id)):  # a view of a stored object, or of its gradient
                if address in self._at:
                    yield self._at[address], True
        plan = held(operation.cmd_args[0].id) if name == RUN_PLAN else None
        steps = plan.operations if isinstance(plan, Plan) and alters(plan.operations) else ()
        if steps:
            yield operation.cmd_args[0].id, True
        if steps or name in _BACKWARD or name in WORKER_COMMANDS:
            sure = any(step.cmd_name.startswith("torch.Tensor.data.") for step in steps)
            for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs)):
                if type(leaf) is Ref:
                    yield leaf.id, sure  # writes through .data do not count as versions
            for obj_id in tuple(self._trainable):
                yield obj_id, False
