"""The graph of a plan, for drawings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from syft.core.trees import iter_tensors
from syft.messaging.message import Operation
from syft.messaging.plan.commands import (
    ARITHMETIC,
    EXPECT,
    EXPECT_PROPERTY,
    GRAD_MODE,
    GRADIENT,
    NUMEL,
    OPTIMIZER_STEP,
    SIZE,
)
from syft.messaging.plan.display.code import Names, short_name, statement
from syft.messaging.plan.dry_run import ValueSpec
from syft.tensors.placeholder import PlaceHolder

SHOWN = 60  # operations at each end of a long plan
MAX_ENDS = 30  # inputs, or outputs
# Sizes and checks are left out of drawings and tables.
HIDDEN = frozenset({SIZE, NUMEL, EXPECT, EXPECT_PROPERTY, GRAD_MODE, *(f"syft.plan.{name}" for name in ARITHMETIC)})
TRAINS = frozenset(
    {OPTIMIZER_STEP, GRADIENT, "torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"}
)
_READS_GRADIENT = frozenset({GRADIENT, "torch.Tensor.grad.__get__"})
_SETS_GRADIENT = "torch.Tensor.grad.__set__"


@dataclasses.dataclass(slots=True)
class GraphNode:
    """A box.

    Attributes:
        kind: "input", "operation", "training", "output" or "more".
        lines: its texts; the first is the title.
        hint: the tooltip.
    """

    kind: str
    lines: list[str]
    hint: str = ""


@dataclasses.dataclass(slots=True)
class Graph:
    """Boxes, and arrows from a box to one with a higher number.

    Attributes:
        nodes: the boxes.
        edges: pairs of numbers; True if the arrow only shows an order, not a tensor.
    """

    nodes: list[GraphNode] = dataclasses.field(default_factory=list)
    edges: dict[tuple[int, int], bool] = dataclasses.field(default_factory=dict)

    def add(self, node: GraphNode) -> int:
        """Add a box and return its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def connect(self, start: int | None, end: int, order_only: bool = False) -> None:
        """Add an arrow, unless both ends are the same box."""
        if start is not None and start != end:
            self.edges[start, end] = self.edges.get((start, end), True) and order_only


def spec_text(spec: ValueSpec | None, mark: str = "*") -> str:
    """Return a shape and a dtype as text; sizes that follow the inputs have a mark."""
    if spec is None:
        return ""
    sizes = [f"{size}{mark if dim in spec.varies else ''}" for dim, size in enumerate(spec.shape)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''}) {str(spec.dtype).removeprefix('torch.')}"


def is_shown(operation: Operation) -> bool:
    """Say whether an operation is shown: no size, no check, no reset of a gradient."""
    if operation.cmd_name == _SETS_GRADIENT and operation.cmd_args[1:] == (None,):
        return False
    return operation.cmd_name not in HIDDEN


class _Builder:
    def __init__(
        self, names: Names, inputs: tuple[ValueSpec, ...], results: list[tuple[ValueSpec | None, ...]]
    ) -> None:
        self.names = names
        self.graph = Graph()
        self.makers: dict[int, int] = {}
        self.last_effect: int | None = None
        self.state = {id(placeholder) for placeholder in names.program.state}
        self.results = results
        self._inputs(inputs)
        shown = [n for n, operation in enumerate(names.program.operations) if is_shown(operation)]
        self.hidden = set(shown[SHOWN:-SHOWN]) if len(shown) > 2 * SHOWN else set()
        self.more: int | None = None

    def _inputs(self, specs: tuple[ValueSpec, ...]) -> None:
        inputs = self.names.program.inputs
        for number, placeholder in enumerate(inputs[:MAX_ENDS]):
            spec = spec_text(specs[number]) if number < len(specs) else ""
            self.makers[id(placeholder)] = self.graph.add(GraphNode("input", _lines(self.names.of(placeholder), spec)))
        if len(inputs) > MAX_ENDS:
            rest = self.graph.add(GraphNode("more", [f"{len(inputs) - MAX_ENDS} more inputs"]))
            self.makers.update((id(placeholder), rest) for placeholder in inputs[MAX_ENDS:])

    def operation(self, number: int, operation: Operation) -> None:
        """Add an operation, or the box that stands for many."""
        hint = statement(self.names, operation)  # names the results, in the order of the text
        used = list(iter_tensors((operation.cmd_args, operation.cmd_kwargs)))
        results = list(iter_tensors(operation.return_ids))
        if not is_shown(operation):
            origin = next((self.makers[id(p)] for p in used if id(p) in self.makers), None)
            if origin is not None:
                self.makers.update((id(placeholder), origin) for placeholder in results)
            return
        node = self._node(number, operation, hint, used)
        for placeholder in used:
            self.graph.connect(self.makers.get(id(placeholder)), node)
        self._effects(operation, node, used)
        self.makers.update((id(placeholder), node) for placeholder in results)

    def _node(self, number: int, operation: Operation, hint: str, used: list[Any]) -> int:
        if number in self.hidden:
            if self.more is None:
                self.more = self.graph.add(GraphNode("more", [f"… {len(self.hidden)} more operations"]))
            return self.more
        specs = [text for spec in self.results[number] if (text := spec_text(spec))]
        names = dict.fromkeys(self.names.of(p).removeprefix("self.") for p in used if id(p) in self.state)
        title = hint if operation.cmd_name == OPTIMIZER_STEP else short_name(operation.cmd_name)
        kind = "training" if operation.cmd_name in TRAINS else "operation"
        return self.graph.add(GraphNode(kind, _lines(title, _cut(specs, 2), _cut(joined(list(names)), 2)), hint))

    def _effects(self, operation: Operation, node: int, used: list[Any]) -> None:
        """Connect in-place changes, and the order of operations on gradients."""
        name = operation.cmd_name
        if name in _READS_GRADIENT or name == OPTIMIZER_STEP:
            self.graph.connect(self.last_effect, node, order_only=True)
        if name.endswith("_") and operation.cmd_args and isinstance(operation.cmd_args[0], PlaceHolder):
            self.makers[id(operation.cmd_args[0])] = node
        if name == OPTIMIZER_STEP:
            self.makers.update((key, node) for key in self.state)
        if name == OPTIMIZER_STEP or (name in TRAINS and name != GRADIENT):
            self.last_effect = node

    def outputs(self) -> None:
        """Add the outputs."""
        found = list(_paths("output", self.names.program.outputs))
        for path, placeholder in found[:MAX_ENDS]:
            self.graph.connect(self.makers.get(id(placeholder)), self.graph.add(GraphNode("output", _lines(path))))
        if len(found) > MAX_ENDS:
            rest = self.graph.add(GraphNode("more", [f"{len(found) - MAX_ENDS} more outputs"]))
            for _, placeholder in found[MAX_ENDS:]:
                self.graph.connect(self.makers.get(id(placeholder)), rest)


def _paths(path: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, PlaceHolder):
        yield path, value
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _paths(f"{path}[{number}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(f"{path}[{key!r}]", item)


def joined(names: list[str]) -> list[str]:
    """Return names grouped by their common prefix: `fc1.weight, bias`."""
    found: dict[str, list[str]] = {}
    for name in names:
        before, _, last = name.rpartition(".")
        found.setdefault(before, []).append(last)
    return [f"{before}.{', '.join(last)}" if before else ", ".join(last) for before, last in found.items()]


def _cut(texts: list[str], limit: int) -> str:
    return "; ".join(texts[:limit]) + (f"; {len(texts) - limit} more" if len(texts) > limit else "")


def _lines(*texts: str) -> list[str]:
    return [text if len(text) <= 40 else f"{text[:37]}…" for text in texts if text]


def graph_of(names: Names, inputs: tuple[ValueSpec, ...], results: list[tuple[ValueSpec | None, ...]]) -> Graph:
    """Return the graph of a program.

    Args:
        names: the names of its values.
        inputs: the specs of its inputs, if known.
        results: the specs of the results of each operation.
    """
    builder = _Builder(names, inputs, results)
    for number, operation in enumerate(names.program.operations):
        builder.operation(number, operation)
    builder.outputs()
    return builder.graph
