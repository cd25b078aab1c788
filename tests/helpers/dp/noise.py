"""Noise in tests: a generator with a known key for this thread, and the distance of samples from a normal one."""

from __future__ import annotations

import contextlib
import math
import os

import torch

from syft.core import generator


@contextlib.contextmanager
def keyed(key=b"0123456789abcdef"):
    """Draw from a known key in this thread for a while, so that a test of noise gives the same each time."""
    threads = generator._threads
    before = generator.local()
    threads.generator, threads.pid = generator.Generator(key), os.getpid()
    try:
        yield
    finally:
        threads.generator = before


def distance(samples, sigma):
    """Return the Kolmogorov-Smirnov distance from a normal law, times the root of the number of samples."""
    ordered = samples.detach().reshape(-1).to(torch.float64).sort().values
    count = len(ordered)
    expected = 0.5 * (1 + torch.erf(ordered / (sigma * math.sqrt(2))))
    steps = torch.arange(count, dtype=torch.float64) / count
    gap = torch.maximum((expected - steps).abs(), (expected - steps - 1 / count).abs())
    return float(gap.max()) * math.sqrt(count)
