"""The graph of a plan in DOT, the language of Graphviz: inputs, operations and outputs, without sizes and checks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable

from syft.core.labels import printable
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError
from syft.messaging.message import Operation
from syft.messaging.mutation import TRAINING
from syft.messaging.plan.commands import EXPECT, EXPECT_PROPERTY, GRAD_MODE, GRADIENT, NUMBERS, OPTIMIZER_STEP
from syft.messaging.plan.display.code import Names, paths, statement, title_of
from syft.tensors.placeholder import PlaceHolder

# Sizes and checks are left out of graphs and tables.
_HIDDEN = NUMBERS | {EXPECT, EXPECT_PROPERTY, GRAD_MODE}
_TRAINS = TRAINING | {"torch.autograd.grad"}
_READS_GRADIENT = frozenset({OPTIMIZER_STEP, GRADIENT, "torch.Tensor.grad.__get__"})
_SETS_GRADIENT = "torch.Tensor.grad.__set__"


def is_shown(operation: Operation) -> bool:
    """Say whether an operation is shown: no size, no check, no reset of a gradient."""
    if operation.cmd_name == _SETS_GRADIENT and operation.cmd_args[1:] == (None,):
        return False
    return operation.cmd_name not in _HIDDEN


class PlanGraph:
    """The graph of a program.

    Args:
        names: the names of its values.
        inputs: the shape and dtype of each input, as texts.
        results: the shapes and dtypes of the results of each operation, as texts.
    """

    def __init__(self, names: Names, inputs: Iterable[str], results: Iterable[list[str]]) -> None:
        self.names = names
        self.nodes: list[str] = []  # their attributes in DOT
        self.edges: dict[tuple[int, int], bool] = {}  # True for an edge of order, not of data
        self._makers: dict[int, int] = {}
        self._last_effect: int | None = None
        self._state = {id(placeholder) for placeholder in names.program.state}
        for placeholder, spec in zip(names.program.inputs, inputs, strict=True):
            self._makers[id(placeholder)] = self._add("shape=oval", names.of(placeholder), spec)
        for operation, specs in zip(names.program.operations, results, strict=True):
            self._add_operation(operation, specs)
        for path, placeholder in paths("output", names.program.outputs):
            self._connect(self._makers.get(id(placeholder)), self._add("shape=oval", path))

    def _add(self, attributes: str, *lines: str) -> int:
        label = json.dumps(printable("\n".join(filter(None, lines))), ensure_ascii=False)
        self.nodes.append(f"label={label} {attributes}")
        return len(self.nodes) - 1

    def _connect(self, start: int | None, end: int, order_only: bool = False) -> None:
        if start is not None and start != end:
            self.edges[start, end] = self.edges.get((start, end), True) and order_only

    def _add_operation(self, operation: Operation, specs: list[str]) -> None:
        text = statement(self.names, operation)  # names the results in the order of the code
        used = list(iter_tensors((operation.cmd_args, operation.cmd_kwargs)))
        node = next((self._makers[id(p)] for p in used if id(p) in self._makers), None)
        if is_shown(operation):
            own = dict.fromkeys(self.names.of(p).removeprefix("self.") for p in used if id(p) in self._state)
            colour = "color=darkorange" if operation.cmd_name in _TRAINS else "color=black"
            node = self._add(colour, title_of(operation, text), listed(specs, 2, "; "), listed(joined(own), 2, "; "))
            for placeholder in used:
                self._connect(self._makers.get(id(placeholder)), node)
            self._add_effects(operation, node)
        if node is not None:
            self._makers.update((id(placeholder), node) for placeholder in iter_tensors(operation.return_ids))

    def _add_effects(self, operation: Operation, node: int) -> None:
        """Connect in-place changes, and the order of operations on gradients."""
        name = operation.cmd_name
        if name in _READS_GRADIENT:
            self._connect(self._last_effect, node, order_only=True)
        if name.endswith("_") and operation.cmd_args and isinstance(operation.cmd_args[0], PlaceHolder):
            self._makers[id(operation.cmd_args[0])] = node
        if name == OPTIMIZER_STEP:
            self._makers.update((key, node) for key in self._state)
        if name in _TRAINS and name != GRADIENT:
            self._last_effect = node

    def dot(self) -> str:
        """Return the graph as DOT text."""
        nodes = [f"  n{number} [{attributes}];" for number, attributes in enumerate(self.nodes)]
        edges = [f"  n{a} -> n{b}{' [style=dashed]' if order else ''};" for (a, b), order in self.edges.items()]
        return "\n".join(["digraph plan {", "  node [shape=box];", *nodes, *edges, "}"])

    def svg(self) -> str:
        """Return a drawing as SVG text, made by the program `dot` of Graphviz."""
        program = shutil.which("dot")
        if program is None:
            raise SyftError("svg() needs the program dot of Graphviz. Install it, or draw the text of dot() elsewhere.")
        done = subprocess.run([program, "-Tsvg"], input=self.dot(), capture_output=True, text=True, check=True)  # noqa: S603
        return done.stdout


def joined(names: Iterable[str]) -> list[str]:
    """Return names grouped by their common prefix: `fc1.weight, bias`."""
    found: dict[str, list[str]] = {}
    for name in names:
        before, _, last = name.rpartition(".")
        found.setdefault(before, []).append(last)
    return [f"{before}.{', '.join(last)}" if before else ", ".join(last) for before, last in found.items()]


def listed(texts: list[str], limit: int, joint: str = ", ") -> str:
    """Return the first texts on one line."""
    return joint.join(texts[:limit]) + (f"{joint}{len(texts) - limit} more" if len(texts) > limit else "")
