"""Which stored objects a call may have changed, and whether it did.

A call names what it changes, but what it names may be a view: so the memory of stored objects is known by where it
is. A backward pass and a training plan change what nobody names; those are looked at by torch's version counters.
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
    """Say at once of most calls that they change nothing."""
    return not operation.cmd_kwargs and _is_quiet(operation.cmd_name)


@functools.cache
def _is_quiet(name: str) -> bool:
    """Say whether a call changes nothing, whatever its arguments are, if all of them are positional."""
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
    """Return what differs after a change of values, as far as version counters tell; None if nothing is known."""
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
    """The stored objects that are in memory: where their values are, and as they were when they were written."""

    def __init__(self) -> None:
        self._at: dict[int, ObjectId] = {}
        self._places: dict[ObjectId, list[int]] = {}
        self._seen: dict[ObjectId, tuple[Any, Labels]] = {}
        self._learning: set[ObjectId] = set()

    def see(self, obj_id: ObjectId, obj: object) -> None:
        """Take note of an object that is on disk as it is now."""
        self.forget(obj_id)
        places = self._places[obj_id] = list(memory_of(obj))
        for place in places:
            self._at[place] = obj_id
        self._seen[obj_id] = fingerprint(obj), labels_of(obj)
        tensors = obj.state.tensors() if isinstance(obj, Plan) else [obj] if isinstance(obj, torch.Tensor) else []
        if any(tensor.requires_grad for tensor in tensors):
            self._learning.add(obj_id)

    def forget(self, obj_id: ObjectId) -> None:
        """Stop watching an object."""
        for place in self._places.pop(obj_id, ()):
            if self._at.get(place) == obj_id:
                del self._at[place]
        self._seen.pop(obj_id, None)
        self._learning.discard(obj_id)

    def same_values(self, obj_id: ObjectId, obj: object) -> bool:
        """Say whether an object has the values that it had, for sure."""
        now = fingerprint(obj)
        return now is not None and obj_id in self._seen and self._seen[obj_id][0] == now

    def same_labels(self, obj_id: ObjectId, obj: object) -> bool:
        """Say whether an object has the labels that it had."""
        return obj_id in self._seen and self._seen[obj_id][1] == labels_of(obj)

    def changed_by(self, operation: Operation, held: Callable[[ObjectId], object]) -> Iterator[tuple[ObjectId, bool]]:
        """Yield the ids of objects that a call changed (True), or may have changed (False).

        Args:
            operation: the call.
            held: returns the object in memory of an id, or None.
        """
        name = operation.cmd_name
        for ref in iter_tensors(changed_values(operation)):
            if type(ref) is not Ref:
                continue
            yield ref.id, name not in _LABELS
            for place in memory_of(held(ref.id)):  # a view of something stored, or of its gradient
                if place in self._at:
                    yield self._at[place], True
        plan = held(operation.cmd_args[0].id) if name == RUN_PLAN else None
        steps = plan.operations if isinstance(plan, Plan) and alters(plan.operations) else ()
        if steps:
            yield operation.cmd_args[0].id, True
        if steps or name in _BACKWARD or name in WORKER_COMMANDS:
            sure = any(step.cmd_name.startswith("torch.Tensor.data.") for step in steps)
            for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs)):
                if type(leaf) is Ref:
                    yield leaf.id, sure  # what is written through .data has no version
            for obj_id in tuple(self._learning):
                yield obj_id, False
