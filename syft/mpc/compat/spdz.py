"""Products of shared tensors with Beaver's triples, in one call or in steps (no MACs: parties are semi-honest)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.mpc.compat.beaver import operation_of
from syft.mpc.compat.documented_api import SharedTensor, WorkerOrId, link_of
from syft.mpc.protocols.beaver_triples import PRODUCTS
from syft.mpc.runtime import client
from syft.tensors.additive_shared import AdditiveSharingTensor

__all__ = ["spdz_compute", "spdz_mask", "spdz_mul"]


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


def spdz_mask(
    x: SharedTensor, y: SharedTensor, op: str | Callable[..., Any], a: SharedTensor, b: SharedTensor
) -> tuple[Any, Any]:
    """Return shares of delta = x - a and epsilon = y - b, which the parties open.

    Args:
        x: A shared tensor, or one party's share of it.
        y: Another one.
        op: "mul" or "matmul", or torch's function.
        a: The mask of x from a triple, of the same kind.
        b: The mask of y.
    """
    operation_of(op)
    return _minus(x, a), _minus(y, b)


def _minus(x: SharedTensor, y: Any) -> Any:
    if isinstance(x, AdditiveSharingTensor):
        return client.run("add", x, link_of(y), alpha=-1)
    return x - y


def spdz_compute(
    j: int,
    delta: torch.Tensor,
    epsilon: torch.Tensor,
    op: str | Callable[..., Any],
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
) -> torch.Tensor:
    """Return one party's share of a product: delta b + a epsilon + c, and party 0 adds delta epsilon.

    Args:
        j: The index of this party, from 0.
        delta: x - a, opened.
        epsilon: y - b, opened.
        op: "mul" or "matmul", or torch's function.
        a: This party's share of a.
        b: Its share of b.
        c: Its share of the product of a and b.
    """
    product = PRODUCTS[operation_of(op)]
    # Party 0 puts delta + a, its share of x, in place of a.
    return product(delta, b) + product(a + delta if j == 0 else a, epsilon) + c
