"""Symbolic sizes of recorded tensors.

`x.shape[0]` inside a plan must not become the size of the example. It becomes a symbolic number: torch accepts it as a
size, arithmetic on it is recorded, and where Python needs the plain number (a comparison, `range`, `int()`), a check
is recorded that it is the same at each run.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.messaging.plan.commands import ARITHMETIC, RELATIONS

if TYPE_CHECKING:
    from syft.messaging.plan.record.recording_state import RecordingState
    from syft.tensors.placeholder import PlaceHolder

_NUMBERS = (int, float)


class _Recorded:
    """Base of recorded integers and floats."""

    recorder: RecordingState
    value: Any
    placeholder: Any

    def __init__(self, recorder: RecordingState, value: object, placeholder: PlaceHolder) -> None:
        self.recorder = recorder
        self.value = value
        self.placeholder = placeholder

    def fixed(self) -> Any:
        """Return the plain number, and record a check that it is the same at each run."""
        self.recorder.check_number("==", self, self.value, True)
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)

    def __bool__(self) -> bool:
        self.recorder.check_number("!=", self, 0, self.value != 0)
        return bool(self.value)

    def __pow__(self, other: object) -> Any:
        return self.fixed() ** plain(other) if isinstance(other, (*_NUMBERS, _Recorded)) else NotImplemented

    def __rpow__(self, other: object) -> Any:
        return other ** self.fixed() if isinstance(other, _NUMBERS) else NotImplemented

    def __neg__(self) -> Any:
        return self.recorder.compute("neg", self)

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class RecordedInt(_Recorded, torch.SymInt):
    """A size, or an integer computed from sizes."""

    __class__ = property(lambda self: int)  # isinstance(x.shape[0], int) is True, as without a recording

    def __index__(self) -> int:
        return int(self.fixed())


class RecordedFloat(_Recorded, torch.SymFloat):
    """A float computed from sizes."""

    __class__ = property(lambda self: float)

    def is_integer(self) -> bool:
        """Say whether the value is an integer."""
        return bool(self.fixed().is_integer())


class SymbolicShape(tuple[Any, ...]):
    """The shape of a recorded tensor."""

    __slots__ = ()
    __class__ = property(lambda self: torch.Size)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return SymbolicShape(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return SymbolicShape((*self, *other))

    def numel(self) -> Any:
        """Return the product of the sizes."""
        product: Any = 1
        for size in self:
            product = size * product
        return product


def plain(value: object) -> Any:
    """Return the value of a recorded number for the example."""
    return value.value if isinstance(value, _Recorded) else value


def _is_number(value: object) -> bool:
    return isinstance(value, (*_NUMBERS, _Recorded))


def _binary(name: str, reflected: bool) -> Any:
    def compute(self: Any, other: object) -> Any:
        if not _is_number(other):
            return NotImplemented
        return self.recorder.compute(name, other, self) if reflected else self.recorder.compute(name, self, other)

    return compute


def _comparison(relation: str) -> Any:
    def compare(self: Any, other: object) -> Any:
        if not _is_number(other):
            return NotImplemented
        outcome = bool(RELATIONS[relation](self.value, plain(other)))
        self.recorder.check_number(relation, self, other, outcome)
        return outcome

    return compare


def _on_bits(name: str, reflected: bool) -> Any:
    function = getattr(operator, f"__{name}__")

    def compute(self: Any, other: object) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        operands = int(self), int(other)
        return function(*reversed(operands)) if reflected else function(*operands)

    return compute


def _of_fixed(function: Callable[..., Any]) -> Any:
    return lambda self, *args: function(self.fixed(), *args)


# Methods that need the plain number.
_OF_FIXED: dict[str, Callable[..., Any]] = {
    "hash": hash, "str": str, "format": format, "int": int, "trunc": int, "float": float, "round": round,
    "floor": math.floor, "ceil": math.ceil, "abs": abs,
}  # fmt: skip


def _install() -> None:
    """Set Python's operators, which override those of torch's symbolic numbers."""
    for cls in (RecordedInt, RecordedFloat):
        for name, function in _OF_FIXED.items():
            setattr(cls, f"__{name}__", _of_fixed(function))
        for name in ARITHMETIC:
            if name != "neg":
                setattr(cls, f"__{name}__", _binary(name, reflected=False))
                setattr(cls, f"__r{name}__", _binary(name, reflected=True))
        for relation, function in RELATIONS.items():
            setattr(cls, f"__{function.__name__}__", _comparison(relation))
    for name in ("and", "or", "xor", "lshift", "rshift"):
        setattr(RecordedInt, f"__{name}__", _on_bits(name, reflected=False))
        setattr(RecordedInt, f"__r{name}__", _on_bits(name, reflected=True))


_install()
