"""Layout of a layered graph: each box below the boxes it needs, with few crossings (Sugiyama's method)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

Edge = tuple[int, int]
GAP_X, GAP_Y, MARGIN = 22.0, 30.0, 12.0
BEND = 10.0  # the width that an arrow takes where it passes a layer
_SWEEPS = 6


@dataclasses.dataclass(slots=True)
class GraphLayout:
    """Positions of boxes and arrows.

    Attributes:
        width: total width.
        height: total height.
        boxes: left, top, width and height of each box.
        paths: the points that each arrow goes through.
    """

    width: float
    height: float
    boxes: list[tuple[float, float, float, float]]
    paths: dict[Edge, list[tuple[float, float]]]


class _Position:
    """A box, or the point where an arrow passes a layer."""

    __slots__ = ("above", "below", "height", "layer", "width", "x")

    def __init__(self, layer: int, width: float, height: float) -> None:
        self.layer, self.width, self.height, self.x = layer, width, height, 0.0
        self.above: list[_Position] = []
        self.below: list[_Position] = []


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], top: set[int], bottom: set[int]) -> GraphLayout:
    """Lay out boxes.

    Args:
        sizes: width and height of each box.
        edges: arrows, each to a box with a higher number.
        top: boxes that go to the first layer.
        bottom: boxes that go to the last layer.
    """
    layers = layer_of(len(sizes), edges, top, bottom)
    boxes = [_Position(layer, *size) for layer, size in zip(layers, sizes, strict=True)]
    chains = {edge: _chain(boxes[edge[0]], boxes[edge[1]]) for edge in edges}
    rows: list[list[_Position]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for position in itertools.chain(boxes, *(chain[1:-1] for chain in chains.values())):
        rows[position.layer].append(position)
    rows = _ordered(rows)
    _put_side_by_side(rows)
    return _drawn(rows, boxes, chains)


def layer_of(count: int, edges: Sequence[Edge], top: set[int], bottom: set[int]) -> list[int]:
    """Return the layer of each box: the longest path to it; a box without inputs is right above its first reader."""
    needs: list[list[int]] = [[] for _ in range(count)]
    readers: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        needs[end].append(start)
        readers[start].append(end)
    layers = [0] * count
    for box in range(count):
        layers[box] = max((layers[need] + 1 for need in needs[box]), default=0 if box in top or not top else 1)
    for box in reversed(range(count)):
        if not needs[box] and box not in top and readers[box]:
            layers[box] = max(layers[box], min(layers[reader] for reader in readers[box]) - 1)
    last = max(layers, default=0)
    others = [layers[box] for box in range(count) if box not in bottom]
    for box in bottom:
        layers[box] = max(last, max(others, default=-1) + 1)
    return layers


def _chain(start: _Position, end: _Position) -> list[_Position]:
    """Connect two boxes through a position in each layer between them."""
    chain = [start, *(_Position(layer, BEND, 0.0) for layer in range(start.layer + 1, end.layer)), end]
    for one, other in itertools.pairwise(chain):
        one.below.append(other)
        other.above.append(one)
    return chain


# --- the order in a layer -----------------------------------------------------------------------------------------


def _ordered(rows: list[list[_Position]]) -> list[list[_Position]]:
    """Sort each layer by the mean position of its neighbours, down and up; keeps the order with fewest crossings."""
    _number(rows)
    best, fewest = [list(row) for row in rows], crossings(rows)
    for _ in range(_SWEEPS):
        for row in rows[1:]:
            _sort(row, lambda position: position.above)
        for row in reversed(rows[:-1]):
            _sort(row, lambda position: position.below)
        count = crossings(rows)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    _number(best)
    return best


def _number(rows: list[list[_Position]]) -> None:
    for row in rows:
        for number, position in enumerate(row):
            position.x = float(number)


def _sort(row: list[_Position], neighbours: Callable[[_Position], list[_Position]]) -> None:
    row.sort(key=lambda position: _mean(neighbours(position), position.x))
    _number([row])


def _mean(positions: list[_Position], otherwise: float) -> float:
    return sum(position.x for position in positions) / len(positions) if positions else otherwise


def crossings(rows: list[list[_Position]]) -> int:
    """Count the crossings between neighbouring layers."""
    count = 0
    for row in rows:
        ends = [end.x for position in row for end in sorted(position.below, key=lambda p: p.x)]
        count += sum(1 for number, end in enumerate(ends) for other in ends[number + 1 :] if other < end)
    return count


# --- coordinates ----------------------------------------------------------------------------------------------------


def _put_side_by_side(rows: list[list[_Position]]) -> None:
    """Assign x coordinates: near the neighbours in other layers, without overlaps in a layer."""
    for row in rows:
        _spread(row, [0.0] * len(row))
    for number in range(4 * _SWEEPS):
        down = number % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = []
            for position in row:
                near = (position.above if down else position.below) or position.above or position.below
                wanted.append(_mean(near, position.x))
            _spread(row, wanted)


def _spread(row: list[_Position], wanted: list[float]) -> None:
    """Move the positions of a layer as close to the wanted coordinates as their order and widths allow.

    Neighbours that would overlap form a block, which moves to the mean of the wanted coordinates of its members.
    """
    blocks: list[tuple[float, list[tuple[_Position, float]]]] = []  # the x of a block, and its members' offsets
    for position, x in zip(row, wanted, strict=True):
        blocks.append((x, [(position, 0.0)]))
        while len(blocks) > 1 and _overlap(blocks[-2], blocks[-1]):
            right, left = blocks.pop(), blocks.pop()
            shift = _reach(left) + _space(left[1][-1][0], right[1][0][0])
            members = left[1] + [(member, offset + shift) for member, offset in right[1]]
            heavy, light = _weight(left), _weight(right)
            blocks.append(((left[0] * heavy + (right[0] - shift) * light) / (heavy + light), members))
    for x, members in blocks:
        for position, offset in members:
            position.x = x + offset


def _weight(block: tuple[float, list[tuple[_Position, float]]]) -> float:
    """Return the weight of a block; arrows weigh more than boxes, so that they are straight."""
    return sum(1.0 if position.height else 10.0 for position, _ in block[1])


def _reach(block: tuple[float, list[tuple[_Position, float]]]) -> float:
    return block[1][-1][1]


def _space(left: _Position, right: _Position) -> float:
    return (left.width + right.width) / 2 + GAP_X


def _overlap(
    left: tuple[float, list[tuple[_Position, float]]], right: tuple[float, list[tuple[_Position, float]]]
) -> bool:
    return left[0] + _reach(left) + _space(left[1][-1][0], right[1][0][0]) > right[0] + 1e-9


def _drawn(rows: list[list[_Position]], boxes: list[_Position], chains: dict[Edge, list[_Position]]) -> GraphLayout:
    everything = [position for row in rows for position in row]
    left = min((position.x - position.width / 2 for position in everything), default=0.0) - MARGIN
    right = max((position.x + position.width / 2 for position in everything), default=0.0) + MARGIN
    tops, heights, y = [], [], MARGIN
    for row in rows:
        tops.append(y)
        heights.append(max((position.height for position in row), default=0.0))
        y += heights[-1] + GAP_Y
    rectangles = [
        (p.x - p.width / 2 - left, tops[p.layer] + (heights[p.layer] - p.height) / 2, p.width, p.height) for p in boxes
    ]
    leaving, arriving = _ports(chains, 0), _ports(chains, -1)
    paths: dict[Edge, list[tuple[float, float]]] = {}
    for edge, chain in chains.items():
        start, end = rectangles[edge[0]], rectangles[edge[1]]
        points = [(leaving[edge] - left, start[1] + start[3])]
        for position in chain[1:-1]:
            points += [
                (position.x - left, tops[position.layer]),
                (position.x - left, tops[position.layer] + heights[position.layer]),
            ]
        paths[edge] = [*points, (arriving[edge] - left, end[1])]
    return GraphLayout(right - left, max(y - GAP_Y + MARGIN, 2 * MARGIN), rectangles, paths)


def _ports(chains: dict[Edge, list[_Position]], side: int) -> dict[Edge, float]:
    """Return the x coordinate where each arrow leaves (side 0) or enters (side -1) its box, side by side in order."""
    groups: dict[int, list[Edge]] = {}
    for edge in chains:
        groups.setdefault(edge[side], []).append(edge)
    found: dict[Edge, float] = {}
    for group in groups.values():
        group.sort(key=lambda edge: chains[edge][1 if side == 0 else -2].x)
        box = chains[group[0]][side]
        step = min(16.0, box.width / (len(group) + 1))
        for number, edge in enumerate(group):
            found[edge] = box.x + (number - (len(group) - 1) / 2) * step
    return found
