"""Table lookup at private positions: the parties open the distance between a value and a dealt mask.

Let c = y + r be opened, for a dealt uniform r. A digit of y (some bits of it) is the digit of c less that of r, and
one less if the lower bits borrow. With n the difference of the digits, and v the remainder of y,
y = n 2^low + v with |v| < 2^low: a borrow shows in the sign of v only. So a function is written, around each multiple
n of 2^low, as a polynomial in v that is valid on both sides of it. Shares
of the digit of r as a row of one 1 and zeros let each party read its share of a table at n, with no further round;
and v is public but for the low bits of r, whose powers are dealt too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import torch

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import DealerContext, Dealt, deals
from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.chunking import in_blocks
from syft.mpc.protocols.thresholds import reached
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# The widest digit: each element needs as many numbers as the digit has values.
MAX_WIDTH = 8
MAX_DEGREE = 5
Numbers = tuple[int, ...] | list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class LookupPosition:
    """The bits that are read.

    Attributes:
        digits: (lowest bit, number of bits) of each digit, the highest one first; each begins where the next one ends.
        drop: the number of lowest bits of the remainder that are ignored.
        degree: the number of powers of the remainder.
        joined: whether the powers are multiplied with the row of the last digit, so that polynomials whose
            coefficients depend on that digit need no product.
    """

    digits: tuple[tuple[int, int], ...]
    drop: int
    degree: int
    joined: bool = False

    def check(self) -> None:
        """Raise unless the bits exist."""
        for low, width in self.digits:
            if not 0 < width <= MAX_WIDTH or low < 0 or low + width > 64:
                raise ProtocolError(
                    f"A digit of a lookup has 1 to {MAX_WIDTH} of 64 bits, got {width} bits from bit {low} on."
                )
        if not 0 <= self.drop <= self.digits[-1][0] or not 0 <= self.degree <= MAX_DEGREE:
            raise ProtocolError(
                f"A lookup needs a degree of 0 to {MAX_DEGREE}, got {self.degree}, and drops lower bits only."
            )


@deals("digits")
def deal_digits(
    context: DealerContext, count: int, digits: tuple[tuple[int, int], ...], drop: int, degree: int, joined: bool
) -> tuple[Any, ...]:
    """Deal a mask, a row of one 1 and zeros for each of its digits, and powers of the lower bits."""
    LookupPosition(digits, drop, degree).check()
    r = context.random((count,))
    rows = [context.fixed((count, 1 << width), functools.partial(_digit_row, r, low, width)) for low, width in digits]
    low, width = digits[-1]

    def power(number: int) -> torch.Tensor:
        raised = _rest(r.value, low, drop) ** number
        return _row(_digit(r.value, low, width), width, raised.unsqueeze(1)) if joined else raised

    shape = (count, 1 << width) if joined else (count,)
    return (r, *rows, *[context.fixed(shape, functools.partial(power, number)) for number in range(1, degree + 1)])


def _digit_row(r: Dealt, low: int, width: int) -> torch.Tensor:
    return _row(_digit(r.value, low, width), width)


def _digit(words: torch.Tensor, low: int, width: int) -> torch.Tensor:
    return (words >> low) & ((1 << width) - 1)


def _rest(words: torch.Tensor, low: int, drop: int) -> torch.Tensor:
    return (words & ((1 << low) - 1)) >> drop


def _row(digit: torch.Tensor, width: int, value: torch.Tensor | int = 1) -> torch.Tensor:
    return torch.zeros(digit.numel(), 1 << width, dtype=torch.int64).scatter_(1, digit.unsqueeze(1), value)


def _around(c: torch.Tensor, low: int, width: int) -> torch.Tensor:
    """Return for each element the positions of the values of the first digit in the dealt row, 0 first."""
    return (_digit(c, low, width).unsqueeze(1) - torch.arange(1 << width)) & ((1 << width) - 1)


def _joined(c: torch.Tensor, place: LookupPosition, table: torch.Tensor) -> list[torch.Tensor]:
    """Return the factors of the joined powers of the low bits of r, power by power.

    The polynomial sum t_i (p - q)^i, with p public and q the low bits of r, is a polynomial in q with public
    coefficients, for each position in the row of the last digit.
    """
    low, width = place.digits[-1]
    last = (1 << width) - 1
    entries = table[:, _digit(c, low, width).unsqueeze(1) - torch.arange(1 << width) + last]
    public = _rest(c, low, place.drop).unsqueeze(1)
    factors = []
    for below in range(place.degree + 1):
        factor = entries[-1] * math.comb(place.degree, below)
        for degree in range(place.degree - 1, below - 1, -1):
            factor = factor * public + entries[degree] * math.comb(degree, below)
        factors.append(factor if below % 2 == 0 else -factor)
    return factors


class Reading:
    """The digits of private numbers, as one party has them: the public sum with the mask, and its dealt shares."""

    def __init__(self, party: Party, place: LookupPosition, opened: torch.Tensor, dealt: list[torch.Tensor]) -> None:
        self.party = party
        self.place = place
        self.opened = opened
        several = len(place.digits)
        self.rows, self.rests = dealt[:several], dealt[several:]

    def first(self, table: torch.Tensor) -> torch.Tensor:
        """Return this party's shares of tables at the first digit, modulo its range: a row for each column of them."""
        low, width = self.place.digits[0]
        where = self.party.public(_around, self.opened, low, width)
        # For few columns numpy is several times faster than limbs, and than torch.
        turned = torch.gather(self.rows[0], 1, where)
        return torch.from_numpy(np.matmul(turned.numpy(), table.numpy())).t()

    def last(self, table: torch.Tensor) -> torch.Tensor:
        """Return this party's shares of polynomials in the remainder, whose coefficients depend on the last digit.

        The table has a row for each power and a column for each value of the digit, which has a sign: from
        -(2^width - 1) on.
        """
        first, *others = self.party.public(_joined, self.opened, self.place, table)
        made = arithmetic.mul(self.rows[-1], first)
        for share, factor in zip(self.rests, others, strict=True):
            made = arithmetic.add_into(made, arithmetic.mul(share, factor))
        return made.sum(1)

    def powers(self) -> list[torch.Tensor]:
        """Return this party's shares of the powers of the remainder, from the first one on."""
        public = self.party.public(_rest, self.opened, self.place.digits[-1][0], self.place.drop)
        shares = []
        for degree in range(1, self.place.degree + 1):
            made = public**degree if self.party.first else torch.zeros_like(public)
            for below, share in enumerate(self.rests[:degree], 1):
                factor = public ** (degree - below) * (math.comb(degree, below) * (-1) ** below)
                made = arithmetic.add(made, arithmetic.mul(share, factor))
            shares.append(made)
        return shares


async def read(party: Party, y: torch.Tensor, place: LookupPosition) -> Reading:
    """Read digits of private numbers (in one dimension).

    1. The dealer deals a uniform r, rows of its digits, and powers of its low bits (see above).
    2. The parties open c = y + r.

    Sees: c, which is uniform. Rounds: 1. Bytes: 8 an element.
    """
    place.check()
    r, *dealt = await party.deal("digits", y.numel(), place.digits, place.drop, place.degree, place.joined)
    (c,) = await party.open(arithmetic.add(y, r))
    return Reading(party, place, c, list(dealt))


async def polynomial(
    party: Party, y: torch.Tensor, table: torch.Tensor, low: int, drop: int, shift: int, times: int = 1
) -> torch.Tensor:
    """Evaluate polynomials, each around a multiple of 2^low, on elements in one dimension, times a public number.

    1. Read the digit of y above 2^low, and the powers of the remainder (see `read`).
    2. The coefficients at the digit come from the table; multiply them by the powers, and add up.
    3. Divide by 2^shift, the scale of the coefficients, and add the first column, which is in units.

    Sees: masked values. Rounds: 3. Bytes: 8 + 16 d + 8 an element, for degree d.
    """
    size, degree = table.shape[0], table.shape[1] - 2
    reading = await read(party, y, LookupPosition(((low, size.bit_length() - 1),), drop, degree))
    units, total, *coefficients = reading.first(table)
    if degree:
        terms = await multiply(party, torch.stack(coefficients), torch.stack(reading.powers()))
        total = arithmetic.add(total, terms.sum(0))
    made = arithmetic.add(units, await truncate(party, total, 1 << shift))
    return made if times == 1 else made * times


def _check(table: object, edges: Any, outside: Any, *numbers: Any) -> None:
    """Raise unless the arguments are valid, before anything is dealt."""
    if not isinstance(table, torch.Tensor) or table.dim() != 2 or table.dtype is not torch.int64:
        raise ProtocolError("A table of polynomials is a matrix of int64, with a row for each piece.")
    size = table.shape[0]
    if size < 2 or size & (size - 1) or size > 1 << MAX_WIDTH or not 2 <= table.shape[1] <= MAX_DEGREE + 2:
        raise ProtocolError(f"A table of polynomials has 2 to {1 << MAX_WIDTH} pieces, a power of two.")
    if edges is None:
        edges, outside = (0, 1), (0, 0, 0, 0)
    kinds = {type(edges), type(outside)}
    if not kinds <= {tuple, list} or len(edges) != 2 or len(outside) != 4:
        raise ProtocolError("A piecewise function has two edges, and a slope and a value for each side of them.")
    if not all(type(number) is int and abs(number) < 1 << 63 for number in (*edges, *outside, *numbers)):
        raise ProtocolError("The bits, factors and edges of a table are integers below 2^63.")
    low, drop, shift = numbers[:3]
    if edges[0] >= edges[1] or not (0 <= drop <= low < 64 and 0 <= shift <= 62):
        raise ProtocolError("A table is read at some of 64 bits, and its first edge must be below the second one.")


@protocol("piecewise", rounds="8 (3 without edges)", bytes="130 (64 without edges)",
          error="as the table; about 1 unit in the last place more")  # fmt: skip
async def piecewise(
    party: Party,
    x: torch.Tensor,
    table: torch.Tensor,
    low: int,
    drop: int,
    shift: int,
    edges: Numbers | None = None,
    outside: Numbers | None = None,
    factor: int = 1,
    times: int = 1,
) -> torch.Tensor:
    """Evaluate a function given by pieces: a polynomial around each multiple of 2^low, a line beyond either edge.

    1. `polynomial`, modulo the range of the table.
    2. At the same time compare x with the edges (see `reached`).
    3. Choose: below + [x >= first] (inside - below) + [x >= second] (above - inside).

    Args:
        party: this party.
        x: its share of the numbers.
        table: a row for each piece, the piece around 0 first, then up, then those below 0: the value in its middle, in
            units; then coefficients, 2^shift times finer, of the powers of the remainder, from the power 0 on.
        low: log2 of the distance between the middles of pieces, in units of x times the factor.
        drop: the number of lowest bits that are ignored within a piece.
        shift: log2 of the scale of the coefficients.
        edges: two values; None if no value lies outside of the table.
        outside: slope and value at 0 below the first edge, the same from the second one on.
        factor: the factor of x before the table is read, modulo 2^64.
        times: the factor of results between the edges.

    Sees: masked values. Rounds: 8, or 3 without edges. Dealt: 8 bytes for each piece, and about 120, an element.
    """
    _check(table, edges, outside, low, drop, shift, factor, times)

    async def block(part: torch.Tensor) -> torch.Tensor:
        inside = polynomial(party, part if factor == 1 else part * factor, table, low, drop, shift, times)
        if edges is None or outside is None:
            return await inside
        middle, found = await party.together(inside, reached(party, part, tuple(edges)))
        slope, start, end_slope, end = outside
        below, above = part * slope, part * end_slope
        if party.first:
            below, above = below + start, above + end
        jumps = torch.stack([arithmetic.sub(middle, below), arithmetic.sub(above, middle)])
        chosen = await multiply(party, found, jumps)
        return arithmetic.add(below, chosen.sum(0))

    return await in_blocks(block, table.shape[0], x)
