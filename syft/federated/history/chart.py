"""Line charts as SVG, without a drawing library."""

from __future__ import annotations

import html
import math
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
_LARGEST, _SMALLEST = 1e150, 1e-150  # axes can't show values beyond these


class Chart:
    """A drawing.

    Args:
        svg: its text.
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: Any) -> None:
        """Write the chart to a file.

        Args:
            path: the file name, which ends in .svg.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise TrainingError(
                f"A chart is written as SVG. Use a name such as {place.stem}.svg. For other formats use "
                "matplotlib: history.plot(ax=axes)."
            )
        place.write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Chart of {len(self.svg)} characters of SVG>"


def draw(series: Mapping[str, Points], across: str) -> Chart:
    """Return charts of series, one for each, side by side.

    Args:
        series: points by name; a y that is not finite is a gap.
        across: the label of the horizontal axis.
    """
    count = max(1, len(series))
    columns = min(_COLUMNS, count)
    width, height = columns * WIDTH, math.ceil(count / columns) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" role="img">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if not series:
        parts.append(_words(width / 2, height / 2, "nothing to show yet", "middle"))
    for number, (name, points) in enumerate(series.items()):
        row, column = divmod(number, columns)
        parts.append(f'<g transform="translate({column * WIDTH},{row * HEIGHT})">')
        parts += _panel(name, across, _thinned(points), _COLORS[number % len(_COLORS)])
        parts.append("</g>")
    return Chart("\n".join([*parts, "</svg>"]))


def _panel(name: str, across: str, points: Points, color: str) -> list[str]:
    """Return one chart: its title, its axes with ticks, and the line."""
    points = [(x, y if abs(y) <= _LARGEST else math.nan) for x, y in points if math.isfinite(x)]
    shown = [(x, y) for x, y in points if math.isfinite(y)]
    parts = [f'<text x="{_LEFT}" y="20" font-weight="bold" fill="#222222">{html.escape(name)}</text>']
    if not shown:
        return [*parts, _words(WIDTH / 2, HEIGHT / 2, "nothing to show yet", "middle")]
    rounds = [x for x, _ in points]  # including gaps
    x_low, x_high = _span(rounds)
    x_ticks = [x for x in ticks(rounds, is_whole=True) if x_low <= x <= x_high]
    if len(x_ticks) > 1 and x_ticks[0] - x_low > 0.4 * (x_ticks[1] - x_ticks[0]):
        x_ticks.insert(0, x_low)
    y_ticks = ticks([y for _, y in shown])
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + _share(x, x_low, x_high) * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - _share(y, y_low, y_high) * (HEIGHT - _TOP - _BOTTOM),
        )

    floor, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for y in y_ticks:
        _, level = place(x_low, y)
        parts.append(f'<line x1="{_LEFT}" y1="{level:.1f}" x2="{right}" y2="{level:.1f}" stroke="#e2e2e2"/>')
        parts.append(_words(_LEFT - 6, level + 4, _label(y, y_ticks), "end"))
    for x in x_ticks:
        along, _ = place(x, y_low)
        parts.append(f'<line x1="{along:.1f}" y1="{floor}" x2="{along:.1f}" y2="{floor + 5}" stroke="#666666"/>')
        parts.append(_words(along, floor + 18, f"{x:,.0f}", "middle"))
    parts.append(f'<path d="M{_LEFT},{_TOP} V{floor} H{right}" fill="none" stroke="#666666"/>')
    parts.append(_words((_LEFT + right) / 2, HEIGHT - 8, across, "middle"))
    return [*parts, *_line(points, place, color)]


def _line(points: Points, place: Any, color: str) -> list[str]:
    """Return the line, interrupted at gaps; a single point is a dot."""
    runs: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(y):
            runs[-1].append("{:.1f},{:.1f}".format(*place(x, y)))
        elif runs[-1]:
            runs.append([])
    runs = [run for run in runs if run]
    lines = [
        f'<polyline points="{" ".join(run)}" fill="none" stroke="{color}" stroke-width="2" stroke-linejoin="round"/>'
        for run in runs
        if len(run) > 1
    ]
    is_short = sum(map(len, runs)) <= 40
    dots = [spot for run in runs for spot in run if is_short or len(run) == 1]
    for spot in dots:
        across, down = spot.split(",")
        lines.append(f'<circle cx="{across}" cy="{down}" r="2.5" fill="{color}"/>')
    return lines


def ticks(values: Sequence[float], wanted: int = 5, is_whole: bool = False) -> list[float]:
    """Return round numbers at even distances, from below the lowest value to above the highest.

    Args:
        values: finite numbers, at least one.
        wanted: approximate number of ticks.
        is_whole: whether to use integers only.
    """
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


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low)


def _label(value: float, among: Sequence[float]) -> str:
    """Return a tick with enough digits to distinguish it from its neighbours."""
    step = among[1] - among[0]
    if abs(value) < step / 2:
        return "0"
    largest = max(abs(among[0]), abs(among[-1]))
    if not 1e-4 <= largest < 1e6:
        digits = max(0, math.ceil(math.log10(largest / step)) + 1)
        return f"{value:.{min(digits, 6)}g}"
    return f"{value:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _thinned(points: Points) -> Points:
    if len(points) <= _MOST_POINTS:
        return points
    every = math.ceil(len(points) / _MOST_POINTS)
    return [*points[:-1:every], points[-1]]


def _words(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444444">{html.escape(text)}</text>'
