"""Work out the form of a result without running the call: on torch's meta device, remembered by signature."""

from __future__ import annotations

import functools
from typing import Any

import torch

from syft.core.references import SameAs, TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.functions import function_of
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import RUN_PLAN

# Words by which torch says that the meta device can't do a call, as opposed to a mistake of the caller.
_META_CANT = (
    "meta",
    "data-dependent",
    "data dependent",
    "not implemented",
    "fake tensor",
    "cannot be called on",
    "leaf variable",
)
# Calls that return nothing, so there is nothing to work out.
_NO_RESULT = frozenset(
    {"torch.Tensor.backward", "torch.autograd.backward", "torch.Tensor.__setitem__"}
    | {f"torch.Tensor.{name}.__set__" for name in ("grad", "data", "requires_grad")}
)


def infer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Return (True, description of the result), or (False, None) if only the worker can tell.

    A mistake that shows already, such as shapes that do not fit, is raised here, before anything is sent.
    """
    if name in _NO_RESULT:
        return True, None
    if name == RUN_PLAN:
        outlook = args[0].outlook
        found = None if outlook is None else outlook.of(args[1:], kwargs)
        return found is not None, found
    if not name.startswith("torch.") or name == "torch.autograd.grad":
        return False, None
    try:
        key = _freeze((args, kwargs))
        hash(key)
    except TypeError:
        return _infer(name, args, kwargs, torch.is_grad_enabled())
    return _remembered(name, key, torch.is_grad_enabled(), _Carried((args, kwargs)))


class _Carried:
    """Arguments that ride along with a cache key without being part of it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Carried)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=4096)
def _remembered(name: str, key: Any, grad: bool, carried: _Carried) -> tuple[bool, Any]:
    args, kwargs = carried.value
    carried.value = None  # the cache keeps the key alive; it must not keep pointers alive
    return _infer(name, args, kwargs, grad)


def _freeze(value: Any) -> Any:
    """Turn arguments into something hashable that decides the form of the result."""
    if isinstance(value, ObjectPointer):
        meta = value.tensor_meta() if hasattr(value, "tensor_meta") else None
        return ("pointer", meta)
    if isinstance(value, torch.Tensor):
        return ("number", value.dtype, value.shape)
    if isinstance(value, tuple | list):
        return (type(value).__name__, tuple([_freeze(item) for item in value]))
    if isinstance(value, dict):
        return ("dict", tuple([(key, _freeze(item)) for key, item in value.items()]))
    if isinstance(value, slice):
        return ("slice", _freeze(value.start), _freeze(value.stop), _freeze(value.step))
    return (type(value).__name__, value)


def _infer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> tuple[bool, Any]:
    try:
        meta_args, meta_kwargs = map_tensors(_on_meta, (args, kwargs))
        with torch.set_grad_enabled(grad):
            result = function_of(name)(*meta_args, **meta_kwargs)
    except NotImplementedError:
        return False, None
    except Exception as error:
        text = str(error).lower()
        if any(word in text for word in _META_CANT):
            return False, None
        raise
    leaves = list(iter_tensors(result))
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves) or _has_values(result):
        return False, None
    return True, _describe(result, (*meta_args, *meta_kwargs.values()))


def _on_meta(leaf: Any) -> Any:
    if not isinstance(leaf, ObjectPointer):
        return leaf.to("meta") if leaf.dim() else leaf
    if not hasattr(leaf, "tensor_meta"):
        raise NotImplementedError("only tensors have a form")
    meta = leaf.tensor_meta()
    twin = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
    if not meta.requires_grad:
        return twin
    twin.requires_grad_()
    # A leaf of the meta device would refuse in-place calls that the remote tensor, a result, allows; only the
    # worker knows which it is, so a call that fails for this reason is left to the worker.
    return twin


def _has_values(result: Any) -> bool:
    if isinstance(result, tuple | list):
        return any(_has_values(item) for item in result)
    return not (result is None or isinstance(result, torch.Tensor))


def _describe(result: Any, given: tuple[Any, ...]) -> Any:
    if isinstance(result, torch.Tensor):
        meta = TensorMeta(result.shape, result.dtype, result.requires_grad)
        for position, arg in enumerate(given):
            if result is arg:
                return SameAs(position, meta)
        return meta
    if result is None:
        return None
    items = [_describe(item, given) for item in result]
    if isinstance(result, list):
        return items
    return tuple(items) if type(result) is tuple else type(result)(items)
