"""PlanModule: a plan as a torch module, for translators."""

from __future__ import annotations

import dataclasses
import functools
import keyword
import re
from collections.abc import Callable
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import PlanTranslationError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import ARITHMETIC, GRAD_MODE, GRADIENT, NUMEL, OPTIMIZER_STEP, SIZE
from syft.messaging.plan.interpreter import interpret
from syft.messaging.plan.program import Argument, Program
from syft.tensors.placeholder import PlaceHolder

Functions = dict[str, Callable[..., Any] | None]
TRAINING = frozenset(
    {
        OPTIMIZER_STEP,
        GRADIENT,
        "torch.Tensor.backward",
        "torch.autograd.backward",
        "torch.autograd.grad",
        "torch.Tensor.grad.__get__",
        "torch.Tensor.grad.__set__",
    }
)
# Sizes keep the type that the translator gives them; the mode of autograd changes no value.
COMMON: Functions = {
    GRAD_MODE: None,
    SIZE: lambda tensor, dim: tensor.size(dim),
    NUMEL: lambda tensor: tensor.numel(),
    **{f"syft.plan.{name}": function for name, function in ARITHMETIC.items()},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_MODULE_NAMES = frozenset(dir(torch.nn.Module()))


class PlanModule(torch.nn.Module):
    """The program of a plan as a module, with copies of the state under the names it has in the plan."""

    def __init__(self, program: Program, functions: Functions) -> None:
        super().__init__()
        for number, operation in enumerate(program.operations):
            if operation.cmd_name in TRAINING:
                raise PlanTranslationError(
                    f"Operation {number} of the plan is {operation.cmd_name}, which trains: gradients and steps of "
                    "optimizers can't be stored in torch files. Translate a plan of the model alone."
                )
        self._program = program
        self._functions = functions
        self._paths = [self._keep(number, placeholder) for number, placeholder in enumerate(program.state)]

    def run(self, *arguments: object) -> Any:
        """Run the program with tensors in the containers of `signature`."""
        state = [functools.reduce(getattr, path, self) for path in self._paths]
        return interpret(self._program, list(iter_tensors(arguments)), state, self._function)

    def _function(self, operation: Operation) -> Callable[..., Any] | None:
        name = operation.cmd_name
        return self._functions[name] if name in self._functions else function_for(name)

    def _keep(self, number: int, placeholder: PlaceHolder) -> list[str]:
        """Put a copy of a tensor where its name says; one without a good name gets a number."""
        tensor = placeholder.child
        if isinstance(tensor, SyftTensor) or not isinstance(tensor, torch.Tensor):
            raise PlanTranslationError("The state of the plan is not here, or is encoded; get it first: plan.get_().")
        path = (placeholder.description or "").removeprefix("forward_func.").split(".")
        if not self._is_free(path):
            path = [f"state_{number}"]
        inner: torch.nn.Module = self
        for part in path[:-1]:
            inner = _child(inner, part)
        copied = example_of(tensor)
        if isinstance(copied, torch.nn.Parameter):
            inner.register_parameter(path[-1], copied)
        else:
            inner.register_buffer(path[-1], copied)
        return path

    def _is_free(self, path: list[str]) -> bool:
        if not all(re.fullmatch(r"[A-Za-z0-9_]{1,99}", part) and part not in _MODULE_NAMES for part in path):
            return False
        inner: Any = self
        for part in path[:-1]:
            inner = getattr(inner, part, torch.nn.Module())
            if not isinstance(inner, torch.nn.Module):
                return False
        return not hasattr(inner, path[-1])


def _child(module: torch.nn.Module, name: str) -> torch.nn.Module:
    if not hasattr(module, name):
        module.add_module(name, torch.nn.Module())
    return getattr(module, name)  # type: ignore[no-any-return]


def signature(program: Program) -> dict[str, Argument]:
    """Return the arguments that hold tensors, by name, without other values in their patterns."""
    found: dict[str, Argument] = {}
    for number, argument in enumerate(program.arguments):
        pattern = _tensors_only(argument.pattern)
        if pattern is not None:
            name = argument.name or ""
            free = _NAME.fullmatch(name) and not keyword.iskeyword(name) and name not in (*found, "self")
            found[name if free else f"argument_{number}"] = dataclasses.replace(argument, pattern=pattern)
    return found


def _tensors_only(pattern: object) -> Any:
    if isinstance(pattern, PlaceHolder):
        return pattern
    if isinstance(pattern, tuple | list):
        parts = [part for item in pattern if (part := _tensors_only(item)) is not None]
        return type(pattern)(parts) if parts else None
    if isinstance(pattern, dict):
        named = {key: part for key, item in pattern.items() if (part := _tensors_only(item)) is not None}
        return named or None
    return None


def module_of(program: Program, functions: Functions) -> PlanModule:
    """Return a module whose forward has the arguments of `signature`, for torch reads its names."""
    parameters = signature(program)
    names = sorted(parameters, key=lambda name: parameters[name].by_name)
    space: dict[str, Any] = {}
    code = f"def forward(self, {', '.join(names)}):\n    return self.run({', '.join(parameters)})\n"
    exec(compile(code, "<plan>", "exec"), space)  # noqa: S102  (of names checked by `signature`)
    members = {"forward": space["forward"], "__module__": "plan"}
    cls: type[PlanModule] = type("PlanModule", (PlanModule,), members)
    return cls(program, functions)
