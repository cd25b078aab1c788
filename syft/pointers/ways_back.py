"""Ways back: what happens to the moves of a pointer that is fetched, sent on, moved again or serialized.

Only the client knows the moves. They stay with its pointer when the pointer itself is sent, and follow the copy when
that goes to another worker.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syft.exceptions import UnsupportedOperationError
from syft.pointers.moves import Move, link_fetched, moves_of

_kept: contextvars.ContextVar[bool] = contextvars.ContextVar("syft_way_back_kept", default=False)


def move_to(pointer: Any) -> Move | None:
    """Return the move whose copy a pointer points at directly."""
    for move in pointer._moves:
        if move.copy.location is pointer.location and move.copy.id_at_location == pointer.id_at_location:
            return None if pointer.point_to_attr is not None else move
    return None


def follow(move: Move, pointer: Any, cause: str, forwarded: int) -> None:
    """Let a pointer be the copy of a move from now on: the copy has gone to its worker."""
    Move(move.source, pointer, move.root, forwarded)
    if move.copy.lease.spent is None and move.copy.lease is not pointer.lease:
        move.copy.lease.spend(cause)


def moved_on(pointer: Any, new: Any) -> None:
    """Let the copy of a move that was moved again keep its way back."""
    move = move_to(pointer)
    if move is not None:
        follow(move, new, f"it was moved to {new.location.id!r}", move.forwarded)
    elif pointer._relays:
        new._moves, new._relays, new._relayed = pointer._moves, pointer._relays, pointer._relayed


def fetched(pointer: Any, obj: Any, call: Callable[..., Any]) -> Any:
    """Let a fetched object keep the way back of its pointer; returns the object."""
    move = move_to(pointer)
    below = _pointers_below(obj)
    if len(below) == 1 and move is not None:
        follow(move, below[0], f"it was fetched by {pointer._owner.id!r}", move.forwarded - 1)
    elif below:
        for one in below:
            one._moves, one._relays = pointer._moves, max(0, pointer._relays - 1)
            one._relayed = pointer._relayed if one._relays else None
    elif move is not None and isinstance(obj, torch.Tensor) and obj.requires_grad:
        link_fetched(obj, move, call)
    return obj


def _pointers_below(obj: Any) -> list[Any]:
    """Return the pointers to tensors that a fetched object is made of."""
    if hasattr(obj, "_moves"):
        return [obj]
    child = obj.__dict__.get("child") if hasattr(obj, "__dict__") else None
    parts = child.values() if isinstance(child, dict) else () if child is None else (child,)
    return [pointer for part in parts for pointer in _pointers_below(part)]


def fetched_there(pointer: Any) -> None:
    """Note that the worker of a pointer has fetched what its own pointer leads to."""
    move = move_to(pointer)
    if move is not None:  # the copy was sent on, and is back
        move.forwarded = max(0, move.forwarded - 1)
    elif pointer._relays > 1:
        pointer._relays -= 1
    elif pointer._relays and (pointer._relayed is None or not pointer._meta.requires_grad):
        pointer._moves, pointer._relays = (), 0
    elif pointer._relays:
        pointer._relays = 0
        follow(pointer._relayed, pointer, f"it was fetched by {pointer.location.id!r}", pointer._relayed.forwarded)


def sent_on(pointer: Any) -> None:
    """Note that what a pointer points at was sent on, and that a pointer to it stays."""
    move = move_to(pointer)
    if move is not None:
        move.forwarded += 1
    elif pointer._relays:
        pointer._relays += 1
    else:
        pointer._moves = ()  # a result leaves its graph behind


def differentiable(pointer: Any) -> bool:
    """Return whether gradients of a pointer flow back through moves."""
    return bool(pointer._moves) and bool(pointer.tensor_meta().requires_grad)


@contextlib.contextmanager
def carried_by_sender() -> Iterator[None]:
    """Serialize pointers with moves: the client keeps these at the pointer to what it sends."""
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)


def check_serializable(pointer: Any) -> None:
    """Refuse to serialize a pointer whose moves would be lost."""
    if not _kept.get() and differentiable(pointer):
        raise UnsupportedOperationError(
            "serialize()",
            "a pointer whose gradients flow back through a move, which only this process knows",
            "Send it with x.send(worker), or serialize x.detach().",
        )


def relay(inner: list[Any], pointer: Any) -> None:
    """Let a pointer to pointers that were sent carry their moves, and note how far it is from their tensors."""
    if not inner or not hasattr(pointer, "_moves"):
        return
    pointer._relays = 1 + max(getattr(one, "_relays", 0) for one in inner)
    pointer._moves = moves_of([one for one in inner if hasattr(one, "_moves") and differentiable(one)])
    if pointer._moves and len(inner) == 1:
        pointer._relayed = inner[0]._relayed if inner[0]._relays else move_to(inner[0])


def copied(pointer: Any, new: Any) -> None:
    """Let a deep copy of the copy of a move have a way back of its own; copies of results have none, as in torch."""
    move = pointer._relayed if pointer._relays else move_to(pointer)
    if move is None:
        raise UnsupportedOperationError(
            "copy.deepcopy()", "a result whose gradients flow back through a move", "Use x.clone(), or x.detach()."
        )
    Move(move.source, new, move.root, pointer._relays + move.forwarded)
    new._relays = pointer._relays
