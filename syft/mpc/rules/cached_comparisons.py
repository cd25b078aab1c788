"""Facts that are cached with links: mostly bits that a rule computed along with its result, for the gradient.

A relu computes where its input is positive, and its gradient needs only that. So the rule caches the bits with the
link, and a later comparison of the link with zero needs no protocol. Facts are dropped when the link is written to.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from syft.mpc.rules.operands import is_link, storage_of
from syft.mpc.rules.types import AnyTensor, Link, Operand, Value
from syft.mpc.values import ring_ops
from syft.tensors.views import watch

# The values as integers, if they are: 1 and 0 of a comparison, or a sign.
BIT = "bit"


class _Other:
    """The other operand of a comparison: tells whether an operand is that one, unchanged; holds weak references."""

    __slots__ = ("below", "of", "version")

    def __init__(self, other: AnyTensor) -> None:
        self.of = weakref.ref(other)
        self.below = weakref.ref(storage_of(other))
        self.version = other._version if isinstance(other, torch.Tensor) else 0

    def is_same(self, other: AnyTensor) -> bool:
        version = other._version if isinstance(other, torch.Tensor) else 0
        return self.of() is other and self.below() is storage_of(other) and self.version == version


def _key(name: str, other: Operand) -> tuple[str, Any]:
    """Return the key of a fact: its name, and the number or the identity of the other operand."""
    if is_link(other) or isinstance(other, torch.Tensor):
        return name, id(other)
    return name, ("number", float(other))


def note(link: Link, name: str, fact: object, other: Operand = 0) -> Link:
    """Cache a fact with a link: for "gt" and "ge", bits as integers of its comparison with another operand."""
    about = _Other(other) if is_link(other) or isinstance(other, torch.Tensor) else None
    if watch.note is not None:
        watch.note(link)
        link.facts = dict(link.facts or {})  # links made before the recording may share the dict
    if link.facts is None:
        link.facts = {}
    link.facts[_key(name, other)] = (fact, about)
    return link


def recall(link: object, name: str, other: Operand = 0) -> Any:
    """Return a cached fact of a link; None if there is none."""
    if not is_link(link) or not link.facts:
        return None
    fact, about = link.facts.get(_key(name, other), (None, None))
    return fact if about is None or about.is_same(other) else None


def carry(link: Link, source: Link) -> Link:
    """Copy the cached facts of a link to another one with the same values."""
    link.is_bit = source.is_bit
    link.facts = source.facts
    return link


# --- bits ---------------------------------------------------------------------------------------------------------


def inverted(bit: Value) -> Value:
    """Return 1 where a bit is 0, and 0 where it is 1."""
    return ring_ops.sub(1, bit)


def as_bit(operand: Operand) -> Operand:
    """Return an operand as cached integers 1, 0 or -1; any other operand unchanged."""
    bit: Value | None = recall(operand, BIT)
    return operand if bit is None else bit


def compared(x: Operand, y: Operand, name: str) -> Value | None:
    """Return the cached result of x > y ("gt"), x >= y ("ge") and so on; None if there is none."""
    if name in ("lt", "le"):
        opposite = recall(x, "ge" if name == "lt" else "gt", y)
        return None if opposite is None else inverted(opposite)
    if name in ("gt", "ge"):
        found: Value | None = recall(x, name, y)
        return found
    reached, above = recall(x, "ge", y), recall(x, "gt", y)
    if reached is None or above is None:
        return None
    return ring_ops.sub(reached, above) if name == "eq" else inverted(ring_ops.sub(reached, above))
