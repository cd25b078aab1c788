"""Fallbacks for calls that fail on torch's fake tensors although their result depends on no private value.

Either the result depends on the user's own values (`with_own_values`), or its shape is fixed and torch only checks
values (`try_on_ones`).
"""

from __future__ import annotations

from typing import Any

import torch

from syft.core.trees import map_tensors
from syft.grid.isolation.proxies.objects import size_in_bytes, specs_in
from syft.hook.allowed_functions import function_of
from syft.messaging.plan.interpreter import quiet
from syft.workers.access.fake_execution import Prediction
from syft.workers.access.tensor_spec import FakeInputs, TensorSpec, shape_of_result

# Calls whose result shapes follow from the shapes of their arguments, whatever the values are.
FIXED_SHAPE = frozenset(
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.", "functional.", "nn.functional.", "nn.init.")
    for name in ("cov", "corrcoef", "istft", "normal_", "combinations", "gaussian_nll_loss", "__setitem__")
)
# Maximum size of the arguments that `try_on_ones` allocates.
_MAX_BYTES = 256 * 2**20
_INDEXING = frozenset({"torch.Tensor.__getitem__", "torch.Tensor.__setitem__"})


class _Ones(FakeInputs):
    """Real tensors full of ones in place of the arguments."""

    def _fake(self, spec: TensorSpec) -> torch.Tensor:
        made = super()._fake(spec)
        if not any(stride == 0 and size > 1 for size, stride in zip(spec.shape, spec.strides, strict=True)):
            with torch.no_grad():
                made.fill_(1)
        self._before[-1] = (spec, made._version)
        return made


def try_on_ones(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    """Run a call on ones and return the prediction, unknown if the call fails or its arguments are too large."""
    if sum(size_in_bytes(spec) for spec in specs_in((args, kwargs))) > _MAX_BYTES:
        return Prediction(False)
    fakes = _Ones()
    try:
        with quiet(), torch.random.fork_rng(devices=[]), torch.set_grad_enabled(grad_enabled):
            outline = fakes.outline(function_of(name)(*fakes.of(args), **fakes.of(kwargs)))
            return Prediction(True, shape_of_result(outline), outline, fakes.changed())
    except Exception:
        return Prediction(False)


def with_own_values(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """Return a call with the same result in which numbers replace the user's own tensors that determine its shape.

    Returns None if private values determine the shape, and for other calls.
    """
    last = name.rpartition(".")[2]
    if name in _INDEXING:
        return name, (args[0], _plain_index(args[1]), *args[2:]), kwargs
    if last == "masked_select":
        source, mask = (*args, *kwargs.values())[:2]
        if isinstance(mask, torch.Tensor) and tuple(mask.shape) == tuple(source.shape):
            return "torch.Tensor.__getitem__", (source, _plain_index(mask)), {}
    if last == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else kwargs.get("repeats")
        if isinstance(repeats, torch.Tensor) and repeats.numel() > 1:
            return name, args, {**kwargs, "output_size": int(repeats.sum())}
    if last in ("narrow", "tensor_split"):
        return name, *map_tensors(_number, (args, kwargs))
    return None


def _number(leaf: object) -> Any:
    return leaf.tolist() if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.int64 and leaf.dim() < 2 else leaf


def _plain_index(index: object) -> Any:
    """Return an index with the positions of true entries in place of masks, and numbers in place of bounds."""
    items = index if isinstance(index, tuple) else (index,)
    found: list[Any] = []
    for item in items:
        if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8) and item.dim():
            found += item.nonzero(as_tuple=True)
        else:
            found.append(map_tensors(_number, item) if isinstance(item, slice) else item)
    return tuple(found)
