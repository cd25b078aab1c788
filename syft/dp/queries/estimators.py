"""Questions about private tables, and how each is answered with noise: a closed table.

Two tables are neighbours if they have the same number of rows and differ in the values of one row (replace-one). The
number of rows is known to everybody who may point at the data. How far a row moves an answer follows from bounds
that are enforced here, by clamping; nobody is believed about it. Sums are of whole numbers, and so is the noise: there
is no rounding that could tell something.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from syft.dp.mechanisms import Exponential, Gaussian, ReportNoisyMax
from syft.dp.mechanisms.noise import discrete_gaussian, discrete_laplace
from syft.dp.queries.table_view import Bounds, Conditions, TableFormat, blocks, is_number
from syft.exceptions import PrivacyError

# Below, noise hides all there is in any table; above, it hides nothing.
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e4
MAX_PARTS = 2**16
MAX_SIZE = 2**22
_PRECISE = 40
_EXACT = 1 + 2**-40


class Noise:
    """The noise of one answer, of Laplace or of Gauss, on whole numbers.

    Args:
        mechanism: its name.
        epsilon: the privacy loss of the answer.
        delta: the probability with which it may be more; for Gaussian noise.
    """

    def __init__(self, mechanism: Any, epsilon: Any, delta: Any) -> None:
        self.epsilon = checked_epsilon(epsilon)
        if mechanism not in ("laplace", "gaussian") or type(mechanism) is not str:
            raise PrivacyError('mechanism is "laplace" or "gaussian".')
        self.is_gaussian = mechanism == "gaussian"
        self.event: dict[str, Any] = {"mechanism": mechanism, "epsilon": self.epsilon}
        if self.is_gaussian:
            if type(delta) not in (int, float) or not 1e-15 <= delta < 0.5:
                raise PrivacyError('mechanism="gaussian" needs a small delta, such as delta=1e-6.')
            self._multiplier = Gaussian(self.epsilon, float(delta)).noise_multiplier
            self.event = {"mechanism": mechanism, "noise_multiplier": self._multiplier}
        elif delta is not None:
            raise PrivacyError('delta is for mechanism="gaussian"; noise of Laplace never exceeds epsilon.')

    def scale(self, parts: int) -> float:
        """Return the scale of the noise if a row can move each of so many parts by one."""
        return _EXACT * (self._multiplier * math.sqrt(parts) if self.is_gaussian else parts / self.epsilon)

    def draw(self, shape: Any, unit: int, parts: int) -> torch.Tensor:
        """Draw noise for whole numbers.

        Args:
            shape: how many.
            unit: by how much a row can move a part.
            parts: how many parts a row can move.
        """
        sample = discrete_gaussian if self.is_gaussian else discrete_laplace
        return sample(shape, self.scale(parts) * unit)


def checked_epsilon(epsilon: Any) -> float:
    """Return an epsilon that one can answer with, or refuse it."""
    if type(epsilon) not in (int, float) or not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise PrivacyError(
            f"epsilon is a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}: the smaller, the more private. Try "
            "epsilon=0.1."
        )
    return float(epsilon)


class Question:
    """One question: checks its arguments by the form of the table, knows what it costs, and answers.

    Args:
        form: of the table.
        **settings: its arguments; they come from a client.
    """

    # The arguments that it takes.
    names: ClassVar[frozenset[str]]

    # What it costs, for `syft.dp.accounting.privacy_loss`.
    event: dict[str, Any]

    def __init__(self, form: TableFormat, **settings: object) -> None:
        raise NotImplementedError(f"{type(self).__name__}: a question must check its settings")

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the answer, with noise."""
        raise NotImplementedError(f"{type(self).__name__}: a question must say how it is answered")


class Count(Question):
    """How many rows are there for which some conditions hold; or in which nothing is missing?"""

    names = frozenset({"where", "epsilon", "mechanism", "delta"})

    def __init__(self, form: TableFormat, where: object, epsilon: object, mechanism: object, delta: object) -> None:
        self._noise, self._where = Noise(mechanism, epsilon, delta), Conditions(where, form)
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> int:
        """Return the number of rows."""
        found = sum(int(self._where.holds(some).sum()) for some in blocks(tensor))
        return found + int(self._noise.draw(1, 1, 1))


class Sum(Question):
    """What is the sum of each column, of the rows for which some conditions hold?"""

    names = frozenset({"lower", "upper", "where", "column", "epsilon", "mechanism", "delta"})

    def __init__(
        self,
        form: TableFormat,
        lower: object,
        upper: object,
        where: object,
        column: object,
        epsilon: object,
        mechanism: object,
        delta: object,
    ) -> None:
        self._noise, self._where = Noise(mechanism, epsilon, delta), Conditions(where, form)
        self._form = form.chosen(column)
        self._column: Any = column
        bounds = Bounds(lower, upper, self._form.columns)
        self._bounds = bounds
        self._range = bounds.with_zero() if self._where else bounds
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the sum: a number, or a tensor with one for each column."""
        return _told(self._total(tensor, self._form.rows), self._form)

    def _total(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        """Return the sum with noise; each clamped number counts in units of 2**-bits of the width."""
        columns = self._form.columns
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
    """What is the mean of each column?"""

    names = frozenset({"lower", "upper", "column", "epsilon", "mechanism", "delta"})

    def __init__(
        self,
        form: TableFormat,
        lower: object,
        upper: object,
        column: object,
        epsilon: object,
        mechanism: object,
        delta: object,
    ) -> None:
        super().__init__(form, lower, upper, None, column, epsilon, mechanism, delta)
        if not form.rows:
            raise PrivacyError("The data has no rows, so there is no mean.")

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return the mean: a number, or a tensor with one for each column."""
        return _told(self._total(tensor, self._form.rows) / self._form.rows, self._form)


class Histogram(Question):
    """How many numbers of each column lie in each bin?"""

    names = frozenset({"edges", "column", "epsilon", "mechanism", "delta"})

    def __init__(
        self, form: TableFormat, edges: object, column: object, epsilon: object, mechanism: object, delta: object
    ) -> None:
        self._noise = Noise(mechanism, epsilon, delta)
        self._form = form.chosen(column)
        self._column: Any = column
        self._edges = _numbers("edges", edges, least=2)
        _check_size(self._form.columns * len(self._edges))
        self.event = self._noise.event

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return whole numbers: one for each bin, or a row of them for each column."""
        columns, bins = self._form.columns, len(self._edges) - 1
        bounds = Bounds(float(self._edges[0]), float(self._edges[-1]), columns)
        found = _counted(tensor, self._column, columns, bins, lambda v: _index(bounds.clamp(v), self._edges[1:-1]))
        # A row that changes leaves a bin and comes into another one, in each column.
        found += self._noise.draw(found.shape, 1, 2 * columns)
        return (found[0] if self._form.is_flat else found).numpy()


class Quantile(Question):
    """Which of some numbers has a part `q` of the values below it?"""

    names = frozenset({"q", "lower", "upper", "candidates", "column", "epsilon"})

    def __init__(
        self, form: TableFormat, q: Any, lower: Any, upper: Any, candidates: Any, column: Any, epsilon: Any
    ) -> None:
        self._epsilon, self._form, self._column = checked_epsilon(epsilon), form.chosen(column), column
        if not is_number(q) or not 0 <= q <= 1:
            raise PrivacyError("q is a number from 0 to 1; 0.5 asks for the median.")
        if type(candidates) is not int or not 2 <= candidates <= MAX_PARTS:
            raise PrivacyError(f"candidates is how many numbers to choose from: 2 to {MAX_PARTS}.")
        _check_size(self._form.columns * candidates)
        self._bounds = Bounds(lower, upper, self._form.columns)
        # In steps that floating point adds without rounding, so that one row moves a rank by one and not more.
        self._rank = round(q * form.rows * 1024) / 1024
        self._steps = torch.linspace(0.0, 1.0, candidates, dtype=torch.float64)
        self.event = {"mechanism": "exponential", "epsilon": self._epsilon}

    def answer(self, tensor: torch.Tensor) -> Any:
        """Return a number between the bounds, or a tensor with one for each column."""
        columns = self._form.columns
        below, within = self._ranks(tensor, right=True), self._ranks(tensor, right=False)
        # By candidate: how many values are below it, and how many are not above it.
        first, last = (found.cumsum(1)[:, :-1].to(torch.float64) for found in (below, within))
        scores = -torch.maximum(first - self._rank, self._rank - last).clamp(min=0.0)
        mechanism = Exponential(self._epsilon / columns, 1.0)
        chosen = torch.stack([self._steps[mechanism.release(row)] for row in scores])
        return _told(self._bounds.lower + chosen * self._bounds.width, self._form)

    def _ranks(self, tensor: torch.Tensor, right: bool) -> torch.Tensor:
        """Count, for each column, the values by how many of the candidates they have passed."""
        parts = len(self._steps) + 1

        def passed(values: torch.Tensor) -> torch.Tensor:
            return _index(self._shares(values), self._steps, right)

        return _counted(tensor, self._column, self._form.columns, parts, passed)

    def _shares(self, values: torch.Tensor) -> torch.Tensor:
        """Return where values lie between the bounds, from 0 to 1."""
        return ((self._bounds.clamp(values) - self._bounds.lower) / self._bounds.width).clamp(0.0, 1.0)


class MostCommon(Question):
    """Which of some choices occurs most often?"""

    names = frozenset({"choices", "column", "epsilon"})

    def __init__(self, form: TableFormat, choices: Any, column: Any, epsilon: Any) -> None:
        self._epsilon, self._column = checked_epsilon(epsilon), column
        if form.chosen(column).columns != 1:
            raise PrivacyError("The data has several columns; say which one: column=0.")
        order = sorted(choices) if type(choices) in (list, tuple) and all(map(is_number, choices)) else []
        self._choices = _numbers("choices", order, least=1)
        self.event = {"mechanism": "noisy_max", "epsilon": self._epsilon}

    def answer(self, tensor: torch.Tensor) -> float:
        """Return the choice."""
        size = len(self._choices)

        def match(values: torch.Tensor) -> torch.Tensor:
            index = _index(values.nan_to_num(math.inf), self._choices, right=False)
            found = self._choices[index.clamp(max=size - 1)] == values
            return torch.where(found, index, size)  # the last part takes what is no choice

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
        raise PrivacyError(f"That are {size:,} counts; ask about one column: column=0.")


def _told(values: torch.Tensor, form: TableFormat) -> Any:
    return float(values[0]) if form.is_flat else values.numpy()


def _numbers(name: str, given: Any, least: int) -> torch.Tensor:
    """Return numbers that grow, or refuse them."""
    numbers = list(given) if type(given) in (list, tuple) else []
    if not least <= len(numbers) <= MAX_PARTS or not all(map(is_number, numbers)):
        raise PrivacyError(f"{name} is a list of {least} to {MAX_PARTS} finite numbers.")
    found = torch.tensor([float(each) for each in numbers], dtype=torch.float64)
    if not bool((found.diff() > 0).all()):
        raise PrivacyError(f"The numbers of {name} are all different" + (", and grow." if name == "edges" else "."))
    return found


def _index(values: torch.Tensor, steps: torch.Tensor, right: bool = True) -> torch.Tensor:
    """Return how many of the steps each value has passed (`right`: or reached)."""
    return torch.bucketize(values.contiguous(), steps, right=right)


def _counted(tensor: torch.Tensor, column: int | None, columns: int, parts: int, index: Any) -> torch.Tensor:
    """Count, for each column, how many values fall into each part; `index` says into which."""
    found = torch.zeros(columns * parts, dtype=torch.int64)
    offsets = torch.arange(columns) * parts
    for some in blocks(tensor):
        values = some if column is None else some[:, column : column + 1]
        found += torch.bincount((index(values) + offsets).reshape(-1), minlength=columns * parts)
    return found.reshape(columns, parts)
