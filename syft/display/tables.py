"""HTML and text tables for notebooks, in Jupyter's colours; they never show values of tensors."""

from __future__ import annotations

import html
from collections.abc import Iterable

from syft.core.labels import printable

# Jupyter's text colour, and elsewhere that of the page: readable in light and dark themes. No background is set.
_STYLE = "border-collapse:collapse;font-size:90%;color:var(--jp-ui-font-color1,inherit);background:transparent"


def table_html(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Render a title and name-value rows; rows that are None or empty are left out."""
    cells = "".join(
        f"<tr><td style='text-align:left;padding:2px 12px 2px 4px;opacity:.7'>{html.escape(name)}</td>"
        f"<td style='text-align:left;padding:2px 4px'>{_lines(value)}</td></tr>"
        for name, value in rows
        if value is not None and value != ""
    )
    head = f"<tr><th colspan=2 style='text-align:left'>{html.escape(printable(title))}</th></tr>"
    return f"<table style='{_STYLE}'>{head}{cells}</table>"


def _lines(value: object) -> str:
    """Return a value as HTML; floats have four digits."""
    text = f"{value:.4g}" if isinstance(value, float) else printable(value)
    return html.escape(text).replace("\n", "<br>")


def grid_html(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Render a title, column names and rows of texts."""
    names = list(columns)
    cell = "text-align:left;padding:2px 12px 2px 4px"
    head = "".join(f"<th style='{cell};opacity:.7'>{html.escape(name)}</th>" for name in names)
    lines = ("".join(f"<td style='{cell}'>{_lines(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<tr><th colspan={len(names)} style='text-align:left'>{html.escape(printable(title))}</th></tr>"
    return f"<table style='{_STYLE}'>{top}<tr>{head}</tr>{body}</table>"


def grid_text(columns: Iterable[str], rows: Iterable[Iterable[str]], left: int = 3) -> str:
    """Render column names and rows of texts as lines; columns from index `left` on are right-aligned."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: list[str]) -> str:
        sized = zip(cells, widths, strict=True)
        return "  ".join(t.ljust(size) if i < left else t.rjust(size) for i, (t, size) in enumerate(sized)).rstrip()

    return "\n".join([line(lines[0]), "-" * len(line(lines[0])), *map(line, lines[1:])])
