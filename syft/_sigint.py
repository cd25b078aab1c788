"""Ctrl-C while `python -m syft` is being loaded: one line and exit code 130, instead of a traceback through torch."""

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
    """Say whether this process was started as `python -m syft`, and not by a program that imports the library."""
    return ("-m", "syft") in itertools.pairwise(sys.orig_argv)


def _end(*_: object) -> NoReturn:
    os.write(2, _LINE)
    os._exit(INTERRUPTED)


# At once, and not by an exception, which could be lost in whatever is being imported.
if is_command() and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _end)
