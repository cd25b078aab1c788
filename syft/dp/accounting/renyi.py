"""Renyi differential privacy: the divergence of each event at each order, and its conversion to (epsilon, delta).

The Poisson-sampled Gaussian under add/remove follows Mironov, Talwar and Zhang (2019): at integer orders by their
finite sum, at other orders by integrating the moment. All terms are positive, so nothing cancels at tiny rates. Under
replace-one the moment is integrated at all orders (`syft.dp.accounting.replace_one`). The conversion is that of Balle
et al. (2020) and Canonne, Kamath and Steinke (2020).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from syft.dp.accounting import replace_one
from syft.dp.accounting.events import Approximate, Event, GaussianNoise, NonPrivate, PoissonSampled, Pure
from syft.dp.accounting.neighbours import Neighbours

Curve: TypeAlias = NDArray[np.float64]

# The default orders; the large ones matter for small epsilons.
ORDERS: tuple[float, ...] = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    128.0,
    256.0,
    512.0,
    1024.0,
)
# Below this noise multiplier, or above this order, a moment is bounded by its neighbours at integer orders instead of
# integrated.
_LEAST_INTEGRATED, _LAST_INTEGRATED = 0.05, 64
# Below this noise multiplier, the replace-one loss of a sample is bounded by the loss of the whole.
_LEAST_REPLACED = 0.1
# Below the first, a sample costs as much as the whole; above the second, the loss is not reduced further.
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e9
_TAIL = 13.0  # standard deviations of the integral beyond the outermost mean


def simplified(event: Event, neighbours: Neighbours) -> Event:
    """Return an equivalent event without a sample, if there is one in closed form."""
    if not isinstance(event, PoissonSampled):
        return event
    if neighbours is Neighbours.REPLACE_ROW:
        return _replaced(event)
    if event.rate == 1:
        return event.event
    inner = event.event
    if isinstance(inner, Pure):
        return Pure(replace_one.amplified(inner.epsilon, event.rate))
    if isinstance(inner, Approximate):
        return Approximate(replace_one.amplified(inner.epsilon, event.rate), event.rate * inner.delta)
    return event


def _replaced(event: PoissonSampled) -> Event:
    """Return the result of `simplified` under replace-one: one record leaves the sample, and another joins it."""
    rate, inner = event.rate, event.event
    if isinstance(inner, Pure):
        return _or_non_private(Pure, replace_one.amplified_twice(inner.epsilon, rate))
    if isinstance(inner, Approximate):
        # Group privacy of two on the sample, then advanced joint convexity (see replace_one).
        delta = rate * inner.delta * (1 + math.exp(min(inner.epsilon, 700.0))) if inner.delta else 0.0
        return _or_non_private(Approximate, replace_one.amplified(2 * inner.epsilon, rate), min(1.0, delta))
    if isinstance(inner, GaussianNoise) and rate == 1:
        return GaussianNoise(max(inner.noise_multiplier / 2, 5e-324))
    return event


def _or_non_private(kind: Callable[..., Event], epsilon: float, *rest: float) -> Event:
    return kind(epsilon, *rest) if math.isfinite(epsilon) else NonPrivate()


@functools.lru_cache(maxsize=1024)
def curve(event: Event, orders: tuple[float, ...], neighbours: Neighbours = Neighbours.REPLACE_ROW) -> Curve:
    """Return the Renyi divergence bound of an event at each order. The delta of `Approximate` is not included."""
    event = simplified(event, neighbours)
    replaced = isinstance(event, PoissonSampled) and neighbours is Neighbours.REPLACE_ROW
    with np.errstate(all="ignore"):
        made = _replaced_gaussian if replaced else _CURVES[type(event)]
        found = made(event, np.asarray(orders, dtype=np.float64))
    found = np.where(np.isnan(found), math.inf, found)  # overflow proves nothing
    found.setflags(write=False)  # the cache shares it
    return found


def _pure(event: Any, orders: Curve) -> Curve:
    # Any epsilon-private release can be built from randomised response, whose divergence is known exactly.
    epsilon = event.epsilon
    if epsilon == 0:
        return np.zeros_like(orders)
    moment = np.logaddexp(orders * epsilon, (1 - orders) * epsilon) - np.logaddexp(0.0, epsilon)
    found: Curve = np.clip(moment / (orders - 1), 0.0, epsilon)
    return found


def _gaussian(event: Any, orders: Curve) -> Curve:
    found: Curve = orders / 2 / event.noise_multiplier / event.noise_multiplier
    return found


def _non_private(event: object, orders: Curve) -> Curve:
    return np.full_like(orders, math.inf)


def _sampled_gaussian(event: Any, orders: Curve) -> Curve:
    rate, sigma = event.rate, min(event.event.noise_multiplier, _MOST_NOISE)
    unsampled = _gaussian(event.event, orders)
    if sigma < _LEAST_NOISE:
        return unsampled
    moments = np.array([_log_moment(order, rate, sigma) for order in orders.tolist()])
    # A sample never costs more than the whole.
    found: Curve = np.minimum(moments / (orders - 1), unsampled)
    return found


def _replaced_gaussian(event: Any, orders: Curve) -> Curve:
    rate, sigma = event.rate, min(event.event.noise_multiplier, _MOST_NOISE)
    unsampled = 4 * _gaussian(event.event, orders)  # a replaced record moves the sum by two clips
    if sigma < _LEAST_REPLACED:
        return unsampled
    moments = np.array([replace_one.log_moment(order, rate, sigma) for order in orders.tolist()])
    found: Curve = np.minimum(moments / (orders - 1), unsampled)
    return found


def _log_moment(order: float, rate: float, sigma: float) -> float:
    """Return the log of the moment E[(P/Q)^order] of the sampled and the plain Gaussian, or an upper bound."""
    if order == int(order):
        return _moment_at_whole(int(order), rate, sigma)
    if sigma < _LEAST_INTEGRATED or order > _LAST_INTEGRATED:
        return _between_whole(order, rate, sigma)
    return _integrated(order, rate, sigma)


_CURVES: dict[type[Event], Callable[[Any, Curve], Curve]] = {
    Pure: _pure,
    Approximate: _pure,
    GaussianNoise: _gaussian,
    PoissonSampled: _sampled_gaussian,
    NonPrivate: _non_private,
}


def _moment_at_whole(order: int, rate: float, sigma: float) -> float:
    """Return the log moment by the binomial sum; the terms that sum to one are left out."""
    if order == 1:
        return 0.0
    k = np.arange(2, order + 1, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, order + 1, dtype=np.float64)))))
    choose = logs[-1] - logs[2:] - logs[: order - 1][::-1]
    power = k * (k - 1) / (2 * sigma**2)
    terms = choose + k * math.log(rate) + (order - k) * math.log1p(-rate) + power + np.log(-np.expm1(-power))
    return _log_of_one_plus(terms)


def _between_whole(order: float, rate: float, sigma: float) -> float:
    """Return an upper bound of the log moment: it is convex in the order, so a chord lies above it."""
    low = math.floor(order)
    below, above = (_moment_at_whole(k, rate, sigma) for k in (low, low + 1))
    return below + (order - low) * (above - below)


def _integrated(order: float, rate: float, sigma: float) -> float:
    """Return the log moment by the trapezoid rule, which converges faster than any power for such integrands.

    With f the likelihood ratio of the sampled to the plain Gaussian, E[f] = 1. So the moment is
    1 + E[f^a - 1 - a (f - 1)], and that integrand is nowhere negative.
    """
    step = min(sigma, sigma**2) / 2
    points = np.arange(-_TAIL * sigma, order + _TAIL * sigma + step, step)
    shift = (2 * points - 1) / (2 * sigma**2)
    weight = math.log(step) - points**2 / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = rate * np.expm1(shift)
        log_ratio = np.where(
            shift < 1, np.log1p(ratio), np.logaddexp(math.log1p(-rate), np.minimum(math.log(rate) + shift, 1e300))
        )
        small = np.log(np.expm1(order * log_ratio) - order * ratio)
        share = order * np.exp((1 - order) * log_ratio) - (order - 1) * np.exp(-order * log_ratio)
        large = order * log_ratio + np.log1p(-share)
        terms = weight + np.where(log_ratio > 0.5, large, small)
    return _log_of_one_plus(terms[~np.isnan(terms)])


def _log_of_one_plus(terms: Curve) -> float:
    """Return log(1 + sum of exp(terms))."""
    top = float(terms.max(initial=-math.inf))
    if top == -math.inf:
        return 0.0
    return float(np.logaddexp(0.0, top + math.log(np.exp(terms - top).sum())))


def to_epsilon(orders: Curve, divergence: Curve, delta: float) -> float:
    """Return the smallest epsilon that the divergences prove at a delta."""
    if delta <= 0:
        return math.inf
    if _total_variation(divergence) <= delta:
        return 0.0
    bounds = divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(bounds.min()))


def to_delta(orders: Curve, divergence: Curve, epsilon: float) -> float:
    """Return the smallest delta that the divergences prove at an epsilon."""
    logs = (orders - 1) * (divergence - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return min(1.0, math.exp(min(0.0, float(logs.min()))), _total_variation(divergence))


def _total_variation(divergence: Curve) -> float:
    # Bretagnolle and Huber: total variation, the delta at epsilon 0, from the Kullback-Leibler divergence.
    return math.sqrt(-math.expm1(-max(0.0, float(divergence.min()))))
