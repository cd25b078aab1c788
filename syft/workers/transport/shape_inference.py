"""Infer the spec of a result without running the call: on torch's meta device, cached by signature."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import SameAs, TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.allowed_functions import function_of
from syft.hook.guards import guard_call
from syft.hook.size_bounds import bound_sizes
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.tensor_spec import frozen, remember

# The default dtype of workers. A client with another default can't infer results of numbers without a dtype.
WORKERS_DEFAULT = torch.float32
# Calls whose result is an argument or a new tensor depending on strides and values, which only the worker knows.
_BY_LAYOUT = frozenset(
    f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("contiguous", "resolve_conj", "resolve_neg")
)
# Conversions: they return the argument if it already has the target spec, unless a memory format is given.
_CASTS = frozenset(
    f"torch.Tensor.{name}"
    for name in (
        "to type type_as cpu float double half bfloat16 cfloat cdouble chalf long int short char byte bool"
    ).split()
)
# Other calls that return an argument or a new tensor, depending on dtypes, shapes and numbers only.
_BY_SPEC = (
    _CASTS
    | {f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("conj", "conj_physical", "positive")}
    | {f"torch.functional.atleast_{dims}d" for dims in (1, 2, 3)}
    | {f"torch.nn.functional.{kind}dropout" for kind in ("", "alpha_", "feature_alpha_")}
    | {"torch.nn.functional.dropout2d", "torch.dropout", "torch.real", "torch.Tensor.real.__get__"}
)
# Calls whose meta kernels differ from the real ones, unless all tensors are of one of these dtypes.
_OFF_ON_META = frozenset(
    {f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("pow", "ldexp")}
    | {"torch.Tensor.__pow__", "torch.Tensor.__rpow__", "torch.functional.block_diag", "torch.native_layer_norm"}
    | {"torch.nn.functional.huber_loss", "torch.nn.functional.soft_margin_loss"}
)
_COMMON = (torch.float32, torch.float64)
_REQUIRE = "torch.Tensor.requires_grad_"
# Calls that are never inferred.
_ASKED = _BY_LAYOUT | {"torch.autograd.grad", "torch._weight_norm"}
# Calls that return nothing.
_NO_RESULT = frozenset(
    {"torch.Tensor.backward", "torch.autograd.backward", "torch.Tensor.__setitem__", "torch.Tensor.retain_grad"}
    | {f"torch.Tensor.{name}.__set__" for name in ("grad", "data", "requires_grad")}
)
# By call, mode of autograd and specs of the arguments: whether the spec of the result is known, and the spec.
_specs: dict[tuple[Any, ...], tuple[bool, Any]] = {}
_MAX_SPECS = 4096


def infer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """Return (True, description of the result), or (False, None) if only the worker knows.

    Errors are left to the worker, too: the meta device refuses calls that real tensors allow.
    """
    if name in _NO_RESULT:
        return True, None
    if torch.get_default_dtype() is not WORKERS_DEFAULT:  # nothing is cached that holds temporarily only
        return False, None
    if name == RUN_PLAN:
        inference = args[0].inference
        found = None if inference is None else inference.of(args[1:], kwargs)
        return found is not None, found
    if not name.startswith("torch.") or name in _ASKED or (name in _CASTS and "memory_format" in kwargs):
        return False, None
    key = (name, torch.is_grad_enabled(), frozen((args, kwargs), _leaf_key))
    try:
        return remember(_specs, key, lambda: _infer(name, args, kwargs), _MAX_SPECS)
    except TypeError:  # an argument that can't be a key
        return _infer(name, args, kwargs)


def _leaf_key(value: object) -> Any:
    """Return the part of a pointer or a tensor that determines the spec of a result; None for other values."""
    if isinstance(value, ObjectPointer):
        return ("pointer", value.tensor_meta() if hasattr(value, "tensor_meta") else None)
    if isinstance(value, torch.Tensor):
        # A whole number may be a size, or the end of a slice.
        known = None if value.dim() or value.is_floating_point() else value.item()
        return ("number", value.dtype, value.shape, known)
    return None


def _infer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    try:
        meta_args, meta_kwargs = map_tensors(_on_meta, (args, kwargs))
        if name in _OFF_ON_META and not _is_common((meta_args, meta_kwargs)):
            return False, None
        # A call that the worker will refuse could take hours here.
        bound_sizes(name, meta_args, meta_kwargs)
        guard_call(name, meta_args, meta_kwargs, by_values=False)
        result = function_of(name)(*meta_args, **meta_kwargs)
    except Exception:
        return False, None
    leaves = list(iter_tensors(result))
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves) or _has_values(result):
        return False, None
    given = (*meta_args, *meta_kwargs.values())
    spec = map_tensors(lambda leaf: _describe(leaf, given), result)
    return (True, spec) if _is_sure(name, spec, (*args, *kwargs.values())) else (False, None)


def _is_sure(name: str, spec: object, given: tuple[Any, ...]) -> bool:
    """Return whether a spec holds for all strides, and whether or not the call succeeds."""
    if isinstance(spec, SameAs):
        return name in _BY_SPEC or (_is_in_place(name) and _stays(name, spec.meta, given[spec.position].tensor_meta()))
    if isinstance(spec, tuple | list):
        return all(_is_sure(name, item, given) for item in spec)
    return True


def _is_in_place(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.startswith("__i") if last.endswith("__") else last.endswith("_")


def _stays(name: str, after: TensorMeta, before: TensorMeta) -> bool:
    """Return whether an in-place call preserves the spec; otherwise a failed call would leave a wrong spec."""
    if (after.shape, after.dtype) != (before.shape, before.dtype):
        return False
    # No fact known only to the worker keeps a tensor from requiring a gradient.
    return after.requires_grad is before.requires_grad or (name == _REQUIRE and after.requires_grad)


def _on_meta(leaf: Any) -> Any:
    if not isinstance(leaf, ObjectPointer):
        return leaf.to("meta") if leaf.dim() else leaf
    if not hasattr(leaf, "tensor_meta"):
        raise NotImplementedError("only tensors have a spec")
    meta = leaf.tensor_meta()
    proxy = torch.empty(meta.shape, dtype=meta.dtype, device="meta")
    if not meta.requires_grad:
        return proxy
    proxy.requires_grad_()
    # A leaf of the meta device would refuse in-place calls that the remote tensor, a result, allows; only the
    # worker knows which it is, so a call that fails for this reason is left to the worker.
    return proxy


def _is_common(proxies: object) -> bool:
    """Return whether all tensors have one dtype, and a common one."""
    dtypes = {leaf.dtype for leaf in iter_tensors(proxies)}
    return len(dtypes) == 1 and dtypes.issubset(_COMMON)


def _has_values(result: object) -> bool:
    if isinstance(result, tuple | list):
        return any(_has_values(item) for item in result)
    return not (result is None or isinstance(result, torch.Tensor))


def _describe(leaf: torch.Tensor, given: tuple[Any, ...]) -> TensorMeta | SameAs:
    meta = TensorMeta(leaf.shape, leaf.dtype, leaf.requires_grad)
    same = next((position for position, arg in enumerate(given) if leaf is arg), None)
    return meta if same is None else SameAs(same, meta)
