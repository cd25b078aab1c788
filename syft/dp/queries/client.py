"""Questions about data that one may not see: the answers come with noise, and are paid for from its owner's budget.

The data is a tensor at a worker, as its owner published it, with one row for each person. What is derived from it can't
be asked about: nobody knows any more whose its rows are. About a tensor that is here the answer is made here, without
a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

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
    """A part of a data set of a worker.

    Attributes:
        worker: the worker.
        key: the key of the data set there.
        part: "data" or "targets".
    """

    worker: Any
    key: str
    part: str = "data"


def dataset(worker: BaseWorker, key: str, part: str = "data") -> DatasetPart:
    """Name the samples or the targets of a data set of a worker, to ask about them.

    Args:
        worker: the worker.
        key: the key of the data set there (`worker.add_dataset(dataset, key)`).
        part: "data" for the samples, or "targets".
    """
    if part not in _PARTS:
        raise PrivacyError(
            f"A data set has the parts 'data' (its samples) and 'targets', and not {part!r:.40}: "
            f"sy.dp.dataset(worker, {key!r:.60}, 'targets')."
        )
    return DatasetPart(worker, key, part)


def budget(worker: BaseWorker) -> BudgetClient:
    """Return the privacy budgets of a worker: called, they say what is left to you; owners set them.

    Args:
        worker: a worker of any kind that has an owner's policy.
    """
    return BudgetClient(worker)


def count(
    data: object, where: object = None, *, epsilon: float, mechanism: str = "laplace", delta: float | None = None
) -> int:
    """Count the rows for which something holds.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        where: (sign, number), such as (">=", 65); for several columns (column, sign, number); a list of these if all
            must hold. Without it, rows in which nothing is NaN are counted; how many rows there are is no secret.
        epsilon: the privacy loss to pay.
        mechanism: "laplace" or "gaussian".
        delta: for Gaussian noise, the probability with which the loss may be more.
    """
    return int(_ask("count", data, where=where, epsilon=epsilon, mechanism=mechanism, delta=delta))


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
    """Add up the rows.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        lower: what is below counts as this, and so does NaN; one number, or one for each column.
        upper: what is above counts as this. The closer the bounds, the less noise.
        epsilon: the privacy loss to pay; several columns share it.
        where: only rows for which this holds, see `count`.
        column: one column instead of all.
        mechanism: "laplace", or "gaussian", which is better for many columns.
        delta: for Gaussian noise, the probability with which the loss may be more.

    Returns:
        A float; for data of several columns a tensor with one for each.
    """
    settings = {"where": where, "column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    return _ask("sum", data, lower=_plain(lower), upper=_plain(upper), **settings)


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
    """Return the mean of the rows; arguments as `sum`."""
    settings = {"column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    return _ask("mean", data, lower=_plain(lower), upper=_plain(upper), **settings)


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
    """Count the values in bins. What is outside counts in the first or the last bin, NaN in the first.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        bins: how many bins of equal width, between `lower` and `upper`.
        lower: where the first one begins.
        upper: where the last one ends.
        epsilon: the privacy loss to pay.
        edges: the edges of the bins, instead of the three before.
        column: one column instead of all.
        mechanism: "laplace" or "gaussian".
        delta: for Gaussian noise, the probability with which the loss may be more.

    Returns:
        Whole numbers, which may be negative: one for each bin; for several columns a row of them for each.
    """
    if edges is None:
        if type(bins) is not int or bins < 1 or lower is None or upper is None:
            raise PrivacyError("Give bins, lower and upper; or edges: histogram(ptr, edges=[0, 18, 65, 120], ...).")
        edges = np.linspace(lower, upper, bins + 1).tolist()
    settings = {"column": column, "epsilon": epsilon, "mechanism": mechanism, "delta": delta}
    found: torch.Tensor = _ask("histogram", data, edges=_plain(edges), **settings)
    return found


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
    """Return a number with about a part `q` of the values below it, chosen by the exponential mechanism.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        q: from 0 to 1.
        lower: what is below counts as this.
        upper: what is above counts as this.
        epsilon: the privacy loss to pay; several columns share it.
        candidates: from how many numbers it is chosen, evenly spaced between the bounds.
        column: one column instead of all.
    """
    settings = {"candidates": candidates, "column": column, "epsilon": epsilon}
    return _ask("quantile", data, q=q, lower=_plain(lower), upper=_plain(upper), **settings)


def median(
    data: object, lower: Numbers, upper: Numbers, *, epsilon: float, candidates: int = 1024, column: int | None = None
) -> Any:
    """Return a number with about half of the values below it; arguments as `quantile`."""
    return quantile(data, 0.5, lower, upper, epsilon=epsilon, candidates=candidates, column=column)


def most_common(data: object, choices: Sequence[float], *, epsilon: float, column: int | None = None) -> Any:
    """Return the one of some numbers that occurs most often, by report-noisy-max.

    Args:
        data: a pointer to published data, or `dataset(worker, key)`.
        choices: the numbers to choose from; what else is in the data does not count.
        epsilon: the privacy loss to pay, however many choices there are.
        column: which column, if there are several.
    """
    given = _plain(choices)
    found = _ask("most_common", data, choices=given, column=column, epsilon=epsilon)
    return next((choice for choice in given if float(choice) == found), found)


def _ask(kind: str, data: object, **settings: object) -> Any:
    """Ask the worker that holds the data, or answer here if the data is here."""
    if isinstance(data, DatasetPart):
        return _shown(_stream(data.worker).run(QUERY, (kind, ("dataset", data.key, data.part)), settings, None))
    link = data.__dict__.get("child") if isinstance(data, SyftTensor) else None
    pointer = data if isinstance(data, PointerTensor) else link
    if isinstance(pointer, PointerTensor):
        if pointer.point_to_attr is not None:
            raise PrivacyError("Questions are about data as it was published, not about an attribute of it.")
        return _shown(pointer.lease.stream.run(QUERY, (kind, ("object", pointer.ref().id)), settings, None))
    if link is not None or not isinstance(data, torch.Tensor):
        given = "something that is encoded or shared" if link is not None else f"a {type(data).__name__}"
        raise PrivacyError(
            f"Questions are about a pointer to published data, sy.dp.dataset(worker, key), or a tensor of this "
            f"process, and not {given}. Numbers that are here become a tensor with torch.as_tensor(numbers)."
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
    """Return numbers as a message takes them."""
    if isinstance(numbers, torch.Tensor | np.ndarray | np.generic):
        numbers = numbers.tolist()
    return list(numbers) if isinstance(numbers, tuple | list | range) else numbers
