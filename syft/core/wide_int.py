"""WideInt: a Python number with more than 63 bits that works with tensors of integers.

torch refuses such numbers ("Overflow when unpacking long"), and the field of shares, 2**64, is one. Sums, products and
residues of int64 tensors are exact modulo 2**64, in two's complement, as they are for all tensors of torch: of a number
and `2**64` the residue is the number itself. Comparisons and quotients are those of the exact numbers.

Example:
    >>> import torch
    >>> from syft.core.wide_int import WideInt
    >>> shares = torch.tensor([2**63 - 1]), torch.tensor([-(2**63) + 26])
    >>> sum(shares) % WideInt(2**64)
    tensor([25])
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

_LOW, _HIGH = -(2**63), 2**63 - 1


def _in_ring(value: int) -> int:
    """Return the number of 64 bits that is congruent to a number modulo 2**64."""
    return (value - _LOW) % 2**64 + _LOW


def _yes(t: Any) -> Any:
    return t == t


def _no(t: Any) -> Any:
    return t != t


def _remainder(t: Any, n: int) -> Any:
    added = _in_ring(n)
    if not added:
        return t + 0
    return t + ((t < 0) if n > 0 else (t > 0)) * added


def _fmod(t: Any, n: int) -> Any:
    return t * (t != n if n == _LOW else t != -n) if abs(n) == -_LOW else t + 0


def _floor_divide(t: Any, n: int) -> Any:
    return ((t < 0) if n > 0 else (t > 0)) * -1


# Name of a call -> what it does with a tensor of int64 and a number beyond int64.
_WITH_TENSOR: dict[str, Callable[[Any, int], Any]] = {
    "add": lambda t, n: t + _in_ring(n),
    "sub": lambda t, n: t - _in_ring(n),
    "rsub": lambda t, n: _in_ring(n) - t,
    "mul": lambda t, n: t * _in_ring(n),
    "and": lambda t, n: t & _in_ring(n),
    "or": lambda t, n: t | _in_ring(n),
    "xor": lambda t, n: t ^ _in_ring(n),
    "mod": _remainder,
    "fmod": _fmod,
    "floordiv": _floor_divide,
    "truediv": lambda t, n: t / float(n),
    "rtruediv": lambda t, n: float(n) / t,
    "rmod": lambda t, n: _by_numbers(operator.mod, n, t),
    "rfloordiv": lambda t, n: _by_numbers(operator.floordiv, n, t),
    "lt": lambda t, n: _yes(t) if n > 0 else _no(t),
    "le": lambda t, n: _yes(t) if n > 0 else _no(t),
    "gt": lambda t, n: _no(t) if n > 0 else _yes(t),
    "ge": lambda t, n: _no(t) if n > 0 else _yes(t),
    "eq": lambda t, n: _no(t),
    "ne": lambda t, n: _yes(t),
}
_NAMES = {
    "remainder": "mod", "floor_divide": "floordiv", "div": "truediv", "true_divide": "truediv", "divide": "truediv",
    "multiply": "mul", "subtract": "sub", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "not_equal": "ne", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "radd": "add", "rmul": "mul",
    "rand": "and", "ror": "or", "rxor": "xor", "rdiv": "rtruediv", "imod": "mod", "iadd": "add", "isub": "sub",
    "imul": "mul", "ifloordiv": "floordiv", "iand": "and", "ior": "or", "ixor": "xor",
}  # fmt: skip
_REFLECTED = {"sub": "rsub", "mod": "rmod", "floordiv": "rfloordiv", "truediv": "rtruediv", "lt": "gt", "gt": "lt",
              "le": "ge", "ge": "le"}  # fmt: skip


def _by_numbers(function: Callable[[int, int], int], number: int, tensor: Any) -> Any:
    """Compute with the exact numbers of a tensor, one by one."""
    results = [function(number, value) for value in tensor.flatten().tolist()]
    if not all(_LOW <= result <= _HIGH for result in results):
        raise OverflowError(f"A result of {number} and this tensor does not fit into int64.")
    return torch.tensor(results, dtype=torch.int64).reshape(tensor.shape)


class WideInt(int):
    """A number that torch computes with although it does not fit into int64; otherwise an int."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch call of two arguments, a tensor or link and such a number."""
        called = func.__name__
        name = called.strip("_")
        rule = _NAMES.get(name, name)
        if rule not in _WITH_TENSOR or len(args) != 2 or kwargs:
            raise TypeError(
                f"{called} does not take a number beyond int64, such as the field of shares. "
                "Compute with Python numbers instead: x.tolist()."
            )
        first, second = args
        if isinstance(first, cls):
            first, second, rule = second, first, _REFLECTED.get(rule, rule)
        if isinstance(first, int | float):
            raise TypeError(f"{called} needs a tensor.")
        number = int(second)
        result = _run(rule, first, number)
        in_place = called.startswith("__i") or (called.endswith("_") and not called.endswith("__"))
        return first.copy_(result) if in_place else result


def _run(rule: str, tensor: Any, number: int) -> Any:
    """Run a call on a tensor and a number, in the dtype that torch would choose."""
    if _LOW <= number <= _HIGH or tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        small = number if _LOW <= number <= _HIGH else float(number)
        return _SMALL[rule](tensor, small)
    if tensor.dtype is torch.uint64:
        raise TypeError("A tensor of uint64 does not take a number beyond int64. Convert it first: x.long().")
    return _WITH_TENSOR[rule](tensor if tensor.dtype is torch.int64 else tensor.long(), number)


# Name of a call -> the same call on a number that fits.
_SMALL: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "rsub": lambda t, n: n - t, "mul": operator.mul, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "mod": operator.mod, "fmod": lambda t, n: t.fmod(n),
    "floordiv": operator.floordiv, "truediv": operator.truediv, "rtruediv": lambda t, n: n / t,
    "rmod": lambda t, n: n % t, "rfloordiv": lambda t, n: n // t, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def _closed(name: str) -> Callable[..., Any]:
    """Return an operator of int whose results beyond int64 are WideInts again: `field - 1`, `field // 2`."""
    plain = getattr(int, name)

    def method(self: int, *others: object) -> Any:
        result = plain(self, *others)
        return WideInt(result) if type(result) is int and not _LOW <= result <= _HIGH else result

    method.__name__ = name
    return method


for _name in "add radd sub rsub mul rmul floordiv rfloordiv mod rmod pow neg abs and or xor lshift rshift".split():
    setattr(WideInt, f"__{_name}__", _closed(f"__{_name}__"))
