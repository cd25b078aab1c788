"""Queries about private tables, and their estimators with noise: a closed table.

Two tables are neighbours if they have the same number of rows and differ in the values of one row (replace-one). The
number of rows is public to everyone who may point at the data. The sensitivity follows from bounds that are enforced
here by clamping; it is never taken from the client. Sums and noise are integers: no rounding can reveal
anything.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar

import torch

from syft.dp.mechanisms import Exponential, Gaussian, ReportNoisyMax
from syft.dp.mechanisms.noise import discrete_gaussian, discrete_laplace
from syft.dp.queries.table_view import Bounds, Conditions, TableFormat, blocks, is_number
from syft.exceptions import PrivacyError

# Below, noise hides everything; above, it hides nothing.
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e4
MAX_PARTS = 2**16
MAX_SIZE = 2**22
_PRECISE = 40
_EXACT = 1 + 2**-40


class Noise:
    """The integer noise of one result, Laplace or Gaussian."""

    def __init__(self, mechanism: Any, epsilon: Any, delta: Any) -> None:
        self.epsilon = checked_epsilon(epsilon)
        if mechanism not in ("laplace", "gaussian") or type(mechanism) is not str:
            raise PrivacyError('mechanism must be "laplace" or "gaussian".')
        self.is_gaussian = mechanism == "gaussian"
        self.event: dict[str, Any] = {"mechanism": mechanism, "epsilon": self.epsilon}
        if self.is_gaussian:
            if type(delta) not in (int, float) or not 1e-15 <= delta < 0.5:
                raise PrivacyError('mechanism="gaussian" needs a small delta, such as delta=1e-6.')
            self._multiplier = Gaussian(self.epsilon, float(delta)).noise_multiplier
            self.event = {"mechanism": mechanism, "noise_multiplier": self._multiplier}
        elif delta is not None:
            raise PrivacyError('delta is only for mechanism="gaussian". Omit it for Laplace noise.')

    def scale(self, parts: int) -> float:
        """Return the scale of the noise if a row can move each of `parts` parts by one."""
        return _EXACT * (self._multiplier * math.sqrt(parts) if self.is_gaussian else parts / self.epsilon)

    def draw(self, shape: Any, unit: int, parts: int) -> torch.Tensor:
        """Draw noise for integers.

        Args:
            shape: the shape of the result.
            unit: the largest change of a part by one row.
            parts: the number of parts that one row can change.
        """
        sample = discrete_gaussian if self.is_gaussian else discrete_laplace
        return sample(shape, self.scale(parts) * unit)


def checked_epsilon(epsilon: Any) -> float:
    """Return a valid epsilon, or raise PrivacyError."""
    if type(epsilon) not in (int, float) or not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise PrivacyError(
            f"epsilon must be a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}: smaller is more private. Try "
            "epsilon=0.1."
        )
    return float(epsilon)


class Question:
    """One query: validates its arguments against the table, knows its privacy loss, and computes the result."""

    # The names of its arguments.
    names: ClassVar[frozenset[str]]

    # Its privacy loss, for `syft.dp.accounting.privacy_loss`.
    event: dict[str, Any]

    def __init__(self, table: TableFormat, **settings: object) -> None:
        """Validate the arguments against the format of the table."""

    def __init_subclass__(cls) -> None:
        cls.names = frozenset(inspect.signature(cls).parameters) - {"table"}

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the result, with noise."""
        raise NotImplementedError(f"{type(self).__name__}: a query must implement answer")


class Count(Question):
    """The number of rows that satisfy conditions, or that have no missing values."""

    def __init__(self, table: TableFormat, where: object, epsilon: object, mechanism: object, delta: object) -> None:
        self._noise, self._where = Noise(mechanism, epsilon, delta), Conditions(where, table)
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> int:
        """Return the number of rows."""
        found = sum(int(self._where.holds(some).sum()) for some in blocks(tensor))
        return found + int(self._noise.draw(1, 1, 1))


class Sum(Question):
    """The sum of each column, over the rows that satisfy conditions."""

    def __init__(
        self,
        table: TableFormat,
        lower: object,
        upper: object,
        where: object,
        column: object,
        epsilon: object,
        mechanism: object,
        delta: object,
    ) -> None:
        self._noise, self._where = Noise(mechanism, epsilon, delta), Conditions(where, table)
        self._table = table.chosen(column)
        self._column: Any = column
        bounds = Bounds(lower, upper, self._table.columns)
        self._bounds = bounds
        self._range = bounds.with_zero() if self._where else bounds
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the sum: a number, or a tensor with one for each column."""
        return _as_result(self._total(tensor, self._table.rows), self._table)

    def _total(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        """Return the noisy sum; each clamped number is an integer multiple of 2**-bits of the width."""
        columns = self._table.columns
        room = 44 - math.ceil(math.log2(max(1.0, self._noise.scale(columns))))
        bits = max(1, min(_PRECISE, 61 - rows.bit_length(), room))
        total = torch.zeros(columns, dtype=torch.int64)
        for some in blocks(tensor):
            values = self._bounds.clamp(some if self._column is None else some[:, self._column : self._column + 1])
            if self._where:
                values = torch.where(self._where.holds(some).unsqueeze(1), values, 0.0)
            total += self._range.whole(values, bits).sum(0)
        noisy = total + self._noise.draw(columns, 2**bits, columns)
        return rows * self._range.lower + noisy * (self._range.width / 2.0**bits)


class Mean(Sum):
    """The mean of each column."""

    def __init__(
        self,
        table: TableFormat,
        lower: object,
        upper: object,
        column: object,
        epsilon: object,
        mechanism: object,
        delta: object,
    ) -> None:
        super().__init__(table, lower, upper, None, column, epsilon, mechanism, delta)
        if not table.rows:
            raise PrivacyError("mean() needs data with at least one row.")

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the mean: a number, or a tensor with one for each column."""
        return _as_result(self._total(tensor, self._table.rows) / self._table.rows, self._table)


class Histogram(Question):
    """The number of values of each column in each bin."""

    def __init__(
        self, table: TableFormat, edges: object, column: object, epsilon: object, mechanism: object, delta: object
    ) -> None:
        self._noise = Noise(mechanism, epsilon, delta)
        self._table = table.chosen(column)
        self._column: Any = column
        self._edges = _numbers("edges", edges, least=2)
        _check_size(self._table.columns * len(self._edges))
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return integers: one for each bin, or a row for each column."""
        columns, bins = self._table.columns, len(self._edges) - 1
        bounds = Bounds(float(self._edges[0]), float(self._edges[-1]), columns)
        found = _counted(tensor, self._column, columns, bins, lambda v: _index(bounds.clamp(v), self._edges[1:-1]))
        # A changed row leaves one bin and enters another, in each column.
        found += self._noise.draw(found.shape, 1, 2 * columns)
        return (found[0] if self._table.is_flat else found).numpy()


class Quantile(Question):
    """The candidate with a share `q` of the values below it."""

    def __init__(
        self, table: TableFormat, q: Any, lower: Any, upper: Any, candidates: Any, column: Any, epsilon: Any
    ) -> None:
        self._epsilon, self._table, self._column = checked_epsilon(epsilon), table.chosen(column), column
        if not is_number(q) or not 0 <= q <= 1:
            raise PrivacyError("q must be a number from 0 to 1; 0.5 is the median.")
        if type(candidates) is not int or not 2 <= candidates <= MAX_PARTS:
            raise PrivacyError(f"candidates must be an integer from 2 to {MAX_PARTS}.")
        _check_size(self._table.columns * candidates)
        self._bounds = Bounds(lower, upper, self._table.columns)
        # In steps that floating point adds without rounding, so that one row moves a rank by at most one.
        self._rank = round(q * table.rows * 1024) / 1024
        self._steps = torch.linspace(0.0, 1.0, candidates, dtype=torch.float64)
        self.event = {"mechanism": "exponential", "epsilon": self._epsilon}

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return a number between the bounds, or a tensor with one for each column."""
        columns = self._table.columns
        below, within = self._ranks(tensor, right=True), self._ranks(tensor, right=False)
        # By candidate: the number of values below it, and of those not above it.
        first, last = (found.cumsum(1)[:, :-1].to(torch.float64) for found in (below, within))
        scores = -torch.maximum(first - self._rank, self._rank - last).clamp(min=0.0)
        mechanism = Exponential(self._epsilon / columns, 1.0)
        chosen = torch.stack([self._steps[mechanism.release(row)] for row in scores])
        return _as_result(self._bounds.lower + chosen * self._bounds.width, self._table)

    def _ranks(self, tensor: torch.Tensor, right: bool) -> torch.Tensor:
        """Count the values of each column by the number of candidates that they exceed."""
        parts = len(self._steps) + 1

        def passed(values: torch.Tensor) -> torch.Tensor:
            return _index(self._shares(values), self._steps, right)

        return _counted(tensor, self._column, self._table.columns, parts, passed)

    def _shares(self, values: torch.Tensor) -> torch.Tensor:
        """Return the positions of values between the bounds, from 0 to 1."""
        return ((self._bounds.clamp(values) - self._bounds.lower) / self._bounds.width).clamp(0.0, 1.0)


class MostCommon(Question):
    """The most frequent one of some choices."""

    def __init__(self, table: TableFormat, choices: Any, column: Any, epsilon: Any) -> None:
        self._epsilon, self._column = checked_epsilon(epsilon), column
        if table.chosen(column).columns != 1:
            raise PrivacyError("The data has several columns. Pass one: column=0.")
        order = sorted(choices) if type(choices) in (list, tuple) and all(map(is_number, choices)) else []
        self._choices = _numbers("choices", order, least=1)
        self.event = {"mechanism": "noisy_max", "epsilon": self._epsilon}

    def answer(self, tensor: torch.Tensor) -> float:
        """Return the choice."""
        size = len(self._choices)

        def match(values: torch.Tensor) -> torch.Tensor:
            index = _index(values.nan_to_num(math.inf), self._choices, right=False)
            found = self._choices[index.clamp(max=size - 1)] == values
            return torch.where(found, index, size)  # the last part counts values that are not a choice

        counts = _counted(tensor, self._column, 1, size + 1, match)[0, :-1]
        return float(self._choices[ReportNoisyMax(self._epsilon, 1.0).release(counts.to(torch.float64))])


QUESTIONS: dict[str, type[Question]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "histogram": Histogram,
    "quantile": Quantile,
    "most_common": MostCommon,
}


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise PrivacyError(f"This query has {size:,} counts. Query one column: column=0.")


def _as_result(values: torch.Tensor, table: TableFormat) -> Any:
    return float(values[0]) if table.is_flat else values.numpy()


def _numbers(name: str, given: Any, least: int) -> torch.Tensor:
    """Return ascending numbers, or raise PrivacyError."""
    numbers = list(given) if type(given) in (list, tuple) else []
    if not least <= len(numbers) <= MAX_PARTS or not all(map(is_number, numbers)):
        raise PrivacyError(f"{name} must be a list of {least} to {MAX_PARTS} finite numbers.")
    found = torch.tensor([float(each) for each in numbers], dtype=torch.float64)
    if not bool((found.diff() > 0).all()):
        raise PrivacyError(f"The numbers of {name} must be distinct" + (" and ascending." if name == "edges" else "."))
    return found


def _index(values: torch.Tensor, steps: torch.Tensor, right: bool = True) -> torch.Tensor:
    """Return the number of steps that each value exceeds (`right`: or reaches)."""
    return torch.bucketize(values.contiguous(), steps, right=right)


def _counted(tensor: torch.Tensor, column: int | None, columns: int, parts: int, index: Any) -> torch.Tensor:
    """Count the values of each column in each part; `index` returns the part of a value."""
    found = torch.zeros(columns * parts, dtype=torch.int64)
    offsets = torch.arange(columns) * parts
    for some in blocks(tensor):
        values = some if column is None else some[:, column : column + 1]
        found += torch.bincount((index(values) + offsets).reshape(-1), minlength=columns * parts)
    return found.reshape(columns, parts)
