"""The work of the suite `mpc`, as both sides do it. Needs torch alone: CrypTen's interpreter reads it too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch.nn import functional as F

SCALE = 2**16  # both sides keep 16 bits behind the point


@dataclasses.dataclass(frozen=True)
class Work:
    """One line of the table.

    Attributes:
        name: what is done, and how large it is.
        shapes: of the secrets.
        function: of the secrets, or of plain tensors.
        runs: how often it is timed.
        crypten: CrypTen's median in ms elsewhere: two cores with AVX-512, two processes, one of them dealing.
        spu: the median in ms there of SPU 0.9.5, its in-process simulator; None where nobody measured.
        rounds: CrypTen's rounds, where they are to be beaten.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    function: Callable[..., torch.Tensor]
    runs: int
    crypten: float
    spu: float | None = None
    rounds: int | None = None


WORK = (
    Work("mul 1000x100", ((1000, 100), (1000, 100)), lambda x, y: x * y, 9, 10, 14),
    Work("matmul 256", ((256, 256), (256, 256)), lambda x, y: x @ y, 9, 16, 55),
    Work("matmul 1024", ((1024, 1024), (1024, 1024)), lambda x, y: x @ y, 3, 574),
    Work("gt 100x100", ((100, 100), (100, 100)), lambda x, y: x > y, 9, 28, 16, rounds=8),
    Work("relu 100x100", ((100, 100),), torch.relu, 9, 29, 19, rounds=9),
    Work("relu 1000x1000", ((1000, 1000),), torch.relu, 3, 1660, 1200, rounds=9),
    Work("argmax 100x10", ((100, 10),), lambda x: x.argmax(dim=1), 9, 130, 24, rounds=57),
    Work("maxpool 1x8x28x28", ((1, 8, 28, 28),), lambda x: F.max_pool2d(x, 2), 9, 130, 31),
    Work("conv 8x3x32x32", ((8, 3, 32, 32), (16, 3, 3, 3)), lambda x, w: F.conv2d(x, w), 9, 8.2),
)


def inputs(work: Work) -> list[torch.Tensor]:
    """Return the plain secrets: the same on both sides, and exact with 16 bits behind the point."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).mul(SCALE).round().div(SCALE) for shape in work.shapes]
