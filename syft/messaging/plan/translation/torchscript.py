"""Plans as TorchScript: a file that `torch.jit.load` runs, in Python, C++ or on a phone."""

from __future__ import annotations

import contextlib
import functools
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import PlanTranslationError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import EXPECT, RELATIONS
from syft.messaging.plan.interpreter import interpret, quiet
from syft.messaging.plan.program import Program
from syft.messaging.plan.translation.translator import COMMON, TRAINING_CALLS, Functions, PlanModule, PlanTranslator
from syft.tensors.placeholder import PlaceHolder

_DEBUG = ".debug_pkl"


# --- checks of sizes --------------------------------------------------------------------------------------------
# While torch traces, a size is a tensor. Compiled functions that may raise are not optimised away.


def _holds(left: torch.Tensor, right: torch.Tensor, relation: str, outcome: bool) -> torch.Tensor:
    held = False
    if relation == "==":
        held = bool(left == right)
    elif relation == "!=":
        held = bool(left != right)
    elif relation == "<":
        held = bool(left < right)
    elif relation == "<=":
        held = bool(left <= right)
    elif relation == ">":
        held = bool(left > right)
    else:
        held = bool(left >= right)
    if held != outcome:
        raise RuntimeError("The plan was made for tensors of other shapes.")
    return left


@functools.cache
def _compiled() -> Callable[..., Any]:
    script: Callable[..., Any] = torch.jit.script
    compiled: Callable[..., Any] = script(_holds)
    return compiled


def _expect(relation: str, left: object, right: object, outcome: bool) -> None:
    now = [side.item() if isinstance(side, torch.Tensor) else side for side in (left, right)]
    if RELATIONS[relation](*now) is not outcome:
        raise PlanTranslationError("The plan was built for tensors of other shapes.")
    if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
        _compiled()(torch.as_tensor(left), torch.as_tensor(right), relation, outcome)


class PlanTranslatorTorchscript(PlanTranslator):
    """Translate a plan to a ScriptModule.

    The program is traced with generated inputs. Values that depend on sizes of the inputs stay dynamic, and the checks
    of sizes are part of the result; checks of dtypes and numbers of dimensions are not.

        >>> scripted = PlanTranslatorTorchscript(plan).translate()         # doctest: +SKIP

    Args:
        plan: a built plan.
        *examples: tensors like its inputs, for a plan that was not built here.
    """

    kind = "torchscript"
    functions: ClassVar[Functions] = {**COMMON, EXPECT: _expect}

    def write(self, module: PlanModule, positional: dict[str, Any], names: dict[str, Any]) -> bytes:
        """Trace a module."""
        _require_typed(self.plan.program.outputs)
        trace: Callable[..., Any] = torch.jit.trace
        before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        with quiet():
            # The inputs would be stored in the file; PlanTranslator checks the result itself.
            inputs = (*positional.values(), *names.values())
            traced = trace(module, inputs, check_trace=False, strict=False, _store_inputs=False)
            traced.load_state_dict(before)  # tracing runs the program, which may change its state
            out = io.BytesIO()
            torch.jit.save(traced, out)
        return _without_debug(out)

    @staticmethod
    def read(data: bytes) -> Any:
        """Load a ScriptModule: runs code of its author."""
        load: Callable[..., Any] = torch.jit.load
        with quiet():
            return load(io.BytesIO(data), map_location="cpu")


def is_tracing() -> bool:
    """Say whether torch.jit.trace records the calls of this thread."""
    return torch._C._get_tracing_state() is not None


@contextlib.contextmanager
def not_tracing() -> Iterator[None]:
    """Hide calls from torch.jit.trace inside a `with` block."""
    internals: Any = torch._C
    before = internals._get_tracing_state()
    internals._set_tracing_state(None)
    try:
        yield
    finally:
        internals._set_tracing_state(before)


def run_while_tracing(program: Program, inputs: Sequence[Any]) -> Any:
    """Run a program inside torch.jit.trace; its state becomes constants, and checks of sizes stay."""
    if any(operation.cmd_name in TRAINING_CALLS for operation in program.operations):
        raise PlanTranslationError("A plan that trains can't be traced. Trace a plan of the model alone.")
    if any(isinstance(placeholder.child, SyftTensor) for placeholder in program.state):
        raise PlanTranslationError("The state of the plan is not here, or is encoded; get it first: plan.get_().")
    with not_tracing():
        state = [placeholder.child.detach().clone() for placeholder in program.state]
    functions = PlanTranslatorTorchscript.functions

    def function(operation: Operation) -> Callable[..., Any] | None:
        name = operation.cmd_name
        return functions[name] if name in functions else function_for(name)

    return interpret(program, inputs, state, function)


def _require_typed(outputs: object) -> None:
    """Refuse results that TorchScript has no type for."""
    values = outputs.values() if isinstance(outputs, dict) else outputs if isinstance(outputs, tuple | list) else ()
    if isinstance(outputs, dict) and not all(isinstance(value, PlaceHolder) for value in values):
        raise PlanTranslationError("it returns a dictionary that does not hold only tensors. Return a tuple.")
    if not isinstance(outputs, PlaceHolder | dict | tuple | list):
        raise PlanTranslationError(f"it returns a {type(outputs).__name__}; results in TorchScript must be tensors.")
    for value in values:
        _require_typed(value)


def _without_debug(file: io.BytesIO) -> bytes:
    """Return a saved module without the names of the author's files and functions."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            if not name.endswith(_DEBUG):
                target.writestr(zipfile.ZipInfo(name), source.read(name))
    return out.getvalue()
