"""PATE: the privacy loss of answering queries by the noisy majority of teachers (Papernot et al. 2017).

Each query is answered with the label that has the most votes after Laplace noise of scale 1 / noise_eps was added to
each count. The moments accountant bounds the log moments of the privacy loss, query by query. If teachers agree, the
bound and so the data-dependent epsilon are small; the data-independent one holds for any votes.

The data-dependent epsilon is computed from the votes, so it is itself private: publish the data-independent one, or
release the other with noise. For that, choose the best moment l, add up `smoothed_sens` over the queries at that l, and
add Laplace noise of scale 2 * sum / e to the summed log moments, with beta at most e / (2 ln(2 / d)): this release
costs another (e, d) (Nissim, Raskhodnikova and Smith 2007).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from syft.dp.accounting.events import checked, finite

Floats: TypeAlias = NDArray[np.float64]
MOST_CLASSES = 1_000_000
MOST_MOMENTS = 10_000
_PIECE = 1 << 20  # counts in memory at a time


# Vectorized bounds -------------------------------------------------------------------------------------------


def _q_of(counts: Floats, noise_eps: float) -> Floats:
    """Bound, for each row of counts, the probability that the noisy winner is not the true one (lemma 4)."""
    below = noise_eps * (counts.max(axis=-1, keepdims=True) - counts)
    terms = (2 + below) / 4 * np.exp(-below)
    np.put_along_axis(terms, below.argmin(axis=-1, keepdims=True), 0.0, axis=-1)  # the winner is not its own rival
    found: Floats = np.minimum(terms.sum(axis=-1), 1 - 1 / counts.shape[-1])  # it wins at least as often as any other
    return found


def _log_moments(q: Floats, priv_eps: float, moments: Floats) -> Floats:
    """Bound the log moment at each of `moments`, for a priv_eps-private answer that is unusual with probability q.

    The minimum of three bounds: that of any private answer, l * eps; that of theorem 2, eps^2 l (l + 1) / 2; and that
    of theorem 3, which needs q below 1 / (e^eps + 1).
    """
    anyway = np.minimum(priv_eps * moments, 0.5 * priv_eps**2 * moments * (moments + 1))
    applies = q < 1 / (math.exp(min(priv_eps, 700.0)) + 1)
    safe = np.where(applies, q, 0.0)[..., None]
    with np.errstate(divide="ignore"):  # q may be zero: then the second term is zero
        usual = (moments + 1) * np.log1p(-safe) - moments * np.log1p(-math.exp(min(priv_eps, 700.0)) * safe)
        bound = np.logaddexp(usual, np.log(safe) + priv_eps * moments)
    return np.where(applies[..., None], np.clip(bound, 0.0, anyway), anyway)


def _sensitivities(counts: Floats, noise_eps: float, moment: float, distances: Floats) -> Floats:
    """Return the change of the log moment by one more vote, after k votes moved from the first label to the second."""
    if 0.5 * noise_eps * moment > 1:
        return np.full(len(distances), math.inf)
    ordered = np.sort(counts)[::-1]
    if len(ordered) < 2:
        return np.zeros(len(distances))
    reaches = ordered[0] - ordered[1] >= 2 * distances  # beyond, the second would be first
    moved = np.repeat(ordered[None], 2 * len(distances), axis=0).reshape(2, len(distances), -1)
    votes = np.stack([distances, np.minimum(distances + 1, (ordered[0] - ordered[1]) / 2)])
    moved[..., 0] -= votes
    moved[..., 1] += votes
    here, further = _log_moments(_q_of(moved, noise_eps), 2 * noise_eps, np.array([moment]))[..., 0]
    return np.where(reaches, np.clip(further - here, 0.0, None), 0.0)


# The documented functions -------------------------------------------------------------------------------------


def compute_q_noisy_max(counts: object, noise_eps: float) -> float:
    """Bound the probability that the noisy winner is not the label with the most votes.

    Args:
        counts: votes for each label of one query.
        noise_eps: the inverse of the scale of the Laplace noise on each count.
    """
    return float(_q_of(_counts(counts), finite("noise_eps", noise_eps)))


def compute_q_noisy_max_approx(counts: object, noise_eps: float) -> float:
    """Bound the same probability from the two largest counts only: never smaller than `compute_q_noisy_max`."""
    votes, eps = np.sort(_counts(counts)), finite("noise_eps", noise_eps)
    if len(votes) < 2:
        return 0.0
    gap = eps * float(votes[-1] - votes[-2])
    return min((len(votes) - 1) * (2 + gap) / 4 * math.exp(-gap), 1 - 1 / len(votes))


def logmgf_exact(q: float, priv_eps: float, l: int) -> float:  # noqa: E741  (documented name)
    """Bound the log moment l of the privacy loss of an answer that is not the usual one with probability q.

    Args:
        q: bound on that probability.
        priv_eps: the answer's epsilon; 2 * noise_eps for a noisy majority.
        l: the moment.
    """
    q = checked("q", q, 0, 1, closed=True)
    moments = np.array([finite("l", l)])
    return float(_log_moments(np.array(q), finite("priv_eps", priv_eps), moments)[0])


def logmgf_from_counts(counts: object, noise_eps: float, l: int) -> float:  # noqa: E741  (documented name)
    """Bound the log moment l of the privacy loss of one query, from the votes for each label."""
    return logmgf_exact(compute_q_noisy_max(counts, noise_eps), 2.0 * noise_eps, l)


def sens_at_k(counts: object, noise_eps: float, l: int, k: float) -> float:  # noqa: E741  (documented name)
    """Return the change of the log moment by one more vote, once k votes have changed.

    Returns inf if noise_eps * l is above 2, where no bound is known.
    """
    distance = np.array([checked("k", k, 0, math.inf, closed=True)])
    eps, moment = finite("noise_eps", noise_eps), finite("l", l)
    return float(_sensitivities(_counts(counts), eps, moment, distance)[0])


def smoothed_sens(counts: object, noise_eps: float, l: int, beta: float) -> float:  # noqa: E741  (documented name)
    """Return the beta-smooth sensitivity of the log moment: the maximum of exp(-beta * k) * sens_at_k over all k."""
    votes, beta = _counts(counts), finite("beta", beta)
    distances = np.arange(max(1.0, math.floor(votes.max())))
    sensitivities = _sensitivities(votes, finite("noise_eps", noise_eps), finite("l", l), distances)
    return float((np.exp(-beta * distances) * sensitivities).max())


def perform_analysis(
    teacher_preds: object,
    indices: object = None,
    noise_eps: float = 0.1,
    delta: float = 1e-5,
    moments: int = 8,
    beta: float = 0.09,
    *,
    query_indices: object = None,
    num_classes: int | None = None,
) -> tuple[float, float]:
    """Return (data-dependent epsilon, data-independent epsilon) of answering queries by noisy majority.

    The first depends on the votes, so it is itself private; the module docstring explains how to release it. Both hold
    for any number of moments; more of them may give smaller values.

    Args:
        teacher_preds: votes, of shape (teachers, queries): zero-based labels.
        indices: the aggregated labels, one for each query, as in 0.2. All queries are analysed, regardless of the
            labels. Pass query numbers as `query_indices`: a list of another length is refused; if labels without
            votes could be query numbers, both interpretations are analysed, and the larger epsilon is returned.
        noise_eps: the inverse of the scale of the Laplace noise that was added to each count.
        delta: the delta of the epsilons.
        moments: the largest moment to try, starting at 1.
        beta: ignored; `smoothed_sens` uses it, but these epsilons do not.
        query_indices: the answered queries, if not all: column indices of `teacher_preds`. A query that was
            answered twice with new noise is listed twice.
        num_classes: the number of labels that could win, if larger than the largest label seen plus one.
    """
    votes = _votes(teacher_preds)
    noise_eps, delta = finite("noise_eps", noise_eps), checked("delta", delta, 0, 1)
    finite("beta", beta)
    if not 1 <= int(_whole("moments", [moments])[0]) <= MOST_MOMENTS:
        raise ValueError(f"moments must be an integer from 1 to {MOST_MOMENTS}, got {moments!r}")
    chosen = None if query_indices is None else _queries(query_indices, votes.shape[1])
    labels = None if indices is None else _labels(indices, votes.shape[1] if chosen is None else len(chosen))
    classes = _number_of_classes(votes, labels, num_classes)
    orders = np.arange(1.0, moments + 1)
    dependent, count = _total_log_moments(votes, chosen, classes, noise_eps, orders)
    if labels is not None and chosen is None and votes.max() < labels.max() < votes.shape[1]:
        dependent = np.maximum(dependent, _total_log_moments(votes, labels, classes, noise_eps, orders)[0])
    independent = count * _log_moments(np.array(1.0), 2 * noise_eps, orders)
    spent = math.log(1 / delta)
    dependent = np.minimum(dependent, independent)  # sums round differently
    return float(((dependent + spent) / orders).min()), float(((independent + spent) / orders).min())


def _total_log_moments(
    votes: NDArray[np.int64], chosen: NDArray[np.int64] | None, classes: int, noise_eps: float, orders: Floats
) -> tuple[Floats, int]:
    """Return the sums of the queries' log moments at each order, and the number of queries."""
    times = np.ones(votes.shape[1]) if chosen is None else np.bincount(chosen, minlength=votes.shape[1]).astype(float)
    total = np.zeros(len(orders))
    width = max(1, _PIECE // max(classes, len(orders)))
    for start in range(0, votes.shape[1], width):
        piece = votes[:, start : start + width]
        queries = piece.shape[1]
        places = (piece + classes * np.arange(queries)).ravel()
        counts = np.bincount(places, minlength=queries * classes).reshape(queries, classes).astype(float)
        total += times[start : start + width] @ _log_moments(_q_of(counts, noise_eps), 2 * noise_eps, orders)
    return total, int(times.sum())


# Validation ---------------------------------------------------------------------------------------------------


def _array(name: str, values: object) -> NDArray[Any]:
    if isinstance(values, (list, tuple)) and any(isinstance(value, torch.Tensor) for value in values):
        values = [value.tolist() if isinstance(value, torch.Tensor) else value for value in values]
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    try:
        found = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, got {found.dtype}")
    return found


def _counts(counts: object) -> Floats:
    found = _array("counts", counts).astype(np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError("counts must be the votes for each label of one query: finite, non-negative, in one dimension")
    return found


def _whole(name: str, values: object) -> NDArray[np.int64]:
    """Return non-negative integers as int64."""
    found = _array(name, values)
    whole = (
        found.astype(np.int64) if found.size and np.isfinite(found).all() and (np.abs(found) < 2**62).all() else None
    )
    if found.size and (whole is None or (whole != found).any() or (whole < 0).any()):
        raise ValueError(f"{name} must hold non-negative integers")
    return np.zeros(found.shape, dtype=np.int64) if whole is None else whole


def _votes(teacher_preds: object) -> NDArray[np.int64]:
    votes = _whole("teacher_preds", teacher_preds)
    if votes.ndim != 2 or not votes.size:
        raise ValueError(f"teacher_preds must have shape (teachers, queries), at least one of each, got {votes.shape}")
    return votes


def _number_of_classes(votes: NDArray[np.int64], labels: NDArray[np.int64] | None, given: int | None) -> int:
    least = 1 + max(int(votes.max()), -1 if labels is None else int(labels.max()))
    classes = least if given is None else int(_whole("num_classes", [given])[0])
    if classes < least:
        raise ValueError(f"num_classes is {classes}, but label {least - 1} has votes or was an answer")
    if classes > MOST_CLASSES:
        raise ValueError(f"labels must be from 0 to below {MOST_CLASSES}, got up to {classes - 1}")
    return classes


def _queries(query_indices: object, count: int) -> NDArray[np.int64]:
    chosen = _whole("query_indices", query_indices)
    if chosen.ndim != 1 or not len(chosen) or int(chosen.max()) >= count:
        raise ValueError(f"query_indices must be column indices of teacher_preds, at least one, from 0 to {count - 1}")
    return chosen


def _labels(indices: object, queries: int) -> NDArray[np.int64]:
    labels = _whole("indices", indices)
    if labels.ndim != 1 or len(labels) != queries:
        raise ValueError(
            f"indices must be the aggregated labels, one for each of the {queries} queries, got {labels.shape}. To "
            "analyse some of the queries only, pass their indices as query_indices="
        )
    return labels


# Variants for tensors -----------------------------------------------------------------------------------------


def tensors_to_literals(tensor_list: Sequence[torch.Tensor]) -> list[float | int]:
    """Return the numbers in a list of one-element tensors."""
    return [tensor.item() for tensor in tensor_list]


# The functions above accept tensors too.
logmgf_exact_torch = logmgf_exact
compute_q_noisy_max_torch = compute_q_noisy_max
logmgf_from_counts_torch = logmgf_from_counts
sens_at_k_torch = sens_at_k
smooth_sens_torch = smoothed_sens


def perform_analysis_torch(preds: object, *args: Any, **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the epsilons of `perform_analysis` as scalar float32 tensors, rounded up."""
    dependent, independent = perform_analysis(preds, *args, **settings)
    return _rounded_up(dependent), _rounded_up(independent)


def _rounded_up(epsilon: float) -> torch.Tensor:
    """Return the smallest float32 that is not below: an epsilon must not be understated."""
    rounded = torch.tensor(epsilon, dtype=torch.float32)
    if float(rounded) < epsilon:
        rounded = torch.nextafter(rounded, torch.tensor(math.inf))
    return rounded
