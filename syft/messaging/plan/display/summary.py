"""Summaries of plans: a line with the code, a table, and a notebook view with a drawing."""

from __future__ import annotations

import dataclasses
import functools
import html
import math
from typing import TYPE_CHECKING, Any

from syft.core.trees import iter_tensors
from syft.display import grid_html, table_html
from syft.messaging.plan.commands import OPTIMIZER_STEP
from syft.messaging.plan.display.code import Names, code_of, short_name, statement
from syft.messaging.plan.display.drawing import svg_of
from syft.messaging.plan.display.graph import graph_of, is_shown, joined, spec_text
from syft.messaging.plan.dry_run import ValueSpec, marked, results_of, specs_of, with_other_sizes

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
    """A table of a built plan: print it, or let a notebook draw it.

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
        self._specs: tuple[ValueSpec, ...] = specs_of(examples) or plan._input_specs
        if self._specs and len(self._specs) != len(plan.program.inputs):
            raise TypeError(f"The plan {plan.name!r} takes {len(plan.program.inputs)} tensors, got {len(self._specs)}.")
        self._parameters = {id(p) for p in plan.program.state if not p.tags & {"#buffer", "#constant"}}

    @functools.cached_property
    def _results(self) -> list[tuple[ValueSpec | None, ...]]:
        """The specs of all results."""
        if not self._specs:
            return [()] * len(self._program.operations)
        results = results_of(self._program, self._specs)
        return marked(results, results_of(self._program, self._others[-1])) if self._others else results

    @functools.cached_property
    def _others(self) -> list[tuple[ValueSpec, ...]]:
        """Specs of inputs with other sizes."""
        return with_other_sizes(self._program, self._specs) if self._specs else []

    @functools.cached_property
    def rows(self) -> list[SummaryRow]:
        """The operations, without checks and sizes."""
        rows = []
        for number, operation in enumerate(self._program.operations):
            text = statement(self._names, operation)  # names the results in the order of the code
            if not is_shown(operation):
                continue
            used = dict.fromkeys(iter_tensors((operation.cmd_args, operation.cmd_kwargs)))
            specs = [spec_text(spec) for spec in self._results[number]]
            rows.append(
                SummaryRow(
                    number,
                    text if operation.cmd_name == OPTIMIZER_STEP else short_name(operation.cmd_name),
                    _listed(joined([self._names.of(p) for p in used]), 4),
                    _listed(specs, 3, "; "),
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
            f"{self._names.of(p)} {spec_text(self._marked_inputs[n]) if self._specs else ''}".rstrip()
            for n, p in enumerate(self._program.inputs)
        ]
        outputs = [self._names.of(p) for p in iter_tensors(self._program.outputs)]
        return {
            "operations": f"{operations:,}" + (f" ({hidden:,} of them sizes, checks and settings)" if hidden else ""),
            "parameters": f"{trainable + fixed:,} ({trainable:,} trainable, {fixed:,} not)",
            "state": f"{len(state):,} tensors, {sum(_numel(t) * t.dtype.itemsize for t, _ in state):,} bytes",
            "inputs": f"{len(inputs):,}: {_listed(inputs, 8)}" if inputs else "0",
            "outputs": f"{len(outputs):,}: {_listed(outputs, 8)}" if outputs else "0",
        }

    def svg(self) -> str:
        """Return a drawing of the plan as SVG text: inputs on top, outputs below, without sizes and checks."""
        return svg_of(graph_of(self._names, self._marked_inputs, self._results), f"The plan {self.name}")

    @functools.cached_property
    def _marked_inputs(self) -> tuple[ValueSpec, ...]:
        if not self._others:
            return self._specs
        pairs = marked([self._specs], [self._others[-1]])
        return tuple(spec for spec in pairs[0] if spec is not None)

    def _cells(self) -> list[tuple[str, ...]]:
        cells: list[tuple[str, ...]] = [
            (str(r.number), r.operation, r.inputs, r.output, f"{r.parameters:,}" if r.parameters else "")
            for r in self.rows[:MAX_ROWS]
        ]
        more = len(self.rows) - MAX_ROWS
        return [*cells, ("", f"... {more} more operations", "", "", "")] if more > 0 else cells

    def __str__(self) -> str:
        cells = [COLUMNS, *self._cells()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
        lines = ["  ".join(_aligned(row, widths)).rstrip() for row in cells]
        rule = "-" * max(map(len, lines))
        totals = [f"{name + ':':<12}{value}" for name, value in self.totals.items()]
        note = ["* follows the sizes of the inputs"] if any("*" in row.output for row in self.rows) else []
        return "\n".join([f"Plan {self.name}", lines[0], rule, *lines[1:], rule, *totals, *note])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (
            grid_html(f"Plan {self.name}", COLUMNS, self._cells())
            + table_html("totals", self.totals.items())
            + f"<div style='overflow:auto'>{self.svg()}</div>"
        )


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    numbers = (0, len(COLUMNS) - 1)
    return [
        text.rjust(width) if n in numbers else text.ljust(width)
        for n, (text, width) in enumerate(zip(row, widths, strict=True))
    ]


def _listed(texts: list[str], limit: int, joint: str = ", ") -> str:
    return joint.join(texts[:limit]) + (f"{joint}{len(texts) - limit} more" if len(texts) > limit else "")


def _numel(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape)


def html_of(plan: Plan) -> str:
    """Return the notebook view of a plan: its labels, its code, and a drawing."""
    rows: list[tuple[str, object]] = [("id", _clean(plan.id)), ("owner", _owner(plan)), ("built", plan.is_built)]
    rows += [("tags", _clean(" ".join(sorted(plan.tags))))] if plan.tags else []
    rows += [("description", _clean(plan.description))] if plan.description else []
    if not plan.is_built:
        return table_html(f"Plan {_clean(plan.name)}", rows)
    code = html.escape(code_of(plan, MAX_REPR_OPERATIONS))
    return (
        table_html(f"Plan {_clean(plan.name)}", rows)
        + f"<pre style='font-size:90%'>{code}</pre>"
        + f"<details><summary>drawing</summary><div style='overflow:auto'>{Summary(plan).svg()}</div></details>"
    )
