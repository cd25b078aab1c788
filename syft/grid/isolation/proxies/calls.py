"""Calls on proxies: the result of a call on private data, predicted without any value.

The session process answers its user from here, while the vault runs the call itself and sends nothing. A call runs
once on torch's fake tensors for each combination of name and specs; its effects are cached.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import Ref
from syft.core.trees import SCALARS, iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError
from syft.grid.isolation.proxies.autograd import HANDLERS as _AUTOGRAD
from syft.grid.isolation.proxies.autograd import Handler, data_of
from syft.grid.isolation.proxies.effects import Effects, ProxyCall, ProxyResult, effects_of, written_values
from syft.grid.isolation.proxies.objects import ObjectProxy, Proxy, spec_of
from syft.grid.isolation.proxies.plans import HANDLERS as _PLANS
from syft.grid.isolation.proxies.refusals import hidden, not_plain, opaque, unknown
from syft.grid.isolation.proxies.retries import FIXED_SHAPE, try_on_ones, with_own_values
from syft.hook.allowed_functions import function_of
from syft.messaging.message import Operation
from syft.workers.access.fake_execution import Prediction, work_out
from syft.workers.access.tensor_spec import TensorSpec
from syft.workers.execution.batch import SIDE_EFFECT_FREE
from syft.workers.execution.execute import ATTRIBUTES
from syft.workers.execution.results import METADATA_CALLS
from syft.workers.transport.gradient_cache import WRITING

# Maximum number of calls with different specs in the cache.
_MAX_REMEMBERED = 4096
# Properties of memory, which fake tensors do not have.
_HIDDEN = frozenset(
    f"torch.Tensor.{name}" for name in ("_version.__get__", "storage_offset", "output_nr.__get__", "is_set_to")
)
# Calls whose result is not a tensor and depends on specs alone.
_METADATA_CALLS = METADATA_CALLS - _HIDDEN | {
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.")
    for name in ("type", "get_device", "is_distributed", "is_inference")
}
# Calls whose effects do not depend on the values of floats, such as the step size of an optimizer, which may differ in
# each step.
_ARITHMETIC = SIDE_EFFECT_FREE | {
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.")
    for written in WRITING
    for name in (written, written.removesuffix("_"))
}
# The effects of calls, by their names and specs.
_CACHE: dict[tuple[Any, ...], Effects] = {}
_METADATA_TYPES = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)


def call_on_proxies(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProxyResult:
    """Predict the result of a call on private data, and change the proxies as the call changes their tensors.

    Raises:
        GetNotPermittedError: the result depends on values.
        Exception: the error of the user, as torch raises it, if it follows from specs alone.
    """
    name = operation.cmd_name
    call = ProxyCall(operation, args, kwargs, name in _ARITHMETIC)
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(call)
    if not name.startswith("torch."):
        raise opaque(name)
    effects = _effects(call, name, args, kwargs)
    prediction = effects.prediction
    if not prediction.is_known:
        prediction.raise_error()
        effects = _effects_from_own_values(call)
    if prediction.value is not None:
        return call.done(_metadata(name, prediction), has_effect=False)
    if effects.written or effects.connected:
        moves = call.moves(effects)
        if moves:
            return ProxyResult(moves=moves)
    return call.apply(effects)


def _effects(call: ProxyCall, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effects:
    """Return the effects of a call, and collect its tensors by position."""
    grad_enabled = call.operation.grad_enabled
    key = (name, grad_enabled, torch.get_default_dtype(), _frozen(args, call), _frozen(kwargs, call))
    effects = _CACHE.get(key)
    if effects is None:
        if len(_CACHE) >= _MAX_REMEMBERED:
            _CACHE.clear()
        effects = _CACHE[key] = _worked_out(name, args, kwargs, grad_enabled)
    return effects


def _effects_from_own_values(call: ProxyCall) -> Effects:
    """Return the effects of a call that depend on the user's own values only."""
    name = call.operation.cmd_name
    other = with_own_values(name, call.args, call.kwargs)
    if other is not None:
        call.given = []
        effects = _effects(call, *other)
        effects.prediction.raise_error()
        if effects.prediction.is_known:
            return effects
    raise unknown(name)


def _metadata(name: str, prediction: Prediction) -> Any:
    value = prediction.value
    if name in _HIDDEN:
        raise hidden(name)
    if not (name in _METADATA_CALLS or isinstance(value, _METADATA_TYPES) or name.endswith(".__get__")):
        raise unknown(name)
    return value


def _worked_out(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Effects:
    spec_args, spec_kwargs = map_tensors(_spec, (args, kwargs))
    prediction = work_out(name, spec_args, spec_kwargs, grad_enabled)
    if not prediction.is_known and prediction.error is None and name in FIXED_SHAPE:
        prediction = try_on_ones(name, spec_args, spec_kwargs, grad_enabled)
    return effects_of(prediction, _positions_written(name, args, kwargs))


def _positions_written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    positions = iter(range(1 << 30))
    args, kwargs = map_tensors(lambda leaf: Ref(next(positions)), (args, kwargs))
    return [ref.id for ref in iter_tensors(written_values(name, args, kwargs))]


def _spec(leaf: Proxy | torch.Tensor) -> TensorSpec | None:
    return leaf.spec if isinstance(leaf, Proxy) else spec_of(leaf)


def _frozen(value: Any, call: ProxyCall) -> Any:
    """Return a hashable key that differs where two calls may differ, and collect the tensors."""
    kind = type(value)
    if kind is Proxy:
        if not value.is_plain:
            raise not_plain(call.operation.cmd_name)
        call.given.append(value)
        return value.spec
    if kind in SCALARS:
        return kind if kind is float and call.ignores_floats else (kind, value)
    if kind is tuple or kind is list:
        return (kind, *[_frozen(item, call) for item in value])
    if kind is dict:
        return (kind, *[(key, _frozen(item, call)) for key, item in value.items()])
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        if spec is None:
            raise not_plain(call.operation.cmd_name)
        call.given.append(value)
        return spec
    if kind is slice:
        return (kind, *[_frozen(part, call) for part in (value.start, value.stop, value.step)])
    if isinstance(value, ObjectProxy):
        raise CommandNotAllowedError(call.operation.cmd_name, f"it does not take a {value.pointer_kind}.")
    try:
        hash(value)
    except TypeError:
        raise opaque(call.operation.cmd_name) from None
    return (kind, value)


def attribute(proxy: Proxy, name: str) -> Proxy | None:
    """Return the proxy of an attribute of a tensor: `grad`, `data`, `T`, `H`, `mT`, `mH`, `real` or `imag`."""
    found: Proxy | None = proxy
    for part in name.split("."):
        if part not in ATTRIBUTES or not isinstance(found, Proxy):
            kind = "tensor without a gradient" if found is None else getattr(found, "pointer_kind", "object")
            raise CommandNotAllowedError(f"The attribute {part!r} of a {kind}")
        if part == "grad":
            found = found.grad
        elif part == "data":
            found = data_of(found)
        else:
            result = call_on_proxies(Operation(f"torch.Tensor.{part}.__get__", None, (found,)), (found,), {})
            found = result.new[0] if result.new else found  # type: ignore[assignment]
    return found


def _label(call: ProxyCall) -> ProxyResult:
    function_of(call.operation.cmd_name)(*call.args, **call.kwargs)
    return call.done(has_effect=False)


HANDLERS: dict[str, Handler] = {**_AUTOGRAD, **_PLANS, "syft.tag": _label, "syft.describe": _label}
