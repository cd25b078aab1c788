"""Moving objects of the session process into the vault: their proxies, and what else has to move with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError
from syft.grid.isolation.proxies.objects import ObjectProxy, PlanProxy, Proxy, proxy_of
from syft.messaging.plan.plan import Plan
from syft.workers.execution.shared_memory import memories


@dataclasses.dataclass(frozen=True, slots=True)
class MovedObject:
    """An object that moves into the vault, or an id that names a part of it.

    Attributes:
        obj_id: the id that names it.
        proxy: what takes its place in the session process.
        whole_id: the id of the object that moves; equal to `obj_id` for the object itself.
        part: what it is of that object: None for the object itself under another id, "grad" for its gradient, a number
            for the tensor at that index of a plan's state.
    """

    obj_id: ObjectId
    proxy: Proxy | ObjectProxy
    whole_id: ObjectId
    part: int | str | None = None


def enter(obj_id: ObjectId, held: Mapping[ObjectId, Any]) -> list[MovedObject]:
    """Work out what moves into the vault together with an object. The first entry is the object that moves.

    That is the plan, for a tensor that is part of one. Call it before anything is changed: it raises if the object
    can't move. Afterwards, call `orphan` on the object that was moved.

    Args:
        obj_id: the id of the object that has to move.
        held: the objects of the session process, by id.
    """
    obj = held[obj_id]
    plans = [one for one, other in held.items() if isinstance(other, Plan) and _index(other, obj) is not None]
    if len(plans) > 1:
        raise SyftError("A tensor that is part of several plans can't move into the vault. Copy all but one of them.")
    whole_id = plans[0] if plans else obj_id
    whole = held[whole_id]
    for tensor in _tensors(whole):
        if not tensor.is_leaf:
            raise SyftError(
                "A tensor that was computed outside of the vault can't take its graph there. Use x.detach()."
            )
    proxy = proxy_of(whole)
    entries = [MovedObject(whole_id, proxy, whole_id)]
    memory = memories(whole)
    for other_id, other in held.items():
        if other_id == whole_id:
            continue
        found = _part(whole, proxy, other)
        if found is not None:
            entries.append(MovedObject(other_id, found[0], whole_id, found[1]))
        elif memory & memories(other):
            raise SyftError(
                f"The object {obj_id!r} can't move into the vault: it shares memory with the object {other_id!r}. "
                "Use x.clone() for one of them."
            )
    return entries


def orphan(obj: Any) -> None:
    """Make backward passes fail that would give gradients to a tensor that has moved into the vault.

    A plan also loses the tensors of its state: its proxy keeps the program.
    """
    for tensor in _tensors(obj):
        if tensor.requires_grad:
            tensor.register_hook(_refuse_gradient)  # type: ignore[no-untyped-call]
    if isinstance(obj, Plan):
        for place in obj.state.state_placeholders:
            place.child = None


def _refuse_gradient(gradient: torch.Tensor) -> None:
    raise SyftError(
        "This backward pass reaches a tensor that has moved into the vault since. Compute the loss again from there."
    )


def _tensors(obj: Any) -> Iterator[torch.Tensor]:
    if isinstance(obj, Plan):
        yield from (tensor for tensor in obj.state.tensors() if isinstance(tensor, torch.Tensor))
    elif isinstance(obj, torch.Tensor):
        yield obj


def _index(plan: Plan, obj: Any) -> int | None:
    return next((at for at, tensor in enumerate(plan.state.tensors()) if tensor is obj), None)


def _part(whole: Any, proxy: Proxy | ObjectProxy, other: Any) -> tuple[Proxy | ObjectProxy, int | str | None] | None:
    """Return the proxy of an object that is the one that moves, or part of it, and which part."""
    if other is whole:
        return proxy, None
    if isinstance(whole, Plan) and isinstance(proxy, PlanProxy):
        at = _index(whole, other)
        return None if at is None else (proxy.state[at], at)
    if isinstance(whole, torch.Tensor) and isinstance(proxy, Proxy) and proxy.grad is not None and other is whole.grad:
        return proxy.grad, "grad"
    return None
