"""PlanTranslator: base of translators; makes examples and checks that the results are those of the plan."""

from __future__ import annotations

import dataclasses
import enum
import functools
import keyword
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.references import TensorMeta
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import PlanTranslationError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.mutation import TRAINING
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import ARITHMETIC, GRAD_MODE, NUMEL, SIZE
from syft.messaging.plan.executor import Compiled
from syft.messaging.plan.interpreter import Specs, interpret, specs_of, with_other_sizes
from syft.messaging.plan.program import Argument, Program
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan

SEED = 7
Functions = dict[str, Callable[..., Any] | None]
TRAINING_CALLS = TRAINING | {"torch.autograd.grad", "torch.Tensor.grad.__get__", "torch.Tensor.grad.__set__"}
# Sizes keep the type that the translator gives them; the mode of autograd changes no value.
COMMON: Functions = {
    GRAD_MODE: None,
    SIZE: lambda tensor, dim: tensor.size(dim),
    NUMEL: lambda tensor: tensor.numel(),
    **{f"syft.plan.{name}": function for name, function in ARITHMETIC.items()},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_MODULE_NAMES = frozenset(dir(torch.nn.Module()))


class TranslationTarget(enum.Enum):
    """The kinds of translations, by the names of later 0.2 releases; `plan.add_translation` takes them."""

    TORCHSCRIPT = "torchscript"
    TORCH_EXPORT = "torch.export"
    TENSORFLOW_JS = "tfjs"  # refused


class PlanModule(torch.nn.Module):
    """The program of a plan as a module, with copies of the state under the names it has in the plan."""

    def __init__(self, program: Program, functions: Functions) -> None:
        super().__init__()
        for number, operation in enumerate(program.operations):
            if operation.cmd_name in TRAINING_CALLS:
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


class PlanTranslator:
    """Translate a built plan.

    Args:
        plan: the plan.
        *examples: tensors like its inputs; needed only for a plan that was not built here. Only
            their shapes and dtypes are used.
    """

    kind: ClassVar[str] = ""
    functions: ClassVar[Functions] = {}

    def __init__(self, plan: Plan, *examples: object) -> None:
        self.plan = plan
        self.specs: Specs = specs_of(examples) or plan._input_specs
        self.signature = signature(plan.program)
        if len(self.specs) != len(plan.program.inputs):
            raise PlanTranslationError(
                f"The plan {plan.name!r} was not built here. To translate it, pass an example of each of its "
                f"{len(plan.program.inputs)} tensors: plan.add_translation({self.kind!r}, *examples)."
            )

    def translate(self) -> Any:
        """Return the translation, as torch's own type for it."""
        return self.read(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the translation as the bytes of a file, after a check that its results are those of the plan."""
        module = module_of(self.plan.program, self.functions).eval()
        others = with_other_sizes(self.plan.program, self.specs)
        failure: PlanTranslationError | None = None
        # Examples with other sizes than the plan was built with keep more sizes dynamic.
        for specs in dict.fromkeys([*others[-1:], *others[:1], self.specs]):
            try:
                data = self._translated(module, specs)
                self._check(data, self.specs, must_run=True)
            except PlanTranslationError as error:
                failure = error
                continue
            for other in others[-1:]:
                self._check(data, other, must_run=False)
            return data
        raise failure or PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}.")

    def _translated(self, module: PlanModule, specs: Specs) -> bytes:
        try:
            return self.write(module, *self.arguments(specs))
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> PlanTranslationError:
        # Some errors of torch show the values of tensors.
        reason = str(error).strip().split("\n")[0].split("tensor(")[0][:300]
        return PlanTranslationError(f"The plan {self.plan.name!r} can't be translated to {self.kind}: {reason}")

    def write(self, module: PlanModule, positional: dict[str, Any], named: dict[str, Any]) -> bytes:
        """Translate a module and return the bytes of a file."""
        raise NotImplementedError(f"{type(self).__name__} must implement write()")

    @staticmethod
    def read(data: bytes) -> Any:
        """Load a translation: runs code of its author."""
        raise NotImplementedError("a translator must implement read()")

    @classmethod
    def load(cls, data: bytes) -> Any:
        """Load a translation as a callable: runs code of its author."""
        return cls.read(data)

    # --- examples -------------------------------------------------------------------------------------------

    def inputs(self, specs: Specs) -> list[torch.Tensor]:
        """Return generated inputs: random numbers, and zeros for integers, which are often indices."""
        generator = torch.Generator().manual_seed(SEED)
        return [_generated(spec, generator) for spec in specs]

    def arguments(self, specs: Specs) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return generated arguments: positional ones, and named ones."""
        inputs = iter(self.inputs(specs))
        named: dict[bool, dict[str, Any]] = {False: {}, True: {}}
        for name, parameter in self.signature.items():
            named[parameter.by_name][name] = map_tensors(lambda _: next(inputs), parameter.pattern)
        return named[False], named[True]

    def _expected(self, specs: Specs) -> Any:
        """Run the plan itself on copies of its state."""
        program = self.plan.program
        state = [example_of(placeholder.child) for placeholder in program.state]
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            return Compiled(program).run(self.inputs(specs), state, ())

    def _check(self, data: bytes, specs: Specs, must_run: bool) -> None:
        """Compare a translation with the plan; one for other sizes may raise, but not differ."""
        expected = self._expected(specs)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(SEED)
            try:
                positional, named = self.arguments(specs)
                found = self.load(data)(*positional.values(), **named)
            except Exception as error:
                if must_run:
                    raise self._failure(error) from error
                return
        if not _same(found, expected):
            raise PlanTranslationError(
                f"The plan {self.plan.name!r}, translated to {self.kind}, has other results than the plan. "
                "Try another kind of translation."
            )


def _generated(spec: TensorMeta, generator: torch.Generator) -> torch.Tensor:
    if spec.dtype.is_floating_point or spec.dtype.is_complex:
        values = torch.rand(spec.shape, generator=generator).to(spec.dtype)
        return values.requires_grad_(spec.requires_grad)
    return torch.zeros(spec.shape, dtype=spec.dtype)


def _same(found: Any, expected: Any) -> bool:
    """Say whether results are the same; a size among them may have become a tensor."""
    if isinstance(expected, tuple | list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key]) for key in expected)
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    return (
        isinstance(found, torch.Tensor)
        and found.shape == expected.shape
        and found.dtype is expected.dtype
        and torch.allclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    )
