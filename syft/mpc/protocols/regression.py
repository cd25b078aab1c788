"""Least squares from sums that owners of rows have shared: coefficients, and the values for their standard errors.

Columns are divided by public powers of two, so that no owner's values have a root mean square above one. Remaining
differences in size (a column whose mean is large compared to its spread) are removed by private powers of two.
"""

from __future__ import annotations

from typing import Any

import torch

from syft.mpc.protocols.arithmetic import multiply, square
from syft.mpc.protocols.comparison import negative
from syft.mpc.protocols.matrices import identity_less, matmul, newton, series
from syft.mpc.protocols.thresholds import by_level, reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

Weights = tuple[int, ...] | list[int]

# Fractional bits: of means, of sums of products, of coefficients, and of the values for standard errors.
MEAN = 30
SUM = 40
COEFFICIENT = 30
SPREAD = 20
LEVER = (40, 20)
# Columns are multiplied by up to 2^11, so that they have a standard deviation in [1/2, 1).
SHIFTS = 11
# The inverse: bits of powers, of the inverse after it has grown, with each factor to twice its size, and at its end.
FINE = 30
GROWN = 10
INVERSE = 20
LOST = (1,) * (FINE - GROWN)
# The inverse is accepted if the residual is below 2^-8.
LEFT_OVER = 8
# Bits of the factors of the inverse, so that there is room for up to 256 columns.
SHORT = 28
FINER = 44
MAX_COLUMNS = 256


async def _covariances(
    party: Party, scatter: torch.Tensor, means: torch.Tensor | None, center: torch.Tensor | None, weights: Weights
) -> torch.Tensor:
    """Add the differences of owners' means to sums of products around each owner's own means. Rounds: 3.

    Means are subtracted before they are squared, so that large means lose no precision.
    """
    if means is None or center is None:
        return scatter
    away = arithmetic.sub(means, center)
    weighted = await truncate(party, away * torch.tensor(weights).view(-1, 1), 1 << MEAN)
    between = await matmul(party, weighted.t().contiguous(), away, 1 << (2 * MEAN - SUM))
    return arithmetic.add(scatter, between)


async def _inverted(party: Party, s: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Invert s / 2^size, which has eigenvalues in (0, 1]; returns the inverse, and the residual before the last step.

    Rounds: 49.
    """
    low, short = await party.together(truncate(party, s, 1 << size), truncate(party, s, 1 << (size + SUM - FINE)))
    one = torch.eye(s.shape[0], dtype=torch.int64) * (1 << FINE if party.first else 0)
    x = await series(party, identity_less(party, short, FINE), one, FINE, LOST)
    x, _ = await newton(party, low, x, (SUM, GROWN, FINE), INVERSE - GROWN)
    x, rest = await newton(party, low, x, (SUM, INVERSE, FINE))
    return x, rest


async def _is_small(party: Party, rest: torch.Tensor) -> torch.Tensor:
    """Compute whether the sum of squares of a residual is small. Rounds: 9."""
    short = await truncate(party, rest, 1 << (FINE - INVERSE))
    total = (await square(party, short)).sum().view(1)
    limit = 1 << (2 * (INVERSE - LEFT_OVER))
    return await negative(party, total - limit if party.first else total)


async def _solved(party: Party, s: torch.Tensor, x: torch.Tensor, h: torch.Tensor, size: int) -> torch.Tensor:
    """Solve s b = h with the inverse x of s / 2^size, and correct b once by the residual. Rounds: 7."""
    short = await truncate(party, h, 1 << (SUM - SHORT))
    b = await matmul(party, x, short, 1 << (SHORT + size))
    rest = arithmetic.sub(h << INVERSE, await matmul(party, s, b))
    rest = await truncate(party, rest, 1 << (SUM + INVERSE - FINER))
    more = await matmul(party, x, rest, 1 << (INVERSE + FINER + size - COEFFICIENT))
    return arithmetic.add(b << (COEFFICIENT - INVERSE), more)


async def _levers(party: Party, x: torch.Tensor, center: torch.Tensor, size: int) -> torch.Tensor:
    """Return c^T s^-1 c, for the intercept's standard error, twice: exact if it is small, and rough with more room.

    Rounds: 4.
    """
    fine, same, rough = await party.together(
        truncate(party, center, 1 << (MEAN - 22)), truncate(party, center, 1 << (MEAN - 20)),
        truncate(party, center, 1 << (MEAN - 10)),
    )  # fmt: skip
    ys = await party.together(matmul(party, x, fine, 1 << (22 + size)), matmul(party, x, rough, 1 << (INVERSE + size)))
    both = await party.together(matmul(party, same, ys[0]), matmul(party, rough, ys[1]))
    return torch.stack(both)


def _shapes(
    scatter: torch.Tensor, means: torch.Tensor | None = None, center: torch.Tensor | None = None, weights: Weights = ()
) -> Any:
    columns = scatter.shape[0] - 1
    if scatter.dim() != 2 or scatter.shape[1] != columns + 1 or not 0 < columns <= MAX_COLUMNS:
        raise ValueError(f"regression() needs sums of products of 1 to {MAX_COLUMNS} columns and the response.")
    if (means is None) is not (center is None):
        raise ValueError("regression() needs both means and center, or none of them.")
    if (
        means is not None
        and center is not None
        and (tuple(means.shape) != (len(weights), columns + 1) or tuple(center.shape) != (columns + 1,))
    ):
        raise ValueError("regression() needs one row of means and one weight for each owner.")
    return [(1,), (columns,), (columns,), (2,)]


@protocol("regression", shape=_shapes, rounds="71", bytes="1150 p^2 for p columns, and 10000",
          error="2^-20 of coefficients of columns with standard deviation 1; condition numbers up to 2^15")  # fmt: skip
async def regression(
    party: Party,
    scatter: torch.Tensor,
    means: torch.Tensor | None = None,
    center: torch.Tensor | None = None,
    weights: Weights = (),
) -> tuple[torch.Tensor, ...]:
    """Solve a least squares problem, given sums of products of its columns; the last one is the response.

    1. Sums of products around the common means (see `_covariances`), divided by the number of rows: S.
    2. Compare the variances with powers of four, and multiply rows and columns by private powers of two, so that
       variances lie in [1/4, 1): then an inverse depends on how columns are correlated alone.
    3. Invert (see `_inverted`), and check the residual (see `_is_small`).
    4. Solve (see `_solved`), and divide by the powers of two.

    Args:
        party: this party.
        scatter: sums of products around each owner's own means (or around 0), over the number of all rows, 40 bits.
        means: the means of each owner, a row each, 30 bits; None if there is no intercept.
        center: the mean of all, 30 bits.
        weights: each owner's part of the rows, public, 30 bits.

    Returns:
        1 if the columns are not collinear, so that the rest means something; coefficients, 30 bits; the diagonal of
        S^-1, 20 bits; and c^T S^-1 c for the center c, with 40 bits (if it is below 2^12) and with 20.

    Sees: masked values. Rounds: 71, for any number of columns up to 256.
    """
    _shapes(scatter, means, center, weights)
    covariance = await _covariances(party, scatter, means, center, weights)
    count = scatter.shape[0] - 1
    size = (count - 1).bit_length()
    s, h = covariance[:count, :count].contiguous(), covariance[:count, count].contiguous()
    levels = tuple(1 << (SUM - 2 * shift) for shift in range(SHIFTS, 0, -1))
    found = await reached(party, s.diagonal().contiguous(), levels)
    powers = by_level(found, [1 << shift for shift in range(SHIFTS, -1, -1)], party)
    middle = torch.zeros_like(h) if center is None else center[:count]
    both, h, middle = await party.together(
        multiply(party, powers.unsqueeze(1), powers), multiply(party, h, powers), multiply(party, middle, powers)
    )
    s = await multiply(party, s, both)
    x, rest = await _inverted(party, s, size)
    good, solved, spread, lever = await party.together(
        _is_small(party, rest),
        _solved(party, s, x, h, size),
        truncate(party, x.diagonal().contiguous(), 1 << size),
        _levers(party, x, middle, size),
    )
    coefficients, spread = await party.together(
        multiply(party, solved, powers), multiply(party, spread, both.diagonal().contiguous())
    )
    return good, coefficients, spread, lever
