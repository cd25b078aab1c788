"""Output of the command line. Texts of users are printed without markup or control characters."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from syft.core.labels import one_line, printable

# Lines for programs are not wrapped.
_WIDE = 240


def console(error: bool = False) -> Console:
    """Return the console for lines: standard output, or standard error if a program reads the output."""
    file = sys.stderr if error else sys.stdout
    width = None if file.isatty() else _WIDE
    return Console(file=file, markup=False, highlight=False, emoji=False, width=width)


def say(text: str, style: str = "", error: bool = False) -> None:
    """Print one text; lines are not cut, so that they can be copied."""
    console(error).print(Text(printable(text), style=style), soft_wrap=True)


def note(text: str) -> None:
    """Print a remark on standard error."""
    say(text, style="dim", error=True)


def fail(text: str, code: int = 1) -> NoReturn:
    """Print an error, and exit with a code."""
    say(text, style="red", error=True)
    raise SystemExit(code)


def give(value: object) -> None:
    """Print one line of JSON, for programs."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def rows(columns: Sequence[str], lines: Iterable[Sequence[object]], nothing: str, error: bool = False) -> None:
    """Print a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*(Text(_cell(value)) for value in line))
    if table.row_count:
        console(error).print(table)
    else:
        say(nothing, error=error)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(one_line(each) for each in value) or "-"
    return one_line(value)


def moment(seconds: float | None) -> str:
    """Return a time in readable form; "never" for a grant without an end."""
    if seconds is None:
        return "-"
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shape_of(shape: Sequence[int] | None) -> str:
    """Return a shape in short form: 569x30."""
    if shape is None:
        return "-"
    return "x".join(str(size) for size in shape) or "one number"
