"""Ctrl-C while the command line is being loaded: one line and exit code 130, not a traceback through torch."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from typing import NoReturn

INTERRUPTED = 130
_LINE = b"Interrupted.\n"


def is_command() -> bool:
    """Say whether this process is `python -m syft` or `resyft`, and not a program that imports the library."""
    words = list(itertools.pairwise(sys.orig_argv))
    return ("-m", "syft") in words or ("-m", "resyft") in words or is_script()


def is_script() -> bool:
    """Say whether this process was started by the script `resyft`, which pip installs."""
    return os.path.basename(next(iter(sys.argv), "")) == "resyft"  # noqa: PTH119  (pathlib is not loaded yet)


def _end(*_: object) -> NoReturn:
    os.write(2, _LINE)
    os._exit(INTERRUPTED)


# At once, and not by an exception, which could be lost in whatever is being imported.
if is_command() and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _end)
