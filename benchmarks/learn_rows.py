"""The work of the suite `learn`, as both sides do it. Needs torch alone: CrypTen's interpreter reads it too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.mpc_rows import SCALE, Work

CLASSES = 10
RATE = 0.125


def mlp() -> nn.Sequential:
    """Make the multi-layer perceptron 784-128-64-10."""
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def cnn() -> nn.Sequential:
    """Make the small network for images of 28x28."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, CLASSES),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Lesson(Work):
    """One line of the table.

    Attributes:
        network: makes the model, if there is one: it is private, as is what it is called with.
        trains: whether it is a step of SGD on the cross entropy: forward, loss, backward, update.
        interval: where the inputs are drawn from, uniformly; normal ones by default.
        error: how far the result may be from float64, absolutely or of its size.
        tfe: TF-Encrypted's median in ms elsewhere (ABY3, in process).
    """

    network: Callable[[], nn.Sequential] | None = None
    trains: bool = False
    interval: tuple[float, float] | None = None
    error: float = 1e-2
    tfe: float | None = None


def forward(name: str, network: Callable[[], nn.Sequential], shape: tuple[int, ...], **figures: float) -> Lesson:
    """Return the row of a prediction."""
    return Lesson(name, (shape,), lambda model, x: model(x), network=network, **figures)  # type: ignore[arg-type]


def function(
    name: str, call: Callable[..., torch.Tensor], interval: tuple[float, float], crypten: float, **figures: float
) -> Lesson:
    """Return the row of a function of 100x10 numbers."""
    figures = {"error": 1e-3, **figures}
    return Lesson(name, ((100, 10),), call, 9, crypten, interval=interval, **figures)  # type: ignore[arg-type]


def step(model: nn.Sequential, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Take one step of SGD, and return the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


WORK = (
    forward("mlp batch 1", mlp, (1, 784), runs=9, crypten=136, spu=13, tfe=4, rounds=21),
    forward("mlp batch 32", mlp, (32, 784), runs=9, crypten=78, spu=257, tfe=42, rounds=21),
    forward("mlp batch 128", mlp, (128, 784), runs=5, crypten=127, tfe=148, rounds=21),
    forward("cnn batch 1", cnn, (1, 1, 28, 28), runs=5, crypten=420, rounds=123),
    forward("cnn batch 32", cnn, (32, 1, 28, 28), runs=3, crypten=3590, rounds=123),
    Lesson("mlp sgd step 32", ((32, 784), (32, CLASSES)), step, 5, 750, rounds=223, network=mlp, trains=True),
    function("exp U(-3,3)", torch.exp, (-3, 3), 14, spu=5),
    function("log U(.1,10)", torch.log, (0.1, 10), 73, spu=14, error=5e-5),
    function("sqrt U(.1,10)", torch.sqrt, (0.1, 10), 40, spu=12, error=5e-5),
    function("sigmoid U(-5,5)", torch.sigmoid, (-5, 5), 53, spu=19),
    function("tanh U(-5,5)", torch.tanh, (-5, 5), 53),
    function("softmax U(-3,3)", lambda x: torch.softmax(x, 1), (-3, 3), 201, spu=26),
    function("reciprocal U(.1,10)", torch.reciprocal, (0.1, 10), 70),
)


def inputs(work: Work) -> list[torch.Tensor]:
    """Return the plain secrets: the same on both sides, and exact with 16 bits behind the point."""
    assert isinstance(work, Lesson)
    generator = torch.Generator().manual_seed(0)
    if work.interval is None:
        made = [torch.randn(shape, generator=generator) for shape in work.shapes]
    else:
        low, high = work.interval
        made = [torch.rand(shape, generator=generator) * (high - low) + low for shape in work.shapes]
    if work.trains:
        made[1] = F.one_hot(made[1].argmax(1), CLASSES).float()
    return [tensor.mul(SCALE).round().div(SCALE) for tensor in made]


def model_of(work: Lesson) -> nn.Sequential | None:
    """Return the plain model of a row, the same each time; None if it has none."""
    if work.network is None:
        return None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return work.network()
