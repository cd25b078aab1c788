"""Rules for calls on pointers that are not a single command: gradients, attributes, Python protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.references import TensorMeta
from syft.core.tensor import below
from syft.core.trees import iter_tensors
from syft.exceptions import UnsupportedOperationError
from syft.pointers import ways_back
from syft.pointers.lease import any_departed
from syft.pointers.moves import BackwardPass, moves_of
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call, update_meta

Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_Tensor: Any = torch.Tensor
# Function -> its rule, which is called with the function, its arguments and its keyword arguments.
RULES: dict[Any, Rule] = {
    _Tensor.grad.__get__: lambda _, args, kwargs: args[0]._grad(),
    # The location of the tensor, never its values.
    _Tensor.__repr__: lambda _, args, kwargs: repr(args[0]),
    # Module.to and similar then set `.data`, so that the parameter stays the same object.
    torch._has_compatible_shallow_copy_type: lambda _, args, kwargs: True,
    # The memory is not local.
    _Tensor.is_shared: lambda _, args, kwargs: False,
    _Tensor.is_pinned: lambda _, args, kwargs: False,
}


def rule(*functions: object) -> Callable[[Rule], Rule]:
    """Register a rule for some functions."""

    def register(handler: Rule) -> Rule:
        for function in functions:
            RULES[function] = handler
        return handler

    return register


@rule(_Tensor.grad_fn.__get__)
def get_grad_fn(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return None for a tensor without a graph, as zero_grad(set_to_none=False) and modules read it; refuse others."""
    if not meta_of(args[0]).requires_grad or call(_Tensor.is_leaf.__get__, args, {}):
        return None
    return call(function, args, kwargs)


@rule(_Tensor.grad.__set__, _Tensor.data.__set__, _Tensor.requires_grad.__set__, _Tensor.__setitem__)
def set_remotely(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Set an attribute or items of the remote tensor, then update its shape, dtype and requires_grad."""
    call(function, args, kwargs)
    if function == _Tensor.grad.__set__ and isinstance(args[1], ObjectPointer) and args[1]._meta is not None:
        args[0].lease.stream.note_gradient(args[0].ref(), args[1]._meta)
    if function != _Tensor.grad.__set__ and (
        function != _Tensor.__setitem__ or any(_needs_grad(arg) for arg in args[1:])
    ):
        pointer = args[0]
        update_meta(pointer, pointer.lease.stream.describe(pointer.ref()))


def _needs_grad(value: object) -> bool:
    return isinstance(value, ObjectPointer) and bool(meta_of(value).requires_grad)


def set_attribute(pointer: ObjectPointer, name: str, value: object) -> None:
    """Set grad, data or requires_grad of a remote tensor."""
    if name not in ("grad", "data", "requires_grad"):
        raise UnsupportedOperationError(
            f"Setting the attribute {name!r}", "a remote tensor", "Only grad, data and requires_grad can be set."
        )
    set_remotely(getattr(_Tensor, name).__set__, (pointer, below(value)), {})


@rule(torch.clone)
def clone(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a pointer with the same id to a copy, as the method does."""
    return args[0].clone(**kwargs)


@rule(_Tensor.backward, torch.autograd.backward)
def backward(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a backward pass with one message, or with more if it goes back through moves to other workers."""
    if moves_of((args, kwargs)):
        BackwardPass(call).run(function, args, kwargs)
    else:
        call(function, args, kwargs)
    for leaf in iter_tensors((args, kwargs)) if any_departed else ():
        stream = leaf.lease.stream if isinstance(leaf, ObjectPointer) else None
        if stream is not None and leaf.lease.epoch < stream.departed_leaves:
            # It may reach a tensor that has left, which is refused: the gradient may be read before the next call.
            return stream.synchronize()
    return None


@rule(_Tensor.__deepcopy__)
def deepcopy(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copy the remote tensor at its worker; parameters stay leaves that require a gradient."""
    pointer = args[0]
    copied = call(_Tensor.clone, (call(_Tensor.detach, (pointer,), {}),), {})
    if pointer.tensor_meta().requires_grad:
        copied = call(_Tensor.requires_grad_, (copied,), {})
        copied.reshaped = False
    if pointer._moves and copied.tensor_meta().requires_grad:
        ways_back.copied(pointer, copied)
    return copied


@rule(_Tensor.__format__)
def format_pointer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Format a released number if there is a format, else show the pointer."""
    pointer, spec = args
    if spec and not pointer.tensor_meta().shape:
        return format(pointer.item(), spec)
    return format(f"(Wrapper)>{pointer!s}", spec)


@rule(_Tensor.type)
def type_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the name of the type locally; convert remotely."""
    if len(args) == 1 and not kwargs:
        meta = args[0].tensor_meta()
        return torch.empty(0, dtype=meta.dtype).type()
    return call(function, args, kwargs)


@rule(_Tensor.to)
def to_device(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor itself if it is on the device already, as torch does; convert remotely."""
    if len(args) == 2 and not kwargs and isinstance(args[1], str | torch.device) and isinstance(args[0], ObjectPointer):
        if torch.device(args[1]) == meta_of(args[0]).device:
            return args[0]
    return call(function, args, kwargs)


@rule(_Tensor.__iter__)
def iterate(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Iterate over the first dimension, one pointer per item."""
    if not args[0].tensor_meta().shape:
        raise TypeError("iteration over a 0-d tensor")
    return iter(call(_Tensor.unbind, (args[0], 0), {}))


# The calls of clip_grad_norm_ and clip_grad_value_ with foreach=True -> the call for each tensor.
_EACH: dict[Any, Any] = {
    torch._foreach_norm: torch.linalg.vector_norm,
    torch._foreach_mul_: _Tensor.mul_,
    torch._foreach_clamp_min_: _Tensor.clamp_min_,
    torch._foreach_clamp_max_: _Tensor.clamp_max_,
}


@rule(*_EACH)
def each(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call for each tensor of a list: streams send them without waiting, so one message would save little."""
    tensors, *rest = args
    return tuple([call(_EACH[function], (tensor, *rest), kwargs) for tensor in tensors])


def meta_of(value: Any) -> TensorMeta:
    """Return the metadata of a pointer or tensor."""
    return value.tensor_meta() if hasattr(value, "tensor_meta") else TensorMeta.of(value)
