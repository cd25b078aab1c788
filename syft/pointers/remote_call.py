"""Sends a torch call on pointers as one command to the worker that holds the data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syft.core.context import refuse_while_recording
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.references import ObjectMeta, SameAs, TensorMeta
from syft.core.tensor import AbstractTensor, below
from syft.core.trees import SCALARS, iter_tensors, map_tensors, rebuild_tuple
from syft.exceptions import TensorsNotCollocatedError, UnsupportedOperationError
from syft.hook.allowed_functions import name_of
from syft.pointers.lease import Lease, any_departed
from syft.pointers.moves import ALIVE, RUNS, VIEWS, BackwardPass, carry, moves_of, share_memory
from syft.pointers.object_pointer import ObjectPointer

if TYPE_CHECKING:
    from collections.abc import Callable

# Calls whose local tensors are sent along: nn.LSTM and similar make their first hidden state locally.
_CARRIES_LOCAL = frozenset(
    getattr(torch, f"{layer}{cell}") for layer in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")
)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a torch function on the worker that its pointers point at, and return pointers to the results."""
    return call_by_name(name_of(function), args, kwargs, function in _CARRIES_LOCAL)


def call_by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], carries_local: bool = False) -> Any:
    """Run a call of the table of allowed functions by its wire name."""
    if ALIVE and name in RUNS and getattr(args[0], "may_differentiate", True) and moves_of((args, kwargs)):
        result = BackwardPass(call).watch(lambda: _send_call(name, args, kwargs, carries_local), (args, kwargs))
    else:
        result = _send_call(name, args, kwargs, carries_local)
    if any_departed:
        _inherit_epoch(args, kwargs, result)
    if name in VIEWS:
        share_memory(args, result)
    if ALIVE:
        carry(name, args, kwargs, result)
    return result


def _inherit_epoch(args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> None:
    """Note how old the oldest argument is that autograd follows (see `Lease.epoch`)."""
    followed = [
        leaf.lease.epoch
        for leaf in iter_tensors((args, kwargs))
        if isinstance(leaf, ObjectPointer) and getattr(leaf._meta, "requires_grad", leaf._meta is None)
    ]
    for leaf in iter_tensors(result) if followed else ():
        if isinstance(leaf, ObjectPointer):
            leaf.lease.epoch = min(leaf.lease.epoch, *followed)


def _send_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], carries_local: bool) -> Any:
    refuse_while_recording("A call on a remote object")
    first = args[0] if args and isinstance(args[0], ObjectPointer) else _first_pointer(args, kwargs)
    stream: Any = first.lease.stream
    base = ID_PROVIDER.pop()
    if stream.gathers and not kwargs:
        meta = stream.gather(name, args, base)
        if type(meta) is TensorMeta:
            return pointer_kinds["tensor"]._attach(Lease(stream, base), first._owner, meta)
        if meta is not NotImplemented:
            return Results(first, args, kwargs, base).build(meta)
    location = first.location
    refs = []
    for arg in args:
        kind = type(arg)
        if kind in SCALARS:
            refs.append(arg)
        elif isinstance(arg, ObjectPointer) and arg.location is location:
            refs.append(arg.ref())
        else:
            refs.append(_to_refs(arg, location, carries_local, name, args, kwargs))
    ref_kwargs = kwargs
    if kwargs and not all(type(value) in SCALARS for value in kwargs.values()):
        ref_kwargs = _to_refs(kwargs, location, carries_local, name, args, kwargs)
    response = stream.run(name, tuple(refs), ref_kwargs, base, (args, kwargs))
    if type(response) is torch.Tensor:  # the common response of an in-process worker
        return pointer_kinds["tensor"]._attach(Lease(stream, base), first._owner, TensorMeta.of(response))
    return Results(first, args, kwargs, base).build(response)


def _to_refs(
    value: object, location: object, carries_local: bool, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Replace the pointers of nested arguments by references; refuse objects at other workers."""

    def to_ref(leaf: object) -> Any:
        if isinstance(leaf, ObjectPointer) and leaf.location is location:
            return leaf.ref()
        if type(leaf) is torch.Tensor and not leaf.requires_grad and (carries_local or leaf.dim() == 0):
            return leaf  # as torch does for devices: a 0-dim local tensor counts as a number
        raise _not_collocated(name, args, kwargs)

    if isinstance(value, np.ndarray) and value.ndim:
        raise _not_collocated(name, args, kwargs)
    return map_tensors(to_ref, value)


@dataclasses.dataclass(slots=True)
class Results:
    """Builds the results of a call from the response of its worker."""

    # A pointer that took part in the call.
    first: ObjectPointer
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    next_id: ObjectId

    def build(self, response: object) -> Any:
        """Replace each described result by a pointer, in the same containers."""
        if isinstance(response, TensorMeta):
            return self._pointer("tensor", response)
        if isinstance(response, torch.Tensor):
            return self._pointer("tensor", TensorMeta.of(response))
        if response is None or isinstance(response, bool | int | float | complex | str):
            return response
        if isinstance(response, SameAs):
            return self._same(response)
        if isinstance(response, ObjectMeta):
            return self._pointer(response.kind)
        if type(response) is dict:
            return {key: self.build(item) for key, item in response.items()}
        if isinstance(response, tuple | list) and not isinstance(response, torch.Size):
            return rebuild_container(type(response), [self.build(item) for item in response])
        return response

    def _pointer(self, kind: str, meta: TensorMeta | None = None) -> Any:
        lease = Lease(self.first.lease.stream, self.next_id)
        self.next_id = following_id(self.next_id)
        return pointer_kinds[kind]._attach(lease, self.first._owner, meta)

    def _same(self, same: SameAs) -> Any:
        arg = (*self.args, *self.kwargs.values())[same.position]
        update_meta(arg, same.meta)
        return arg


def call_object(name: str, pointer: ObjectPointer, args: object, kwargs: object, carries_local: bool = False) -> Any:
    """Run a call on a remote object that is no tensor; wrappers of arguments are removed, results are wrapped."""
    inner_args, inner_kwargs = map_tensors(below, (args, kwargs))
    result = call_by_name(name, (pointer, *inner_args), inner_kwargs, carries_local)
    return map_tensors(wrapped, result)


def wrapped(leaf: object) -> Any:
    """Return a pointer in its wrapper, and anything else as it is."""
    return leaf.wrap() if isinstance(leaf, ObjectPointer) else leaf


def rebuild_container(kind: type, items: list[Any]) -> Any:
    """Make a list or (named) tuple of a type from its items."""
    return items if kind is list else rebuild_tuple(kind, items)


def update_meta(pointer: object, meta: TensorMeta | None) -> None:
    """Update the metadata of a pointer after an in-place call."""
    if meta is not None and isinstance(pointer, AbstractTensor) and pointer.tensor_meta() != meta:
        pointer._meta = meta  # type: ignore[attr-defined]
        pointer.reshaped = True


def following_id(obj_id: ObjectId) -> ObjectId:
    """Return the id of the next result of the same call."""
    if isinstance(obj_id, int):
        return obj_id + 1
    head, plus, number = obj_id.rpartition("+")
    return f"{head}+{int(number) + 1}" if plus and number.isdecimal() else f"{obj_id}+1"


# kind of remote object -> pointer class; each pointer module adds its class.
pointer_kinds: dict[str, Any] = {}


def _first_pointer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for leaf in iter_tensors((args, kwargs)):
        if isinstance(leaf, ObjectPointer):
            return leaf
    raise UnsupportedOperationError("A call without any pointer", "PointerTensor")


def _not_collocated(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
    """Return the error that lists the location of each operand."""
    locations = []
    remote: set[object] = set()
    named = [(f"argument {i}", arg) for i, arg in enumerate(args)] + [(f"{k}=", arg) for k, arg in kwargs.items()]
    for whole, value in named:
        leaves = [value] if isinstance(value, np.ndarray) else list(iter_tensors(value))
        for number, leaf in enumerate(leaves):
            label = whole if len(leaves) == 1 else f"{whole}, item {number},"
            if isinstance(leaf, ObjectPointer):
                remote.add(leaf.location.id)
                locations.append(f"{label} is on {leaf.location.id!r}")
            elif isinstance(leaf, torch.Tensor | np.ndarray):
                locations.append(f"{label} is a local tensor of shape {tuple(leaf.shape)}")
            elif isinstance(leaf, AbstractTensor):
                return UnsupportedOperationError(
                    name,
                    f"a pointer together with {type(leaf).__name__}",
                    "Use the local value that was sent, or send or share both operands alike.",
                )
    there = sorted(map(str, remote))[0]
    hint = (
        f"Send the local tensor there first (x.send({there})), or fetch the remote one with .get()."
        if len(remote) == 1
        else f"Move one to the other first, for instance with x.move({there})."
    )
    return TensorsNotCollocatedError(name, list(dict.fromkeys(locations)), hint)
