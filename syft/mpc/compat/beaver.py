"""Beaver's triples: shares of random a and b and of their product, which let parties multiply in one round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft.core.generator import local
from syft.exceptions import UnsupportedOperationError
from syft.mpc.compat.documented_api import WorkerOrId
from syft.mpc.dealer.deals import DealerContext
from syft.mpc.protocols.beaver_triples import deal_triple, triple_shape
from syft.mpc.runtime import client
from syft.mpc.values.sharing import split
from syft.tensors.additive_shared import AdditiveSharingTensor

__all__ = ["build_triple", "operation_of", "request_triple"]

_NAMES = {"mul": "mul", "__mul__": "mul", "multiply": "mul", "matmul": "matmul", "__matmul__": "matmul", "mm": "matmul"}


def operation_of(cmd: str | Callable[..., Any]) -> str:
    """Return the name of a product, given by its name or as a function of torch."""
    name = cmd if isinstance(cmd, str) else getattr(cmd, "__name__", "")
    if name not in _NAMES:
        raise UnsupportedOperationError(
            str(name)[:40] or "This", "shared tensors", "There are triples for mul and matmul."
        )
    return _NAMES[name]


def request_triple(
    crypto_provider: WorkerOrId,
    cmd: str | Callable[..., Any],
    field: int,
    a_size: tuple[int, ...],
    b_size: tuple[int, ...],
    locations: Sequence[WorkerOrId],
) -> tuple[AdditiveSharingTensor, AdditiveSharingTensor, AdditiveSharingTensor]:
    """Request shares of random a, b and of c = cmd(a, b) from the crypto provider.

    Args:
        crypto_provider: The worker that deals.
        cmd: "mul" or "matmul", or torch's function.
        field: Kept from earlier releases; shares are modulo 2**64.
        a_size: The shape of a.
        b_size: The shape of b.
        locations: The workers that get the shares.
    """
    anchor = split(torch.zeros((), dtype=torch.int64), tuple(locations), crypto_provider)
    sizes = {"a_size": tuple(a_size), "b_size": tuple(b_size)}
    a, b, c = client.run("triple", anchor, operation=operation_of(cmd), **sizes)
    return a, b, c


def build_triple(
    op: str | Callable[..., Any],
    shape: tuple[Any, Any],
    n_workers: int,
    n_instances: int = 1,
    torch_dtype: torch.dtype = torch.int64,
    field: int = 2**64,
) -> list[list[torch.Tensor]]:
    """Make triples here: for each worker its shares of a, b and c, with the instances in a first dimension.

    Args:
        op: "mul" or "matmul", or torch's function.
        shape: The shapes of a and b, of the same number of dimensions if there are several instances.
        n_workers: The number of workers.
        n_instances: The number of triples.
        torch_dtype: Kept from earlier releases; shares are int64.
        field: Kept from earlier releases; shares are modulo 2**64.
    """
    operation = operation_of(op)
    a, b = ((n_instances, *tuple(size)) for size in shape)
    triple_shape(operation, a, b)
    dealt = deal_triple(DealerContext([local()] * n_workers), operation, a, b)
    return [[item.shares[worker].clone() for item in dealt] for worker in range(n_workers)]
