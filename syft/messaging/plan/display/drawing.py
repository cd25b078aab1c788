"""Drawings of plans as SVG, in the colours of the surrounding page."""

from __future__ import annotations

import html
import itertools

from syft.messaging.plan.display.graph import Graph, GraphNode
from syft.messaging.plan.display.layout import GraphLayout, layout

TITLE, SMALL = 12.0, 10.0
_WIDE = 0.62  # width of a monospaced letter, relative to its height
_LINE, _PAD_X, _PAD_Y = 14.0, 10.0, 6.0
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
# Visible on white and on black.
_COLOURS = {
    "input": "#3b82c4",
    "operation": "currentColor",
    "training": "#c9822b",
    "output": "#3f9a5f",
    "more": "currentColor",
}


def svg_of(graph: Graph, label: str) -> str:
    """Return the SVG text of a graph.

    Args:
        graph: what to draw.
        label: a description for screen readers.
    """
    sizes = [_size(node) for node in graph.nodes]
    top = {number for number, node in enumerate(graph.nodes) if node.kind == "input"}
    bottom = {number for number, node in enumerate(graph.nodes) if node.kind == "output"}
    placed = layout(sizes, list(graph.edges), top, bottom)
    parts = [_arrow(placed, edge, order_only) for edge, order_only in graph.edges.items()]
    parts += [_box(node, *rectangle) for node, rectangle in zip(graph.nodes, placed.boxes, strict=True)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {placed.width:.0f} {placed.height:.0f}" '
        f'width="{placed.width:.0f}" height="{placed.height:.0f}" role="img" aria-label="{_safe(label)}" '
        f'style="color:var(--jp-ui-font-color1,currentColor)" font-family="{_safe(_FONT)}">' + "".join(parts) + "</svg>"
    )


def _safe(text: str) -> str:
    """Return a text escaped for XML, without characters that XML can't represent."""
    return html.escape("".join(sign if sign.isprintable() else "�" for sign in text))


def _size(node: GraphNode) -> tuple[float, float]:
    fonts = [TITLE] + [SMALL] * (len(node.lines) - 1)
    width = max(len(line) * font * _WIDE for line, font in zip(node.lines, fonts, strict=True))
    return width + 2 * _PAD_X, len(node.lines) * _LINE + 2 * _PAD_Y


def _box(node: GraphNode, x: float, y: float, width: float, height: float) -> str:
    colour = _COLOURS[node.kind]
    radius = height / 2 if node.kind in ("input", "output") else 5
    dashes = ' stroke-dasharray="4 3"' if node.kind == "more" else ""
    hint = f"<title>{_safe(node.hint)}</title>" if node.hint else ""
    rectangle = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}" '
        f'fill="{colour}" fill-opacity="0.10" stroke="{colour}" stroke-opacity="0.65"{dashes}/>'
    )
    texts = "".join(
        f'<text x="{x + width / 2:.1f}" y="{y + _PAD_Y + _LINE * (number + 0.75):.1f}" text-anchor="middle" '
        f'fill="currentColor" font-size="{TITLE if number == 0 else SMALL:g}"'
        + (' fill-opacity="0.7"' if number else ' font-weight="600"')
        + f">{_safe(line)}</text>"
        for number, line in enumerate(node.lines)
    )
    return f"<g>{hint}{rectangle}{texts}</g>"


def _arrow(placed: GraphLayout, edge: tuple[int, int], order_only: bool) -> str:
    points = placed.paths[edge]
    x, y = points[-1]
    points = [*points[:-1], (x, y - 5)]  # the rest is the arrow head
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if abs(x0 - x1) < 0.05:
            path += f"V{y1:.1f}"
        else:
            middle = (y0 + y1) / 2
            path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    dashes = ' stroke-dasharray="3 3"' if order_only else ""
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.5"{dashes}/>'
        f'<path d="M{x - 3.5:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}L{x + 3.5:.1f} {y - 6:.1f}Z" '
        'fill="currentColor" fill-opacity="0.6"/>'
    )
