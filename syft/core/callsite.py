"""Find the user's line: the nearest frame that is neither in this library nor in torch."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import torch

_OURS = str(Path(__file__).resolve().parent.parent)
_SKIPPED = (_OURS, str(Path(torch.__file__).resolve().parent), "<frozen", "<string>")


def user_line() -> tuple[str, int]:
    """Return file name and line number of the user's call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def describe_line(line: tuple[str, int]) -> str:
    """Render a line for an error text, with its source where that can be read."""
    source = linecache.getline(*line).strip()
    return f'File "{line[0]}", line {line[1]}' + (f": {source}" if source else "")
