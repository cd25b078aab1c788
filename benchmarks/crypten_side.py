"""CrypTen's side of the suites `mpc` and `learn`: two processes on loopback, one thread each, driven line by line.

`python -m benchmarks.crypten_side` reads the name of a row, runs it once and writes {"seconds": ...}, until its input
ends. `python -m benchmarks.crypten_side all` runs every row and writes one line {row: median seconds}. Either needs an
interpreter with torch and CrypTen, and nothing of syft.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import torch

from benchmarks import learn_rows, mpc_rows
from benchmarks.learn_rows import Lesson
from benchmarks.mpc_rows import Work

LONG = 10.0  # seconds after which one run of a row has to do
PARTIES = 2

FUNCTIONS = {  # the function of each row, in CrypTen's words
    "mul": lambda x, y: x * y,
    "matmul": lambda x, y: x.matmul(y),
    "gt": lambda x, y: x > y,
    "relu": lambda x: x.relu(),
    "argmax": lambda x: x.argmax(dim=1, one_hot=False),
    "maxpool": lambda x: x.max_pool2d(2),
    "conv": lambda x, w: x.conv2d(w),
    **{name: operator.methodcaller(name) for name in ("exp", "log", "sqrt", "sigmoid", "tanh", "reciprocal")},
    "softmax": lambda x: x.softmax(1),
}
ROWS: dict[str, Work] = {work.name: work for work in (*mpc_rows.WORK, *learn_rows.WORK)}


def prepare(crypten: Any, work: Work) -> Callable[[], Any]:
    """Encrypt what a row needs; return what runs it."""
    if not isinstance(work, Lesson):
        secrets = [crypten.cryptensor(tensor) for tensor in mpc_rows.inputs(work)]
        return lambda: FUNCTIONS[work.name.split()[0]](*secrets)
    secrets = [crypten.cryptensor(tensor) for tensor in learn_rows.inputs(work)]
    plain = learn_rows.model_of(work)
    if plain is None:
        return lambda: FUNCTIONS[work.name.split()[0]](*secrets)
    model = crypten.nn.Sequential(*(_layer(crypten.nn, layer) for layer in plain)).encrypt(src=0)
    model.train(work.trains)
    return functools.partial(_step, crypten, model, *secrets) if work.trains else lambda: model(*secrets)


def _layer(nn: Any, layer: Any) -> Any:
    """Return CrypTen's layer of a kind; its weights are its own."""
    kind = type(layer).__name__
    if kind == "Linear":
        return nn.Linear(layer.in_features, layer.out_features)
    if kind == "Conv2d":
        return nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size)
    return nn.MaxPool2d(layer.kernel_size) if kind == "MaxPool2d" else getattr(nn, kind)()


def _step(crypten: Any, model: Any, x: Any, y: Any) -> None:
    """Take one step of SGD on the cross entropy."""
    loss = crypten.nn.CrossEntropyLoss()(model(x), y)
    model.zero_grad()
    loss.backward()
    model.update_parameters(learn_rows.RATE)


def load() -> Any:
    """Import CrypTen, which looks for a module that torch no longer has."""
    stand_in: Any = types.ModuleType("torch.onnx._internal.registration")
    stand_in.registry = None
    sys.modules.setdefault(stand_in.__name__, stand_in)
    import crypten

    return crypten


def answers_only() -> TextIO:
    """Return the standard output, kept for answers: whatever a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def party() -> None:
    """Be one of the two: run what the lines name, and answer the seconds."""
    answers = answers_only()
    crypten = load()
    crypten.init()
    torch.set_num_threads(1)
    prepared: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared = {name: prepare(crypten, ROWS[name])}
        crypten.communicator.get().barrier()
        start = time.perf_counter()
        prepared[name]()
        answers.write(json.dumps(time.perf_counter() - start) + "\n")


class Pair:
    """The two processes.

    Args:
        place: a directory where they find each other.
    """

    def __init__(self, place: str) -> None:
        common = {
            "WORLD_SIZE": str(PARTIES),
            "RENDEZVOUS": (Path(place) / "rendezvous").as_uri(),
            "DISTRIBUTED_BACKEND": "gloo",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.crypten_side", "party"],
                env={**os.environ, **common, "RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for rank in range(PARTIES)
        ]

    def run(self, name: str) -> float:
        """Run a row once; return the seconds of the slower party."""
        for process in self.processes:
            process.stdin.write(name + "\n")  # type: ignore[union-attr]
        lines = [process.stdout.readline() for process in self.processes]  # type: ignore[union-attr]
        if not all(lines):
            raise RuntimeError(f"a party ended while it ran {name!r}")
        return float(max(map(json.loads, lines)))

    def close(self) -> None:
        """End both."""
        for process in self.processes:
            process.kill()
            process.communicate()


def everything(pair: Pair) -> dict[str, float]:
    """Return the median of each row; the first run warms up, or is the only one when it takes long."""
    medians = {}
    for work in ROWS.values():
        first = pair.run(work.name)
        times = [first] if first > LONG else [pair.run(work.name) for _ in range(work.runs)]
        medians[work.name] = statistics.median(times)
    return medians


def main(arguments: list[str]) -> None:
    """Be a party, or lead two of them."""
    if arguments == ["party"]:
        return party()
    with tempfile.TemporaryDirectory() as place:
        pair = Pair(place)
        try:
            if arguments == ["all"]:
                sys.stdout.write(json.dumps(everything(pair)) + "\n")
                return
            for line in sys.stdin:
                sys.stdout.write(json.dumps({"seconds": pair.run(line.strip())}) + "\n")
                sys.stdout.flush()
        finally:
            pair.close()


if __name__ == "__main__":
    main(sys.argv[1:])
