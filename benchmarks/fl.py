"""Federated rounds: in process against a plain loop, on Ray against Flower's simulation; memory; the analysis of PATE.

A round is MLP 64-32-10 on scikit-learn's digits, one local epoch of SGD at each client, one thread. The plain loop does
the same work as somebody who knows torch writes it. Flower takes part where RESYFT_FLOWER_PYTHON names an interpreter
that has `flwr[simulation]` and scikit-learn.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import syft as sy
from benchmarks.flower_side import ACTORS, BATCH, CLIENTS, RATE, SAMPLED, digits, network
from benchmarks.measure import Row, pretty, ratio, seconds

VARIABLE = "RESYFT_FLOWER_PYTHON"
PATIENCE = 300.0  # seconds that Flower's first round may take, the start of its processes included
HERE = 100  # clients of a round in this process
ROUNDS = 4
_MEMORY = """
import gc, os, sys
import torch
import syft as sy
from benchmarks.flower_side import digits, network

torch.set_num_threads(1)
data, targets = (part.repeat_interleave(12, 0) for part in digits())


def held(*args):
    gc.collect()
    with open("/proc/self/statm") as file:
        sizes.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024)


def run(count, rounds):
    clients = sy.federated.Simulation((data, targets), count)
    loss_fn = torch.nn.functional.cross_entropy
    return clients, sy.federated.run(
        "fedavg", clients, rounds, model=network(), loss_fn=loss_fn, clients_per_round=20, seed=1, evaluate=held
    )


sizes = []
run(20, 2)  # what is loaded once
sizes.clear()
kept = run(int(sys.argv[1]), 5)
print(max(sizes))
"""


def rows() -> Iterator[Row]:
    """Measure everything."""
    for size in (BATCH, 8):
        yield _in_process(size)
    yield from _on_ray()
    yield _memory()
    yield from _analysis()


# --- in process -------------------------------------------------------------------------------------------------


def _in_process(size: int) -> Row:
    """Compare rounds of clients in this process with a plain loop over them."""
    data, targets = digits()
    clients = sy.federated.Simulation((data, targets), HERE)
    parts = [clients.part(number).tensors for number in range(HERE)]
    model = network()

    def ours() -> None:
        sy.federated.run(
            "fedavg", clients, ROUNDS, model=model, loss_fn=cross_entropy, batch_size=size,
            optimizer_args={"lr": RATE}, progress=False,
        )  # fmt: skip

    row = ratio(
        f"a round of {HERE} clients in process, batches of {size} / a plain loop", 1.3, ours,
        lambda: plain(model, parts, size), 1, blocks=15,
    )  # fmt: skip
    return Row(row.name, row.value, row.limit, row.unit, f"{row.detail} for {ROUNDS} rounds")


def plain(model: torch.nn.Module, parts: list[Any], size: int) -> torch.nn.Module:
    """Train as a good user of torch would: copies of a model, and the weighted mean of their states."""
    model = copy.deepcopy(model)
    for _ in range(ROUNDS):
        total: dict[str, torch.Tensor] = {}
        samples, losses = 0, 0.0
        for data, targets in parts:
            local = copy.deepcopy(model)
            optimizer = torch.optim.SGD(local.parameters(), lr=RATE)
            for some in torch.randperm(len(data)).split(size):
                optimizer.zero_grad()
                loss = cross_entropy(local(data[some]), targets[some])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses += loss.item() * len(some)
            for name, value in local.state_dict().items():
                total[name] = total[name].add_(value, alpha=len(data)) if name in total else value * len(data)
            samples += len(data)
        model.load_state_dict({name: value / samples for name, value in total.items()})
    return model


# --- on Ray -----------------------------------------------------------------------------------------------------


class Flower:
    """Flower's simulation in a process of its own.

    Args:
        python: the interpreter.
    """

    def __init__(self, python: str) -> None:
        root = Path(__file__).resolve().parent.parent
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [python, "-c", "from benchmarks.flower_side import main; main()"],  # by name, as the actors import it
            cwd=root,
            env={**os.environ, **quiet, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,  # so that all of its processes can be ended together
        )
        self.version = str(self._read()["version"])

    def round(self) -> float:
        """Do a round; return its seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        return float(self._read()["seconds"])

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise TimeoutError(f"Flower took over {PATIENCE:g} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                "Flower's side ended; try it: python -c 'from benchmarks.flower_side import main; main()'"
            )
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End it, and what it has started."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Rounds:
    """Our rounds on Ray, one whenever it is asked for: timed as Flower's are, from one evaluation to the next."""

    def __init__(self) -> None:
        self.clients = sy.federated.Simulation(digits(), CLIENTS, backend="ray", actors=ACTORS)
        self.clients.pool.processes()  # waits until they are there

    def run(self, count: int) -> list[float]:
        """Do some rounds; return the seconds of each but the first, which finds out how long a client takes."""
        ends: list[float] = []

        def note(model: Any) -> dict[str, float]:
            ends.append(time.perf_counter())
            return {}

        sy.federated.run(
            "fedavg", self.clients, count + 1, model=network(), loss_fn=cross_entropy, batch_size=BATCH,
            optimizer_args={"lr": RATE}, clients_per_round=SAMPLED, progress=False,
            evaluate=note,
        )  # fmt: skip
        return [after - before for before, after in itertools.pairwise(ends)]


def _on_ray() -> Iterator[Row]:
    """Compare rounds on Ray with Flower's, where it is there."""
    python = os.environ.get(VARIABLE)
    if python is None:
        sys.stderr.write(f"{VARIABLE} is not set, so there is no Flower to compare with.\n")
        return
    ours = Rounds()
    try:
        flower = Flower(python)
        try:
            for _ in range(2):  # the start of processes, and what they import
                ours.run(1)
                flower.round()
            pairs = [(statistics.median(ours.run(3)), flower.round()) for _ in range(11)]
        finally:
            flower.close()
    finally:
        ours.clients.close()
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    value = statistics.median(a / b for a, b in pairs)
    detail = f"{pretty(mine)} / {pretty(theirs)}, flwr {flower.version}, {ACTORS} actors each"
    yield Row(f"{CLIENTS:,} clients, {SAMPLED} a round on Ray / Flower", value, 0.5, "x", detail)


# --- memory, and PATE -------------------------------------------------------------------------------------------


def _memory() -> Row:
    """Compare the memory of a process in a run with many clients and of one with few; 20 a round in both."""
    peaks: dict[int, list[int]] = {1_000: [], 10_000: []}
    for _ in range(3):
        for count, found in peaks.items():
            command = [sys.executable, "-c", _MEMORY, str(count)]
            root = Path(__file__).resolve().parent.parent
            said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
            found.append(int(said.split()[-1]))
    few, many = (statistics.median(found) for found in peaks.values())
    detail = f"{many / 1024:.0f} MB / {few / 1024:.0f} MB; {(many - few) * 1024 / 9000:.0f} bytes a client more"
    return Row("memory in a run, 10,000 clients / 1,000, 20 a round", many / few, 1.1, "x", detail)


def _analysis() -> Iterator[Row]:
    """Measure the analysis of 100 teachers and 1,000 queries: a tenth of what it once took at most."""
    chance = np.random.default_rng(0)
    votes = chance.integers(0, 10, (100, 1000))
    votes[:90] = votes[0]  # teachers agree mostly
    labels = votes[0]
    for name, limit, function, given in (
        ("numpy", 0.21, sy.dp.pate.perform_analysis, (votes, labels)),
        ("torch", 2.4, sy.dp.pate.perform_analysis_torch, (torch.tensor(votes), torch.tensor(labels))),
    ):
        taken = [seconds(lambda f=function, g=given: f(*g, noise_eps=0.1, delta=1e-5), 1) for _ in range(21)]  # type: ignore[misc]
        yield Row(f"PATE, 100 teachers x 1,000 queries, {name}", statistics.median(taken), limit, "s", "median of 21")
