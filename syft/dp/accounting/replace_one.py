"""Poisson-sampled Gaussian noise when one row is replaced by another.

A step of DP-SGD sums the gradients of a random sample, each of norm at most one clip, and adds noise of `sigma` clips.
The replaced row is in the sample with probability q. Given all other rows, the two outputs are distributed as

    P = (1 - q) N(0) + q N(u)    and    Q = (1 - q) N(0) + q N(v),    |u| <= 1, |v| <= 1, in units of the clip.

The pair u = 1, v = -1 in one dimension dominates all others. For g = 1 + q (h - 1) and b = g / h, advanced joint
convexity (Balle, Barthe and Gaboardi 2018) gives H_g(P, Q) = q H_h(N(u), (1 - b) N(0) + b N(v)) for the hockey-stick
divergence H. Seen from u, the second argument has its means at -u and v - u, so the divergence is
E[(1 - h (1 - b) exp(X) - h b exp(Y))+] with X and Y Gaussian, each less half its variance. This is a convex function of
a positive sum of log-normals. By Kahane's inequality it grows with each covariance of X and Y: |u|^2 <= 1,
|v - u|^2 <= 4 and <-u, v - u> <= 2 (over sigma^2), all of which u = 1, v = -1 attains. That pair is its own mirror
image, so one direction is enough. A pair that dominates all hockey-stick divergences dominates Renyi divergences as
well.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Curve: TypeAlias = NDArray[np.float64]

_TAIL = 13.0  # standard deviations of the integral beyond the outermost mean
_MOST_POINTS = 1 << 18  # beyond, the moment is not computed
_SERIES = 1e-4


def amplified(epsilon: float, rate: float) -> float:
    """Return the epsilon on the whole of a pure event on a Poisson sample, when one record joins or leaves."""
    if epsilon > 30:
        return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def amplified_twice(epsilon: float, rate: float) -> float:
    """Return the same when one record is replaced: one leaves, and another joins."""
    return 2 * epsilon if rate == 1 else amplified(epsilon, rate) - math.log1p(rate * math.expm1(-epsilon))


def log_moment(order: float, rate: float, sigma: float) -> float:
    """Return log E_Q[(P/Q)^order] of the pair above by the trapezoid rule; infinity if it needs too many points.

    With f = P/Q, E[f] = 1. So the moment is 1 + E[f^a - 1 - a (f - 1)], whose integrand is nowhere negative. The
    integrand is analytic in a strip of half-width pi sigma^2, so the rule converges exponentially.
    """
    step = min(sigma, sigma**2) / 2
    low, high = -1 - _TAIL * sigma, 2 * order + _TAIL * sigma
    if (high - low) / step > _MOST_POINTS:
        return math.inf
    points = np.arange(low, high + step, step)
    with np.errstate(all="ignore"):
        log_q, log_ratio, change = _ratio(points, rate, sigma)
        terms = _log_excess(order, log_ratio, change)
    weights = math.log(step) - points**2 / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi)) + log_q
    terms = np.where(np.isnan(terms), math.inf, terms) + weights
    top = float(terms.max())
    if not math.isfinite(top):
        return 0.0 if top < 0 else math.inf
    return float(np.logaddexp(0.0, top + math.log(np.exp(terms - top).sum())))


def _ratio(points: Curve, rate: float, sigma: float) -> tuple[Curve, Curve, Curve]:
    """Return log(Q / N(0)), log(P / Q) and P / Q - 1 at some points."""
    tilt, half = points / sigma**2, 1 / (2 * sigma**2)
    log_p, log_q = (_log_mixture(sign * tilt - half, rate) for sign in (1, -1))
    change = 2 * rate * np.sinh(np.clip(tilt, -700, 700)) * np.exp(-half - log_q)
    log_ratio = np.where(np.abs(change) < 0.1, np.log1p(change), log_p - log_q)
    return log_q, log_ratio, np.where(np.abs(tilt) < 700, change, np.expm1(log_ratio))


def _log_mixture(exponent: Curve, rate: float) -> Curve:
    """Return log(1 - rate + rate * exp(exponent))."""
    near = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
    far = np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + exponent)
    found: Curve = np.where(exponent < 1, near, far)
    return found


def _log_excess(order: float, log_ratio: Curve, change: Curve) -> Curve:
    """Return log(f^a - 1 - a (f - 1)) for f = exp(log_ratio) = 1 + change."""
    tiny = 0.5 * order * (order - 1) * change**2 * (1 + (order - 2) / 3 * change * (1 + (order - 3) / 4 * change))
    small = np.expm1(order * log_ratio) - order * change
    share = order * np.exp((1 - order) * log_ratio) - (order - 1) * np.exp(-order * log_ratio)
    large = order * log_ratio + np.log1p(-share)
    plain = np.log(np.maximum(np.where(np.abs(change) * max(order, 3.0) < _SERIES, tiny, small), 0.0))
    found: Curve = np.where(order * log_ratio > 1, large, plain)
    return found


class LossVariable:
    """The privacy loss log(P/Q) under P, as a random variable for the numerical composition of Opacus."""

    def __init__(self, sample_rate: float, noise_multiplier: float) -> None:
        self.sample_rate, self.noise_multiplier = sample_rate, noise_multiplier
        self._erfc: Any = importlib.import_module("scipy.special").erfc

    def cdf(self, loss: object) -> Any:
        """Return the probability that the loss is at most this value."""
        q, sigma = self.sample_rate, self.noise_multiplier
        point = self._point(np.asarray(loss, dtype=np.float64))
        apart, joined = (0.5 * self._erfc((mean - point) / (sigma * math.sqrt(2))) for mean in (0.0, 1.0))
        return (1 - q) * apart + q * joined

    def _point(self, loss: Curve) -> Curve:
        """Return the output at which the loss has a given value; the loss is increasing in the output, and odd."""
        q, sigma = self.sample_rate, self.noise_multiplier
        size, half = np.abs(loss), 1 / (2 * sigma**2)
        # With y = exp(point / sigma^2), P = exp(loss) Q is a quadratic equation in y.
        scaled = (1 - q) * -np.expm1(-size)
        root = np.hypot(scaled, 2 * q * np.exp(-half - size / 2))
        point = sigma**2 * (np.log(scaled + root) + size - math.log(2 * q) + half)
        found: Curve = np.sign(loss) * np.maximum(point, 0.0)
        return found
