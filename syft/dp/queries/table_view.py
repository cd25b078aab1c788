"""Private data as a table of numbers, read in blocks: each row is a person.

Reading one row depends on that row alone, and every number is clamped to bounds first. So the influence of a person
is bounded for any data. Nothing here fails or stops because of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from syft.exceptions import PrivacyError

DTYPES = frozenset(
    {
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    }
)  # fmt: skip
MAX_COLUMNS = 4096
MAX_CONDITIONS = 16
# Number of values read at a time.
_BLOCK = 2**20
_LARGEST = 1e300
_COMPARE: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "<": torch.lt,
    "<=": torch.le,
    "==": torch.eq,
    "!=": torch.ne,
    ">=": torch.ge,
    ">": torch.gt,
}


class TableFormat(NamedTuple):
    """The public properties of a table.

    Attributes:
        rows: number of persons.
        columns: number of values for each.
        is_flat: whether the tensor has one dimension, one value for each person.
    """

    rows: int
    columns: int
    is_flat: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TableFormat:
        """Return the format of a tensor, or raise PrivacyError if it is not a table; independent of its values."""
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if not is_plain or tensor.dtype not in DTYPES:
            raise PrivacyError("Queries need tensors of real numbers, integers or booleans.")
        if tensor.dim() not in (1, 2) or (tensor.dim() == 2 and not 0 < tensor.shape[1] <= MAX_COLUMNS):
            raise PrivacyError(
                f"The data has {tensor.dim()} dimensions. Queries need tensors with one row for each person: "
                f"one number per row, or 1 to {MAX_COLUMNS} columns."
            )
        return cls(len(tensor), 1 if tensor.dim() == 1 else tensor.shape[1], tensor.dim() == 1)

    def chosen(self, column: object) -> TableFormat:
        """Return the format of one column, or of all for None; raises if there is no such column."""
        if column is None:
            return self
        if type(column) is not int or self.is_flat or not 0 <= column < self.columns:
            raise PrivacyError(f"There is no such column: the data has {'one only' if self.is_flat else self.columns}.")
        return TableFormat(self.rows, 1, True)


def blocks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield blocks of rows of a table as float64, of shape (rows, columns)."""
    table = tensor.detach()
    table = table.unsqueeze(1) if table.dim() == 1 else table
    for some in torch.split(table, max(1, _BLOCK // table.shape[1])):
        yield some.to(device="cpu", dtype=torch.float64)


class Bounds:
    """The bounds of each column. Values outside count as the nearest bound, and NaN as the lower one."""

    def __init__(self, lower: object, upper: object, columns: int) -> None:
        self.lower, self.upper = _column_numbers("lower", lower, columns), _column_numbers("upper", upper, columns)
        if not bool((self.lower < self.upper).all()):
            raise PrivacyError("lower must be below upper, for each column: lower=0, upper=120.")

    @property
    def width(self) -> torch.Tensor:
        """The width, by column."""
        return self.upper - self.lower

    def with_zero(self) -> Bounds:
        """Return bounds that include zero: excluded rows add nothing."""
        made = object.__new__(Bounds)
        made.lower, made.upper = self.lower.clamp(max=0.0), self.upper.clamp(min=0.0)
        return made

    def clamp(self, values: torch.Tensor) -> torch.Tensor:
        """Return values within the bounds."""
        return torch.where(values.isnan(), self.lower, values).clamp(self.lower, self.upper)

    def whole(self, values: torch.Tensor, bits: int) -> torch.Tensor:
        """Return clamped values as integers from 0 (lower) to 2**bits (upper), so that sums are exact."""
        share = (values - self.lower) / self.width
        return (share * 2.0**bits).round().clamp(0, 2.0**bits).to(torch.int64)


def _column_numbers(name: str, value: Any, columns: int) -> torch.Tensor:
    given = list(value) if type(value) in (list, tuple) else [value] * columns
    if len(given) != columns or not all(is_number(each) for each in given):
        raise PrivacyError(f"{name} must be a number, or a list with one for each of the {columns} columns.")
    return torch.tensor([float(each) for each in given], dtype=torch.float64)


def is_number(value: Any) -> bool:
    """Return whether a value from a client is a finite number."""
    return type(value) in (int, float) and -_LARGEST <= value <= _LARGEST


class Conditions:
    """Selects rows.

    Args:
        where: None for all; or (sign, number), with a column before it if there are several; or a list of these, which
            must all hold.
        table: the format of the table.
    """

    def __init__(self, where: Any, table: TableFormat) -> None:
        # Lists arrive as tuples at the process that computes the result.
        several = type(where) is list or (type(where) is tuple and bool(where) and type(where[0]) is tuple)
        given = [] if where is None else list(where) if several else [where]
        if len(given) > MAX_CONDITIONS:
            raise PrivacyError(f"where can have at most {MAX_CONDITIONS} conditions.")
        self._parts = [_condition(part, table) for part in given]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def holds(self, values: torch.Tensor) -> torch.Tensor:
        """Return for each row whether all conditions hold; without conditions, whether it has no NaN."""
        if not self._parts:
            return ~values.isnan().any(dim=1)
        found = torch.ones(len(values), dtype=torch.bool)
        for column, sign, number in self._parts:
            found &= _COMPARE[sign](values[:, column], number)
        return found


def _condition(part: Any, table: TableFormat) -> tuple[int, str, float]:
    fields = tuple(part) if type(part) in (tuple, list) else ()
    column, sign, number = (0, *fields) if len(fields) == 2 and table.columns == 1 else (fields + (None,) * 3)[:3]
    known = type(sign) is str and sign in _COMPARE
    if len(fields) not in (2, 3) or not known or type(column) is not int or not 0 <= column < table.columns:
        raise PrivacyError('where must be (sign, number) or (column, sign, number), as (">=", 65).')
    if type(number) is bool:
        number = int(number)
    if not is_number(number):
        raise PrivacyError("A column must be compared with a finite number.")
    return column, sign, float(number)
