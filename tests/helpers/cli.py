"""Run the command line in tests: in this process, or in a child process for commands that serve."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys

from syft.cli import main as cli
from tests.helpers import warm_processes as warm

ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def told(text):
    """Return a text without its ids, tokens and times: digits that are random may be those of a value, by chance."""
    return re.sub(r"[\w-]{20,}|\d{10,}(\.\d+)?", "", text)


class Ran:
    """How a command ended, and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def run(*words, given=""):
    """Run a command in this process, as `python -m syft` would."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["syft", *map(str, words)], io.StringIO(given)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.run()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdin = before
    return Ran(code, out.getvalue(), err.getvalue())


class Served:
    """A command that serves, as an operator starts it: `python -m syft node start`, `python -m syft gateway start`.

    A cold one is an interpreter of its own from the start, as an operator's is.
    """

    def __init__(self, folder, *words, cold=False):
        self.log = folder / f"{words[0]}.log"
        with self.log.open("w") as err:
            self.process = (subprocess.Popen if cold else warm.command)(
                [sys.executable, "-m", "syft", *map(str, words), "--json"],
                stdout=subprocess.PIPE,
                stderr=err,
                env=ENV,
                text=True,
            )
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.told = json.loads(line)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.stdout.close()
