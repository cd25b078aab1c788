"""Computing on shares: seconds, rounds and bytes, against CrypTen in the same run where it is installed."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import syft as sy
from benchmarks.crypten_side import LONG
from benchmarks.measure import Row
from benchmarks.mpc_rows import WORK, Work, inputs
from benchmarks.rival import Rival, crypten
from syft.mpc.runtime.cost_meter import count
from syft.workers.process.worker import ProcessWorker

AHEAD = {"lockstep": 5, "processes": 2}  # how many times quicker than CrypTen
COLUMNS = (
    "what",
    "lockstep\nms",
    "processes\nms",
    "rounds",
    "a party\nsends",
    "dealt",
    "CrypTen\nms",
    f"ahead\n{', '.join(f'≥ {ahead}' for ahead in AHEAD.values())}",
    "",
    "elsewhere\n(SPU)",
)
ERROR = 1e-3  # what a result may be off; far above the rounding, far below a wrong answer


class Site:
    """Two parties, a dealer, and secrets shared between the two.

    Args:
        make: makes a worker of a name.
        name: of the site; the workers' names begin with it.
    """

    def __init__(self, make: Callable[[str], Any], name: str) -> None:
        self.alice, self.bob, self.dealer = (make(f"{name}-{who}") for who in ("alice", "bob", "dealer"))
        self.secrets: list[Any] = []

    def share(self, work: Work) -> None:
        """Share the secrets of a row, in place of the last ones."""
        self.secrets = [
            plain.fix_prec(base=2, precision_fractional=16).share(self.alice, self.bob, crypto_provider=self.dealer)  # type: ignore[attr-defined]
            for plain in inputs(work)
        ]
        self.wait()

    def wait(self) -> None:
        """Return when both parties have finished all requests."""
        for worker in (self.alice, self.bob):
            if getattr(worker, "in_own_process", False):
                worker.synchronize()

    def run(self, work: Work) -> float:
        """Run a row once; return the seconds."""
        start = time.perf_counter()
        result = work.function(*self.secrets)
        self.wait()
        elapsed = time.perf_counter() - start
        del result
        self.wait()  # what the end of the result costs is nobody's
        return elapsed

    def check(self, work: Work) -> float:
        """Run a row once and look at its result: how far it is off."""
        result = work.function(*self.secrets).get()
        found = result.float_prec() if hasattr(result.child, "precision_fractional") else result
        expected = work.function(*inputs(work))
        error = float((torch.as_tensor(found).double() - expected.double()).abs().max())
        if not error <= ERROR:
            raise AssertionError(f"{work.name}: a wrong result")
        return error


@contextlib.contextmanager
def sites(kind: type[Site] = Site) -> Iterator[dict[str, Site]]:
    """Yield both: three workers of this process, and three processes on loopback with one thread each."""
    hook = sy.TorchHook(torch)
    processes = []

    def process(name: str) -> ProcessWorker:
        processes.append(ProcessWorker(hook, id=name, threads=1))
        return processes[-1]

    try:
        yield {
            "lockstep": kind(lambda name: sy.VirtualWorker(hook, id=name), "mpc-bench"),
            "processes": kind(process, "mpc-bench-process"),
        }
    finally:
        for worker in processes:
            worker.stop()


@dataclasses.dataclass(frozen=True)
class Line:
    """The measurements of one row.

    Attributes:
        work: the row.
        times: seconds of each run, by side: "lockstep", "processes", and "crypten" where it is installed. The runs of
            one place in the lists are neighbours in time.
        rounds: rounds of messages between the parties.
        sent: bytes that a party sends to others, of the party that sends most.
        dealt: bytes from the dealer.
        error: how far the result is off.
    """

    work: Work
    times: dict[str, list[float]]
    rounds: int
    sent: int
    dealt: int
    error: float

    def share(self, side: str) -> float:
        """Return our seconds over CrypTen's: the median of neighbouring runs."""
        return statistics.median(
            ours / theirs for ours, theirs in zip(self.times[side], self.times["crypten"], strict=True)
        )

    @property
    def verdicts(self) -> list[Row]:
        """Everything that has a limit: the rounds, and the time where CrypTen is there."""
        limited = []
        if self.work.rounds is not None:
            limited.append(Row(f"{self.work.name}, rounds", self.rounds, self.work.rounds - 1, "", ""))
        if "crypten" in self.times:
            limited += [Row(f"{self.work.name}, {s}", self.share(s), 1 / ahead, "x", "") for s, ahead in AHEAD.items()]
        return limited

    @property
    def ok(self) -> bool:
        """Whether every figure is within its limit."""
        return all(row.ok for row in self.verdicts)

    @property
    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        work, there = self.work, "crypten" in self.times
        medians = {side: milliseconds(statistics.median(times)) for side, times in self.times.items()}
        return (
            work.name,
            medians["lockstep"],
            medians["processes"],
            f"{self.rounds}" if work.rounds is None else f"{self.rounds} < {work.rounds}",
            size(self.sent),
            size(self.dealt),
            medians.get("crypten", "-"),
            ", ".join(f"{1 / self.share(side):.1f}" for side in AHEAD) if there else "-",
            ("ok" if self.ok else "OVER") if self.verdicts else "",
            f"{work.crypten:g} ({'-' if work.spu is None else f'{work.spu:g}'})",
        )


def milliseconds(value: float) -> str:
    """Render seconds as milliseconds, to three digits."""
    return f"{value * 1e3:.{2 if value < 0.01 else 1 if value < 0.1 else 0}f}"


def size(count: int) -> str:
    """Render bytes."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def measure(work: Work, ours: dict[str, Site], rival: Rival | None, line: type[Line] = Line) -> Line:
    """Measure one row: one run of each side in turn. The first warms a side up, or stands for all when it is long."""
    error = 0.0
    for site in ours.values():
        site.share(work)
        error = max(error, site.check(work))
    with count() as counted:
        ours["lockstep"].run(work)
    sides: dict[str, Callable[[Work], float]] = {name: site.run for name, site in ours.items()}
    if rival is not None:
        sides["crypten"] = rival.run
    gc.collect()
    first = {side: run(work) for side, run in sides.items()}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(work.runs):
        for side, run in list(sides.items())[:: 1 if turn % 2 else -1]:
            times[side].append(first[side] if first[side] > LONG else run(work))
    return line(work, times, counted.rounds, counted.bytes, counted.dealt, error)


def rows() -> Iterator[Line]:
    """Every row."""
    with sites() as ours, crypten() as rival:
        for work in WORK:
            yield measure(work, ours, rival)
