"""Fitted functions (`syft.tensors.polynomial`) on encrypted numbers: their polynomials as tables of whole numbers."""

from __future__ import annotations

import functools
import sys

import torch

from syft.exceptions import SyftError
from syft.mpc.runtime import client
from syft.mpc.values.encoding import encode_plain
from syft.mpc.values.function_tables import FunctionShape, Table, tabulate
from syft.tensors.fits import Fit
from syft.tensors.polynomial import register_evaluator
from syft.tensors.precision import FixedPrecisionTensor

# The maximum of values and of interval ends, in units.
ROOM = 2.0**56


@functools.lru_cache(maxsize=128)
def table_of(fitted: Fit, scale: int, is_slope: bool) -> Table:
    """Return the table of a fit for numbers with a scale."""
    start, stop = fitted.ends
    ends = fitted(torch.tensor([start, stop], dtype=torch.float64)).tolist()
    largest = float(fitted(torch.linspace(start, stop, 1001, dtype=torch.float64)).abs().max())
    if max(largest, abs(start), abs(stop)) * scale >= ROOM:
        raise SyftError(
            f"Between {start:g} and {stop:g} this function reaches {largest:.3g}, which has no room with {scale} units "
            "to one. Use fewer digits (precision_fractional), or a smaller interval."
        )
    below, above = (0.0, 0.0) if is_slope else ends
    shape = FunctionShape(
        fitted.continued, start, stop, (0.0, below), (0.0, above), degree=min(max(fitted.degree, 1), 3)
    )
    return tabulate(shape, scale)


def evaluate(fitted: Fit, link: FixedPrecisionTensor, is_slope: bool = False) -> FixedPrecisionTensor:
    """Evaluate a fit."""
    if link.is_shared:
        table = table_of(fitted, link.scale, is_slope)
        return link.like(client.run("piecewise", link.child, table.coefficients, **table.options))
    numbers = link.child.double() / link.scale
    made = fitted(numbers)
    if is_slope:
        start, stop = fitted.ends
        made = torch.where((numbers >= start) & (numbers <= stop), made, 0.0)
    return link.like(encode_plain(made, link.scale, link.field))


def slope(fitted: Fit, link: FixedPrecisionTensor) -> FixedPrecisionTensor:
    """Compute the derivative of a fit: 0 before and after its intervals."""
    return evaluate(fitted.slope(), link, is_slope=True)


def error(fitted: Fit, link: FixedPrecisionTensor) -> float:
    """Return the error that a format adds to a fit."""
    return table_of(fitted, link.scale, False).error + 1.5 / link.scale if link.is_shared else 0.5 / link.scale


register_evaluator(sys.modules[__name__])
