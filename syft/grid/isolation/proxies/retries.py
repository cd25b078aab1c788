"""Second tries for calls that torch's fake tensors can't tell the result of, although no private value decides it.

Either the values that decide are the user's own (`with_own_values`), or the shape is always the same and torch only
checks values on the way (`try_on_ones`).
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch

from syft.core.trees import map_tensors
from syft.grid.isolation.proxies.objects import size_in_bytes
from syft.hook.functions import function_of
from syft.messaging.plan.dry_run import quiet
from syft.workers.access.fake_execution import Prediction
from syft.workers.access.tensor_spec import FakeInputs, TensorSpec, shape_of_result

# Calls whose results have shapes that follow from the shapes of their arguments, whatever the values are.
STEADY = frozenset(
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.", "functional.", "nn.functional.", "nn.init.")
    for name in ("cov", "corrcoef", "istft", "normal_", "combinations", "gaussian_nll_loss", "__setitem__")
)
# Tries take memory: that of the arguments, once more.
_MOST_BYTES = 256 * 2**20
_INDEXING = frozenset({"torch.Tensor.__getitem__", "torch.Tensor.__setitem__"})


class _Ones(FakeInputs):
    """Real tensors full of ones in place of the given ones."""

    def _fake(self, form: TensorSpec) -> torch.Tensor:
        made = super()._fake(form)
        if not any(stride == 0 and size > 1 for size, stride in zip(form.shape, form.strides, strict=True)):
            with torch.no_grad():
                made.fill_(1)
        self._before[-1] = (form, made._version)
        return made


def try_on_ones(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    """Run a call on ones, and return what was found; an outcome that is not known if that fails or is too large.

    Args:
        name: the wire name of the call.
        args: its arguments, with forms in place of tensors.
        kwargs: its keyword arguments, likewise.
        grad_enabled: whether autograd records it.
    """
    if sum(size_in_bytes(form) for form in _forms((args, kwargs))) > _MOST_BYTES:
        return Prediction(False)
    fakes = _Ones()
    try:
        with quiet(), torch.random.fork_rng(devices=[]), torch.set_grad_enabled(grad_enabled):
            outline = fakes.outline(function_of(name)(*fakes.of(args), **fakes.of(kwargs)))
            return Prediction(True, shape_of_result(outline), outline, fakes.changed())
    except Exception:
        return Prediction(False)


def _forms(value: Any) -> list[TensorSpec]:
    if isinstance(value, TensorSpec):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [form for item in value for form in _forms(item)] if isinstance(value, list | tuple) else []


def with_own_values(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """Return a call with the same result in which the user's own tensors that decide its shape are numbers.

    Args:
        name: the wire name of the call.
        args: its arguments, with proxies in place of private tensors.
        kwargs: its keyword arguments, likewise.

    Returns:
        name, arguments and keyword arguments; None if private values decide, or nothing is known of such a call.
    """
    last = name.rpartition(".")[2]
    if name in _INDEXING:
        return name, (args[0], _plain_index(args[1]), *args[2:]), kwargs
    if last == "masked_select":
        source, mask = (*args, *kwargs.values())[:2]
        if _is_own(mask) and tuple(mask.shape) == tuple(source.shape):
            return "torch.Tensor.__getitem__", (source, _plain_index(mask)), {}
    if last == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else kwargs.get("repeats")
        if _is_own(repeats) and repeats.numel() > 1:
            return name, args, {**kwargs, "output_size": int(repeats.sum())}
    if last in ("narrow", "tensor_split"):
        return name, *map_tensors(_number, (args, kwargs))
    return None


def _is_own(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _number(leaf: Any) -> Any:
    return leaf.tolist() if _is_own(leaf) and leaf.dtype is torch.int64 and leaf.dim() < 2 else leaf


def _plain_index(index: Any) -> Any:
    """Return an index with the positions of true entries in place of masks, and numbers in place of bounds."""
    items = index if isinstance(index, tuple) else (index,)
    found: list[Any] = []
    for item in items:
        if _is_own(item) and item.dtype in (torch.bool, torch.uint8) and item.dim():
            found += item.nonzero(as_tuple=True)
        else:
            found.append(map_tensors(_number, item) if isinstance(item, slice) else item)
    return tuple(found)
