"""Paillier encryption of tensors against phe itself, number by number: 2048-bit keys, 1,000 numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

import syft as sy
from benchmarks.measure import Row, compare, pretty
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
    # Fewer than 1 if both cores work all the time.
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
        value, our_time, their_time = compare(ours, phe, 1, blocks=BLOCKS)
        yield Row(f"{name}, {COUNT} numbers / phe", value, 1.2, "x", f"{pretty(our_time)} / {pretty(their_time)}")
