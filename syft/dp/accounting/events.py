"""Events: the privacy loss of one release, as plain values that an accountant composes and a ledger stores.

The neighbouring relation is a property of the `Accountant` that composes events
(`syft.dp.accounting.neighbours`): by default two data sets of the same size that differ in one row. An event contains
nothing about the data: it can be stored, sent and shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "Approximate",
    "Event",
    "GaussianNoise",
    "NonPrivate",
    "PoissonSampled",
    "Pure",
    "checked",
    "event_from_dict",
]


def checked(name: str, value: Any, low: float, high: float, *, closed: bool = False) -> float:
    """Return a number above `low` (`closed`: or equal) and at most `high`, or raise ValueError."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number and hasattr(value, "__float__") and not isinstance(value, (str, bytes, bool)):
        try:
            value, is_number = float(value), True
        except (TypeError, ValueError, RuntimeError):
            is_number = False
    if not is_number or not (low < value <= high or (closed and value == low)):
        ends = f"{'from' if closed else 'above'} {low:g}" + ("" if math.isinf(high) else f" and at most {high:g}")
        raise ValueError(f"{name} must be a number {ends}, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit a float, got an integer that is too large") from None


class Event:
    """The privacy loss of one release. Compose events with an `Accountant`."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values, for `event_from_dict`."""
        raise NotImplementedError(f"{type(self).__name__}: an event must implement to_dict")


@dataclass(frozen=True)
class Pure(Event):
    """A release with pure differential privacy: Laplace, exponential, noisy max, randomised response."""

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _finite("epsilon", self.epsilon, closed=True))

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values."""
        return {"kind": self.kind, "epsilon": self.epsilon}


@dataclass(frozen=True)
class Approximate(Event):
    """A release that is (epsilon, delta)-private, without further knowledge."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _finite("epsilon", self.epsilon, closed=True))
        object.__setattr__(self, "delta", checked("delta", self.delta, 0, 1, closed=True))

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values."""
        return {"kind": self.kind, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class GaussianNoise(Event):
    """A release with Gaussian noise, whose standard deviation is `noise_multiplier` times the L2 sensitivity.

    The sensitivity is the largest distance between the values of two neighbouring data sets.
    """

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", _finite("noise_multiplier", self.noise_multiplier))

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values."""
        return {"kind": self.kind, "noise_multiplier": self.noise_multiplier}


@dataclass(frozen=True)
class PoissonSampled(Event):
    """A release about a sample that contains each record with probability `rate`, independently of the others.

    The inner event is the loss when one record joins or leaves the sample, for any neighbouring relation: for DP-SGD
    it is `GaussianNoise(noise_multiplier)` in units of the clip. Replacing a record in the sample moves the sum by up
    to two clips, and an accountant of replace-one neighbours charges for that.

    Batches of a fixed size are not Poisson samples: their loss is different and can be higher.
    """

    rate: float
    event: Event
    kind: ClassVar[str] = "poisson_sampled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checked("rate", self.rate, 0, 1))
        if not isinstance(self.event, (Pure, Approximate, GaussianNoise)):
            raise ValueError(
                f"a Poisson sample needs a Pure, an Approximate or a GaussianNoise event, got {self.event!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values."""
        return {"kind": self.kind, "rate": self.rate, "event": self.event.to_dict()}


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without noise: no guarantee holds afterwards."""

    kind: ClassVar[str] = "non_private"

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values."""
        return {"kind": self.kind}


def event_from_dict(fields: Mapping[str, Any]) -> Event:
    """Return the event from the result of `Event.to_dict`. All fields are validated, as they may be untrusted.

    Raises:
        ValueError: an unknown kind, a missing or unknown field, or a number out of range.
    """
    return _event(fields, nested=False)


def _event(fields: Any, nested: bool) -> Event:
    kind = fields.get("kind") if isinstance(fields, Mapping) else None
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None or (nested and known[0] is PoissonSampled):
        kinds = ", ".join(sorted(_KINDS))
        raise ValueError(f"an event must be a dict with a kind ({kinds}) and the fields of that kind")
    build, names = known
    given = dict(fields)
    del given["kind"]
    if set(given) != set(names):
        raise ValueError(f"an event of kind {kind!r} must have the fields {', '.join(names) or 'kind only'}")
    if "event" in given:
        given["event"] = _event(given["event"], nested=True)
    return build(**given)


_KINDS: dict[str, tuple[Callable[..., Event], tuple[str, ...]]] = {
    Pure.kind: (Pure, ("epsilon",)),
    Approximate.kind: (Approximate, ("epsilon", "delta")),
    GaussianNoise.kind: (GaussianNoise, ("noise_multiplier",)),
    PoissonSampled.kind: (PoissonSampled, ("rate", "event")),
    NonPrivate.kind: (NonPrivate, ()),
}


def _finite(name: str, value: object, *, closed: bool = False) -> float:
    found = checked(name, value, 0, math.inf, closed=closed)
    if math.isinf(found):
        raise ValueError(f"{name} must be finite, got {found!r}")
    return found
