"""Operands of messages that are made by hand: wrappers, pointers and ids, as their documented forms take them."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import Ref
from syft.core.tensor import below
from syft.exceptions import PlanCommandUnknownError
from syft.pointers.object_pointer import ObjectPointer


def unwrapped(obj: Any) -> Any:
    """Return the pointer of a wrapper; anything else unchanged."""
    child = below(obj) if isinstance(obj, torch.Tensor) else None
    return child if isinstance(child, ObjectPointer) else obj


def owner_first(name: str, owner: object, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the wire name and the arguments of a method, given its documented owner: a pointer or an id."""
    if owner is None:
        return name, args
    if isinstance(owner, str) and owner == "self":
        raise PlanCommandUnknownError(f"{name} of the worker itself")
    holder = Ref(owner) if isinstance(owner, int | str) else unwrapped(owner)
    return name if "." in name else f"torch.Tensor.{name}", (holder, *args)


def reference_of(contents: Any) -> Any:
    """Return the reference that a pointer makes in a message to its worker; anything else unchanged."""
    pointer = unwrapped(contents)
    return pointer.ref() if isinstance(pointer, ObjectPointer) else contents
