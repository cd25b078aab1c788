"""Print the table: `scripts/bench`, or `scripts/bench foundation`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.measure import Row

SUITES = ("foundation", "plans", "mpc", "learn", "net", "fl", "he")
COLUMNS = ("what", "measured", "at most", "", "sides, medians")  # of a suite that has none of its own

TITLE = f"torch {torch.__version__}, 1 thread"


def cells(row: Any) -> tuple[str, ...]:
    """Return the line of a row: its own cells, or those of a plain one."""
    if not isinstance(row, Row):
        return row.cells
    return row.name, f"{row.value:.3f} {row.unit}", f"{row.limit:g}", "ok" if row.ok else "OVER", row.detail


def main(names: list[str]) -> int:
    """Run some suites, all of them by default; the exit code says whether every figure is within its limit."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        sys.stderr.write(f"unknown suite {unknown[0]!r}; there is: {', '.join(SUITES)}\n")
        return 2
    torch.set_num_threads(1)
    console = Console(width=120)
    tables: dict[tuple[str, ...], Table] = {}
    good = True
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for name in names or SUITES:
            suite = importlib.import_module(f"benchmarks.{name}")
            columns = getattr(suite, "COLUMNS", COLUMNS)
            table = tables.setdefault(columns, Table(*columns, title=TITLE, title_justify="left"))
            for row in suite.rows():
                good = good and row.ok
                table.add_row(*cells(row))
                progress.update(task, advance=1, description=cells(row)[0])
    console.print(*tables.values(), sep="\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
