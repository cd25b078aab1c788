"""Find the user's line: the nearest frame that is neither in this library nor in torch nor in Python's own."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType

import torch

_OURS = str(Path(__file__).resolve().parent.parent)
_STDLIB = str(Path(sysconfig.get_paths()["stdlib"]).resolve())
_SKIPPED = (_OURS, str(Path(torch.__file__).resolve().parent), "<frozen", "<string>")


def user_line() -> tuple[str, int]:
    """Return file name and line number of the user's call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not _is_users(frame):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not name.startswith(_SKIPPED) and (not name.startswith(_STDLIB) or "site-packages" in name)


def describe_line(line: tuple[str, int]) -> str:
    """Render a line for an error text, with its source where that can be read."""
    source = linecache.getline(*line).strip()
    return f'File "{line[0]}", line {line[1]}' + (f": {source}" if source else "")
