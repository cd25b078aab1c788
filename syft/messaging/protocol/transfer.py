"""Carry tensors from worker to worker, straight, without taking away what the caller still has a pointer to."""

from __future__ import annotations

import logging
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.plan import Plan
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_tensor import PointerTensor

logger = logging.getLogger("syft.messaging")


def pointer_in(leaf: Any) -> ObjectPointer | None:
    """Return the pointer that an argument is, or has inside; None for what is here."""
    found = leaf if isinstance(leaf, ObjectPointer) else leaf.__dict__.get("child")
    return found if isinstance(found, ObjectPointer) else None


class Transfer:
    """Carries the tensors of one run of a protocol.

    Results of the run are its own, and move. What the caller passed in stays where it is: a copy of it moves.

    Args:
        name: the name of the protocol, for the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.local = local_worker()
        # Kept, so that no other lease gets the same id while the run lasts.
        self._own: dict[int, Any] = {}

    def own(self, values: Any) -> Any:
        """Note that nobody else has these pointers, and return them."""
        self._own.update(_leases(values))
        return values

    def bring(self, values: Any, worker: Any) -> Any:
        """Return nested values with every tensor at a worker: local ones are sent, remote ones move.

        Args:
            values: tensors and pointers, in containers.
            worker: where they are needed.
        """
        brought: dict[int, Any] = self._send_local(values, worker) if worker is not self.local else {}

        def there(leaf: Any) -> Any:
            pointer = pointer_in(leaf)
            if pointer is None:
                return brought.get(id(leaf), leaf)
            if pointer.location is worker:
                return leaf
            key = id(pointer)
            if key not in brought:
                brought[key] = self._move(leaf, pointer, worker)
            return brought[key]

        return map_tensors(there, values)

    def _send_local(self, values: Any, worker: Any) -> dict[int, Any]:
        """Send the tensors that are here, all with one message; returns the pointers by the id of each tensor."""
        here = {id(leaf): leaf for leaf in iter_tensors(values) if pointer_in(leaf) is None}
        for leaf in here.values():
            if not isinstance(leaf, torch.Tensor) or isinstance(leaf, SyftTensor):
                kind = type(leaf.child if isinstance(leaf, SyftTensor) else leaf).__name__
                raise TypeError(f"A protocol takes tensors and pointers to tensors, not a {kind}; send it yourself.")
        if not here:
            return {}
        logger.info("protocol %s: %d tensors go from %s to %s", self.name, len(here), self.local.id, worker.id)
        pointers = self.own(self.local.send_many(list(here.values()), worker))
        return {key: pointer.wrap() for key, pointer in zip(here, pointers, strict=True)}

    def _move(self, leaf: Any, pointer: ObjectPointer, worker: Any) -> Any:
        if not isinstance(pointer, PointerTensor):
            raise TypeError(f"A protocol passes on tensors; a {type(pointer).__name__} stays where it is.")
        logger.info("protocol %s: a tensor moves from %s to %s", self.name, pointer.location.id, worker.id)
        source = pointer if id(pointer.lease) in self._own and pointer.point_to_attr is None else pointer.copy()
        moved = source.move(worker)
        return self.own(moved.wrap() if isinstance(moved, PointerTensor) else moved)

    def run(self, plan: Plan | PointerPlan, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a plan on arguments that are where it is."""
        given = set(_leases((args, kwargs)))
        result = plan(*args, **kwargs)
        # A plan may return an argument of the caller, which stays the caller's.
        self._own.update((key, lease) for key, lease in _leases(result).items() if key not in given)
        return result


def _leases(values: Any) -> dict[int, Any]:
    pointers = (pointer_in(leaf) for leaf in iter_tensors(values))
    return {id(pointer.lease): pointer.lease for pointer in pointers if pointer is not None}
