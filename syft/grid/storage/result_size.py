"""Predict the memory of the result of a call before it runs, to refuse results that are too large."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from syft.core.byte_budget import ask
from syft.messaging.message import Operation
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.fake_execution import foresee, peak_bytes
from syft.workers.access.tensor_spec import TensorSpec

_MAX_ITEMSIZE = 16
_PREFIXES = ("torch.", "torch.Tensor.", "torch.nn.functional.")


def _named(names: str) -> frozenset[str]:
    return frozenset(f"{prefix}{name}" for prefix in _PREFIXES for name in names.split())


# Calls whose result is a view, which takes no memory, or a single number.
_VIEWS = _named(
    "expand expand_as unfold broadcast_to broadcast_tensors meshgrid view t transpose permute squeeze unsqueeze detach "
    "size dim numel item __len__ backward"
)
# Calls whose result has at most the elements of their first argument, which may be an expanded view.
_SMALL = _VIEWS | _named(
    "reshape flatten contiguous sum mean prod std var max min amax amin argmax argmin all any norm cumsum cumprod "
    "softmax log_softmax relu sigmoid tanh exp log sqrt rsqrt abs neg sign square sin cos erf floor ceil round "
    "reciprocal gelu softplus dropout clone float double int long bool half flip roll sort argsort clamp nll_loss "
    "tolist __neg__ __invert__"
)
# Bytes per element of a list.
_LIST_ITEM_BYTES = 40
# Calls whose result has the broadcast shape of all their tensors.
_ELEMENTWISE = _named(
    "add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow eq ne lt le gt ge maximum "
    "minimum where lerp addcmul addcdiv atan2 logical_and logical_or logical_xor mse_loss l1_loss __add__ __radd__ "
    "__sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __pow__ __rpow__ __mod__ __eq__ __ne__ "
    "__lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__"
)
_PRODUCTS = _named("matmul mm mv bmm dot linear __matmul__")
# Calls whose memory grows faster than the square of their input; fake execution does not predict it.
_SUPERQUADRATIC: dict[str, Callable[..., float]] = {
    "torch.combinations": lambda input, r=2, *_, **__: float(min(input.numel(), 10**9)) ** min(max(r, 0), 30),
}


_MAX_SMALL_ELEMENTS = 256


def has_small_result(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether the result of a call is small; fast, and False if unsure."""
    if name not in _ELEMENTWISE and name not in _SMALL:
        return False
    for arg in args:
        if type(arg) is torch.Tensor and arg.numel() > _MAX_SMALL_ELEMENTS:
            return False
    return True


def expected_bytes(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], room: float) -> float:
    """Return the bytes of the result of a call if they may exceed `room`; else 0."""
    name = operation.cmd_name
    if name in _SUPERQUADRATIC:
        return _SUPERQUADRATIC[name](*args, **kwargs)
    if name == RUN_PLAN:
        return peak_bytes(args[0], args[1:], kwargs, operation.grad_enabled)
    if name == "torch.Tensor.tolist":
        size = _LIST_ITEM_BYTES * int(args[0].numel())
        ask(size)
        return size
    if _MAX_ITEMSIZE * _max_elements(name, args, kwargs) <= room:
        return 0
    outcome = foresee(name, args, kwargs, operation.grad_enabled)
    return _bytes_of(outcome.shapes) if outcome.is_known else 0


def _max_elements(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """Return an upper bound of the elements of a result, without fake execution."""
    if name in _VIEWS or (name.endswith("_") and not name.endswith("__")):
        return 0
    if name in _SMALL:
        return max([arg.numel() for arg in args if isinstance(arg, torch.Tensor)], default=1)
    if name in _ELEMENTWISE and not kwargs:
        shapes = [arg.shape for arg in args if isinstance(arg, torch.Tensor)]
        return _common(shapes)
    if name in _PRODUCTS and not kwargs:
        return math.prod([_side(arg) for arg in args[:2]])
    return (_extent(args) * _extent(kwargs)) ** 2


def _side(value: object) -> float:
    """Return the rows or the columns of a factor, whichever are more."""
    shape = value.shape if isinstance(value, torch.Tensor) else torch.Size()
    return float(max(shape[:-1].numel(), shape[1:].numel()))


def _common(shapes: list[torch.Size]) -> float:
    """Return the number of elements of the broadcast shape of tensors."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0].numel() if shapes else 1
    try:
        common: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        return common.numel()
    except RuntimeError:
        return 0  # not broadcastable: the call itself fails


def _extent(value: object) -> float:
    """Return a number that grows with everything that may enlarge a result: numbers, and sizes of tensors."""
    if type(value) is int:
        return float(min(abs(value), 10**300)) or 1.0
    if type(value) is float:
        size = abs(value)
        return max(size, 1 / size) if size and math.isfinite(size) else 1.0
    if type(value) is tuple or type(value) is list:
        return math.prod([_extent(item) for item in value], start=1.0)
    if type(value) is dict:
        return math.prod([_extent(item) for item in value.values()], start=1.0)
    if isinstance(value, torch.Tensor):
        return float(value.numel() or 1)
    return float(len(value) or 1) if type(value) is range else 1.0


def _bytes_of(form: object) -> float:
    if isinstance(form, TensorSpec):
        return math.prod(form.shape) * form.dtype.itemsize
    if isinstance(form, dict):
        form = tuple(form.values())
    return sum([_bytes_of(item) for item in form]) if isinstance(form, tuple | list) else 0
