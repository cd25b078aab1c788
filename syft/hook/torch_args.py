"""The torch side of hook_args: which types the walk knows from the start."""

from __future__ import annotations

from typing import Any

import torch

from syft.hook.args import get_child, one, register_backward_func, register_forward_func, register_type_rule
from syft.hook.syft_tensor import SyftTensor

type_rule: dict[Any, Any] = {torch.Tensor: one, torch.nn.Parameter: one, SyftTensor: one}
forward_func: dict[Any, Any] = {SyftTensor: get_child}
backward_func: dict[Any, Any] = {
    torch.Tensor: lambda result, **kwargs: result.wrap(**kwargs),
    SyftTensor: lambda result, **kwargs: result.wrap(**kwargs),
    torch.nn.Parameter: lambda result, **kwargs: torch.nn.Parameter(data=result),
}
register_type_rule(type_rule)
register_forward_func(forward_func)
register_backward_func(backward_func)
