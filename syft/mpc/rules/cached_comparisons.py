"""What is known of links besides their values: bits that a rule found along with its result, kept for the gradient.

A relu finds where its input is positive; its gradient needs nothing else. So the rule notes that with the link, and
whoever compares that link with zero later finds the answer, without a protocol. Facts are whole numbers (1 or 0, here
or shared), and are forgotten when the link is written to.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from syft.mpc.rules.operands import AnyTensor, Link, Operand, Value, is_link, memo_of
from syft.mpc.values import ring_ops
from syft.tensors.views import watch

# The very values, where they are whole: 1 and 0 of a comparison, or a sign.
BIT = "bit"


class _Other:
    """What a link was compared with; it says whether that is still the same, without keeping it alive."""

    __slots__ = ("below", "of", "version")

    def __init__(self, other: AnyTensor) -> None:
        self.of = weakref.ref(other)
        self.below = weakref.ref(memo_of(other))
        self.version = other._version if isinstance(other, torch.Tensor) else 0

    def is_same(self, other: AnyTensor) -> bool:
        version = other._version if isinstance(other, torch.Tensor) else 0
        return self.of() is other and self.below() is memo_of(other) and self.version == version


def _key(name: str, other: Operand) -> tuple[str, Any]:
    """Return what a fact is kept under: its name, and the number or the object it is about."""
    if is_link(other) or isinstance(other, torch.Tensor):
        return name, id(other)
    return name, ("number", float(other))


def note(link: Link, name: str, fact: object, other: Operand = 0) -> Link:
    """Keep a fact with a link.

    Args:
        link: the link.
        name: what is known: "gt" for where it is greater than `other`, "ge" for where it is not less; or any other.
        fact: whole numbers, 1 or 0; or whatever the name says.
        other: the number, the link or the plain tensor that this is about.
    """
    about = _Other(other) if is_link(other) or isinstance(other, torch.Tensor) else None
    if watch.note is not None:
        watch.note(link)
        link.facts = dict(link.facts or {})  # links from before the recording may have the same dict
    if link.facts is None:
        link.facts = {}
    link.facts[_key(name, other)] = (fact, about)
    return link


def recall(link: object, name: str, other: Operand = 0) -> Any:
    """Return a fact that was noted about a link, None if there is none."""
    if not is_link(link) or not link.facts:
        return None
    fact, about = link.facts.get(_key(name, other), (None, None))
    return fact if about is None or about.is_same(other) else None


def carry(link: Link, source: Link) -> Link:
    """Let a link that holds the same values know what another one does."""
    link.is_bit = source.is_bit
    link.facts = source.facts
    return link


# --- bits ---------------------------------------------------------------------------------------------------------


def inverted(bit: Value) -> Value:
    """Return 1 where a bit is 0, and 0 where it is 1."""
    return ring_ops.sub(1, bit)


def as_bit(operand: Operand) -> Operand:
    """Return the whole numbers (1, 0, -1) that an operand is known to be; any other operand as it is."""
    bit: Value | None = recall(operand, BIT)
    return operand if bit is None else bit


def compared(x: Operand, y: Operand, name: str) -> Value | None:
    """Return what is known of x > y ("gt"), x >= y ("ge") and so on; None if that is nothing."""
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
