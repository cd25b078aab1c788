"""HTML of the history of a run for notebooks: charts, and a table of the last rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syft.display import grid_html
from syft.federated.history.chart import Chart

_UNITS = ("B", "kB", "MB", "GB", "TB")


def page(title: str, chart: Chart | None, rows: Sequence[dict[str, Any]], count: int) -> str:
    """Return charts and a table.

    Args:
        title: the heading.
        chart: the charts, if any.
        rows: the rounds to show.
        count: total number of rounds.
    """
    columns = [name for name in (rows[-1] if rows else ()) if any(row.get(name) not in (None, "") for row in rows)]
    if count > len(rows):
        title = f"{title}; the last {len(rows)} rounds, .rows() has all"
    table = grid_html(title, columns, [[_text(name, row.get(name)) for name in columns] for row in rows])
    return table if chart is None else f"<div>{chart.svg}</div>{table}"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.startswith("bytes_"):
        return size_text(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def size_text(count: float) -> str:
    """Return a number of bytes with a unit."""
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {_UNITS[unit]}"
