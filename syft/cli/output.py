"""Output of the command line. Texts of users are printed without markup or control characters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from syft.core.labels import printable
from syft.grid.owner.tables import cell_text
from syft.grid.owner.texts import moment as moment
from syft.grid.owner.texts import shape_of as shape_of

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
        table.add_row(*(Text(cell_text(value)) for value in line))
    if table.row_count:
        console(error).print(table)
    else:
        say(nothing, error=error)
