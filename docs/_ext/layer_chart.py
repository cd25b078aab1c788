"""Draws the flowcharts of the pages as SVG, row by row: blocks of the language `mermaid`, which code hosts draw too.

It knows `flowchart TD`, nodes with labels, and `a & b --> c & d`. A label "name: words" shows the name in bold.
"""

from __future__ import annotations

import html
import itertools
import re
import textwrap
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

WIDTH, GAP, ROW_GAP, LINE, CHARACTERS = 180, 14, 28, 16, 25
_NODE = re.compile(r"(\w+)(?:\[\"([^\"]*)\"\])?")


class Chart:
    """Boxes with labels, and arrows between them."""

    def __init__(self, source: str) -> None:
        self.labels: dict[str, str] = {}
        self.arrows: list[tuple[str, str]] = []
        first, *lines = [line.strip() for line in source.strip().splitlines()]
        if first != "flowchart TD":
            raise ValueError(f"Only charts that start with 'flowchart TD' can be drawn, not {first!r}.")
        for line in filter(None, lines):
            groups = [[self._box(part) for part in side.split(" & ")] for side in line.split(" --> ")]
            for left, right in itertools.pairwise(groups):
                self.arrows += [(a, b) for a in left for b in right]

    def _box(self, text: str) -> str:
        found = _NODE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"This part of a chart can't be drawn: {text.strip()!r}")
        name, label = found.groups()
        self.labels.setdefault(name, name)
        if label:
            self.labels[name] = label
        return name

    def rows(self) -> list[list[str]]:
        """Return the boxes from top to bottom: each as low as the boxes below it allow."""
        heights: dict[str, int] = {}

        def height(name: str) -> int:
            if name not in heights:
                heights[name] = 1 + max((height(b) for a, b in self.arrows if a == name), default=-1)
            return heights[name]

        top = max(height(name) for name in self.labels)
        return [[name for name in self.labels if heights[name] == level] for level in range(top, -1, -1)]

    def svg(self) -> str:
        """Draw the chart in the colour of the text around it."""
        rows = self.rows()
        total = max(len(row) for row in rows) * (WIDTH + GAP) - GAP
        boxes, edges, y = {}, [], 2
        for row in rows:
            texts = {name: _lines(self.labels[name]) for name in row}
            height = max(len(lines) for lines in texts.values()) * LINE + 14
            left = (total - len(row) * (WIDTH + GAP) + GAP) / 2
            for index, name in enumerate(row):
                boxes[name] = (left + index * (WIDTH + GAP), y, height, texts[name])
            y += height + ROW_GAP
        for a, b in self.arrows:
            (ax, ay, ah, _), (bx, by, _, _) = boxes[a], boxes[b]
            x1, y1, x2, y2 = ax + WIDTH / 2, ay + ah, bx + WIDTH / 2, by - 5
            middle = (y1 + y2) / 2
            edges.append(
                f'<path d="M{x1:g} {y1:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}" marker-end="url(#tip)"/>'
            )
        drawn = "".join(_box(*box) for box in boxes.values())
        names = html.escape("; ".join(f"{a} uses {b}" for a, b in self.arrows))
        return (
            f'<div class="chart"><svg viewBox="0 0 {total} {y - ROW_GAP + 2}" role="img" aria-label="{names}">'
            '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="1" refY="3" orient="auto">'
            '<path class="tip" d="M0 0L6 3L0 6z"/></marker></defs>'
            f'<g class="edges">{"".join(edges)}</g>{drawn}</svg></div>'
        )


def _lines(label: str) -> list[tuple[str, bool]]:
    """Return the lines of a box, and whether each belongs to the name."""
    name, _, words = label.partition(": ")
    lines = [(line, True) for line in textwrap.wrap(name, CHARACTERS - 3)]
    return lines + [(line, False) for line in textwrap.wrap(words, CHARACTERS)]


def _box(x: float, y: float, height: float, lines: list[tuple[str, bool]]) -> str:
    middle = x + WIDTH / 2
    top = y + (height - len(lines) * LINE) / 2 + 12
    texts = "".join(
        f'<text x="{middle:g}" y="{top + i * LINE:g}"{" class=name" if is_name else ""}>{html.escape(line)}</text>'
        for i, (line, is_name) in enumerate(lines)
    )
    return f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{height:g}" rx="5"/>{texts}'


def draw(app: Sphinx, doctree: nodes.document) -> None:
    """Replace the charts of a page by drawings."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", Chart(block.astext()).svg(), format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
