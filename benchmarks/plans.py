"""Plans: what a recorded function costs against the function itself, here and on a worker."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
from torch import nn

import syft as sy
from benchmarks.foundation import mlp
from benchmarks.measure import Row, ratio

_number = iter(range(10**6))


def worker() -> sy.VirtualWorker:
    """Return a fresh worker of this process."""
    return sy.VirtualWorker(sy.TorchHook(torch), id=f"plan-bench-{next(_number)}")


def calls() -> Iterator[Row]:
    """A plan called here and through a pointer, against the plain model."""
    model, data = mlp(), torch.randn(64, 784)
    plan = sy.Plan(forward_func=model).build(data)
    bob = worker()
    remote, pointer = plan.send(bob), data.send(bob)
    yield ratio("MLP 784-128-64-10, batch 64: plan / plain", 1.05, lambda: plan(data), lambda: model(data), 10)
    yield ratio("MLP, batch 64: plan pointer / plain", 1.3, lambda: remote(pointer), lambda: model(data), 10)


def training() -> Iterator[Row]:
    """A training plan on a worker against the plain step."""
    model, data, target = mlp(), torch.randn(64, 784), torch.randint(0, 10, (64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    bob = worker()
    remote = sy.func2plan()(step).build(data, target).send(bob)
    pointers = data.send(bob), target.send(bob)
    yield ratio(
        "MLP training step: plan pointer / plain", 1.3, lambda: remote(*pointers), lambda: step(data, target), 5
    )


def many_small_ops() -> Iterator[Row]:
    """One message instead of a hundred."""

    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(25):
            x = x.add(y).mul(0.99).relu().sub(y)
        return x

    bob = worker()
    data = torch.randn(10), torch.randn(10)
    remote = sy.func2plan()(chain).build(*data).send(bob)
    pointers = [tensor.send(bob) for tensor in data]
    yield ratio("100 small ops: one plan / one by one", 0.2, lambda: remote(*pointers), lambda: chain(*pointers), 3)


def building() -> Iterator[Row]:
    """Time to build the plan of the MLP."""
    model, data = mlp(), torch.randn(64, 784)
    times = []
    for _ in range(50):
        plan = sy.Plan(forward_func=model)
        start = time.perf_counter()
        plan.build(data)
        times.append((time.perf_counter() - start) * 1000)
    yield Row("build the plan of the MLP", statistics.median(times), 5, "ms", "median of 50")


def rows() -> Iterator[Row]:
    """All rows of this suite."""
    for part in (calls, training, many_small_ops, building):
        yield from part()
