"""Walk nested arguments, whatever the signature.

A leaf is a tensor, a link or another syft object; containers are tuples, lists, dicts, slices and the named
tuples that torch returns. Everything else is passed on untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

SCALARS = frozenset({int, float, bool, str, type(None), complex, bytes, torch.dtype, torch.Size, torch.device})
_LEAVES: tuple[type, ...] = (torch.Tensor,)
_KNOWN: dict[type, bool] = {}


def register_leaf(*types: type) -> None:
    """Make instances of these types leaves of the walk."""
    global _LEAVES
    _LEAVES = (*_LEAVES, *types)
    _KNOWN.clear()


def is_leaf(value: object) -> bool:
    """Return whether a value is a tensor, a link or another syft object."""
    kind = type(value)
    known = _KNOWN.get(kind)
    if known is None:
        known = _KNOWN[kind] = isinstance(value, _LEAVES)
    return known


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """Return `value` with `function` applied to each leaf, containers rebuilt around them."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is tuple:
        return tuple([map_tensors(function, item) for item in value])
    if kind is list:
        return [map_tensors(function, item) for item in value]
    if kind is dict:
        return {key: map_tensors(function, item) for key, item in value.items()}
    if is_leaf(value):
        return function(value)
    if isinstance(value, tuple):
        return rebuild_tuple(kind, [map_tensors(function, item) for item in value])
    if isinstance(value, list):
        return [map_tensors(function, item) for item in value]
    if kind is slice:
        return slice(*(map_tensors(function, item) for item in (value.start, value.stop, value.step)))
    return value


def rebuild_tuple(kind: type, items: list[Any]) -> Any:
    """Make a (named) tuple of type `kind` from its items."""
    if kind is tuple:
        return tuple(items)
    if hasattr(kind, "_fields"):
        return kind(*items)
    return kind(items)  # torch.return_types take one sequence


def iter_tensors(value: Any) -> Iterator[Any]:
    """Yield each leaf of nested arguments, left to right."""
    kind = type(value)
    if kind in SCALARS:
        return
    if is_leaf(value):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from iter_tensors(item)
    elif kind is dict:
        for item in value.values():
            yield from iter_tensors(item)
    elif kind is slice:
        for item in (value.start, value.stop, value.step):
            yield from iter_tensors(item)
