"""Measure two things against each other on a noisy machine: interleaved, in small blocks, medians."""

from __future__ import annotations

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: what was measured.
        value: the figure.
        limit: what it may be at most.
        unit: "x" for a ratio, or a unit.
        detail: the two sides of a ratio.
    """

    name: str
    value: float
    limit: float
    unit: str
    detail: str

    @property
    def ok(self) -> bool:
        """Whether the figure is within its limit."""
        return self.value <= self.limit


def seconds(function: Callable[[], object], count: int) -> float:
    """Return the seconds that one call takes, from a block of calls."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    count: int,
    blocks: int = 41,
    before_ours: Callable[[], object] = lambda: None,
    before_theirs: Callable[[], object] = lambda: None,
) -> tuple[float, float, float]:
    """Return the median ratio of neighbouring blocks, and the median seconds of both sides."""
    for prepare, function in ((before_ours, ours), (before_theirs, theirs)):
        prepare()
        seconds(function, count)
    ratios, our_times, their_times = [], [], []
    gc.collect()
    for block in range(blocks):
        sides = [(before_ours, ours, our_times), (before_theirs, theirs, their_times)]
        for prepare, function, times in sides if block % 2 else sides[::-1]:
            prepare()
            times.append(seconds(function, count))
        ratios.append(our_times[-1] / their_times[-1])
    return statistics.median(ratios), statistics.median(our_times), statistics.median(their_times)


def ratio(name: str, limit: float, ours: Callable[[], object], theirs: Callable[[], object], count: int, **options):  # type: ignore[no-untyped-def]
    """Measure one ratio as a row."""
    value, our_time, their_time = compare(ours, theirs, count, **options)
    return Row(name, value, limit, "x", f"{pretty(our_time)} / {pretty(their_time)}")


def pretty(value: float) -> str:
    """Render seconds."""
    if value < 1e-3:
        return f"{value * 1e6:.2f} µs"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
