"""The number of random examples: few by default, more with RESYFT_DEEP=1."""

from __future__ import annotations

import os

IS_DEEP = os.environ.get("RESYFT_DEEP", "") not in ("", "0")


def deep(quick, thorough):
    """Return how often something is done: in every run of the tests, or in a deep one."""
    return thorough if IS_DEEP else quick
