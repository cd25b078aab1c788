"""Checks of a requested result: a table of functions that yield warnings for the data owner."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.grid.isolation.programs.review.combinations import (
    CARRIED,
    ISOLATED,
    carriers,
    differences,
    leverages,
    low_digits,
)
from syft.grid.isolation.programs.review.influence import Data, Influences, RowGroup, numbers_of, parts_of, rows_of

# Numbers that agree to this part of the spread of a column are nearly equal.
NEAR = 1e-3
# Fewer numbers than this may be equal to a row by chance.
LEAST_EQUAL = 3
# From this correlation on, a result is a column of the data up to scale.
CORRELATED = 0.9999
# Rows that are compared with the result.
MAX_COMPARED = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class Warned:
    """A warning.

    Attributes:
        kind: the name of the check.
        text: one sentence for the owner.
    """

    kind: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """The input of the checks.

    Attributes:
        result: the objects of the sealed copy.
        data: the data sets that the computation reads.
        influences: the influences of rows; None if the computation can't be run again.
        least_rows: a result must depend on at least this many rows.
        reason: the user's reason.
        calls: the names of the calls that lead to the result.
    """

    result: Sequence[Any]
    data: Data
    influences: Influences | None
    least_rows: int
    reason: str
    calls: tuple[str, ...]

    @property
    def sizes(self) -> dict[ObjectId, int]:
        """The number of rows of each data set that has rows."""
        return {obj_id: size for obj_id, obj in self.data.items() if (size := rows_of(obj)) is not None}


Check = Callable[[Case], Iterator[Warned]]


def few_rows(case: Case) -> Iterator[Warned]:
    """Warn of numbers that depend on fewer rows than the owner's minimum."""
    small = [size for size in case.sizes.values() if size < case.least_rows]
    if small:
        yield Warned("few rows", f"A data set has only {min(small)} rows.")
        return
    for influence in _carried_by_few(case)[:1]:
        groups = [group for group, change in zip(_groups(case), influence, strict=True) if change != 0]
        count, total = sum(len(group.rows) for group in groups), max(case.sizes.values())
        if count < case.least_rows:
            yield Warned("few rows", f"{_numbers(case)} on {_count(count, 'row')} of {total} only.")
        else:
            most = _count(int(carriers(influence)), "row")
            yield Warned("few rows", f"{_numbers(case)} to {CARRIED:.0%} on {most} of {total}.")


def _groups(case: Case) -> list[RowGroup]:
    return case.influences.groups if case.influences is not None and case.influences.counts else []


def _carried_by_few(case: Case) -> list[torch.Tensor]:
    """Return the influences that are carried by too few rows, the fewest first."""
    if case.influences is None or not _groups(case):
        return []
    mine = case.influences.matrix[: case.influences.counts[0]]
    few = mine[(carriers(mine) < case.least_rows) & (mine != 0).any(1)]
    return list(few[carriers(few).argsort()]) if len(few) else []


def _numbers(case: Case) -> str:
    """Return the subject of a sentence about the numbers that are carried by too few rows, with its verb."""
    few, total = len(_carried_by_few(case)), 0 if case.influences is None else case.influences.counts[0]
    if total == 1:
        return "The result depends"
    return "Each number of the result depends" if few == total else f"{few} of {total} numbers of the result depend"


def hidden_digits(case: Case) -> Iterator[Warned]:
    """Warn of numbers whose low digits depend on few rows, though the number depends on many."""
    if case.influences is None or not _groups(case) or _carried_by_few(case):
        return
    for step, low in low_digits(case.influences):
        rows = sum(len(group.rows) for group, change in zip(_groups(case), low, strict=True) if change != 0)
        if rows < case.least_rows:
            total = max(case.sizes.values())
            yield Warned("hidden digits", f"The digits below {step:g} depend on {_count(rows, 'row')} of {total} only.")
            return


def combined(case: Case) -> Iterator[Warned]:
    """Warn of results from which, with earlier releases, the value of few rows can be computed."""
    found = case.influences
    if found is None or not found.counts or not found.groups:
        return
    named = set()
    for difference in differences(found):
        changed = [g for g, change in zip(found.groups, difference.influence, strict=True) if change != 0]
        rows = sum(len(group.rows) for group in changed)
        if rows < case.least_rows and difference.computation not in named:
            named.add(difference.computation)
            request = found.computations[difference.computation].name
            yield Warned(
                "difference", f"It differs from the released result of request {request} by {_count(rows, 'row')} only."
            )
    reached, alone = leverages(found), leverages(found, 1)
    if named or reached is None:
        return
    single = torch.tensor([len(group.rows) == 1 for group in found.groups])
    rows = int(((reached > ISOLATED) & single).sum())
    if rows and not _carried_by_few(case):
        by_itself = alone is not None and bool(((alone > ISOLATED) & single).any())
        source = "its numbers" if by_itself else "it and earlier releases"
        yield Warned("combination", f"Linear combinations of {source} give {_count(rows, 'single row')}.")


def many_numbers(case: Case) -> Iterator[Warned]:
    """Warn of results as large as the data, or with an entry for each row."""
    count = len(numbers_of(case.result))
    available = sum(part.numel() for obj in case.data.values() for part in parts_of(obj))
    if available and count >= available:
        yield Warned("many numbers", f"The result has {count} numbers, and its data sets have {available}.")
        return
    sizes = {size for size in case.sizes.values() if size > 1}
    for obj in case.result:
        if isinstance(obj, torch.Tensor) and obj.ndim and len(obj) in sizes:
            yield Warned("many numbers", f"The result has an entry for each of the {len(obj)} rows.")
            return


def equal_rows(case: Case) -> Iterator[Warned]:
    """Warn of results that hold rows or columns of the data, exactly or nearly."""
    for obj_id, obj in case.data.items():
        for part in parts_of(obj):
            table = part.detach()
            if table.is_complex() or not table.ndim or not len(table):
                continue
            table = table.reshape(len(table), -1).to(torch.float64)[:MAX_COMPARED]
            for tensor in (one for one in case.result if isinstance(one, torch.Tensor) and not one.is_complex()):
                values = tensor.detach().reshape(-1).to(torch.float64)
                rows = _rows_within(table, values)
                if rows:
                    yield Warned("rows", f"The result holds {_count(rows, 'row')} of data set {obj_id!r}, or nearly.")
                    return
                if _is_column(table, values):
                    yield Warned("rows", f"The result is a column of data set {obj_id!r}, up to scale and offset.")
                    return


def _rows_within(table: torch.Tensor, values: torch.Tensor) -> int:
    """Return how many pieces of the values are nearly equal to a row of a table."""
    width = table.shape[1]
    if width < LEAST_EQUAL or len(values) < width or len(values) % width:
        return 0
    spread = table.std(dim=0, correction=0).clamp_min(torch.finfo(torch.float64).tiny)
    pieces, rows = (values.reshape(-1, width)[:MAX_COMPARED] / spread), table / spread
    found = 0
    for piece in pieces[:256]:
        found += bool(((rows - piece).abs().amax(1) <= NEAR).any())
    return found


def _is_column(table: torch.Tensor, values: torch.Tensor) -> bool:
    """Return whether values are a column of a table up to scale and offset, in the order of the rows."""
    if len(values) != len(table) or len(values) < 2 * LEAST_EQUAL:
        return False
    columns, values = table - table.mean(0), values - values.mean()
    scale = columns.norm(dim=0) * values.norm()
    correlation = (columns * values[:, None]).sum(0).abs() / scale.clamp_min(torch.finfo(torch.float64).tiny)
    return bool((correlation >= CORRELATED).any())


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A computation that a reason may speak of.

    Attributes:
        name: what it gives.
        words: a pattern of words in reasons.
        calls: a pattern of calls, at least one of which must be among the calls.
    """

    name: str
    words: str
    calls: str


CLAIMS = (
    Claim("an average", r"\b(means?|averages?|averaged)\b", r"mean|sum|mat|mm$|mv$|dot|einsum|norm|avg|plan"),
    Claim("a count", r"\b(counts?|how many|histogram)\b", r"sum|count|hist|numel|plan"),
    Claim("noise", r"\b(noised?|noisy|differentially private|anonymi[sz]ed)\b", r"rand|normal|exponential_|plan"),
    Claim("training", r"\b(trained model|model weights|gradients?)\b", r"backward|step|grad|plan"),
)


def claims(case: Case) -> Iterator[Warned]:
    """Warn of reasons that speak of a computation that the code does not hold."""
    for claim in CLAIMS:
        said = re.search(claim.words, case.reason, re.IGNORECASE)
        if said and case.calls and not any(re.search(claim.calls, call) for call in case.calls):
            yield Warned("reason", f"The reason speaks of {claim.name} ({said.group(0)!r}); no call computes it.")


CHECKS: tuple[Check, ...] = (few_rows, hidden_digits, combined, many_numbers, equal_rows, claims)


def warnings_of(case: Case) -> list[Warned]:
    """Return the warnings of all checks."""
    return [warned for check in CHECKS for warned in check(case)]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
