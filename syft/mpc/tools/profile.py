"""Profiling: time, rounds and bytes of encrypted operations, as a table.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> alice, bob, carol = (sy.VirtualWorker(hook, id=f"profile-{name}") for name in ("alice", "bob", "carol"))
    >>> x = torch.tensor([0.5, -2.0]).fix_precision().share(alice, bob, crypto_provider=carol)
    >>> with sy.mpc.profile(show=False) as p:
    ...     y = torch.relu(x * x)
    >>> sorted((line.name, line.calls, line.rounds) for line in p.lines())
    [('mul', 1, 2), ('relu', 1, 7)]
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

from syft._suggestions import did_you_mean, suggests_keywords
from syft.core.observers import watching
from syft.display import grid_html, grid_text
from syft.exceptions import SyftError
from syft.mpc.runtime import cost_meter
from syft.mpc.tools.op_origin import OpOrigin, OriginTracker
from syft.mpc.values.ring_ops import Operation


@dataclasses.dataclass(slots=True)
class ProfileRow(cost_meter.RunCost):
    """One row of the table: the cost of all operations of one name.

    The time is that at the client with parties in its process, otherwise at the slowest party.

    Attributes:
        name: of the operations.
        calls: the number of operations.
    """

    name: str = ""
    calls: int = 0


@dataclasses.dataclass(slots=True)
class _ProfiledCall:
    """One operation: its origin, its own seconds at the client, and its protocol runs."""

    origin: OpOrigin
    seconds: float = 0.0
    runs: list[tuple[Any, str]] = dataclasses.field(default_factory=list)


# Grouping -> the name of the row of an operation.
GROUPS: dict[str, Callable[[OpOrigin], str]] = {
    "call": lambda origin: origin.name,
    "operation": lambda origin: origin.operation,
    "module": lambda origin: (origin.module or "-") + (", backward" if origin.backward else ""),
}
_NOWHERE = OpOrigin("", "elsewhere")
COLUMNS = ("", "calls", "time", "of all", "rounds", "of all", "a party sends", "of all", "dealt")


class Profile(cost_meter.Meter):
    """The operations inside a `with sy.mpc.profile()` block, and their costs.

    Attributes:
        seconds: the wall-clock time of the block.
    """

    def __init__(self, by: str, show: bool) -> None:
        super().__init__()
        _check_group(by)
        self.by = by
        self.show = show
        self.seconds = 0.0
        self._calls: list[_ProfiledCall] = []
        self._open: list[_ProfiledCall] = []
        self._inner: list[float] = []
        self._origins = OriginTracker()
        self._stack = contextlib.ExitStack()
        self._began = 0.0

    def __enter__(self) -> Profile:
        self._stack.enter_context(self._origins)
        self._stack.enter_context(watching(self._watch))
        super().__enter__()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            super().__exit__(*exception)  # waits for parties in other processes
        finally:
            self.seconds = time.perf_counter() - self._began
            self._stack.close()
        if self.show and exception[:1] == (None,):
            sys.stdout.write(f"{self!r}\n")

    def _watch(self, function: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run an operation and record its time without that of the operations inside it."""
        call = _ProfiledCall(self._origins.here(function))
        self._calls.append(call)
        self._open.append(call)
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            return run()
        finally:
            elapsed = time.perf_counter() - start
            self._open.pop()
            call.seconds = elapsed - self._inner.pop()
            if self._inner:
                self._inner[-1] += elapsed

    def begun(self, key: object, name: str) -> None:
        """Record the operation that a run belongs to."""
        super().begun(key, name)
        if not self._open:
            self._calls.append(_ProfiledCall(_NOWHERE))
        (self._open or self._calls)[-1].runs.append((key, name))

    def lines(self, by: str | None = None) -> list[ProfileRow]:
        """Return the rows of the table, the slowest first.

        Args:
            by: how rows are grouped: "call" (the user's call, such as linear), "operation" (the name in ATen, such as
                addmm), "module" (a part of the model) or "protocol" (the protocol that the parties ran).
        """
        by = by or self.by
        _check_group(by)
        found: dict[str, ProfileRow] = {}
        for call in self._calls:
            for line in self._by_protocol(call) if by == "protocol" else [self._by_origin(call, GROUPS[by])]:
                row = found.setdefault(line.name, ProfileRow(name=line.name))
                row.add(line)
                row.calls += line.calls
        return sorted(found.values(), key=lambda line: -line.seconds)

    def _by_origin(self, call: _ProfiledCall, name: Callable[[OpOrigin], str]) -> ProfileRow:
        line = ProfileRow(name=name(call.origin), calls=1)
        for part in self._by_protocol(call):
            line.add(part)
        if not any(key in self.remote for key, _ in call.runs):
            line.seconds = call.seconds or line.seconds
        return line

    def _by_protocol(self, call: _ProfiledCall) -> list[ProfileRow]:
        lines = []
        for key, name in call.runs:
            line = ProfileRow(name=name, calls=1)
            line.add(cost_meter.together(self.costs.get(key) or [cost_meter.RunCost()]))
            lines.append(line)
        return lines

    @property
    def total(self) -> ProfileRow:
        """The sum of all rows."""
        return _total(self.lines())

    def table(self, by: str | None = None) -> str:
        """Return the table as text.

        Args:
            by: how rows are grouped, as for `lines`.
        """
        return grid_text(COLUMNS, self._rows(by), left=1)

    def _rows(self, by: str | None = None) -> list[list[str]]:
        lines = self.lines(by)
        total = _total(lines)
        return [_row(line, total) for line in [*lines, total]]

    def _title(self) -> str:
        where = "at the slowest party" if self.remote else "at the client"
        return f"{self.total.calls} operations in {_time(self.seconds)}; times {where}"

    def __repr__(self) -> str:
        return f"{self._title()}\n{self.table()}"

    def _repr_html_(self) -> str:
        return grid_html(self._title(), COLUMNS, self._rows())


def _check_group(by: str) -> None:
    if by not in (*GROUPS, "protocol"):
        hint = did_you_mean(by, (*GROUPS, "protocol"))
        raise SyftError(f"A profile is grouped by one of {', '.join(GROUPS)} and protocol, got {str(by)[:40]!r}.{hint}")


def _total(lines: list[ProfileRow]) -> ProfileRow:
    total = ProfileRow(name="all together", calls=sum(line.calls for line in lines))
    for line in lines:
        total.add(line)
    return total


def _row(line: ProfileRow, total: ProfileRow) -> list[str]:
    return [
        line.name, str(line.calls), _time(line.seconds), _share(line.seconds, total.seconds), str(line.rounds),
        _share(line.rounds, total.rounds), _size(line.bytes), _share(line.bytes, total.bytes), _size(line.dealt),
    ]  # fmt: skip


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else ""


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.{1 if seconds >= 0.01 else 2}f} ms"


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


@suggests_keywords
def profile(by: str = "call", show: bool = True) -> Profile:
    """Measure what encrypted operations cost inside a `with` block, and print it as a table at its end.

    Each operation runs by itself, also in plans and programs, which are faster as a whole. Time is measured at the
    client if the parties live in its process, otherwise at the slowest party, including waiting. Rounds and bytes are
    those of the party that sends most.

    Args:
        by: how rows are grouped: "call" (the user's call, such as linear), "operation" (ATen's name, such as addmm),
            "module" (a part of the model) or "protocol" (the protocol that the parties ran).
        show: whether the table is printed when the block ends; it is what `print(p)` shows.

    Returns:
        A context manager that returns a `Profile`: `lines()`, `total`, `table(by=...)`.
    """
    return Profile(by, show)
