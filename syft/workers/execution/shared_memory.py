"""Memory addresses of the values of objects: two objects that share memory change together."""

from __future__ import annotations

import torch

from syft.core.tensor import AbstractTensor
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.plan import Plan


def memories(obj: object) -> set[int]:
    """Return the memory addresses of a tensor and of its gradient, below any links; of a plan, those of its state."""
    if isinstance(obj, Plan):
        return set().union(*(memories(tensor) for tensor in obj.state.tensors()))
    if isinstance(obj, SyftTensor | AbstractTensor):
        below = obj.__dict__.get("child")
        return memories(below) if isinstance(below, torch.Tensor | AbstractTensor) else set()
    if not isinstance(obj, torch.Tensor):
        return set()
    found = {part.untyped_storage().data_ptr() for part in _parts(obj)}
    if (obj.is_leaf or obj.retains_grad) and obj.grad is not None:
        found |= memories(obj.grad)
    return found - {0}


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that a tensor is made of."""
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._values(), tensor._indices()]
    return [tensor.values()]
