"""Summaries of plans: a line with the code, a table, and a notebook view."""

from __future__ import annotations

import dataclasses
import functools
import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from syft.core.references import TensorMeta
from syft.core.trees import iter_tensors
from syft.display import grid_html, grid_text, table_html
from syft.messaging.plan.display.code import Names, code_of, statement, title_of
from syft.messaging.plan.display.graph import PlanGraph, is_shown, joined, listed
from syft.messaging.plan.interpreter import results_of, specs_of, with_other_sizes
from syft.messaging.plan.state import NOT_PARAMETERS

if TYPE_CHECKING:
    import torch

    from syft.messaging.plan.plan import Plan

MAX_REPR_OPERATIONS = 50
MAX_ROWS = 400
COLUMNS = ("#", "operation", "inputs", "output", "parameters")


def text_of(plan: Plan) -> str:
    """Return a line about a plan, and its operations below."""
    words = ["<Plan", _clean(plan.name), f"id:{_clean(plan.id)}", f"owner:{_clean(_owner(plan))}"]
    words += [f"tags:{','.join(_clean(tag) for tag in sorted(plan.tags))}"] if plan.tags else []
    words += [f"description:{_clean(plan.description)}"] if plan.description else []
    head = " ".join(words) + (" built>" if plan.is_built else " not built>")
    return f"{head}\n{code_of(plan, MAX_REPR_OPERATIONS)}" if plan.is_built else head


def _owner(plan: Any) -> Any:
    owner = plan.owner
    return None if owner is None else owner.id


def _clean(value: object) -> str:
    """Return a name on one line, truncated to 80 characters."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclasses.dataclass(frozen=True, slots=True)
class SummaryRow:
    """An operation in the table.

    Attributes:
        number: zero-based index of the operation, as in errors.
        operation: its short name.
        inputs: the names of its arguments.
        output: the specs of its results.
        parameters: the number of parameter elements that it uses.
    """

    number: int
    operation: str
    inputs: str
    output: str
    parameters: int


class Summary:
    """A table of a built plan: print it, or let a notebook show it.

    Shapes are those of the example that the plan was built with; a `*` marks sizes that follow the inputs. A plan
    that was received has no example, so its shapes stay blank unless examples are passed. Checks and sizes are counted
    but not listed.

    Args:
        plan: the plan.
        *examples: tensors like its inputs; only their shapes and dtypes are used.
    """

    def __init__(self, plan: Plan, *examples: object) -> None:
        self.name: str = _clean(plan.name)
        self._program = plan.program
        self._names = Names(plan.program, plan.optimizers)
        self._examples = specs_of(examples) or plan._input_specs
        count = len(plan.program.inputs)
        if self._examples and len(self._examples) != count:
            raise TypeError(f"The plan {plan.name!r} takes {count} tensors, got {len(self._examples)}.")
        self._is_own = bool(plan._lines)  # recorded here, not received
        self._parameters = {id(p) for p in plan.program.state if not p.tags & NOT_PARAMETERS}

    @functools.cached_property
    def _specs(self) -> tuple[list[str], list[list[str]]]:
        """Shapes and dtypes as texts: of the inputs, and of the results of each operation."""
        program, examples = self._program, self._examples
        if not examples:
            return [""] * len(program.inputs), [[]] * len(program.operations)
        resized = [examples, *with_other_sizes(program, examples, self._is_own)][-1]
        results = results_of(program, examples, self._is_own)
        others = results if resized is examples else results_of(program, resized, self._is_own)
        return _spec_texts(examples, resized), list(map(_spec_texts, results, others))

    @functools.cached_property
    def rows(self) -> list[SummaryRow]:
        """The operations, without checks and sizes."""
        rows = []
        for number, operation in enumerate(self._program.operations):
            text = statement(self._names, operation)  # names the results in the order of the code
            if not is_shown(operation):
                continue
            used = dict.fromkeys(iter_tensors((operation.cmd_args, operation.cmd_kwargs)))
            rows.append(
                SummaryRow(
                    number,
                    title_of(operation, text),
                    listed(joined(map(self._names.of, used)), 4),
                    listed(self._specs[1][number], 3, "; "),
                    sum(_numel(p.child) for p in used if id(p) in self._parameters),
                )
            )
        return rows

    @functools.cached_property
    def totals(self) -> dict[str, str]:
        """Totals of the plan, by name."""
        state = [(p.child, id(p) in self._parameters) for p in self._program.state]
        trainable = sum(_numel(t) for t, is_parameter in state if is_parameter and t.requires_grad)
        fixed = sum(_numel(t) for t, is_parameter in state if is_parameter and not t.requires_grad)
        operations = len(self._program.operations)
        hidden = operations - len(self.rows)
        inputs = [
            f"{self._names.of(p)} {spec}".rstrip() for p, spec in zip(self._program.inputs, self._specs[0], strict=True)
        ]
        outputs = [self._names.of(p) for p in iter_tensors(self._program.outputs)]
        return {
            "operations": f"{operations:,}" + (f" ({hidden:,} of them sizes, checks and settings)" if hidden else ""),
            "parameters": f"{trainable + fixed:,} ({trainable:,} trainable, {fixed:,} not)",
            "state": f"{len(state):,} tensors, {sum(_numel(t) * t.dtype.itemsize for t, _ in state):,} bytes",
            "inputs": f"{len(inputs):,}: {listed(inputs, 8)}" if inputs else "0",
            "outputs": f"{len(outputs):,}: {listed(outputs, 8)}" if outputs else "0",
        }

    @property
    def _graph(self) -> PlanGraph:
        return PlanGraph(self._names, *self._specs)

    def dot(self) -> str:
        """Return the graph of the plan as DOT text, without sizes and checks."""
        return self._graph.dot()

    def svg(self) -> str:
        """Return a drawing of the graph as SVG text; needs the program `dot` of Graphviz."""
        return self._graph.svg()

    def _cells(self) -> list[tuple[str, ...]]:
        cells: list[tuple[str, ...]] = [
            (str(r.number), r.operation, r.inputs, r.output, f"{r.parameters:,}" if r.parameters else "")
            for r in self.rows[:MAX_ROWS]
        ]
        more = len(self.rows) - MAX_ROWS
        return [*cells, ("", f"... {more} more operations", "", "", "")] if more > 0 else cells

    def __str__(self) -> str:
        table = grid_text(COLUMNS, self._cells(), left=4)
        rule = table.split("\n")[1]
        totals = [f"{name + ':':<12}{value}" for name, value in self.totals.items()]
        note = ["* follows the sizes of the inputs"] if any("*" in row.output for row in self.rows) else []
        return "\n".join([f"Plan {self.name}", table, rule, *totals, *note])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return grid_html(f"Plan {self.name}", COLUMNS, self._cells()) + table_html("totals", self.totals.items())


def _spec_texts(specs: Sequence[TensorMeta | None], resized: Sequence[TensorMeta | None]) -> list[str]:
    """Return shapes and dtypes as texts, with a mark at the sizes that differ in the resized ones."""
    others = resized if len(resized) == len(specs) else specs
    return [_spec_text(a, b) for a, b in zip(specs, others, strict=True) if a is not None]


def _spec_text(spec: TensorMeta, other: TensorMeta | None) -> str:
    shape = spec.shape if other is None or len(other.shape) != len(spec.shape) else other.shape
    sizes = [f"{size}{'*' if size != b else ''}" for size, b in zip(spec.shape, shape, strict=True)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''}) {str(spec.dtype).removeprefix('torch.')}"


def _numel(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape)


def html_of(plan: Plan) -> str:
    """Return the notebook view of a plan: its labels and its code."""
    rows: list[tuple[str, object]] = [("id", _clean(plan.id)), ("owner", _owner(plan)), ("built", plan.is_built)]
    rows += [("tags", _clean(" ".join(sorted(plan.tags))))] if plan.tags else []
    rows += [("description", _clean(plan.description))] if plan.description else []
    if not plan.is_built:
        return table_html(f"Plan {_clean(plan.name)}", rows)
    code = html.escape(code_of(plan, MAX_REPR_OPERATIONS))
    return table_html(f"Plan {_clean(plan.name)}", rows) + f"<pre style='font-size:90%'>{code}</pre>"
