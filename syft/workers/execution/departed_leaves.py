"""Leaves of autograd graphs that have left their worker: a backward pass that reaches one is refused.

A graph keeps the tensor that it was computed from. Its gradient would be added to that tensor, which nobody can read.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.core.id_provider import ObjectId, short_id
from syft.exceptions import UnsupportedOperationError
from syft.hook.syft_tensor import SyftTensor

_HOOK = "_syft_departed"


def mark_departed(obj: Any, obj_id: ObjectId, cause: str) -> None:
    """Refuse gradients of a tensor that has left its worker."""
    if not isinstance(obj, torch.Tensor) or isinstance(obj, SyftTensor) or not (obj.requires_grad and obj.is_leaf):
        return

    def refuse(gradient: torch.Tensor) -> None:
        raise UnsupportedOperationError(
            "backward()",
            f"results of tensor {short_id(obj_id)}, which has left this worker and would get no gradient ({cause})",
            "Call backward() before get() and move(), or fetch a copy: x.copy().get(), model.copy().get().",
        )

    mark_returned(obj)
    obj.__dict__[_HOOK] = obj.register_hook(refuse)  # type: ignore[no-untyped-call]


def mark_returned(obj: Any) -> None:
    """Admit gradients again: the tensor could not leave."""
    handle = obj.__dict__.pop(_HOOK, None) if isinstance(obj, torch.Tensor) else None
    if handle is not None:
        handle.remove()
