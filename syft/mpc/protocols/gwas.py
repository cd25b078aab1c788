"""Association scan: many regressions at once, each of one column, all with the same covariates."""

from __future__ import annotations

from typing import Any

import torch

from syft.mpc.protocols.arithmetic import multiply, square
from syft.mpc.protocols.comparison import negative
from syft.mpc.protocols.householder import POINT, reciprocals, triangular
from syft.mpc.protocols.regression import SUM
from syft.mpc.protocols.thresholds import by_level, reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# A column whose variance is below 4^-10 of its square counts as explained by the covariates.
SHIFTS = 10
# A covariate must keep 4^-13 of its square, in units of 2^-60.
LEFT = 17


async def _sums(party: Party, rows: torch.Tensor, *inside: torch.Tensor) -> list[torch.Tensor]:
    """Add products of the lower rows after reflections to the sums of each owner. Rounds: 2."""
    x, y = rows[:, :-1].contiguous(), rows[:, -1:].contiguous()
    products = await party.together(square(party, x), multiply(party, x, y), square(party, y))
    finer = 1 << (2 * POINT - SUM)
    between = await party.together(*[truncate(party, product.sum(0), finer) for product in products])
    return [arithmetic.add(a, b) for a, b in zip(inside, between, strict=True)]


async def _slopes(party: Party, xx: torch.Tensor, xy: torch.Tensor, yy: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return which columns have a variance, xy / xx, and (yy - xy^2 / xx) / xx, both with 30 bits.

    1. Compare xx with powers of four, and bring it to [1/4, 1) by a private one; xy by its root.
    2. w = 1 / xx by a table and Newton's iteration (see `reciprocals`).
    3. b = xy w, and (yy - b xy) w; take the powers off again.

    Rounds: 23.
    """
    levels = tuple(1 << (SUM - 2 * shift) for shift in range(SHIFTS, 0, -1))
    found = await reached(party, xx, levels)
    # A column that reaches no level has no variance: it gets the factor of the lowest level, and meaningless results.
    shifts = [SHIFTS, *range(SHIFTS - 1, -1, -1)]
    power = by_level(found, [1 << shift for shift in shifts], party)
    square_of_power = by_level(found, [1 << (2 * shift) for shift in shifts], party)
    xx, xy = await party.together(multiply(party, xx, square_of_power), multiply(party, xy, power))
    xx, xy = await party.together(*[truncate(party, sums, 1 << (SUM - POINT)) for sums in (xx, xy)])
    w = await reciprocals(party, xx)
    slope = await multiply(party, xy, w, divisor=1 << POINT)
    explained = await multiply(party, slope, xy)
    rest = await truncate(party, arithmetic.sub(yy << (2 * POINT - SUM), explained), 1 << POINT)
    spread = await multiply(party, rest, w, divisor=1 << POINT)
    slope, spread = await party.together(multiply(party, slope, power), multiply(party, spread, square_of_power))
    return found[0], slope, spread


def _shapes(stacked: torch.Tensor, xx: torch.Tensor, xy: torch.Tensor, yy: torch.Tensor) -> Any:
    columns = xx.shape[0]
    if stacked.dim() != 2 or stacked.shape[1] < columns + 1 or tuple(xx.shape) != tuple(xy.shape) or yy.shape != (1,):
        raise ValueError("association() needs the covariates, the columns of the scan, and the response.")
    return [(1,), (columns,), (columns,), (columns,)]


@protocol("association", shape=_shapes, rounds="25, and 32 for each permanent column",
          bytes="500, and 110 for each permanent column",
          error="2^-20 of slopes and spreads of columns with standard deviation 1")  # fmt: skip
async def association(
    party: Party, stacked: torch.Tensor, xx: torch.Tensor, xy: torch.Tensor, yy: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Explain y by each column of X and all columns of C, one least squares problem for each column of X.

    Each owner has written its C as Q R, and shares R, Q^T X and Q^T y, and sums of products of what of X and y is
    orthogonal to its C (Bloom, 2019).

    1. Reflect the rows of all owners, until the columns of C are triangular (see `triangular`).
    2. The lower rows are orthogonal to the C of all owners: add their sums of products.
    3. Slopes, and what their standard errors need, for all columns side by side (see `_slopes`).

    Args:
        party: this party.
        stacked: the columns of R, Q^T X and Q^T y of all owners, over the root of the number of all rows, 30 bits.
        xx: sums of squares of what is left of each column of X, over the number of all rows, 40 bits.
        xy: the same for products of X and y.
        yy: the same for squares of y.

    Returns:
        1 if the columns of C are not collinear; which columns of X are not explained by them; slopes, 30 bits; residual
        sums of squares over the sums of squares of the columns, 30 bits.

    Sees: masked values. Rounds: 25, and 32 for each column of C.
    """
    _shapes(stacked, xx, xy, yy)
    count = stacked.shape[1] - xx.shape[0] - 1
    missing = max(count + 1 - stacked.shape[0], 0)
    rows = torch.cat([stacked, stacked.new_zeros(missing, stacked.shape[1])])
    rows, made = await triangular(party, rows, count)
    xx, xy, yy = await _sums(party, rows[count:, count:], xx, xy, yy)
    left = torch.stack([reflection.found[LEFT] for reflection in made]).sum(0) if made else xx.new_zeros(1)
    good, slopes = await party.together(
        negative(party, left - count if party.first else left, invert=True), _slopes(party, xx, xy, yy)
    )
    return good, *slopes
