"""Privacy loss of mechanisms, described by plain values, and accounts that compose it.

A mechanism is reported to a ledger as a dict of plain values, so lower layers need not know events. The worker builds
it from the release that it is about to make; nothing comes from a client. All losses are under replace-one: two data
sets of the same size that differ in one row.
"""

from __future__ import annotations

import math
from typing import Any

from syft._suggestions import one_of
from syft.dp.accounting.accountant import Accountant
from syft.dp.accounting.events import Event, GaussianNoise, PoissonSampled, Pure
from syft.dp.accounting.neighbours import Neighbours

# Maximum number of distinct events in an account. Beyond it, similar ones are merged at their higher loss.
MAX_EVENTS = 64
MAX_COUNT = 10**9
# Relative tolerance of sums, for rounding errors.
ROUNDING = 1e-9

# Mechanism -> its required and its optional fields. Others can't be charged, so they can't release anything.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(("laplace", "exponential", "noisy_max", "pure"), ({"epsilon"}, {"count"})),
    "gaussian": ({"noise_multiplier"}, {"count"}),
    "dp_sgd": ({"noise_multiplier", "rate", "steps"}, {"delta"}),
}


def number(name: str, value: Any, most: float = math.inf, closed: bool = False) -> float:
    """Return a finite, positive (`closed`: or zero) number of at most `most`; else raise ValueError."""
    if type(value) not in (int, float) or not (0 < value < math.inf or (closed and value == 0)) or value > most:
        bound = "" if math.isinf(most) else f", and at most {most:g}"
        raise ValueError(f"{name} must be a {'number from 0 on' if closed else 'number above 0'}{bound}, such as 0.5.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large.") from None


def count(value: object) -> int:
    """Return a number of occurrences; raises ValueError if it is invalid."""
    if type(value) is not int or not 0 < value <= MAX_COUNT:
        raise ValueError(f"The number of occurrences must be an integer from 1 to {MAX_COUNT:,}.")
    return value


def event_of(fields: Any) -> tuple[Event, int]:
    """Return the event described by a dict of plain values, and its number of occurrences.

    Args:
        fields: `mechanism` and its fields (see `FIELDS`).

    Raises:
        ValueError: the mechanism or its fields are unknown.
    """
    known = FIELDS.get(fields["mechanism"]) if type(fields) is dict and type(fields.get("mechanism")) is str else None
    if known is None:
        name = fields.get("mechanism") if type(fields) is dict else None
        raise ValueError(f"An event needs a mechanism, got {name!r:.50}. {one_of(name, FIELDS)}")
    needs, may = known
    if not needs <= fields.keys() - {"mechanism"} <= needs | may:
        raise ValueError(f"An event {fields['mechanism']!r} needs the fields {', '.join(sorted(needs))}.")
    if "epsilon" in needs:
        return Pure(number("epsilon", fields["epsilon"])), count(fields.get("count", 1))
    noise = GaussianNoise(number("noise_multiplier", fields["noise_multiplier"]))
    if "rate" not in needs:
        return noise, count(fields.get("count", 1))
    rate = number("rate", fields["rate"], most=1.0)
    return PoissonSampled(rate, noise), count(fields["steps"])  # also at rate 1: the noise is in units of the clip


class LossAccount:
    """The releases from one data set, or to one user: their events and the number of charges."""

    __slots__ = ("accountant", "releases")

    def __init__(self, accountant: Accountant | None = None, releases: int = 0) -> None:
        self.accountant = accountant if accountant is not None else Accountant()
        self.releases = releases

    def after(self, event: Event, times: int) -> LossAccount:
        """Return the account after one more charge."""
        return LossAccount(compacted(self.accountant.after(event, times)), self.releases + 1)

    def epsilon(self, delta: float) -> float:
        """Return the privacy loss so far; infinite if there is no bound at this delta."""
        return self.accountant.epsilon(delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values."""
        return {"releases": self.releases, "accountant": self.accountant.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any] | None) -> LossAccount:
        """Return the account from the result of `to_dict`, empty for None. Raises ValueError if not about rows."""
        if fields is None:
            return cls()
        accountant = Accountant.from_dict(fields["accountant"])
        if accountant.neighbours is not Neighbours.REPLACE_ROW:
            raise ValueError(f"an account of a data set must use {Neighbours.REPLACE_ROW}, got {accountant.neighbours}")
        return cls(accountant, fields["releases"])


def compacted(accountant: Accountant) -> Accountant:
    """Return an accountant that is at least as strict, with a bounded number of distinct events.

    Otherwise many small releases with slightly different settings would let an account grow without bound.
    """
    events = accountant.events
    if len(events) <= MAX_EVENTS:
        return accountant
    made = Accountant(neighbours=accountant.neighbours)
    loss, inverse = 0.0, 0.0
    for event, times in events:
        if isinstance(event, Pure):
            loss += times * event.epsilon
        elif isinstance(event, GaussianNoise):  # exact: several Gaussian releases equal one with less noise
            inverse += times / event.noise_multiplier**2
        else:
            made.compose(_coarse(event), times)
    if loss:
        made.compose(Pure(loss * (1 + ROUNDING)))
    if inverse:
        made.compose(GaussianNoise((1 - ROUNDING) / math.sqrt(inverse)))
    return made


def _coarse(event: Event) -> Event:
    """Return a sampled event with rounded settings: a higher rate, less noise."""
    if not isinstance(event, PoissonSampled) or not isinstance(event.event, GaussianNoise):
        return event
    noise = GaussianNoise(_step(event.event.noise_multiplier, up=False))
    rate = _step(event.rate, up=True)
    return PoissonSampled(min(1.0, rate), noise)


def _step(value: float, up: bool) -> float:
    """Return the next number of a geometric grid with factor 1.1; grid points are unchanged."""
    exponent = math.log(value) / math.log(1.1)
    whole = math.ceil(exponent - 1e-6) if up else math.floor(exponent + 1e-6)
    found = 1.1**whole
    # Rounding must not lower the loss.
    return max(found, value) if up else min(found, value)
