"""Softmax and its logarithm along a dimension: the maximum, the exponentials of the differences, and their sum."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.exponential import check_scales, exp
from syft.mpc.protocols.lookup import polynomial
from syft.mpc.protocols.maximum import tournament
from syft.mpc.protocols.normalized_functions import root_of, sizes_between
from syft.mpc.ring import arithmetic
from syft.mpc.ring.piecewise_fit import coarser, fit, whole_numbers
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# The scales of exponentials, and the smallest scale of the reciprocal of their sum.
INNER = 1 << 20
FINER = 1 << 24
# Sums of up to 15 exponentials are looked up directly, in pieces of an eighth.
FEW = 15
PIECES = 128
DEGREE = 3


@functools.lru_cache(maxsize=32)
def _few(log: bool, scale: int, out: int) -> tuple[torch.Tensor, int, int, int, int]:
    """Return the table of 1 / x, or log(x), for x from 1 to 15, and the options that go with it."""
    low = math.ceil(math.log2(scale / 8))
    step = 2.0**low / scale
    numbers = np.arange(PIECES)
    used = (numbers * step > 1 - 2 * step) & (numbers * step < FEW + 2)
    found = np.zeros((PIECES, DEGREE + 1))
    found[used] = fit(np.log if log else lambda x: 1 / x, numbers[used] * step, step, DEGREE)
    times = coarser(out)
    coefficients, inner, shift = whole_numbers(found, out / times, low)
    return coefficients, low, low - inner, shift, times


async def _of_sum(party: Party, total: torch.Tensor, count: int, inner: int, out: int, log: bool) -> torch.Tensor:
    """Return the reciprocal, or the logarithm, of sums in one dimension; they have `inner` units to one."""
    if count <= FEW:
        return await polynomial(party, total, *_few(log, inner, out))
    # The sum of `count` exponentials, the largest of them one, has a size (see `normalized_functions`) in this range.
    sizes = sizes_between((inner - 2).bit_length() // 2 - 1, (count * (inner + 2)).bit_length() // 2, False, True)
    return await root_of(party, total, "log" if log else "reciprocal", sizes, inner, out)


@protocol("softmax", rounds="7 log2(k) + 13 (k > 15: 23)", bytes="140",
          error="2 units in the last place and 2^-13 of the result; 10^-4 where units are finer")  # fmt: skip
async def softmax(party: Party, x: torch.Tensor, dim: int, scale: int, log: bool = False) -> torch.Tensor:
    """Return softmax, or its logarithm, along a dimension.

    1. Subtract the largest of each row (see `tournament`).
    2. e^x of all elements (see `exp`; no result is more than one), and their sum, from 1 to the number of elements.
    3. The reciprocal of the sum, from a table; for more than 15 elements as in `root`, with the few sizes that a sum
       can have. Or its logarithm.
    4. Multiply, or subtract.

    Sees: masked values. Rounds: 7 for each halving of the number of elements, 8 for step 2, 3 (or 13) for step 3, 2 for
    step 4.
    """
    check_scales(scale)
    if x.numel() == 0:
        return x.clone()
    if x.dim() == 0 or x.shape[dim] == 1:  # of one number alone: exactly 1
        return torch.full_like(x, 0 if log or not party.first else scale)
    rows = x.movedim(dim, 0)
    count = rows.shape[0]
    largest, _ = await tournament(party, rows, True)
    rest = arithmetic.sub(rows, largest)
    inner, out = INNER, scale if log else scale << (FINER // scale).bit_length()
    raised = await exp(party, rest, scale, inner, negative=True)
    total = raised.sum(0)
    found = (await _of_sum(party, total.reshape(-1), count, inner, out, log)).view(total.shape)
    made = arithmetic.sub(rest, found) if log else await multiply(party, raised, found, divisor=inner * (out // scale))
    return made.movedim(0, dim).contiguous()
