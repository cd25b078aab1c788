"""Find the user's line: the nearest frame that is neither in this library nor in torch nor in Python's own."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import warnings
from pathlib import Path
from types import FrameType

import torch


def _both(path: Path) -> tuple[str, str]:
    """Return a path as Python has it, and with symbolic links resolved."""
    return str(path), str(path.resolve())


_STDLIB = _both(Path(sysconfig.get_paths()["stdlib"]))
_SKIPPED = (*_both(Path(__file__).parent.parent), *_both(Path(torch.__file__).parent), "<frozen", "<string>")


def user_line() -> tuple[str, int]:
    """Return file name and line number of the user's call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if _is_users(name) or frame.f_back is None:
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


def warn_user(text: str) -> None:
    """Warn about the user's line, however deep inside the library this is called."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and not _is_users(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level + 1)


@functools.lru_cache(maxsize=1024)
def _is_users(name: str) -> bool:
    return not name.startswith(_SKIPPED) and (not name.startswith(_STDLIB) or "site-packages" in name)


def describe_line(line: tuple[str, int]) -> str:
    """Render a line for an error text, with its source where that can be read."""
    source = linecache.getline(*line).strip()
    return f'File "{line[0]}", line {line[1]}' + (f": {source}" if source else "")
