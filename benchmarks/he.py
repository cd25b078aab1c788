"""Paillier encryption of tensors against phe itself, number by number: 2048-bit keys, 1,000 numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

import syft as sy
from benchmarks.measure import Row, pretty, ratio
from syft.he.pool import core_count

COUNT, BITS = 1000, 2048
BLOCKS = 7


def rows() -> Iterator[Row]:
    """Every row."""
    sy.TorchHook(torch)
    public_key, private_key = sy.keygen(n_length=BITS)
    numbers, factors = torch.randn(COUNT), torch.randn(COUNT)
    cpu, start = time.process_time(), time.perf_counter()
    x = numbers.encrypt(public_key)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    # 1 if all cores work all the time.
    yield Row(
        f"encrypt {COUNT} numbers: cores / (CPU time / time)", core_count() * seconds / used, 1.25, "x",
        f"{pretty(seconds)}, {pretty(used)} of CPU time",
    )  # fmt: skip
    start = time.perf_counter()
    theirs = [public_key.encrypt(number) for number in numbers.tolist()]
    single = time.perf_counter() - start
    yield Row(f"encrypt {COUNT} numbers / phe", seconds / single, 1.2, "x", f"{pretty(seconds)} / {pretty(single)}")
    assert torch.allclose((x * factors).decrypt(private_key), numbers * factors)
    plain = factors.tolist()
    cases = [
        ("add two encrypted tensors", lambda: x + x, lambda: [a + a for a in theirs]),
        ("add a plain tensor", lambda: x + factors, lambda: [a + b for a, b in zip(theirs, plain, strict=True)]),
        (
            "multiply by a plain tensor",
            lambda: x * factors,
            lambda: [a * b for a, b in zip(theirs, plain, strict=True)],
        ),
    ]
    for name, ours, phe in cases:
        yield ratio(f"{name}, {COUNT} numbers / phe", 1.2, ours, phe, 1, blocks=BLOCKS)
    weights = torch.randn(COUNT // 10, 10)
    columns = weights.t().tolist()
    line, numbers_there = x[: COUNT // 10], theirs[: COUNT // 10]
    yield ratio(
        "100 encrypted numbers by a plain matrix 100x10 / phe", 1.2, lambda: line @ weights,
        lambda: [sum(a * b for a, b in zip(numbers_there, column, strict=True)) for column in columns], 1,
        blocks=BLOCKS,
    )  # fmt: skip
    few = x[:100]
    yield ratio(
        "decrypt 100 numbers / phe", 1.2, lambda: few.decrypt(private_key),
        lambda: [private_key.decrypt(a) for a in theirs[:100]], 1, blocks=BLOCKS,
    )  # fmt: skip
