"""Tracebacks in IPython and Jupyter: the user's lines, notes, the text of the error, and where to read on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

_LIBRARY = str(Path(__file__).parent.parent)


def render(error: BaseException) -> list[str]:
    """Return the lines that IPython prints for an error of this library."""
    shell: Any = sys.modules["IPython"].get_ipython()
    notes = [*getattr(error.__cause__, "brief", ()), *getattr(error, "__notes__", ())]
    with _trimmed(error):
        lines = list(shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__, tb_offset=0))
    code = getattr(error, "code", None)
    has_section = isinstance(code, str) and code.startswith("SY") and code != "SY000"
    more = [f"More: sy.exceptions.explain({code!r})"] if has_section else []
    return [*lines[:-1], *notes, *lines[-1:], *more]


def hide_library(error: BaseException) -> None:
    """Have IPython print an error of another library as `render` does, without the frames of this one."""
    if "IPython" in sys.modules and not hasattr(error, "_render_traceback_"):
        with contextlib.suppress(AttributeError):  # a class with slots
            error._render_traceback_ = _render_last  # type: ignore[attr-defined]


def _render_last() -> list[str]:
    """Render the error that IPython is about to print; a reference to the error itself would be a cycle."""
    return [] if sys.last_value is None else render(sys.last_value)


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this library, of IPython, and of torch below the user's last line."""
    entries = []
    while traceback is not None:
        if not _is_in(traceback, "IPython") and not traceback.tb_frame.f_code.co_filename.startswith(_LIBRARY):
            entries.append(traceback)
        traceback = traceback.tb_next
    while entries and _is_in(entries[-1], "torch"):
        entries.pop()
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_in(traceback: TracebackType, package: str) -> bool:
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == package


@contextmanager
def _trimmed(error: BaseException) -> Iterator[None]:
    """Hide frames and notes of an error, and causes without a line of the user, while it is formatted."""
    notes, cause, context = getattr(error, "__notes__", None), error.__cause__, error.__context__
    suppressed, traceback = error.__suppress_context__, error.__traceback__
    earlier = cause if cause is not None else None if suppressed else context
    try:
        if notes:
            error.__notes__ = []
        error.__traceback__ = user_frames(traceback) or traceback
        if earlier is None or user_frames(earlier.__traceback__) is None:
            error.__cause__ = None  # which also suppresses the context
            yield
        else:
            with _trimmed(earlier):
                yield
    finally:
        error.__traceback__, error.__cause__, error.__context__ = traceback, cause, context
        error.__suppress_context__ = suppressed
        if notes:
            error.__notes__ = notes
