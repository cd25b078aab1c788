"""CSV files as tensors: int64 if the file has only whole numbers, else float64."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import torch

_WHOLE = b'0123456789+-, \t\r\n"'
_CHUNK = 1 << 20
_COLUMNS = "columns: "
_MAX_NAME = 200
_MISSING = frozenset({"na", "n/a", "n.a.", "nan", "null", "none", "nil", "missing", "unknown", "true", "false"})
# A number with a unit of up to three letters, or in another base.
_AMOUNT = re.compile(r"[<>=~]*\s*[+-]?\s*[\d.,]+\s*[^\W\d_]{0,3}%?|[+-]?0[xob][\da-f]+|[+-]?[\d.,]+e[+-]?\d+", re.I)
# Separators that are used instead of commas; many spreadsheets write semicolons.
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class UnreadableFileError(ValueError):
    """A data file has unsupported contents. The message contains no values of the file."""


def read_csv(path: Path) -> tuple[dict[str, torch.Tensor], str | None]:
    """Read numbers, and the column names from a first line that holds only names.

    The returned description is public. Columns of a file without a header are named col0, col1 and so on.

    Raises:
        UnreadableFileError: a cell is not a number, or the first line has both names and values; the message has the
            position and never the cell.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        first = next(reader, [])
        begin, is_bare = reader.line_num, not any(reader)
    if not first:
        raise UnreadableFileError("it is empty")
    _check_separator(first)
    named = not all(_is_number(cell) for cell in first)
    if named:
        _check_header(first, begin)
    names = [cell.strip() for cell in first] if named else [f"col{number}" for number in range(len(first))]
    description = described_columns(names)
    if named and is_bare:
        return {"": torch.empty((0, len(first)), dtype=torch.float64)}, description
    dtype = np.int64 if _is_whole(path, begin if named else 0) else np.float64
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for _ in range(named):
                next(csv.reader(file))
            values = np.loadtxt(file, delimiter=",", quotechar='"', comments=None, ndmin=2, dtype=dtype)
    except (ValueError, OverflowError):
        raise UnreadableFileError(_fault(path, named, len(first), dtype is np.int64)) from None
    if values.shape[1] != len(first):
        raise UnreadableFileError(_fault(path, named, len(first), whole=False))
    return {"": torch.from_numpy(values)}, description


def described_columns(names: list[str]) -> str:
    """Return the description of a table with these column names."""
    return f"{_COLUMNS}{', '.join(names)}"


def names_in(description: str | None, count: int) -> list[str] | None:
    """Return the column names in a description that `read_csv` made; None for other texts."""
    if description is None or not description.startswith(_COLUMNS):
        return None
    names = description.removeprefix(_COLUMNS).split(", ")
    return names if len(names) == count else None


def _check_separator(first: list[str]) -> None:
    cell = first[0] if len(first) == 1 else ""
    name = next((name for sign, name in _SEPARATORS.items() if sign in cell), None)
    if name is not None:
        raise UnreadableFileError(f"its columns are separated by {name}; save it with commas, and with decimal points")


def _check_header(first: list[str], lines: int) -> None:
    """Refuse a first line that may hold data: its cells would become public as the names of columns."""
    if lines > 1:
        raise UnreadableFileError("its first row spans several lines; close its quotes and put all names on one line")
    for number, cell in enumerate(first, 1):
        if _is_like_value(cell):
            raise UnreadableFileError(
                f"in its first line, column {number} holds a value or nothing, and others hold names; write a name for "
                "each column, or only numbers"
            )
        if not cell.strip().isprintable() or len(cell) > _MAX_NAME:
            raise UnreadableFileError(
                f"in its first line, the name of column {number} has unprintable characters or more than "
                f"{_MAX_NAME} characters"
            )


def _is_like_value(cell: str) -> bool:
    """Return whether a cell may be a value: a number in some notation, a date, an amount, or a missing value."""
    text = cell.strip()
    return (
        text.lower() in _MISSING
        or not any(character.isalpha() for character in text)
        or _is_number(text)
        or _AMOUNT.fullmatch(text) is not None
    )


def _is_whole(path: Path, lines: int) -> bool:
    """Return whether a file has only whole numbers after its first lines."""
    with path.open("rb") as file:
        for _ in range(lines):
            file.readline()
        rest = file.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
        while rest:
            if rest.translate(None, _WHOLE):
                return False
            rest = file.read(_CHUNK)
    return True


def _fault(path: Path, named: bool, columns: int, whole: bool) -> str:
    """Return the position of the first unreadable cell. The cell itself is not shown, since this is logged."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for number, row in enumerate(reader):
            if not row or (named and number == 0):
                continue
            if len(row) != columns:
                return f"line {reader.line_num} has {_count(len(row))}, the first line has {_count(columns)}"
            for column, cell in enumerate(row, 1):
                if not _is_number(cell) or (whole and not _fits(cell)):
                    return f"line {reader.line_num}, column {column} holds {_kind(cell)} instead of a number"
    return "it holds cells that are not numbers, or lines of different lengths"


def _count(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"


def _kind(cell: str) -> str:
    if not cell.strip():
        return "nothing (write nan for a missing value)"
    if _is_number(cell):
        return "a whole number beyond 64 bits (write it with a decimal point to allow rounding)"
    if _is_number(cell.replace(",", ".", 1)):
        return "a number with a comma"
    return "text"


def _fits(cell: str) -> bool:
    return -(2**63) <= int(cell) < 2**63


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
