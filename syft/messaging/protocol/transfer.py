"""Moves tensors directly from worker to worker; an object that the caller has a pointer to stays where it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from syft.core.context import local_worker
from syft.core.object import AbstractObject
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import MalformedPlanError, TensorsNotCollocatedError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.plan import Plan
from syft.pointers.lease import Lease
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_tensor import PointerTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.messaging")
T = TypeVar("T")


def pointer_in(leaf: torch.Tensor | AbstractObject) -> ObjectPointer | None:
    """Return the pointer that an argument is or wraps; None for a local one."""
    found = leaf if isinstance(leaf, ObjectPointer) else leaf.__dict__.get("child")
    return found if isinstance(found, ObjectPointer) else None


def pointers_in(values: object) -> Iterator[ObjectPointer]:
    """Yield the pointers among nested values, in order."""
    return (pointer for leaf in iter_tensors(values) if (pointer := pointer_in(leaf)) is not None)


class Transfer:
    """Moves the tensors of one run of a protocol.

    Results of the run move. The caller's arguments stay where they are: a copy of each moves.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.local = local_worker()
        # Keeps the leases alive, so that no other one gets the same id() during the run.
        self._own: dict[int, Lease] = {}

    def own(self, values: T) -> T:
        """Record that these pointers belong to the run, and return them."""
        self._own.update(_leases(values))
        return values

    def bring(self, values: object, worker: BaseWorker) -> Any:
        """Return nested values with every tensor at a worker: local ones are sent, remote ones move."""
        brought: dict[int, Any] = self._send_local(values, worker) if worker is not self.local else {}

        def at_worker(leaf: torch.Tensor | AbstractObject) -> Any:
            pointer = pointer_in(leaf)
            if pointer is None:
                return brought.get(id(leaf), leaf)
            if pointer.location is worker:
                return leaf
            key = id(pointer)
            if key not in brought:
                brought[key] = self._move(pointer, worker)
            return brought[key]

        return map_tensors(at_worker, values)

    def _send_local(self, values: object, worker: BaseWorker) -> dict[int, Any]:
        """Send the local tensors in one message; returns pointers by the id() of each tensor."""
        here = {id(leaf): leaf for leaf in iter_tensors(values) if pointer_in(leaf) is None}
        for leaf in here.values():
            if not isinstance(leaf, torch.Tensor) or isinstance(leaf, SyftTensor):
                kind = type(leaf.child if isinstance(leaf, SyftTensor) else leaf).__name__
                raise TypeError(f"A protocol takes tensors and pointers to tensors, got a {kind}. Send it first.")
        if not here:
            return {}
        logger.info("protocol %s: %d tensors go from %s to %s", self.name, len(here), self.local.id, worker.id)
        pointers = self.own(self.local.send_many(list(here.values()), worker))
        return {key: pointer.wrap() for key, pointer in zip(here, pointers, strict=True)}

    def _move(self, pointer: ObjectPointer, worker: BaseWorker) -> Any:
        if not isinstance(pointer, PointerTensor):
            raise TypeError(f"A protocol moves only tensors, got a {type(pointer).__name__}.")
        logger.info("protocol %s: a tensor moves from %s to %s", self.name, pointer.location.id, worker.id)
        source = pointer if id(pointer.lease) in self._own and pointer.point_to_attr is None else pointer.copy()
        moved = source.move(worker)
        return self.own(moved.wrap() if isinstance(moved, PointerTensor) else moved)

    def run(self, plan: Plan | PointerPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a plan on arguments at its worker."""
        given = set(_leases((args, kwargs)))
        result = plan(*args, **kwargs)
        # A plan may return an argument of the caller, which does not belong to the run.
        self._own.update((key, lease) for key, lease in _leases(result).items() if key not in given)
        return result


def _leases(values: object) -> dict[int, Lease]:
    return {id(pointer.lease): pointer.lease for pointer in pointers_in(values)}


def require_at_worker(role: str, tensors: tuple[torch.Tensor, ...], worker: BaseWorker) -> None:
    """Refuse an input of a role that is at another worker: data crosses only where the function sends it."""
    for pointer in pointers_in(tensors):
        if pointer.location is not worker:
            raise TensorsNotCollocatedError(
                f"The role {role!r}, assigned to {worker.id!r},",
                [f"this input is on {pointer.location.id!r}"],
                f"If it may go there, move it: x.move({worker.id}).",
            )


def plan_results(result: object, count: int) -> tuple[torch.Tensor, ...]:
    """Return the results of a plan as a tuple of `count` tensors; anything else is refused."""
    found = (result,) if count == 1 else result
    if count == 0:
        return ()
    if not isinstance(found, tuple | list) or len(found) != count:
        raise MalformedPlanError(f"A plan of the protocol did not return {count} results.")
    if not all(isinstance(item, torch.Tensor) for item in found):
        raise MalformedPlanError("A plan of the protocol returned something other than tensors.")
    return tuple(found)
