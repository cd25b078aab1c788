"""Copies with value semantics: a sent object never shares memory with the original."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syft.core.callsite import warn_user
from syft.core.labels import copy_labels
from syft.core.trees import iter_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.protocol.base import AbstractProtocol
from syft.pointers.object_pointer import ObjectPointer, adopt, retain_for_transfer
from syft.serde import deserialize, serialize

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a plain tensor: values, requires_grad, gradient and labels; the graph stays behind."""
    with torch.no_grad():
        proxy = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        proxy = torch.nn.Parameter(proxy, requires_grad=tensor.requires_grad)
    elif tensor.requires_grad and tensor.is_leaf:
        proxy.requires_grad_()
    if tensor.is_leaf and tensor.grad is not None:
        proxy.grad = copy_tensor(tensor.grad)
    if tensor.__dict__:
        copy_labels(tensor, proxy)
    return proxy


def is_plain(obj: object) -> bool:
    """Return whether an object is a plain torch tensor."""
    return isinstance(obj, torch.Tensor) and not isinstance(obj, SyftTensor)


def copy_for(worker: Any, obj: Any) -> Any:
    """Copy any sendable object as a worker would receive it in a message."""
    if is_plain(obj) and obj.layout is torch.strided and type(obj) in (torch.Tensor, torch.nn.Parameter):
        return copy_tensor(obj)
    if obj is None or isinstance(obj, bool | int | float | str):
        return obj
    return deserialize(serialize(obj, worker), worker)


def copy_value(value: object) -> Any:
    """Copy a released Python value."""
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def pointers_in(obj: object) -> list[ObjectPointer]:
    """Return the pointers of an object that is about to be sent, or has just arrived."""
    if is_plain(obj):
        return []
    found: list[ObjectPointer] = []
    pending = list(iter_tensors(obj))
    while pending:
        leaf = pending.pop()
        if isinstance(leaf, ObjectPointer):
            found.append(leaf)
        if isinstance(leaf, AbstractProtocol):
            found.extend(leaf.carried())
        child = leaf.__dict__.get("child") if hasattr(leaf, "__dict__") else None
        if child is not None:
            pending.extend(iter_tensors(child))
    return found


def prepare_transfer(obj: Any, destination: Any = None) -> None:
    """Add a claim on the objects behind the pointers of an object, for the worker that is to receive them.

    A pointer to that worker itself becomes the object, and its claim would never be taken over.
    """
    pointers = pointers_in(obj)
    for pointer in pointers:
        if destination is None or pointer.location is not destination:
            retain_for_transfer(pointer)
    for pointer in pointers:
        pointer.lease.stream.barrier()


def await_pointers(obj: object) -> None:
    """Wait until the objects behind the pointers of an object are available to all workers."""
    for pointer in pointers_in(obj):
        pointer.lease.stream.barrier()


def complete_transfer(obj: object) -> None:
    """Take over the claims that came with the pointers of an object."""
    for pointer in pointers_in(obj):
        adopt(pointer)


def offer_claims(obj: object) -> None:
    """Offer another claim on the objects behind an object's pointers: the receiver of copies may claim it at once."""
    for pointer in pointers_in(obj):
        if pointer.lease.owned:
            pointer.lease.stream.retain(pointer.id_at_location)
            pointer.lease.stream.barrier()


def drop_claims(obj: object) -> None:
    """Drop the claims of the pointers of an object that has left."""
    for pointer in pointers_in(obj):
        if pointer.lease.owned:
            pointer.lease.owned = False
            pointer.lease.stream.release(pointer.id_at_location)


def copy_of_held(worker: BaseWorker, obj: object) -> Any:
    """Copy an object that stays here, with claims of its own on the objects behind its pointers."""
    prepare_transfer(obj)
    proxy = copy_for(worker, obj)
    complete_transfer(proxy)
    return proxy


def warn_if_graph(obj: Any) -> None:
    """Warn that gradients do not flow back through a send."""
    if is_plain(obj) and obj.requires_grad and not obj.is_leaf:
        warn_user(
            "The autograd history of this tensor stays here: gradients will not flow back through send(). "
            "Pass requires_grad=True to let them, or call .detach() first to silence this."
        )
