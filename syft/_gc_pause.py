"""Pause Python's garbage collector while the library is imported.

Imports make no garbage, but their many new objects trigger full collections, and with torch loaded each takes a tenth
of a second.
"""

from __future__ import annotations

import gc

_was_enabled = gc.isenabled()
gc.disable()


def end() -> None:
    """Enable the collector, if it was enabled before."""
    if _was_enabled:
        gc.enable()
