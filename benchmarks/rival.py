"""CrypTen beside us: a subprocess that runs a row when asked, so that both sides are measured in turn."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mpc_rows import Work

VARIABLE = "RESYFT_CRYPTEN_PYTHON"  # the interpreter where CrypTen is installed, if it is not this one
PATIENCE = 90.0  # seconds that a run may take, the start of the processes included


class Rival:
    """CrypTen's two processes, and one that leads them.

    Args:
        python: the interpreter.
    """

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.crypten_side"],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # so that all three can be ended together
        )

    def run(self, work: Work) -> float:
        """Run a row once; return the seconds."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(work.name + "\n")
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise TimeoutError(f"CrypTen took over {PATIENCE:g} s for {work.name}")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"CrypTen's side ended while it ran {work.name}; its words are above")
        return float(json.loads(line)["seconds"])

    def close(self) -> None:
        """End all three: the leader ends the parties when its input does, unless it waits for one of them."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def crypten() -> Iterator[Rival | None]:
    """Yield CrypTen's side, or None where it is not installed."""
    python = os.environ.get(VARIABLE) or (sys.executable if importlib.util.find_spec("crypten") else None)
    if python is None:
        yield None
        return
    rival = Rival(python)
    try:
        yield rival
    finally:
        rival.close()
