"""Run random calls at a ProcessWorker with little memory, and note which ended it or took too long."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import threading
import time
import warnings
from typing import Any

import torch

import syft as sy
from syft.exceptions import WorkerLostError
from syft.messaging import message as m
from tests.helpers.attacks.call_fuzzing import Call, random_call, shown
from tests.helpers.processes import end, start

ROOM = 2**28
SLOW = 5.0
# Results of one call that are deleted after it.
MOST_RESULTS = 64


class Fuzzed:
    """A worker in a process of its own that may use 256 MiB more than at its start.

    Attributes:
        crashes: calls that ended the process.
        hangs: calls that took longer than `SLOW`, after which the process was ended.
        outcomes: how many calls ended in which type of error; "" counts the calls that returned.
    """

    def __init__(self) -> None:
        self.crashes: list[str] = []
        self.hangs: list[str] = []
        self.outcomes: dict[str, int] = {}
        self.slowest = (0.0, "")
        self.worker: Any = None
        self._number = 0

    def start(self) -> None:
        """Start the process and limit its memory."""
        self.worker = start("fuzzed")
        torch.ones(2).send(self.worker).get()
        with open(f"/proc/{self.worker.pid}/statm") as file:
            in_use = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(self.worker.pid, resource.RLIMIT_AS, (in_use + ROOM, in_use + ROOM))
        resource.prlimit(self.worker.pid, resource.RLIMIT_CORE, (0, 0))

    def stop(self) -> None:
        """End the process."""
        if self.worker is not None:
            with contextlib.suppress(Exception):
                end(self.worker)
            self.worker = None

    def run(self, call: Call) -> None:
        """Run one call, in a new process if the last one is gone."""
        if self.worker is None:
            self.start()
        name, args, kwargs = call
        self._number += 1
        first = self._number << 16
        operation = m.Operation(name, None, args, kwargs, (first,))
        overdue = threading.Event()
        alarm = threading.Timer(SLOW, self._kill, (self.worker.pid, overdue))
        alarm.start()
        started = time.perf_counter()
        outcome = ""
        try:
            sy.local_worker.send_msg(operation, self.worker)
            sy.local_worker.send_msg(m.ReleaseMessage(tuple(range(first, first + MOST_RESULTS))), self.worker)
        except WorkerLostError:
            outcome = "lost"
        except Exception as error:
            outcome = type(error).__name__
        alarm.cancel()
        self.slowest = max(self.slowest, (time.perf_counter() - started, shown(call)))
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome == "lost" or overdue.is_set():
            (self.hangs if overdue.is_set() else self.crashes).append(shown(call))
            self.stop()

    @staticmethod
    def _kill(pid: int, overdue: threading.Event) -> None:
        overdue.set()
        os.kill(pid, 9)


def fuzz(seed: int, count: int) -> Fuzzed:
    """Run random calls; returns what became of them."""
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    fuzzed = Fuzzed()
    try:
        for _ in range(count):
            fuzzed.run(random_call(rng))
    finally:
        fuzzed.stop()
    return fuzzed


if __name__ == "__main__":
    import sys

    began = time.perf_counter()
    done = fuzz(int(sys.argv[1]), int(sys.argv[2]))
    print(f"{sys.argv[2]} calls in {time.perf_counter() - began:.0f} s: {done.outcomes}; slowest {done.slowest}")
    for title, found in (("CRASH", done.crashes), ("HANG", done.hangs)):
        for text in found:
            print(title, text)
