"""The operations of a plan as Python-like text, without values of tensors."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.core.trees import iter_tensors
from syft.messaging.message import Operation
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import EXPECT, EXPECT_PROPERTY, GRAD_MODE, GRADIENT, NUMEL, OPTIMIZER_STEP, SIZE
from syft.messaging.plan.program import Program
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.messaging.plan.plan import Plan

MAX_ITEMS = 8
MAX_TEXT = 60
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}", re.ASCII)
_STATE_NAME = re.compile(r"[A-Za-z0-9_]{1,60}(\.[A-Za-z0-9_]{1,60}){0,20}", re.ASCII)
_NO_DEFAULT = object()
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
BINARY = {
    "add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "div": "/", "true_divide": "/",
    "matmul": "@", "pow": "**", "remainder": "%", "floor_divide": "//", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
UNARY = {"neg": "-", "invert": "~", "pos": "+"}
_PREFIXES = {"torch.nn.functional.": "F.", "torch._C._nn.": "F.", "torch.functional.": "torch.", "torch._VF.": "torch."}


def title_of(operation: Operation, text: str) -> str:
    """Return the last part of the name of an operation; a step of an optimizer is its text."""
    name = operation.cmd_name
    if name == OPTIMIZER_STEP:
        return text
    if name.endswith((".__get__", ".__set__")):
        attribute, how = name.split(".")[-2:]
        return attribute if how == "__get__" else f"set {attribute}"
    last = name.rsplit(".", 1)[-1]
    return last.strip("_") if last.startswith("__") else last


class Names:
    """Names of the values of a program: inputs and state by their own names, results x1, x2, sizes n1, n2."""

    def __init__(self, program: Program, optimizers: Any = ()) -> None:
        self.program = program
        self._names: dict[int, str] = {}
        self._used: set[str] = set()
        self._counts = {"x": 0, "n": 0}
        self.arguments = [self._argument(number, argument) for number, argument in enumerate(program.arguments)]
        for number, placeholder in enumerate(program.inputs):
            self._names.setdefault(id(placeholder), self._free(f"input{number}"))
        for number, placeholder in enumerate(program.state):
            self._names[id(placeholder)] = self._state(number, placeholder)
        self.optimizers = list(_numbered([type(optimizer).__name__ for optimizer in optimizers]))

    def of(self, placeholder: Any, letter: str | None = None) -> str:
        """Return the name of a value, made at its first use: with the letter, or as its tags say."""
        name = self._names.get(id(placeholder))
        if name is None:
            name = self._next(letter or ("n" if "#number" in placeholder.tags else "x"))
            self._names[id(placeholder)] = name
        return name

    def value(self, value: object) -> str:
        """Return nested arguments as text."""
        if isinstance(value, PlaceHolder):
            return self.of(value)
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        if isinstance(value, dict):
            items = [f"{literal(key)}: {self.value(item)}" for key, item in list(value.items())[:MAX_ITEMS]]
            return "{" + ", ".join(items + _rest(value)) + "}"
        if isinstance(value, tuple | list):
            text = ", ".join([*map(self.value, value[:MAX_ITEMS]), *_rest(value)])
            return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(value) == 1 else ''})"
        return literal(value)

    def index(self, index: object) -> str:
        """Return the text between the brackets of x[...]."""
        if isinstance(index, tuple) and index:
            return ", ".join([*map(self.index, index[:MAX_ITEMS]), *_rest(index)])
        if isinstance(index, slice):
            start, stop, step = ("" if p is None else self.value(p) for p in (index.start, index.stop, index.step))
            return f"{start}:{stop}" + (f":{step}" if step else "")
        return self.value(index)

    def _next(self, letter: str) -> str:
        self._counts[letter] += 1
        name = f"{letter}{self._counts[letter]}"
        return self._next(letter) if name in self._used else name

    def _free(self, name: str) -> str:
        is_free = (
            _NAME.fullmatch(name) and not keyword.iskeyword(name) and name not in (*self._used, "self", "torch", "F")
        )
        name = name if is_free else f"arg{len(self._used)}"
        self._used.add(name)
        return name

    def _argument(self, number: int, argument: Any) -> str:
        name = self._free(argument.name or f"arg{number}")
        self._names.update((id(placeholder), path) for path, placeholder in paths(name, argument.pattern))
        return name

    def _state(self, number: int, placeholder: PlaceHolder) -> str:
        name = (placeholder.description or "").removeprefix("forward_func.")
        if not _STATE_NAME.fullmatch(name):
            name = f"constant_{number}" if "#constant" in placeholder.tags else f"state_{number}"
        text = "self" + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in name.split("."))
        return text if text not in self._names.values() else f"{text}_{number}"


def paths(path: str, pattern: object) -> Iterator[tuple[str, PlaceHolder]]:
    """Yield the placeholders in a pattern with their paths: `x[0]['key']`."""
    if isinstance(pattern, PlaceHolder):
        yield path, pattern
    elif isinstance(pattern, tuple | list):
        for number, item in enumerate(pattern):
            yield from paths(f"{path}[{number}]", item)
    elif isinstance(pattern, dict):
        for key, item in pattern.items():
            yield from paths(f"{path}[{literal(key)}]", item)


def _numbered(names: list[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        before = names[:number].count(name)
        yield f"{name}_{before + 1}" if before else name


# --- values -----------------------------------------------------------------------------------------------------


def literal(value: object) -> str:
    """Return a scalar value as text, truncated if it is long."""
    if value is Ellipsis:
        return "..."
    if isinstance(value, torch.device):
        return repr(str(value))
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]}...{text[-1]}"


def _rest(value: Any) -> list[str]:
    return [f"... {len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else []


# --- one operation ------------------------------------------------------------------------------------------------


def statement(names: Names, operation: Operation) -> str:
    """Return an operation as one line."""
    name, args = operation.cmd_name, operation.cmd_args
    if name == OPTIMIZER_STEP:
        number = args[0]
        return f"{names.optimizers[number] if number < len(names.optimizers) else f'optimizer_{number}'}.step()"
    if name == GRAD_MODE:
        return {False: "with no_grad():", True: "with enable_grad():"}.get(args[0], "# as before")
    if name == EXPECT:
        relation = args[0] if args[3] else NEGATED[args[0]]
        return f"check({names.value(args[1])} {relation} {names.value(args[2])})"
    if name == EXPECT_PROPERTY:
        return f"check({_property_check(names, args)})"
    if name.endswith(".__set__"):
        return f"{names.value(args[0])}.{name.split('.')[-2]} = {names.value(args[1])}"
    if name == "torch.Tensor.__setitem__" and len(args) == 3:
        return f"{names.value(args[0])}[{names.index(args[1])}] = {names.value(args[2])}"
    text = _call(names, operation)  # before its results are named
    target = _target(names, operation)
    in_place = name.endswith("_") and bool(args and operation.return_ids) and operation.return_ids[0] is args[0]
    return text if in_place or not target else f"{target} = {text}"


def _target(names: Names, operation: Operation) -> str:
    if not operation.return_ids or operation.return_ids[0] is None:
        return ""
    letter = "n" if operation.cmd_name.startswith("syft.plan.") and operation.cmd_name != GRADIENT else "x"
    return _pattern(names, operation.return_ids[0], letter)


def _pattern(names: Names, pattern: Any, letter: str) -> str:
    if pattern is None:
        return "_"
    if isinstance(pattern, PlaceHolder):
        return names.of(pattern, letter)
    parts = [_pattern(names, part, letter) for part in pattern[:MAX_ITEMS]] + _rest(pattern)
    inner = [f"({part})" if ", " in part else part for part in parts]
    return ", ".join(inner) + ("," if len(pattern) == 1 else "")


def _property_check(names: Names, args: tuple[Any, ...]) -> str:
    tensor, name, expected = names.value(args[0]), args[1], args[2]
    if name == "has a gradient":
        return f"{tensor}.grad is {'not None' if expected else 'None'}"
    call = "()" if name in ("stride", "is_contiguous", "storage_offset", "is_conj", "is_neg") else ""
    if isinstance(expected, bool):
        return f"{'' if expected else 'not '}{tensor}.{name}{call}"
    return f"{tensor}.{name}{call} == {names.value(expected)}"


def _call(names: Names, operation: Operation) -> str:
    name, args, kwargs = operation.cmd_name, operation.cmd_args, operation.cmd_kwargs
    if name == SIZE:
        return f"{names.value(args[0])}.shape[{names.value(args[1])}]"
    if name == NUMEL:
        return f"{names.value(args[0])}.numel()"
    if name == GRADIENT:
        return f"{names.value(args[0])}.grad"
    own = name.startswith(("torch.Tensor.", "syft.plan."))
    if own and not kwargs and args:
        short = _operator_call(names, name.rsplit(".", 1)[-1], name, args)
        if short is not None:
            return short
    return _plain_call(names, operation, own)


def _operator_call(names: Names, last: str, name: str, args: tuple[Any, ...]) -> str | None:
    """Return a call as a Python operator, or None."""
    if last == "__get__":
        return f"{names.value(args[0])}.{name.split('.')[-2]}"
    if last == "__getitem__" and len(args) == 2:
        return f"{names.value(args[0])}[{names.index(args[1])}]"
    operator = last.strip("_") if last.startswith("__") else last
    if len(args) == 1 and operator in UNARY:
        return UNARY[operator] + names.value(args[0])
    if len(args) != 2:
        return None
    one, other = names.value(args[0]), names.value(args[1])
    if last.startswith("__i") and operator[1:] in BINARY and operator not in BINARY:
        return f"{one} {BINARY[operator[1:]]}= {other}"
    if last.startswith("__r") and operator[1:] in BINARY and operator not in BINARY:
        return f"{other} {BINARY[operator[1:]]} {one}"
    return f"{one} {BINARY[operator]} {other}" if operator in BINARY else None


def _plain_call(names: Names, operation: Operation, own: bool) -> str:
    name, args = operation.cmd_name, list(operation.cmd_args)
    texts = call_arguments(names, operation)
    if own and args and isinstance(args[0], PlaceHolder) and name.startswith("torch.Tensor."):
        return f"{names.of(args[0])}.{name.removeprefix('torch.Tensor.')}({', '.join(texts[1:])})"
    for prefix, short in _PREFIXES.items():
        if name.startswith(prefix):
            name = short + name.removeprefix(prefix)
    return f"{name}({', '.join(texts)})"


def call_arguments(names: Names, operation: Operation) -> list[str]:
    """Return the arguments of a call as texts, without those that are torch's defaults."""
    parameters = parameters_of(operation.cmd_name)
    texts: list[str] = []
    skipped = False
    for number, value in enumerate(operation.cmd_args):
        key, default = parameters[number] if number < len(parameters) else ("", _NO_DEFAULT)
        if key and is_default(value, default):
            skipped = True
        else:
            texts.append(f"{key}={names.value(value)}" if skipped else names.value(value))
    defaults = dict(parameters)
    for key, value in operation.cmd_kwargs.items():
        if not is_default(value, defaults.get(key, _NO_DEFAULT)):
            texts.append(f"{key}={names.value(value)}")
    return texts


def is_default(value: object, default: object) -> bool:
    """Say whether an argument equals its default; (1, 1) is the same as 1."""
    if default is _NO_DEFAULT or isinstance(value, PlaceHolder):
        return False
    if isinstance(value, tuple | list) and value:
        if isinstance(default, tuple | list):
            return tuple(value) == tuple(default)
        return all(is_default(item, default) for item in value)
    return type(value) is type(default) and bool(value == default)


_HIDDEN = {"_stacklevel": 3}


@functools.cache
def parameters_of(name: str) -> tuple[tuple[str, Any], ...]:
    """Return names and defaults of the parameters of a call; () if they are not known."""
    if name.startswith("syft.") or "__" in name:
        return ()
    try:
        parameters = list(inspect.signature(function_for(name)).parameters.values())
    except (ValueError, TypeError):
        return _schema(name.rsplit(".", 1)[-1])
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        # Pooling dispatches to one of two functions; the private one has all parameters.
        inner = getattr(torch.nn.functional, f"_{name.rsplit('.', 1)[-1]}", None)
        parameters = list(inspect.signature(inner).parameters.values()) if inspect.isfunction(inner) else []
    return tuple((p.name, _HIDDEN.get(p.name, _NO_DEFAULT if p.default is p.empty else p.default)) for p in parameters)


def _schema(operator: str) -> tuple[tuple[str, Any], ...]:
    """Return the parameters of an aten operator that has only one schema without `out`."""
    schemas = [
        s for s in torch._C._jit_get_schemas_for_operator(f"aten::{operator}") if not s.overload_name.endswith("out")
    ]
    if len(schemas) > 1:
        schemas = [s for s in schemas if not s.overload_name]
    if len(schemas) != 1:
        return ()
    return tuple((a.name, a.default_value if a.has_default_value() else _NO_DEFAULT) for a in schemas[0].arguments)


# --- the program ---------------------------------------------------------------------------------------------------


def lines_of(names: Names, limit: int | None = None) -> list[str]:
    """Return the text of a program, line by line."""
    operations = names.program.operations
    shown = operations if limit is None or len(operations) <= limit else operations[:limit]
    lines: list[str] = []
    block: str | None = None
    opened = False
    for operation in shown:
        text = statement(names, operation)
        if operation.cmd_name == GRAD_MODE:
            block = text if operation.cmd_args[0] is not None else None
            opened = False
            continue
        if block is not None and not opened:
            lines.append(block)
            opened = True
        lines.append(f"    {text}" if block is not None else text)
    if len(shown) < len(operations):
        return [*lines, f"... {len(operations) - len(shown)} more operations"]
    return [*lines, f"return {names.value(names.program.outputs)}"]


def header_of(names: Names, name: str) -> str:
    """Return the `def` line of a plan."""
    texts = ["self"] if names.program.state else []
    starred = False
    for called, argument in zip(names.arguments, names.program.arguments, strict=True):
        if argument.by_name and not starred:
            texts.append("*")
            starred = True
        fixed = next(iter_tensors(argument.pattern), None) is None
        texts.append(f"{called}={names.value(argument.pattern)}" if fixed else called)
    return f"def {name if _NAME.fullmatch(name) and not keyword.iskeyword(name) else 'plan'}({', '.join(texts)}):"


def code_of(plan: Plan, limit: int | None = None) -> str:
    """Return the operations of a plan as Python-like text."""
    if not plan.is_built:
        return "# not built yet: plan.build(*examples)"
    names = Names(plan.program, plan.optimizers)
    body = "".join(f"\n    {line}" for line in lines_of(names, limit))
    return header_of(names, plan.name) + body
