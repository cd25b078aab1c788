"""Bounds the number of values that a call on a stranger's behalf gives back: pieces of tensors, and plain numbers.

Cutting a tensor in 300,000 pieces takes no memory for values and yet seconds of time, also on fake tensors. The number
of pieces follows from shapes and plain arguments, so it is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syft.exceptions import CommandNotAllowedError
from syft.hook.guards import BY_VALUES, GUARDS

MAX_PIECES = 1 << 14
# As many floats as fit into the plain values of one message.
MAX_NUMBERS = 1 << 23
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def check_pieces(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call that gives too many values; works on anything that has a shape.

    Args:
        name: the wire name of the call.
        args: its arguments.
        kwargs: its keyword arguments.

    Raises:
        CommandNotAllowedError: there would be too many.
    """
    count = _COUNTS.get(name)
    if count is None:
        return
    try:
        found = count(args, kwargs)
    except Exception:  # the arguments do not fit, which torch reports; or a number that only a value tells
        return
    most = MAX_NUMBERS if count is _numbers else MAX_PIECES
    if found > most:
        raise CommandNotAllowedError(name, f"it would give {found} values, and one call gives at most {most}.")


def _argument(given: Arguments, place: int, name: str, default: object = None) -> Any:
    args, kwargs = given
    return args[place] if len(args) > place else kwargs.get(name, default)


def _tensor(given: Arguments) -> Any:
    args, kwargs = given
    return args[0] if args else kwargs.get("input", kwargs.get("tensor", kwargs.get("self")))


def _unbound(*given: Any) -> int:
    return int(_tensor(given).shape[_argument(given, 1, "dim", 0)])


def _first(*given: Any) -> int:
    return int(_tensor(given).shape[0])


def _split(*given: Any) -> int:
    """Pieces of one size, or of listed sizes."""
    names = ("split_size_or_sections", "split_size", "split_sizes")
    size = next(value for value in (_argument(given, 1, name) for name in names) if value is not None)
    return -(-int(_tensor(given).shape[_argument(given, 2, "dim", 0)]) // size) if type(size) is int else len(size)


def _chunks(*given: Any) -> int:
    return min(int(_argument(given, 1, "chunks")), int(_tensor(given).shape[_argument(given, 2, "dim", 0)]))


def _sections(*given: Any) -> int:
    """A number of pieces, which may be empty, or the indices between them."""
    names = ("tensor_indices_or_sections", "indices_or_sections", "sections", "indices")
    where = next(value for value in (_argument(given, 1, name) for name in names) if value is not None)
    if type(where) is int:
        return where
    if hasattr(where, "shape"):  # a tensor: of indices, or a number, which fake tensors do not have
        return int(where.shape[0]) + 1 if len(where.shape) else int(where)
    return len(where) + 1


def _numbers(*given: Any) -> int:
    return int(_tensor(given).numel())


_BY_NAME: dict[str, Callable[..., int]] = {
    **dict.fromkeys("unbind unbind_copy".split(), _unbound),
    **dict.fromkeys("split split_copy split_with_sizes split_with_sizes_copy".split(), _split),
    **dict.fromkeys("unsafe_split unsafe_split_with_sizes".split(), _split),
    **dict.fromkeys("chunk unsafe_chunk".split(), _chunks),
    **dict.fromkeys("tensor_split hsplit vsplit dsplit".split(), _sections),
}
_COUNTS: dict[str, Callable[..., int]] = {
    **{f"{place}.{name}": count for name, count in _BY_NAME.items() for place in ("torch", "torch.Tensor")},
    "torch.functional.split": _split,
    "torch.Tensor.__iter__": _first,
    "torch.Tensor.tolist": _numbers,
}


def _guard(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], None]:
    return lambda args, kwargs: check_pieces(name, args, kwargs)


GUARDS.update({name: _guard(name) for name in _COUNTS})
BY_VALUES.update(name for name, count in _COUNTS.items() if count is _sections)
