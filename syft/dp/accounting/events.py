"""Events: the privacy loss of one release, as plain values that an accountant composes and a ledger stores.

The neighbouring relation is a property of the `Accountant` that composes events
(`syft.dp.accounting.neighbours`): by default two data sets of the same size that differ in one row. An event contains
nothing about the data: it can be stored, sent and shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from syft._suggestions import did_you_mean


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


def finite(name: str, value: object, *, closed: bool = False) -> float:
    """Return a finite positive (`closed`: or zero) number, or raise ValueError."""
    found = checked(name, value, 0, math.inf, closed=closed)
    if math.isinf(found):
        raise ValueError(f"{name} must be finite, got {found!r}")
    return found


@dataclass(frozen=True)
class Event:
    """The privacy loss of one release. Compose events with an `Accountant`."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return this event as plain values, for `event_from_dict`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: value.to_dict() if isinstance(value, Event) else value for name, value in values.items()}
        return {"kind": self.kind, **plain}


@dataclass(frozen=True)
class Pure(Event):
    """A release with pure differential privacy: Laplace, exponential, noisy max, randomised response."""

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", finite("epsilon", self.epsilon, closed=True))


@dataclass(frozen=True)
class Approximate(Event):
    """A release that is (epsilon, delta)-private, without further knowledge."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", finite("epsilon", self.epsilon, closed=True))
        object.__setattr__(self, "delta", checked("delta", self.delta, 0, 1, closed=True))


@dataclass(frozen=True)
class GaussianNoise(Event):
    """A release with Gaussian noise, whose standard deviation is `noise_multiplier` times the L2 sensitivity.

    The sensitivity is the largest distance between the values of two neighbouring data sets.
    """

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", finite("noise_multiplier", self.noise_multiplier))


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


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without noise: no guarantee holds afterwards."""

    kind: ClassVar[str] = "non_private"


_KINDS: dict[str, type[Event]] = {
    kind.kind: kind for kind in (Pure, Approximate, GaussianNoise, PoissonSampled, NonPrivate)
}


def event_from_dict(given: Any) -> Event:
    """Return the event from the result of `Event.to_dict`. All fields are validated, as they may be untrusted.

    Raises:
        ValueError: an unknown kind, a missing or unknown field, or a number out of range.
    """
    name = given.get("kind") if isinstance(given, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        kinds = ", ".join(sorted(_KINDS))
        hint = did_you_mean(name, _KINDS)
        raise ValueError(
            f"an event must be a dict with a kind ({kinds}) and the fields of that kind, got {name!r:.50}.{hint}"
        )
    values = {key: value for key, value in given.items() if key != "kind"}
    names = [field.name for field in fields(kind)]
    if set(values) != set(names):
        raise ValueError(f"an event of kind {name!r} must have the fields {', '.join(names) or 'kind only'}")
    if kind is PoissonSampled:
        inner = values["event"]
        if isinstance(inner, Mapping) and inner.get("kind") == name:  # checked first: nesting could be deep
            raise ValueError("the event of a Poisson sample must not be a Poisson sample")
        values["event"] = event_from_dict(inner)
    return kind(**values)
