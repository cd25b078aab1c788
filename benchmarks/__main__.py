"""Print the table: `scripts/bench`, or `scripts/bench foundation`."""

from __future__ import annotations

import importlib
import sys

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

SUITES = ("foundation", "plans")


def main(names: list[str]) -> int:
    """Run some suites, all of them by default; the exit code says whether every figure is within its limit."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        sys.stderr.write(f"unknown suite {unknown[0]!r}; there is: {', '.join(SUITES)}\n")
        return 2
    torch.set_num_threads(1)
    console = Console(width=120)
    table = Table(title=f"torch {torch.__version__}, 1 thread", title_justify="left")
    for column in ("what", "measured", "at most", "", "sides, medians"):
        table.add_column(column)
    good = True
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        for name in names or SUITES:
            for row in importlib.import_module(f"benchmarks.{name}").rows():
                good = good and row.ok
                table.add_row(
                    row.name, f"{row.value:.3f} {row.unit}", f"{row.limit:g}", "ok" if row.ok else "OVER", row.detail
                )
                progress.update(task, advance=1, description=row.name)
    console.print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
