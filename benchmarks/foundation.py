"""The hook, pointers, the wire and the import: what each costs against doing without."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import torch
from torch import nn

import syft as sy
from benchmarks.measure import Row, compare, pretty, ratio, seconds
from syft.core.references import Ref
from syft.messaging.message import Operation


def mlp() -> nn.Module:
    """784-128-64-10."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def stepper(model: nn.Module, data: torch.Tensor, target: torch.Tensor):  # type: ignore[no-untyped-def]
    """Return a function that does one training step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()

    return step


def hooked_against_unhooked() -> Iterator[Row]:
    """Plain torch must not notice the hook."""
    x, y = torch.randn(10), torch.randn(10)
    step = stepper(mlp(), torch.randn(64, 784), torch.randint(0, 10, (64,)))
    cases = [
        ("plain torch.add, 10 elements", lambda: torch.add(x, y), 3000),
        ("plain x.view", lambda: x.view(2, 5), 3000),
        ("plain MLP training step", step, 10),
    ]
    for name, function, count in cases:
        yield ratio(
            f"{name}: hooked / unhooked",
            1.02,
            function,
            function,
            count,
            blocks=121,
            before_ours=lambda: sy.TorchHook(torch),
            before_theirs=lambda: sy.TorchHook(torch).unhook(),
        )


def pointers() -> Iterator[Row]:
    """A call on a pointer: command, run, register, later delete."""
    hook = sy.TorchHook(torch)
    bob = sy.VirtualWorker(hook, id="bench-bob")
    x = torch.randn(10)
    p = x.send(bob)
    yield ratio("pointer add on a VirtualWorker / plain add", 15, lambda: p + p, lambda: x + x, 1000)
    model, data, target = mlp(), torch.randn(64, 784), torch.randint(0, 10, (64,))
    remote = stepper(model.copy().send(bob), data.send(bob), target.send(bob))
    yield ratio("federated MLP step on a VirtualWorker / plain", 2, remote, stepper(model, data, target), 5)


def wire() -> Iterator[Row]:
    """Bytes: one copy each way, and small commands."""
    tensor = torch.randn(2_500_000)
    written = sy.serialize(tensor)
    yield ratio("serialize 10 MB / one memcpy", 1.3, lambda: sy.serialize(tensor), lambda: tensor.clone(), 5)
    yield ratio("deserialize 10 MB / one memcpy", 1.3, lambda: sy.deserialize(written), lambda: tensor.clone(), 5)
    first, second, result = (sy.ID_PROVIDER.pop() for _ in range(3))
    command = Operation("torch.Tensor.add", None, (Ref(first), Ref(second)), {}, (result,))
    both_ways = statistics.median(seconds(lambda: sy.deserialize(sy.serialize(command)), 500) for _ in range(41))
    yield Row("a small command, both ways", both_ways * 1e6, 25, "µs", f"{len(sy.serialize(command))} bytes")


def imports() -> Iterator[Row]:
    """`import syft` beyond torch, with compiled files as an installed package has them."""
    code = "import time, torch; t = time.perf_counter(); import syft; print(time.perf_counter() - t)"
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        times = [
            float(
                subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
            )
            for _ in range(6)
        ][1:]  # the first one compiles
    yield Row(
        "import syft beyond torch", statistics.median(times), 0.3, "s", f"5 processes, {pretty(min(times))} at best"
    )


def rows() -> Iterator[Row]:
    """Every row."""
    yield from hooked_against_unhooked()
    yield from pointers()
    yield from wire()
    yield from imports()


__all__ = ["compare", "rows"]
