"""Moves of objects from the session process into the vault: their proxies, and the objects that move with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError
from syft.grid.isolation.proxies.objects import ObjectProxy, PlanProxy, Proxy, proxy_of
from syft.grid.storage.quotas import memory_of
from syft.messaging.plan.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True)
class MovedObject:
    """An object that moves into the vault, or a part of such an object that has an id.

    Attributes:
        obj_id: its id.
        proxy: the proxy that replaces it in the session process.
        whole_id: the id of the object that moves; equal to `obj_id` for the object itself.
        part: None for the object itself, "grad" for its gradient, an index for a tensor of a plan's state.
    """

    obj_id: ObjectId
    proxy: Proxy | ObjectProxy
    whole_id: ObjectId
    part: int | str | None = None


def plan_move(obj_id: ObjectId, held: Mapping[ObjectId, Any]) -> list[MovedObject]:
    """Return the objects that move into the vault together with an object. The first entry is the whole object.

    For a tensor that is part of a plan, the plan moves. Nothing is changed; it raises if the object can't move. After
    the move, call `detach_moved` on the object that moved.
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
    memory = memory_of(whole).keys()
    for other_id, other in held.items():
        if other_id == whole_id:
            continue
        found = _part(whole, proxy, other)
        if found is not None:
            entries.append(MovedObject(other_id, found[0], whole_id, found[1]))
        elif memory & memory_of(other).keys():
            raise SyftError(
                f"The object {obj_id!r} can't move into the vault: it shares memory with the object {other_id!r}. "
                "Use x.clone() for one of them."
            )
    return entries


def detach_moved(obj: object) -> None:
    """Make backward passes fail that would add gradients to a tensor that has moved into the vault.

    A plan also loses the tensors of its state: its proxy keeps the program.
    """
    for tensor in _tensors(obj):
        if tensor.requires_grad:
            tensor.register_hook(_refuse_gradient)  # type: ignore[no-untyped-call]
    if isinstance(obj, Plan):
        for placeholder in obj.state.state_placeholders:
            placeholder.child = None


def _refuse_gradient(gradient: torch.Tensor) -> None:
    raise SyftError("This backward pass reaches a tensor that has moved into the vault since. Compute the loss again.")


def _tensors(obj: object) -> Iterator[torch.Tensor]:
    if isinstance(obj, Plan):
        yield from (tensor for tensor in obj.state.tensors() if isinstance(tensor, torch.Tensor))
    elif isinstance(obj, torch.Tensor):
        yield obj


def _index(plan: Plan, obj: object) -> int | None:
    return next((at for at, tensor in enumerate(plan.state.tensors()) if tensor is obj), None)


def _part(
    whole: object, proxy: Proxy | ObjectProxy, other: object
) -> tuple[Proxy | ObjectProxy, int | str | None] | None:
    """Return the proxy of an object and its part of the object that moves; None if it is no part of it."""
    if other is whole:
        return proxy, None
    if isinstance(whole, Plan) and isinstance(proxy, PlanProxy):
        at = _index(whole, other)
        return None if at is None else (proxy.state[at], at)
    if isinstance(whole, torch.Tensor) and isinstance(proxy, Proxy) and proxy.grad is not None and other is whole.grad:
        return proxy.grad, "grad"
    return None
