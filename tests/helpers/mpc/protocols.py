"""Run a protocol on shares of given numbers, all parties in one process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

import syft as sy
from syft.core.generator import local
from syft.mpc.runtime import lockstep

EDGES = torch.tensor([0, 1, -1, 2, -2, 2**31, -(2**31), 2**61, -(2**61), 2**62 - 1, -(2**62) + 2**24])


def split(secret: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Split numbers into uniform shares."""
    shares = [local().words(*secret.shape) for _ in range(count - 1)]
    return [*shares, secret - sum(shares)]


def total(shares: list[Any]) -> Any:
    """Bring shares together: tensors, or tuples of them."""
    if isinstance(shares[0], tuple):
        return tuple(total(list(parts)) for parts in zip(*shares, strict=True))
    return sum(shares[1:], shares[0])


def run_on_shares(protocol: Any, count: int, shares: list[list[Any]], **options: Any) -> list[Any]:
    """Run a protocol; `shares` has one list a party."""
    parties = lockstep.parties(count)
    coroutines = [protocol(party, *mine, **options) for party, mine in zip(parties, shares, strict=True)]
    return lockstep.drive(coroutines, count)


def run(protocol: Any, count: int, *args: Any, public: tuple[int, ...] = (), **options: Any) -> Any:
    """Split every tensor argument (but those at public positions), run, and bring the results together."""
    split_args = [
        split(arg, count) if isinstance(arg, torch.Tensor) and i not in public else [arg] * count
        for i, arg in enumerate(args)
    ]
    shares = [[column[party] for column in split_args] for party in range(count)]
    return total(run_on_shares(protocol, count, shares, **options))


def cast_of(name: str, count: int) -> Iterator[tuple[list[Any], Any]]:
    """Make parties and a crypto provider for a whole module of tests; they must be empty at the end."""
    hook = sy.TorchHook(torch)
    workers = [sy.VirtualWorker(hook, id=f"{name}-{i}") for i in range(count + 1)]
    yield workers[:count], workers[count]
    gc.collect()  # errors that tests have caught hold on to what was in use
    for worker in workers:
        assert not worker._objects
        worker.stop()
        for other in (*workers, hook.local_worker):
            other._known_workers.pop(worker.id, None)


def numbers(*shape: int, bits: int = 62) -> torch.Tensor:
    """Draw whole numbers of all sizes up to a number of bits, of either sign."""
    words = local().words(*shape)
    sizes = local().words(*shape) % bits
    return words >> (63 - sizes)


def decoded(result: Any) -> torch.Tensor:
    """Fetch a result if it is shared, and decode it."""
    return result.get().float_precision()


def gradients(call: Any, *tensors: Any) -> list[Any]:
    """Return the gradients of a function's result with respect to its arguments."""
    leaves = [tensor.requires_grad_() for tensor in tensors]
    call(*leaves).backward()
    return [leaf.grad for leaf in leaves]
