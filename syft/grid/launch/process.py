"""LaunchedProcess: the child process of a launched node, as the launching program sees it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from syft.exceptions import NodeStartError
from syft.grid.launch.progress import StartProgress
from syft.workers.process.worker import START

MAIN = "syft.grid.launch.child"
# Seconds that a node may take to start, on a busy machine, and to stop.
_START_SECONDS = 300.0
_STOP_SECONDS = 20.0
_POLL = 0.02


class LaunchedProcess:
    """One process; it starts when this object is made.

    Args:
        name: the id of the node, for errors.
        folder: its folder: the log, the ready file, and the copies of data in `data`.
        words: the words of the command.
        threads: the number of torch threads.
    """

    def __init__(self, name: str, folder: Path, words: Sequence[str], threads: int) -> None:
        self.name = name
        self.folder = folder
        self.maker = os.getpid()
        # The properties of the running node, from its ready file.
        self.facts: dict[str, Any] = {}
        self._ready = folder / "ready.json"
        self._log = folder / "node.log"
        self._last_log = ""
        self._has_own_store = "--store" not in words
        home = str(Path(__file__).resolve().parents[3])
        command = [sys.executable, "-P", "-c", START, home, MAIN, str(self.maker), str(folder / "data"), *words]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SYFT_", "RESYFT_HOME"))}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603  (this very interpreter, and nothing from outside)
                [*command, "--ready-file", str(self._ready)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**environment, "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # Ctrl-C in a terminal or notebook is for the launching program alone
            )

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, and was started by this process rather than by one that it was forked from."""
        return os.getpid() == self.maker and self.process.poll() is None

    def is_ready(self) -> bool:
        """Return whether the node serves.

        Raises:
            NodeStartError: the process ended; the error has the last lines of its log.
        """
        if not self.facts and self._ready.exists():
            self.facts = json.loads(self._ready.read_text())
        if not self.facts and self.process.poll() is not None:
            raise NodeStartError(self.name, self.reason())
        return bool(self.facts)

    def reason(self) -> str:
        """Return the reason why the process ended or does not serve: the last line of its log."""
        lines = [line.strip() for line in self.log().splitlines() if line.strip()]
        code = self.process.poll()
        if not lines or (code is not None and code < 0):
            return f"its process ended with exit code {code}" if code is not None else "it has logged nothing"
        return lines[-1].removeprefix("Error: ")

    def log(self) -> str:
        """Return the log of the node."""
        with contextlib.suppress(FileNotFoundError):
            self._last_log = self._log.read_text(errors="replace")
        return self._last_log

    def hang_up(self) -> None:
        """Close the pipe, which makes the node stop; does not wait."""
        if os.getpid() == self.maker and self.process.stdin is not None:
            self.process.stdin.close()

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the node and wait for its end; kill it if it takes too long. Idempotent."""
        if os.getpid() != self.maker:
            return
        self.hang_up()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if self._has_own_store:
                shutil.rmtree(self.facts.get("store", self.folder), ignore_errors=True)
        self.log()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until_ready(started: Sequence[LaunchedProcess]) -> None:
    """Wait until all nodes serve; stop all of them if one fails, or if the wait is interrupted."""
    end, pause = time.monotonic() + _START_SECONDS, threading.Event()
    try:
        with StartProgress([one.name for one in started]) as progress:
            while waiting := [one for one in started if not one.is_ready()]:
                progress.show([one.name for one in waiting])
                if time.monotonic() > end:
                    late = f"it was not ready after {_START_SECONDS:g} s\n{waiting[0].reason()}"
                    raise NodeStartError(waiting[0].name, late)
                pause.wait(_POLL)
    except BaseException:
        stop_all(started)
        raise


def stop_all(started: Sequence[LaunchedProcess]) -> None:
    """Stop several nodes at the same time."""
    for one in started:
        one.hang_up()
    end = time.monotonic() + _STOP_SECONDS
    for one in started:
        one.stop(max(0.1, end - time.monotonic()))


def leave_all(started: Sequence[LaunchedProcess], seconds: float) -> None:
    """Let several nodes stop, and wait for a limited time. They stop by themselves, and are not killed here."""
    for one in started:
        one.hang_up()
    end = time.monotonic() + seconds
    for one in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, end - time.monotonic()))
