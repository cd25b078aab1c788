"""Bounds for integers that torch uses as sizes, strides, dimensions or counts.

Several kernels multiply such integers without checking for overflow, and then read or write outside their tensors or
loop for years. So every integer argument is below 2**31 in magnitude, unless its parameter takes a value: a scalar of
arithmetic, a fill value, the bound of a range. The kind of a parameter comes from the schemas of torch's operators,
or from the annotations of its Python functions. A parameter of unknown kind is bounded.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syft.core.trees import SCALARS, iter_tensors
from syft.exceptions import CommandNotAllowedError
from syft.hook.allowed_functions import CONSTRUCTORS, allowed
from syft.hook.guards import bottom

LIMIT = 2**31
_WIDE = frozenset({torch.int64, torch.uint64, torch.uint32})
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
# Types that hold no integers. Tensors are checked by `bound_size_tensors`.
_WITHOUT_INTS = (SCALARS - {int, torch.Size}) | _PLAIN
# A tensor that is passed as a list of sizes is short; a longer one is data.
_MOST_SIZES = 64

# Calls whose integers are data, at any depth.
_DATA = frozenset({"torch.tensor", "torch.as_tensor", "torch.Tensor.new_tensor"})
# Integer parameters that are values although their type in the schema is an integer.
_VALUES: dict[str, frozenset[int | str]] = {
    "torch.randint": frozenset({0, 1, "low", "high"}),
    "torch.randint_like": frozenset({0, 1, 2, "input", "low", "high"}),
    "torch.Tensor.random_": frozenset({0, 1, 2, "from", "to"}),
    "torch.Tensor.__getitem__": frozenset({0}),
    "torch.Tensor.__setitem__": frozenset({0, 2}),
    "torch.Tensor.__contains__": frozenset({0, 1}),
}
_VALUE_NAMES = frozenset({"input", "ignore_index", "generator"})
# Parameters of a Scalar type that set the size of the result.
_SIZE_NAMES = frozenset({"scale_factor"})
# Operators on a tensor and a number; Python has other names for them than torch's operators.
_OPERATORS = frozenset(
    f"torch.Tensor.__{prefix}{name}__"
    for prefix in ("", "r", "i")
    for name in (
        "add sub mul div truediv floordiv mod pow matmul and or xor lshift rshift eq ne lt le gt ge divmod"
    ).split()
)
_PREFIXES = {"torch.linalg": "linalg_", "torch.special": "special_", "torch.fft": "fft_"}
_ALIASES = {"torch.spmm": "mm", "torch.nn.functional.logsigmoid": "log_sigmoid"}


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a call that take values rather than sizes.

    Attributes:
        values: their positions and names.
        rest_is_values: whether all further positional arguments are values, too.
        names: the names by position, for error messages.
    """

    values: frozenset[int | str]
    rest_is_values: bool = False
    names: tuple[str, ...] = ()

    def takes_value(self, key: int | str) -> bool:
        """Return whether the argument with this position or name is a value."""
        return key in self.values or (self.rest_is_values and isinstance(key, int))

    def describe(self, key: int | str) -> str:
        """Return how an error message refers to an argument."""
        if isinstance(key, int) and key < len(self.names):
            key = self.names[key]
        return f"argument {key + 1}" if isinstance(key, int) else f"argument {key!r}"


def bound_sizes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call in which an integer that is no value is too large."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is int:
            if not -LIMIT < value < LIMIT:
                break
        elif kind not in _WITHOUT_INTS and _has_large(value):
            break
    else:
        return
    for key, value, takes_value in _arguments(name, args, kwargs):
        if _has_large(value) and not (type(value) is int and takes_value):
            raise _refusal(name, key, _quote(value))


def bound_size_tensors(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call in which a tensor that is used as a size holds too large a number.

    torch takes an integer tensor with one element wherever it takes an integer. This reads values, so callers that
    keep values private must not reveal its outcome.
    """
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if value.dtype in _WIDE if kind in _PLAIN else kind not in SCALARS:
            break
    else:
        return
    for key, value, takes_value in _arguments(name, args, kwargs):
        if takes_value or type(value) in SCALARS:
            continue
        for tensor in _tensors(value):
            if not all(-LIMIT < number < LIMIT for number in _sizes_in(tensor)):
                raise _refusal(name, key, "a large number")


def may_take_sizes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether the operation of a plan needs the checks above each time it runs.

    It does if one of its sizes is computed in the plan, where a placeholder stands for it, or is too large already.
    """
    for _, value, takes_value in _arguments(name, args, kwargs):
        if not takes_value and (_has_large(value) or any(True for _ in iter_tensors(value))):
            return True
        if isinstance(value, tuple | list) and _has_large(value):
            return True
    return False


def _arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[int | str, Any, bool]]:
    """Yield the key and value of each argument that may hold sizes, and whether its parameter takes a value."""
    if name.startswith("torch.") and name not in _DATA:
        parameters = parameters_of(name)
        items: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for key, value in items:
            yield key, value, parameters.takes_value(key)


def _refusal(name: str, key: int | str, found: str) -> CommandNotAllowedError:
    return CommandNotAllowedError(
        name,
        f"{parameters_of(name).describe(key)} is {found}. "
        "Sizes, strides, indices and counts must be between -2**31 and 2**31.",
    )


def _quote(value: object) -> str:
    """Return an argument as an error shows it; Python refuses to print integers of thousands of digits."""
    if type(value) is not int:
        return "a container with a large number" if type(value) is not slice else "a slice with a large number"
    return str(value) if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"


def _has_large(value: Any) -> bool:
    """Return whether an argument is or contains an integer beyond the limit."""
    kind = type(value)
    if kind is int:
        return not -LIMIT < value < LIMIT
    if kind in _WITHOUT_INTS:
        return False
    if kind is slice or kind is range:
        return _has_large((value.start, value.stop, value.step))
    if isinstance(value, dict):
        return any(map(_has_large, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_large, value))
    return issubclass(kind, int) and not -LIMIT < int(value) < LIMIT


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the plain tensors of an argument, also those below links."""
    if type(value) in _PLAIN:
        yield value
        return
    for leaf in iter_tensors(value):
        plain = bottom(leaf)
        if type(plain) in _PLAIN:
            yield plain


def _sizes_in(tensor: torch.Tensor) -> list[int]:
    """Return the numbers of a tensor that torch could take as sizes."""
    if tensor.dtype not in _WIDE or tensor.numel() > _MOST_SIZES:
        return []
    if tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return []
    with torch._C.DisableTorchFunction():
        found: list[int] = tensor.detach().reshape(-1).tolist()
    return found


@functools.cache
def parameters_of(name: str) -> Parameters:
    """Return which parameters of a call take values."""
    if name in _VALUES:
        return Parameters(_VALUES[name])
    if name in _OPERATORS:
        return Parameters(frozenset({0, 1}), names=("self", "other"))
    function = allowed().get(name) or CONSTRUCTORS.get(name)
    found = _by_signature(function) if inspect.isfunction(function) else _by_schemas(name)
    if name.startswith("torch.Tensor."):
        return dataclasses.replace(found, values=found.values | {0})
    return found


def _by_signature(function: Callable[..., Any]) -> Parameters:
    """Tell values from sizes by the annotations and defaults of a Python function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return Parameters(frozenset({0}))
    values: set[int | str] = set()
    rest = False
    for position, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name in ("tensors", "matrices") or function.__name__ == "einsum"
            values.add(position)
        elif _is_value(parameter):
            values |= {parameter.name} if parameter.kind is parameter.KEYWORD_ONLY else {position, parameter.name}
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return Parameters(frozenset(values), rest, tuple(plain))


def _is_value(parameter: inspect.Parameter) -> bool:
    if parameter.name in _SIZE_NAMES:
        return False
    if parameter.name in _VALUE_NAMES or isinstance(parameter.default, float):
        return True
    text = str(parameter.annotation)
    return "int" not in text and any(word in text for word in ("float", "Tensor", "complex"))


def _by_schemas(name: str) -> Parameters:
    """Tell values from sizes by the types of all overloads of an operator."""
    module, _, short = name.rpartition(".")
    operator = _ALIASES.get(name, _PREFIXES.get(module, "") + short)
    values: set[int | str] = set()
    sizes: set[int | str] = set()
    names: dict[int, str] = {}
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}"):
        types = [str(each.type) for each in (*schema.arguments, *schema.returns)]
        if not any("Tensor" in text for text in types) or any("[t]" in text or ", t]" in text for text in types):
            continue  # an overload for Python's own numbers, lists and dicts
        for position, argument in enumerate(schema.arguments):
            keys: set[int | str] = {argument.name, *(("input",) if argument.name == "self" else ())}
            if not argument.kwarg_only:
                keys.add(position)
                names.setdefault(position, argument.name)
            is_size = "int" in str(argument.type) and argument.name not in _VALUE_NAMES
            (sizes if is_size or argument.name in _SIZE_NAMES else values).update(keys)
    return Parameters(frozenset(values - sizes), names=tuple(names[n] for n in sorted(names)))
