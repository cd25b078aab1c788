"""Millions of numbers of all sizes: not one truncation off by more than a unit, not one comparison wrong."""

from __future__ import annotations

import pytest
import torch

from syft.mpc.protocols import arithmetic, comparison, truncation
from tests.helpers.mpc.protocols import EDGES, numbers, run

BLOCK = 500_000
BLOCKS = 20


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("divisor", [2**16, 1000])
def test_ten_million_truncations(count: int, divisor: int) -> None:
    for _ in range(BLOCKS):
        values = numbers(BLOCK).clamp(min=-(2**62) + divisor)
        values[: len(EDGES)] = EDGES
        off = run(truncation.truncate, count, values, divisor) - torch.div(values, divisor, rounding_mode="floor")
        assert int(off.min()) >= 0
        assert int(off.max()) <= 1


@pytest.mark.parametrize("count", [2, 3])
def test_ten_million_comparisons(count: int) -> None:
    for block in range(BLOCKS):
        x = numbers(BLOCK, bits=61)
        y = x + numbers(BLOCK, bits=4) if block % 2 else numbers(BLOCK, bits=61)  # near neighbours too
        assert torch.equal(run(comparison.negative, count, x - y), (x < y).long())


@pytest.mark.parametrize("count", [2, 3])
def test_a_large_product_of_matrices(count: int) -> None:
    scale = 2**16
    x, y = torch.rand(1024, 1024).double() * 16 - 8, torch.rand(1024, 1024).double() * 16 - 8
    a, b = (x * scale).round().long(), (y * scale).round().long()
    made = run(arithmetic.multiply, count, a, b, divisor=scale, operation="matmul")
    exact = a.double() @ b.double() / scale  # below 2^53 before the division, so nothing is rounded
    assert float((made.double() - exact).abs().max()) <= 1
    # Against the numbers themselves: half a unit of each factor, times the other, 1024 times, and one unit.
    assert float((made.double() / scale - x @ y).abs().max()) <= (1024 * (8 + 8) * 0.5 + 1) / scale
