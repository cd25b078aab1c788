"""Queries about data that the user may not see: results have noise, and are charged to the owner's budget.

The data is a tensor at a worker, as published by its owner, with one row for each person. Derived data can't be
queried, because its rows can't be assigned to persons. Queries about a local tensor run here, without
a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from syft._suggestions import suggests_keywords
from syft.core.context import local_worker
from syft.dp.queries import QUERY
from syft.exceptions import PrivacyError
from syft.hook.syft_tensor import SyftTensor
from syft.pointers.pointer_tensor import PointerTensor
from syft.workers.budget_client import BudgetClient

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Numbers = float | Sequence[float]
_PARTS = ("data", "targets")


class DatasetPart(NamedTuple):
    """A part of a data set at a worker: its key, and "data" or "targets"."""

    worker: Any
    key: str
    part: str = "data"


def dataset(worker: BaseWorker, key: str, part: str = "data") -> DatasetPart:
    """Name the samples or the targets of a data set at a worker, for queries.

    Args:
        worker: the worker.
        key: the key of the data set at the worker (`worker.add_dataset(dataset, key)`).
        part: "data" for the samples, or "targets".
    """
    if part not in _PARTS:
        raise PrivacyError(
            f"The part of a data set must be 'data' (its samples) or 'targets', got {part!r:.40}: "
            f"sy.dp.dataset(worker, {key!r:.60}, 'targets')."
        )
    return DatasetPart(worker, key, part)


def budget(worker: BaseWorker) -> BudgetClient:
    """Return the privacy budgets of a worker: calling it returns your remaining budgets; owners set them.

    Args:
        worker: a worker of any kind with an owner's policy.
    """
    return BudgetClient(worker)


@suggests_keywords
def count(
    data: object, where: object = None, *, epsilon: float, mechanism: str = "laplace", delta: float | None = None
) -> int:
    """Count the rows that satisfy conditions.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        where: (sign, number), such as (">=", 65); for several columns (column, sign, number); or a list of conditions
            that must all hold. Without it, rows without NaN are counted; the number of rows is not secret.
        epsilon: the privacy loss.
        mechanism: "laplace" or "gaussian".
        delta: for Gaussian noise, the probability with which the loss may be larger.
    """
    return int(_ask("count", data, where=where, epsilon=epsilon, mechanism=mechanism, delta=delta))


@suggests_keywords
def sum(
    data: object,
    lower: Numbers,
    upper: Numbers,
    *,
    epsilon: float,
    where: object = None,
    column: int | None = None,
    mechanism: str = "laplace",
    delta: float | None = None,
) -> Any:
    """Return the sum of the rows.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        lower: smaller values and NaN count as this; one number, or one for each column.
        upper: larger values count as this. The closer the bounds, the less noise.
        epsilon: the privacy loss, shared by several columns.
        where: only rows that satisfy this, see `count`.
        column: one column instead of all.
        mechanism: "laplace", or "gaussian", which is better for many columns.
        delta: for Gaussian noise, the probability with which the loss may be larger.

    Returns:
        A float; for several columns a tensor with one number for each.
    """
    settings = {"where": where, "column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    return _ask("sum", data, lower=_plain(lower), upper=_plain(upper), **settings)


@suggests_keywords
def mean(
    data: object,
    lower: Numbers,
    upper: Numbers,
    *,
    epsilon: float,
    column: int | None = None,
    mechanism: str = "laplace",
    delta: float | None = None,
) -> Any:
    """Return the mean of the rows; see `sum` for the arguments."""
    settings = {"column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    return _ask("mean", data, lower=_plain(lower), upper=_plain(upper), **settings)


@suggests_keywords
def histogram(
    data: object,
    bins: int | None = None,
    lower: float | None = None,
    upper: float | None = None,
    *,
    epsilon: float,
    edges: Sequence[float] | None = None,
    column: int | None = None,
    mechanism: str = "laplace",
    delta: float | None = None,
) -> torch.Tensor:
    """Count the values in bins. Values outside count in the first or the last bin, NaN in the first.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        bins: number of bins of equal width, between `lower` and `upper`.
        lower: the start of the first bin.
        upper: the end of the last bin.
        epsilon: the privacy loss.
        edges: the edges of the bins, instead of `bins`, `lower` and `upper`.
        column: one column instead of all.
        mechanism: "laplace" or "gaussian".
        delta: for Gaussian noise, the probability with which the loss may be larger.

    Returns:
        Integers, which may be negative: one for each bin; for several columns a row for each.
    """
    if edges is None:
        if type(bins) is not int or bins < 1 or lower is None or upper is None:
            raise PrivacyError("Pass bins, lower and upper, or edges: histogram(ptr, edges=[0, 18, 65, 120], ...).")
        edges = np.linspace(lower, upper, bins + 1).tolist()
    settings = {"column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    found: torch.Tensor = _ask("histogram", data, edges=_plain(edges), **settings)
    return found


@suggests_keywords
def quantile(
    data: object,
    q: float,
    lower: Numbers,
    upper: Numbers,
    *,
    epsilon: float,
    candidates: int = 1024,
    column: int | None = None,
) -> Any:
    """Return a number with about a share `q` of the values below it, selected by the exponential mechanism.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        q: from 0 to 1.
        lower: smaller values count as this.
        upper: larger values count as this.
        epsilon: the privacy loss, shared by several columns.
        candidates: number of candidates, evenly spaced between the bounds.
        column: one column instead of all.
    """
    settings = {"candidates": candidates, "column": column, "epsilon": epsilon}
    return _ask("quantile", data, q=q, lower=_plain(lower), upper=_plain(upper), **settings)


@suggests_keywords
def median(
    data: object, lower: Numbers, upper: Numbers, *, epsilon: float, candidates: int = 1024, column: int | None = None
) -> Any:
    """Return a number with about half of the values below it; see `quantile` for the arguments."""
    return quantile(data, 0.5, lower, upper, epsilon=epsilon, candidates=candidates, column=column)


@suggests_keywords
def most_common(data: object, choices: Sequence[float], *, epsilon: float, column: int | None = None) -> Any:
    """Return the most frequent one of some numbers, by report-noisy-max.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        choices: the numbers to choose from; other values do not count.
        epsilon: the privacy loss, for any number of choices.
        column: the column, if there are several.
    """
    given = _plain(choices)
    found = _ask("most_common", data, choices=given, column=column, epsilon=epsilon)
    return next((choice for choice in given if float(choice) == found), found)


def _ask(kind: str, data: object, **settings: object) -> Any:
    """Send a query to the worker that holds the data, or run it here for local data."""
    if isinstance(data, DatasetPart):
        return _shown(_stream(data.worker).run(QUERY, (kind, ("dataset", data.key, data.part)), settings, None))
    link = data.__dict__.get("child") if isinstance(data, SyftTensor) else None
    pointer = data if isinstance(data, PointerTensor) else link
    if isinstance(pointer, PointerTensor):
        if pointer.point_to_attr is not None:
            raise PrivacyError("Queries need data as it was published, not an attribute of it.")
        return _shown(pointer.lease.stream.run(QUERY, (kind, ("object", pointer.ref().id)), settings, None))
    if link is not None or not isinstance(data, torch.Tensor):
        given = "an encoded or shared tensor" if link is not None else f"a {type(data).__name__}"
        raise PrivacyError(
            "Queries need a pointer to published data, sy.dp.dataset(worker, key), or a local tensor, "
            f"got {given}. Convert local numbers with torch.as_tensor(numbers)."
        )
    from syft.dp.queries.estimators import QUESTIONS
    from syft.dp.queries.handler import compute
    from syft.dp.queries.table_view import TableFormat

    return _shown(compute(QUESTIONS[kind](TableFormat.of(data), **settings), data))


def _stream(worker: BaseWorker) -> Any:
    return local_worker().stream_to(worker)


def _shown(answer: object) -> Any:
    return torch.from_numpy(answer) if isinstance(answer, np.ndarray) else answer


def _plain(numbers: object) -> Any:
    """Return numbers as plain values for a message."""
    if isinstance(numbers, torch.Tensor | np.ndarray | np.generic):
        numbers = numbers.tolist()
    return list(numbers) if isinstance(numbers, tuple | list | range) else numbers
