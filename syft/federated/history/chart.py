"""Line charts as SVG, without a drawing library."""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from syft.exceptions import TrainingError

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 420, 260  # of one chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 32, 44  # margins inside it
_COLUMNS = 2
_COLORS = ("#1f6fb4", "#c4461c", "#2f855a", "#7b4fa3", "#a06a00", "#b0306a")
_MOST_POINTS = 2000  # of one line: more is not visible
_MOST_DOTS = 40
# Colours of a file, which pages replace; quotes in texts of users are escaped.
_BACKGROUND = re.compile(r'<rect [^>]*fill="#ffffff"/>')
_TEXT_COLORS = re.compile(r'(fill|stroke)="#(?:222222|444444|666666)"')
_LARGEST, _SMALLEST = 1e150, 1e-150  # axes can't show values beyond these


class Chart:
    """A drawing as the text of an SVG file."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: Any) -> None:
        """Write the chart to a file whose name ends in .svg."""
        file = Path(path)
        if file.suffix.lower() != ".svg":
            raise TrainingError(
                f"A chart is written as SVG. Use a name such as {file.stem}.svg. For other formats use "
                "matplotlib: history.plot(ax=axes)."
            )
        file.write_text(self.svg, encoding="utf-8")

    def inline(self) -> str:
        """Return the chart for a page: in the text colour of the page, on its background. A file has its own."""
        svg = _BACKGROUND.sub("", self.svg)
        svg = svg.replace('stroke="#e2e2e2"', 'stroke="currentColor" stroke-opacity="0.2"')
        svg = _TEXT_COLORS.sub(r'\1="currentColor"', svg)
        return f"<div style='color:var(--jp-ui-font-color1,inherit);background:transparent'>{svg}</div>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.inline()

    def __repr__(self) -> str:
        return f"<Chart of {len(self.svg)} characters of SVG>"


def draw(series: Mapping[str, Points], across: str) -> Chart:
    """Return charts of series, one for each, side by side; a y that is not finite is a gap.

    Classes let a page choose other colours: ground, ink, grid and axis.
    """
    count = max(1, len(series))
    columns = min(_COLUMNS, count)
    width, height = columns * WIDTH, math.ceil(count / columns) * HEIGHT
    label = html.escape(f"{', '.join(series) or 'nothing'} over {across}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12" role="img" aria-label="{label}">',
        f'<rect class="ground" width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if not series:
        parts.append(_text(width / 2, height / 2, "nothing to show yet", "middle"))
    for number, (name, points) in enumerate(series.items()):
        row, column = divmod(number, columns)
        parts.append(f'<g transform="translate({column * WIDTH},{row * HEIGHT})">')
        parts += _panel(name, across, points, _COLORS[number % len(_COLORS)])
        parts.append("</g>")
    return Chart("\n".join([*parts, "</svg>"]))


def _panel(name: str, across: str, points: Points, color: str) -> list[str]:
    """Return one chart: its title, its axes with ticks, and the line."""
    points = [*points[: -1 : math.ceil(len(points) / _MOST_POINTS)], *points[-1:]] if points else []
    shown = [y for _, y in points if abs(y) <= _LARGEST]
    parts = [f'<text class="ink" x="{_LEFT}" y="20" font-weight="bold" fill="#222222">{html.escape(name)}</text>']
    if not shown:
        return [*parts, _text(WIDTH / 2, HEIGHT / 2, "nothing to show yet", "middle")]
    x_low, x_high = _span([x for x, _ in points])  # including gaps
    y_ticks = ticks(shown)
    floor, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT

    def across_of(x: float) -> float:
        return _LEFT + (x - x_low) / (x_high - x_low) * (right - _LEFT)

    def height_of(y: float) -> float:
        return floor - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (floor - _TOP)

    for y in y_ticks:
        level = height_of(y)
        parts.append(f'<path class="grid" d="M{_LEFT},{level:.1f} H{right}" stroke="#e2e2e2"/>')
        parts.append(_text(_LEFT - 6, level + 4, f"{y:.6g}", "end"))
    for x in {points[0][0], *(x for x in ticks([x_low, x_high], is_whole=True) if x_low <= x <= x_high)}:
        along = across_of(x)
        parts.append(f'<path class="axis" d="M{along:.1f},{floor} v5" stroke="#666666"/>')
        parts.append(_text(along, floor + 18, f"{x:.0f}", "middle"))
    parts.append(f'<path class="axis" d="M{_LEFT},{_TOP} V{floor} H{right}" fill="none" stroke="#666666"/>')
    parts.append(_text((_LEFT + right) / 2, HEIGHT - 8, across, "middle"))
    # The line is interrupted at gaps; a single point is a dot.
    for is_gap, run in itertools.groupby(points, lambda point: not abs(point[1]) <= _LARGEST):
        spots = [] if is_gap else [(f"{across_of(x):.1f}", f"{height_of(y):.1f}") for x, y in run]
        if len(spots) > 1:
            line = " ".join(map(",".join, spots))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        if len(spots) == 1 or len(shown) <= _MOST_DOTS:
            parts += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{color}"/>' for x, y in spots]
    return parts


def ticks(values: Sequence[float], wanted: int = 5, is_whole: bool = False) -> list[float]:
    """Return round numbers at even distances, from below the lowest value to above the highest."""
    low, high = _span(values)
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if is_whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest value, made different if they are equal."""
    low, high = min(values), max(values)
    if high - low <= max(1e-9 * max(abs(low), abs(high)), _SMALLEST):
        room = abs(low) * 0.1 if abs(low) > _SMALLEST else 1.0
        return low - room, high + room
    return low, high


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="ink" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444444">{html.escape(text)}</text>'
