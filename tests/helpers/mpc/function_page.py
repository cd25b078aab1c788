"""The part of docs/reference/operations.md on functions: their domains, bounds, measured errors, and a picture of these."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from syft.mpc.runtime import cost_meter
from tests.helpers.mpc.function_rows import FORMATS, FUNCTIONS, Function, distances, encoded

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "function-errors.svg"
SHOWN = ("16 bits", "3 decimals")
HEAD = """
## Functions

Each approximated function is compared with float64 torch over its whole domain, for 2, 3 and 4 parties, in four formats (16 and
24 bits, 3 and 6 decimals), with gradients. Outside of its domain a function returns the value given here, never noise. The
bound is the limit that the tests enforce: a number of units of the last place (2^-16 with 16 bits, 0.001 with 3 decimals), plus
a constant, plus a fraction of the result. The errors are the largest measured ones, relative to the result where it exceeds
one. Finer formats give no more digits than the terms after the units allow. Public numbers are computed in float64.
`x ** y` with both private requires x > 0; for other x and a positive y it is 0. A public x that is not positive is refused.

Method: a comparison with all powers of four finds the magnitude of a number; polynomials from tables, selected at a private
index, do the rest (`piecewise`, `exp`, `root`, `softmax` below). `sy.PolynomialTensor` builds such tables from your own functions
and samples.

| function | domain | outside of it | bound | error, 16 bits | error, 3 decimals | rounds |
|---|---|---|---|---|---|---|
"""
FOOT = """
![The errors over the domains](../images/function-errors.svg)

The error of each function over its domain, as a part of its bound (the dashed line): in blue with 16 bits, in orange with 3
decimals. Functions of whole rows (softmax, norms) are drawn over their results.
"""


def _measured(function: Function, form: str, workers: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return places, errors, and errors as parts of the bound, on shares of two parties."""
    alice, bob, dealer = workers
    base, precision = FORMATS[form]
    units = function.points(base**precision)
    wanted = function.wanted(units, base**precision)
    off, allowed = distances(function, units, FORMATS[form], (alice, bob), dealer)
    places = units.double() / base**precision if units.shape == wanted.shape and units.dim() == 1 else wanted
    return places.flatten(), (off / wanted.abs().clamp(min=1)).flatten(), (off / allowed).nan_to_num(0).flatten()


def rounds(function: Function, workers: Any) -> int:
    """Count how often the parties wait for each other."""
    alice, bob, dealer = workers
    units = function.points(2**16)
    given = encoded(units if units.dim() > 1 else units[-4:], FORMATS["16 bits"], (alice, bob), dealer)
    with cost_meter.count() as tally:
        function.call(given)
    return tally.rounds


def table(workers: Any) -> list[str]:
    """Return the lines of this part of the page."""
    lines = [HEAD.rstrip("\n")]
    for name, function in FUNCTIONS.items():
        errors = []
        for form in SHOWN:
            _, off, parts = _measured(function, form, workers)
            assert float(parts.max()) <= 1, name
            errors.append(f"~{float(off.max()):.1e}" if function.units else "0")
        lines.append(
            f"| `{name}` | {function.domain} | {function.outside or '-'} | {function.bound} | "
            f"{errors[0]} | {errors[1]} | {rounds(function, workers)} |"
        )
    return [*lines, FOOT.rstrip("\n")]


# --- the picture ------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, COLUMNS, MARGIN = 230, 120, 4, 14
LEFT, RIGHT, TOP, BOTTOM = 8, 8, 22, 18
COLOURS = {"16 bits": "#1f6fb4", "3 decimals": "#d9730d"}
BUCKETS = 70


def _envelope(places: torch.Tensor, parts: torch.Tensor, low: float, high: float) -> list[tuple[float, float]]:
    """Return the largest part in each of some equal steps, as places from 0 to 1."""
    where = ((places - low) / max(high - low, 1e-300) * BUCKETS).long().clamp(0, BUCKETS - 1)
    found = []
    for bucket in where.unique().tolist():
        found.append(((bucket + 0.5) / BUCKETS, float(parts[where == bucket].max())))
    return found


def _label(number: float, logarithmic: bool) -> str:
    return f"1e{number:.0f}" if logarithmic else f"{number:.3g}"


def _panel(name: str, function: Function, workers: Any, left: int, top: int) -> list[str]:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    drawn = [f'<g transform="translate({left + LEFT} {top + TOP})">', f'<text y="-7" class="name">{name}</text>']
    drawn.append(f'<path d="M0 {high}H{wide}" stroke="#444"/>')
    drawn.append(f'<path d="M0 {0.1 * high:.1f}H{wide}" stroke="#999" stroke-dasharray="3 3"/>')
    series = {}
    for form in SHOWN:
        places, _, parts = _measured(function, form, workers)
        if function.logarithmic:
            keep = places > 0
            places, parts = places[keep].log10(), parts[keep]
        series[form] = places, parts
    first = min(float(places.min()) for places, _ in series.values())
    last = max(float(places.max()) for places, _ in series.values())
    for form, (places, parts) in series.items():
        points = _envelope(places, parts, first, last)
        line = " ".join(f"{x * wide:.1f},{high - y * 0.9 * high:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[form]}" stroke-width="1.2"/>')
    drawn.append(f'<text y="{high + 13}">{_label(first, function.logarithmic)}</text>')
    drawn.append(f'<text x="{wide}" y="{high + 13}" text-anchor="end">{_label(last, function.logarithmic)}</text>')
    return [*drawn, "</g>"]


def picture(workers: Any) -> str:
    """Return the picture, as SVG."""
    shown = {name: function for name, function in FUNCTIONS.items() if function.units}
    lines = math.ceil(len(shown) / COLUMNS)
    wide, high = COLUMNS * WIDTH + 2 * MARGIN, lines * HEIGHT + 2 * MARGIN
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="10" fill="#333">',
        "<title>The errors of approximated functions over their domains, as parts of their bounds</title>",
        "<style>.name{font-size:12px;font-weight:bold;fill:#111}</style>",
        f'<rect width="{wide}" height="{high}" fill="#fff"/>',
    ]
    for number, (name, function) in enumerate(shown.items()):
        row, column = divmod(number, COLUMNS)
        drawn += _panel(name, function, workers, MARGIN + column * WIDTH, MARGIN + row * HEIGHT)
    return "\n".join([*drawn, "</svg>"]) + "\n"
