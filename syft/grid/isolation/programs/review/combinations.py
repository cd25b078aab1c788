"""Combinations of released numbers that depend on few rows, computed from the influences of groups of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

from syft.grid.isolation.programs.review.influence import ROUNDING, Influences

# A group whose leverage is above this is split; a row above `ISOLATED` is the only one that a combination depends on.
SUSPECT, ISOLATED = 0.9, 0.9999
# Two numbers differ by few rows if their difference depends on at most this fraction of the groups.
SPARSE = 0.5
# The part of an influence that its carriers have together.
CARRIED = 0.9
# Steps below which digits may be hidden: decimal and binary fractions and multiples.
STEPS = tuple(
    sorted({*(10.0**power for power in range(-12, 10)), *(2.0**power for power in range(-40, 30))}, reverse=True)
)
# Digits below this part of a step are rounding errors.
LEAST_DIGIT = 1e-9
# Steps below this part of the largest change are not tried: there even plain sums of float32 data end.
FINEST = 2.0**-20
# Maximum number of numbers of two results that are all compared with each other; larger results by position.
ALL_PAIRS = 8


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """A number of the reviewed result minus a multiple of a number of an earlier one.

    Attributes:
        computation: the index of the earlier computation.
        influence: its influence by group.
    """

    computation: int
    influence: torch.Tensor


def carriers(influence: torch.Tensor) -> torch.Tensor:
    """Return how many groups carry most of each row of influences: the fewest with `CARRIED` of the sum, 0 for none."""
    sizes = influence.abs().sort(dim=-1, descending=True).values
    total = sizes.sum(-1, keepdim=True)
    needed = (sizes.cumsum(-1) < CARRIED * total).sum(-1) + 1
    return torch.where(total.squeeze(-1) > 0, needed, 0)


def leverages(influences: Influences, computations: int | None = None) -> torch.Tensor | None:
    """Return how much of the span of the first computations lies on each group, from 0 to 1.

    The value is 1 for a group that alone influences some linear combination of the released numbers. None: there are
    too many numbers for the groups, so that each group could be reached by chance.
    """
    count = sum(influences.counts[:computations])
    matrix, noise = influences.matrix[:count], influences.tolerance[:count] / ROUNDING * 8
    norms = matrix.norm(dim=1)
    kept = norms > 0
    matrix, noise = matrix[kept] / norms[kept, None], noise[kept] / norms[kept]
    if not len(matrix) or 2 * len(matrix) > matrix.shape[1]:
        return None if len(matrix) else torch.zeros(matrix.shape[1], dtype=torch.float64)
    _, values, directions = torch.linalg.svd(matrix, full_matrices=False)
    least = max(float(noise.max()) * (matrix.shape[0] * matrix.shape[1]) ** 0.5, 1e-9)
    reached: torch.Tensor = directions[values > least].square().sum(0)
    return reached


def differences(influences: Influences) -> Iterator[Difference]:
    """Yield the differences to earlier results that depend on few groups."""
    counts, matrix, tolerance = influences.counts, influences.matrix, influences.tolerance
    start = counts[0]
    for index in range(1, len(counts)):
        for mine, other in _pairs(counts[0], counts[index]):
            found = _difference(matrix, tolerance, mine, start + other)
            if found is not None:
                yield Difference(index, found)
        start += counts[index]


def _pairs(mine: int, others: int) -> list[tuple[int, int]]:
    if max(mine, others) <= ALL_PAIRS:
        return [(one, other) for one in range(mine) for other in range(others)]
    return [(number, number) for number in range(mine)] if mine == others else []


def _difference(matrix: torch.Tensor, tolerance: torch.Tensor, mine: int, other: int) -> torch.Tensor | None:
    """Return the influence of the difference if it depends on few groups, though both numbers depend on many."""
    a, b = matrix[mine], matrix[other]
    used = b != 0
    if int(used.sum()) < 2:
        return None
    factor = float((a[used] / b[used]).median())
    rest = a - factor * b
    rest = torch.where(rest.abs() > tolerance[mine] + abs(factor) * tolerance[other], rest, 0.0)
    few = 0 < int((rest != 0).sum()) <= SPARSE * len(rest)
    return rest if few and factor else None


def low_digits(influences: Influences) -> Iterator[tuple[float, torch.Tensor]]:
    """Yield a step and the influence on what a number has below multiples of it, where few groups have one.

    A statistic that is rounded to hundredths and a record times a millionth make one number. Its influence is that of
    the statistic; the digits below the hundredths are the record's.
    """
    matrix = influences.matrix[: influences.counts[0]]
    for change, base, tolerance in zip(matrix, influences.base, influences.tolerance, strict=False):
        if not bool(base.isfinite()) or not bool((change != 0).any()):
            continue
        size = max(abs(float(base)), float(change.abs().max()))
        for step in STEPS:
            if not max(4 * float(tolerance), FINEST * float(change.abs().max())) < step < size:
                continue
            before, after = base - step * (base / step).round(), base + change
            low = after - step * (after / step).round() - before
            low = torch.minimum(low.abs(), (step - low.abs()).abs())
            low = torch.where(low > max(float(tolerance), LEAST_DIGIT * step), low, 0.0)
            if 0 < int((low != 0).sum()) <= SPARSE * len(low):
                yield step, low


def refine(influences: Influences, least_rows: int) -> None:
    """Split groups until every influence of few rows is down to single rows, or time is over."""
    while influences.split(_suspects(influences, least_rows)):
        pass


def _suspects(influences: Influences, least_rows: int) -> set[int]:
    """Return the groups that alone have a large part in something."""
    mine = influences.matrix[: influences.counts[0]]
    few = mine[(carriers(mine) < least_rows) & (mine != 0).any(1)]
    shares = few.abs() / few.abs().sum(1, keepdim=True)
    heavy = (shares > (1 - CARRIED) / least_rows).any(0)
    for _, low in low_digits(influences):
        if int((low != 0).sum()) < least_rows:
            heavy |= low != 0
    reached = leverages(influences)
    if reached is not None:
        heavy |= reached > SUSPECT
    for difference in differences(influences):
        changed = difference.influence != 0
        if int(changed.sum()) < 2 * least_rows:
            heavy |= changed
    return set(heavy.nonzero().flatten().tolist())
