"""Compiles a program into one straight-line Python function.

The generated text contains only names made here: functions and constants of the program are looked up in its
namespace, and keyword names are checked to be identifiers before.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from syft.core.callsite import describe_line
from syft.core.trees import iter_tensors
from syft.exceptions import PlanMismatchError, TensorsNotCollocatedError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.checks import guarded
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.optimizers import step
from syft.messaging.plan.program import Program
from syft.messaging.plan.record.recording import current as current_recorder
from syft.tensors.placeholder import PlaceHolder

FILE = "<plan>"
Run = Callable[[Any, Any, Any], Any]
# Set by syft.mpc: runs a compiled program on encrypted tensors; arguments: program, inputs, state, optimizers.
on_links: list[Callable[..., Any]] = []


class Compiled:
    """A program as a function of its inputs, its state and its optimizers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        writer = _CodeWriter(program)
        self.source = writer.source()
        code = compile(self.source, FILE, "exec")
        exec(code, writer.namespace)  # noqa: S102  (made above, of names made above)
        function: types.FunctionType = writer.namespace["plan"]
        self.run: Run = function
        self.rows = writer.rows
        # The cache of `on_links` between calls.
        self.memory: Any = None

    def explain(self, error: Exception, lines: list[tuple[str, int]]) -> None:
        """Add the failed operation of the plan to an error."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
            trace = trace.tb_next
        if trace is None:
            return
        number = self.rows.get(trace.tb_lineno)
        if number is None:
            return
        where = f"\n{describe_line(lines[number])}" if number < len(lines) else ""
        operation = self.program.operations[number]
        error.add_note(f"This is operation {number} of the plan: {operation.cmd_name}.{where}")
        local = [p for p in self.program.state if not isinstance(p.child, SyftTensor)]
        if isinstance(error, TensorsNotCollocatedError) and local:
            error.add_note("The state of the plan is local. Run it where its arguments are: plan.send(worker)(...).")
        if trace.tb_next is None and isinstance(error, ValueError):
            raise PlanMismatchError(
                f"{operation.cmd_name} returned another number of results than when the plan was built. "
                f"Build a plan for tensors of this shape.{where}"
            ) from error


class _CodeWriter:
    """Writes the Python code of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.namespace: dict[str, Any] = {
            "read_mode": read_mode,
            "set_mode": set_mode,
            "make_slice": slice,
            "step": step,
        }
        self.names: dict[int, str] = {}
        self.rows: dict[int, int] = {}
        self.sets_mode = any(operation.cmd_name == GRAD_MODE for operation in program.operations)

    def source(self) -> str:
        """Return the code."""
        program = self.program
        lines = ["def plan(inputs, state, optimizers):"]
        lines += self._unpack("inputs", program.inputs) + self._unpack("state", program.state)
        margin = "    "
        if self.sets_mode:
            lines += ["    ambient = read_mode()", "    try:"]
            margin = "        "
        last_use = program.last_uses(program.state)
        for number, operation in enumerate(program.operations):
            self.rows[len(lines) + 1] = number
            lines.append(margin + self._statement(operation) + self._deletions(number, last_use))
        lines.append(f"{margin}return {self._value(program.outputs, fresh=True)}")
        if self.sets_mode:
            lines += ["    finally:", "        set_mode(ambient)"]
        return "\n".join(lines) + "\n"

    def _unpack(self, source: str, placeholders: tuple[PlaceHolder, ...]) -> list[str]:
        names = [self._name(placeholder) for placeholder in placeholders]
        return [f"    ({', '.join(names)},) = {source}"] if names else []

    def _name(self, placeholder: PlaceHolder) -> str:
        return self.names.setdefault(id(placeholder), f"v{len(self.names)}")

    def _deletions(self, number: int, last_use: dict[int, list[PlaceHolder]]) -> str:
        unused = [self._name(placeholder) for placeholder in last_use.get(number, ())]
        return f"; del {', '.join(unused)}" if unused else ""

    def _statement(self, operation: Operation) -> str:
        if operation.cmd_name == GRAD_MODE:
            mode = operation.cmd_args[0]
            return f"set_mode({'ambient' if mode is None else mode is True})"
        if operation.cmd_name == OPTIMIZER_STEP:
            return f"step(optimizers[{int(operation.cmd_args[0])}], {self._value(operation.cmd_args[1])})"
        arguments = [self._value(arg) for arg in operation.cmd_args]
        arguments += [f"{key}={self._value(value)}" for key, value in operation.cmd_kwargs.items()]
        call = f"{self._constant('f', guarded(operation))}({', '.join(arguments)})"
        if not operation.return_ids or operation.return_ids[0] is None:
            return call
        return f"{self._target(operation.return_ids[0])} = {call}"

    def _target(self, pattern: Any) -> str:
        if pattern is None:
            return "_"
        if isinstance(pattern, PlaceHolder):
            return self._name(pattern)
        return f"({''.join(self._target(part) + ', ' for part in pattern)})" if pattern else "()"

    def _value(self, value: Any, fresh: bool = False) -> str:
        """Return an expression; containers for the caller (`fresh`) are built at each run."""
        if isinstance(value, PlaceHolder):
            return self._name(value)
        if next(iter_tensors(value), None) is None and not (fresh and isinstance(value, tuple | list | dict)):
            return self._constant("c", value)
        if isinstance(value, tuple):
            text = f"({''.join(self._value(item, fresh) + ', ' for item in value)})"
            return text if type(value) is tuple else f"{self._constant('t', type(value))}({text})"
        if isinstance(value, list):
            return f"[{', '.join(self._value(item, fresh) for item in value)}]"
        if isinstance(value, dict):
            items = [f"{self._constant('c', key)}: {self._value(item, fresh)}" for key, item in value.items()]
            return "{" + ", ".join(items) + "}"
        return f"make_slice({self._value(value.start)}, {self._value(value.stop)}, {self._value(value.step)})"

    def _constant(self, prefix: str, value: object) -> str:
        name = f"{prefix}{len(self.namespace)}"
        self.namespace[name] = value
        return name


def read_mode() -> bool | None:
    """Return the mode of autograd; inside a recording, the recorded mode."""
    recorder = current_recorder()
    return torch.is_grad_enabled() if recorder is None else recorder.mode


def set_mode(mode: bool | None) -> None:
    """Set the mode of autograd, also in the recording of an enclosing plan."""
    recorder = current_recorder()
    if recorder is not None:
        recorder.set_mode(mode)
    enabled = mode if mode is not None else True
    with torch._C.DisableTorchFunction():
        torch._C._set_grad_enabled(enabled)
