"""What a release costs: what a mechanism did, in plain values; and accounts, which add that up.

Who runs a mechanism tells a ledger about it by a dict of plain values, so layers below this one need not know events.
Nothing in it comes from a client: the worker makes it from what it is about to do. All costs are those of replace-one
neighbours: two data sets of the same size that differ in one row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.events import Event, GaussianNoise, PoissonSampled, Pure
from syft.dp.accounting.neighbours import Neighbours

# How many different events an account keeps apart. Beyond, similar ones are taken together, at their higher cost.
MAX_EVENTS = 64
MAX_COUNT = 10**9
# Sums of numbers differ from what people add up in their heads by so much, relatively.
ROUNDING = 1e-9

Fields = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class LossKind:
    """One kind of event.

    Attributes:
        needs: the fields that it has.
        may: fields that it may have.
        make: makes the event and says how often it happens.
    """

    needs: frozenset[str]
    may: frozenset[str]
    make: Callable[[Fields], tuple[Event, int]]


def _pure(fields: Fields) -> tuple[Event, int]:
    return Pure(number("epsilon", fields["epsilon"])), count(fields.get("count", 1))


def _gaussian(fields: Fields) -> tuple[Event, int]:
    return GaussianNoise(number("noise_multiplier", fields["noise_multiplier"])), count(fields.get("count", 1))


def _sampled(fields: Fields) -> tuple[Event, int]:
    noise = GaussianNoise(number("noise_multiplier", fields["noise_multiplier"]))
    rate = number("rate", fields["rate"], most=1.0)
    return PoissonSampled(rate, noise), count(fields["steps"])  # also at rate 1: the noise is in units of the clip


_PURE = LossKind(frozenset({"epsilon"}), frozenset({"count"}), _pure)
# By the name of the mechanism. No other is charged, so no other lets anything out.
KINDS: dict[str, LossKind] = {
    "laplace": _PURE,
    "exponential": _PURE,
    "noisy_max": _PURE,
    "pure": _PURE,
    "gaussian": LossKind(frozenset({"noise_multiplier"}), frozenset({"count"}), _gaussian),
    "dp_sgd": LossKind(frozenset({"noise_multiplier", "rate", "steps"}), frozenset({"delta"}), _sampled),
}


def number(name: str, value: Any, most: float = math.inf, closed: bool = False) -> float:
    """Return a number that is finite and positive (`closed`: or zero) and at most so large; else raise ValueError."""
    if type(value) not in (int, float) or not (0 < value < math.inf or (closed and value == 0)) or value > most:
        bound = "" if math.isinf(most) else f", and at most {most:g}"
        raise ValueError(f"{name} is a {'number from 0 on' if closed else 'number above 0'}{bound}, such as 0.5.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large.") from None


def count(value: object) -> int:
    """Return how often something happens; raise ValueError if that is no such number."""
    if type(value) is not int or not 0 < value <= MAX_COUNT:
        raise ValueError(f"How often something is released is a whole number from 1 to {MAX_COUNT:,}.")
    return value


def event_of(fields: Any) -> tuple[Event, int]:
    """Return what a dict of plain values tells of, and how often that happens.

    Args:
        fields: `mechanism` (see `KINDS`), and what belongs to it.

    Raises:
        ValueError: it is nothing that is known here.
    """
    kind = KINDS.get(fields["mechanism"]) if type(fields) is dict and type(fields.get("mechanism")) is str else None
    if kind is None:
        raise ValueError(f"An event has a mechanism, one of: {', '.join(KINDS)}.")
    given = fields.keys() - {"mechanism"}
    if not kind.needs <= given <= kind.needs | kind.may:
        raise ValueError(f"An event {fields['mechanism']!r} has the fields {', '.join(sorted(kind.needs))}.")
    return kind.make(fields)


class LossAccount:
    """All that was released from something, or to somebody: composed by an `Accountant`.

    Args:
        accountant: the events so far.
        releases: how many charges that were.
    """

    __slots__ = ("accountant", "releases")

    def __init__(self, accountant: Accountant | None = None, releases: int = 0) -> None:
        self.accountant = accountant if accountant is not None else Accountant()
        self.releases = releases

    def after(self, event: Event, times: int) -> LossAccount:
        """Return what it would be with one charge more."""
        return LossAccount(compacted(self.accountant.after(event, times)), self.releases + 1)

    def epsilon(self, delta: float) -> float:
        """Return the privacy loss so far; infinite if there is no such bound with this delta."""
        if not len(self.accountant):
            return 0.0
        try:
            return float(self.accountant.epsilon(delta))
        except ValueError:  # noise from a Gaussian has no bound at delta 0
            return math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"releases": self.releases, "accountant": self.accountant.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any] | None) -> LossAccount:
        """Return the account of `to_dict`; an empty one for None. Raises ValueError for costs that are not of rows."""
        if fields is None:
            return cls()
        accountant = Accountant.from_dict(fields["accountant"])
        if accountant.neighbours is not Neighbours.REPLACE_ROW:
            raise ValueError(f"an account of a data set counts {Neighbours.REPLACE_ROW}, not {accountant.neighbours}")
        return cls(accountant, fields["releases"])


def compacted(accountant: Accountant) -> Accountant:
    """Return an accountant that is at least as strict, with a bounded number of different events.

    Many small releases with a little different settings would else make an account ever larger.
    """
    events = accountant.events
    if len(events) <= MAX_EVENTS:
        return accountant
    made = Accountant(neighbours=accountant.neighbours)
    loss, inverse = 0.0, 0.0
    for event, times in events:
        if isinstance(event, Pure):
            loss += times * event.epsilon
        elif isinstance(event, GaussianNoise):  # several with Gaussian noise are one with less noise, exactly
            inverse += times / event.noise_multiplier**2
        else:
            made.compose(_coarse(event), times)
    if loss:
        made.compose(Pure(loss * (1 + ROUNDING)))
    if inverse:
        made.compose(GaussianNoise((1 - ROUNDING) / math.sqrt(inverse)))
    return made


def _coarse(event: Event) -> Event:
    """Return an event on a sample at rounded settings: a higher rate, less noise."""
    if not isinstance(event, PoissonSampled) or not isinstance(event.event, GaussianNoise):
        return event
    noise = GaussianNoise(_step(event.event.noise_multiplier, up=False))
    rate = _step(event.rate, up=True)
    return PoissonSampled(min(1.0, rate), noise)


def _step(value: float, up: bool) -> float:
    """Return the next number of a row in which each is a tenth more than the one before; those stay as they are."""
    exponent = math.log(value) / math.log(1.1)
    whole = math.ceil(exponent - 1e-6) if up else math.floor(exponent + 1e-6)
    found = 1.1**whole
    # Rounding must not make it cheaper.
    return max(found, value) if up else min(found, value)
