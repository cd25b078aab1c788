"""Accountant: the privacy loss of a series of releases, from their events."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from syft._suggestions import did_you_mean, suggests_keywords
from syft.display.facts import FactList, Shown
from syft.dp.accounting import renyi
from syft.dp.accounting.events import (
    Approximate,
    Event,
    GaussianNoise,
    NonPrivate,
    PoissonSampled,
    Pure,
    checked,
    event_from_dict,
)
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.accounting.replace_one import LossVariable
from syft.dp.opacus_import import opacus

MOST_ORDERS = 1000
MOST_ORDER = 10_000
MOST_COUNT = 2**53
_MOST_NOISE = 1e7


class Accountant(Shown):
    """Composes events and computes their joint privacy loss as (epsilon, delta).

    Events may depend on earlier releases (adaptive composition), in any order. Equal events are one entry with a count,
    so a hundred thousand training steps use no more memory than one.

    Args:
        kind: "rdp" composes Renyi divergences, for all events, without other packages. "prv" composes privacy loss
            distributions numerically: tighter, slower, for Gaussian noise only, and needs Opacus.
        orders: Renyi orders for "rdp"; the default suits most uses.
        neighbours: the neighbouring relation: `Neighbours.REPLACE_ROW` (same size, one row differs) or
            `Neighbours.ADD_REMOVE_CLIENT` (one has one client more). All events are charged under this relation.
    """

    __slots__ = ("_counts", "kind", "neighbours", "orders")

    def __init__(
        self,
        kind: str = "rdp",
        orders: Sequence[float] | None = None,
        neighbours: Neighbours | str = Neighbours.REPLACE_ROW,
    ) -> None:
        if kind not in _EPSILONS:
            hint = did_you_mean(kind, _EPSILONS)
            raise ValueError(
                f"the kind of an accountant must be {' or '.join(map(repr, _EPSILONS))}, got {kind!r}.{hint}"
            )
        self.kind = kind
        self.orders = renyi.ORDERS if orders is None else _checked_orders(orders)
        self.neighbours = Neighbours(neighbours)
        self._counts: dict[Event, int] = {}

    @property
    def events(self) -> tuple[tuple[Event, int], ...]:
        """The composed events, each with its count."""
        return tuple(self._counts.items())

    def compose(self, event: Event, count: int = 1) -> Self:
        """Add `count` occurrences of an event. Returns this accountant."""
        if not isinstance(event, Event):
            raise ValueError(f"compose() needs an event, such as dp.Pure(epsilon=0.1), got {type(event).__name__}")
        number = _checked_count(count)
        if number:
            self._counts[event] = self._counts.get(event, 0) + number
        return self

    def after(self, event: Event, count: int = 1) -> Accountant:
        """Return a copy with one more event, to check a release before it is made."""
        return self.copy().compose(event, count)

    def copy(self) -> Accountant:
        """Return an independent accountant with the same events."""
        other = Accountant(self.kind, None if self.orders is renyi.ORDERS else self.orders, self.neighbours)
        other._counts.update(self._counts)
        return other

    def epsilon(self, delta: float) -> float:
        """Return the smallest proven epsilon of all events at this delta; inf if there is none.

        For a delta of 0 it is the sum of the epsilons, if all events are pure.
        """
        delta = checked("delta", delta, 0, 1, closed=True)
        if not self._counts:
            return 0.0
        return _EPSILONS[self.kind](self, delta)

    def delta(self, epsilon: float) -> float:
        """Return the smallest proven delta at this epsilon, by Renyi composition; 1 if there is none."""
        epsilon = checked("epsilon", epsilon, 0, math.inf, closed=True)
        if math.isinf(epsilon):
            return 0.0
        pure, leaked = _sums(self)
        composed = renyi.to_delta(np.asarray(self.orders), _divergence(self, Event), epsilon)
        rest = renyi.to_delta(np.asarray(self.orders), _divergence(self, _GAUSSIAN), max(0.0, epsilon - pure))
        if epsilon < pure:
            rest = 1.0
        return min(1.0, leaked + min(composed, rest))

    @property
    def leaked(self) -> float:
        """The sum of the deltas of all events; the delta of any epsilon must exceed it."""
        return _sums(self)[1]

    def to_dict(self) -> dict[str, Any]:
        """Return this accountant as plain values, for a checkpoint or a ledger."""
        fields: dict[str, Any] = {"kind": self.kind, "neighbours": self.neighbours.value}
        if self.orders is not renyi.ORDERS:
            fields["orders"] = list(self.orders)
        fields["events"] = [[event.to_dict(), count] for event, count in self._counts.items()]
        return fields

    @classmethod
    def from_dict(cls, fields: object) -> Self:
        """Return the accountant from the result of `to_dict`. Raises ValueError for anything else.

        Without `neighbours`, as written by earlier releases, the relation is replace-one, which costs more.
        """
        known = {"kind", "events", "orders", "neighbours"}
        if not isinstance(fields, Mapping) or not {"kind", "events"} <= set(fields) <= known:
            raise ValueError("an accountant must be a dict with the fields kind, events, neighbours and maybe orders")
        rows = fields["events"]
        if not isinstance(rows, (list, tuple)) or any(not isinstance(r, (list, tuple)) or len(r) != 2 for r in rows):
            raise ValueError("the events of an accountant must be a list of pairs: an event as a dict, and its count")
        kind = fields["kind"]
        neighbours = fields.get("neighbours", Neighbours.REPLACE_ROW)
        made = cls(kind if isinstance(kind, str) else repr(kind), fields.get("orders"), neighbours)
        for event, count in rows:
            made.compose(event_from_dict(event), count)
        return made

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __bool__(self) -> bool:
        return True  # also without events

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accountant):
            return NotImplemented
        ours, theirs = ((one.kind, one.neighbours, one.orders, one._counts) for one in (self, other))
        return ours == theirs

    def _facts(self) -> FactList:
        return (("kind", self.kind), ("neighbours", str(self.neighbours)), ("events", len(self)))

    def __repr__(self) -> str:
        return f"<Accountant, {self.kind}, {self.neighbours}, {len(self)} events>"


def _checked_count(count: Any) -> int:
    whole = hasattr(count, "__index__") and not isinstance(count, bool)
    if not whole or not 0 <= operator.index(count) <= MOST_COUNT:
        raise ValueError(f"count must be an integer from 0 to {MOST_COUNT}, got {count!r}")
    return operator.index(count)


def _checked_orders(orders: object) -> tuple[float, ...]:
    if isinstance(orders, (str, bytes)) or not isinstance(orders, (Sequence, np.ndarray)) or not len(orders):
        raise ValueError("orders must be a list of numbers above 1")
    if len(orders) > MOST_ORDERS:
        raise ValueError(f"at most {MOST_ORDERS} orders are supported, got {len(orders)}")
    return tuple(sorted({checked("an order", order, 1, MOST_ORDER) for order in orders}))


_GAUSSIAN = (GaussianNoise, PoissonSampled, NonPrivate)


def _simple(accountant: Accountant) -> list[tuple[Event, int]]:
    return [(renyi.simplified(event, accountant.neighbours), count) for event, count in accountant.events]


def _divergence(accountant: Accountant, kinds: type | tuple[type, ...]) -> renyi.Curve:
    """Return the sum of the Renyi divergences of all events of some kinds."""
    total = np.zeros(len(accountant.orders))
    for event, count in _simple(accountant):
        if isinstance(event, kinds):
            with np.errstate(over="ignore"):  # the loss is then infinite
                total = total + count * renyi.curve(event, accountant.orders, accountant.neighbours)
    return total


def _sums(accountant: Accountant) -> tuple[float, float]:
    """Return the sums of the epsilons and of the deltas of the events that have them."""
    events = [(event, count) for event, count in _simple(accountant) if isinstance(event, (Pure, Approximate))]
    epsilon = sum(event.epsilon * count for event, count in events)
    return epsilon, sum(event.delta * count for event, count in events if isinstance(event, Approximate))


def _by_renyi(accountant: Accountant, delta: float) -> float:
    """Compose by divergences, or add the epsilons of pure events to the loss of the others, if that is less.

    An (epsilon, delta)-private event is epsilon-private, except for an outcome of probability delta
    (Kairouz, Oh and Viswanath 2015); so its delta is subtracted first.
    """
    pure, leaked = _sums(accountant)
    left = delta - leaked
    if left < 0:
        return math.inf
    orders = np.asarray(accountant.orders)
    rest = _divergence(accountant, _GAUSSIAN)
    added = pure if not rest.any() else pure + renyi.to_epsilon(orders, rest, left)
    return min(added, renyi.to_epsilon(orders, _divergence(accountant, Event), left))


def _by_loss_distribution(accountant: Accountant, delta: float) -> float:
    books = opacus("opacus.accountants").PRVAccountant()
    for event, count in _simple(accountant):
        rate, inner = (event.rate, event.event) if isinstance(event, PoissonSampled) else (1.0, event)
        if not isinstance(inner, GaussianNoise):
            raise ValueError(f"an accountant of kind 'prv' supports Gaussian noise only, got {event!r}. Use kind='rdp'")
        books.history.append((inner.noise_multiplier, rate, count))
    if not delta:
        return math.inf
    with np.errstate(all="ignore"):  # it takes the logarithm of zero at rate 1
        if accountant.neighbours is Neighbours.ADD_REMOVE_CLIENT:
            return max(0.0, float(books.get_epsilon(delta)))
        return max(0.0, _by_loss_of_replacing(books.history, delta))


def _by_loss_of_replacing(history: list[tuple[float, float, int]], delta: float, error: float = 0.01) -> float:
    """Compose privacy losses of replace-one neighbours as Gopi, Lee and Wutschitz (2021), with parts of Opacus."""
    parts = opacus("opacus.accountants.analysis.prv")
    slack, total = delta / 1000, sum(count for _, _, count in history)
    # Unsampled noise is relative to the distance of neighbours, which is two clips.
    rows = [(rate, noise if rate < 1 else 2 * noise, count) for noise, rate, count in history]
    losses = [LossVariable(rate, noise) for rate, noise, _ in rows]
    steps = [Accountant().compose(PoissonSampled(rate, GaussianNoise(noise))) for rate, noise, _ in rows]
    whole = Accountant()
    for rate, noise, count in rows:
        whole.compose(PoissonSampled(rate, GaussianNoise(noise)), count)
    reach = max(whole.epsilon(slack / 4), *(step.epsilon(slack / (8 * total)) for step in steps), error) + 3
    mesh = error / math.sqrt(total * math.log(12 / slack) / 2)
    domain = parts.Domain.create_aligned(-reach, reach, mesh)
    cut = [parts.TruncatedPrivacyRandomVariable(loss, domain.t_min, domain.t_max) for loss in losses]
    grids = [parts.discretize(one, domain) for one in cut]
    composed = parts.compose_heterogeneous(dprvs=grids, num_self_compositions=[count for _, _, count in rows])
    _, _, found = composed.compute_epsilon(delta, slack, error)
    return float(found)


_EPSILONS: dict[str, Callable[[Accountant, float], float]] = {"rdp": _by_renyi, "prv": _by_loss_distribution}


@suggests_keywords
def noise_for(
    target_epsilon: float,
    delta: float,
    rate: float = 1.0,
    steps: int = 1,
    *,
    kind: str = "rdp",
    tolerance: float = 1e-4,
    neighbours: Neighbours | str = Neighbours.REPLACE_ROW,
) -> float:
    """Return the smallest noise multiplier with which `steps` steps on Poisson samples cost at most the target.

    Args:
        target_epsilon: the target for all steps together.
        delta: the delta of that epsilon; well below one over the number of records.
        rate: the probability of each record to be in a step's sample.
        steps: number of steps.
        kind: the kind of `Accountant` to use.
        tolerance: the largest relative excess over the minimum.
        neighbours: the neighbouring relation; see `Accountant`.
    """
    target = checked("target_epsilon", target_epsilon, 0, math.inf)
    delta = checked("delta", delta, 0, 1)
    tolerance = checked("tolerance", tolerance, 1e-12, 0.5)

    def cost(noise: float) -> float:
        books = Accountant(kind, neighbours=neighbours)
        return books.compose(PoissonSampled(rate, GaussianNoise(noise)), steps).epsilon(delta)

    high = 1.0
    while cost(high) > target:
        high *= 2
        if high > _MOST_NOISE:
            raise ValueError(
                f"no noise brings {steps} steps at rate {rate} to epsilon {target:g} at delta {delta:g}. "
                "Use fewer steps, a smaller rate, or a larger epsilon"
            )
    low = high / 2
    while low > 1e-3 and cost(low) <= target:
        low, high = low / 2, low
    while high - low > tolerance * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= target else (middle, high)
    return high
