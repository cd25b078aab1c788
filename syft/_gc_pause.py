"""Hold back Python's garbage collector while the library is imported.

Imports make no garbage, but their many new objects set off full collections, and with torch loaded each of them takes a
tenth of a second.
"""

from __future__ import annotations

import gc

_was_enabled = gc.isenabled()
gc.disable()


def end() -> None:
    """Let the collector go on, if it was going."""
    if _was_enabled:
        gc.enable()
