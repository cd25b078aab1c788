"""Functions whose arguments get gradients although the tensors of the caller require none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.trees import map_tensors


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs on leaves of autograd; the caller's tensors get no gradients."""

    @functools.wraps(function)
    def following(*args: object, **kwargs: object) -> Any:
        args, kwargs = map_tensors(_leaf, (args, kwargs))
        return function(*args, **kwargs)

    if hasattr(function, "__self__"):  # whose attributes are part of the plan
        following.__dict__["__self__"] = function.__self__
    return following


def _leaf(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return tensor
    with torch._C.DisableTorchFunction():  # reads are not recorded: they would become checks
        follows = tensor.requires_grad or not tensor.is_floating_point()
    return tensor if follows else tensor.detach().requires_grad_()
