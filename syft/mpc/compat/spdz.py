"""Products of shared tensors with Beaver's triples (no MACs: parties are semi-honest)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.mpc.compat.beaver import operation_of
from syft.mpc.compat.documented_api import SharedTensor, WorkerOrId, link_of
from syft.mpc.runtime import client
from syft.tensors.additive_shared import AdditiveSharingTensor

__all__ = ["spdz_mul"]


def spdz_mul(
    cmd: str | Callable[..., Any],
    x_sh: SharedTensor,
    y_sh: SharedTensor,
    crypto_provider: WorkerOrId | None = None,
    field: int | None = None,
) -> Any:
    """Multiply two shared tensors, element by element or as matrices.

    1. The crypto provider deals shares of random a and b and of their product c.
    2. The parties open delta = x - a and epsilon = y - b, in one round.
    3. Each has a share of the product: delta b + a epsilon + c, and one of them adds delta epsilon.

    Args:
        cmd: "mul" or "matmul", or torch's function.
        x_sh: A shared tensor.
        y_sh: Another one, at the same parties.
        crypto_provider: The worker that deals; by default that of the tensors.
        field: Kept from earlier releases; shares are modulo 2**64.
    """
    x, y = link_of(x_sh), link_of(y_sh)
    if crypto_provider is not None:
        x, y = (link.like(link.child, crypto_provider) for link in (x, y))
    product: AdditiveSharingTensor = client.run("product", x, y, operation=operation_of(cmd))
    return product.wrap() if isinstance(x_sh, torch.Tensor) or isinstance(y_sh, torch.Tensor) else product
