"""Texts for owners: times, durations and shapes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(duration: str | float) -> float:
    """Return the seconds of a text such as 90s, 30m, 12h, 7d or 2w; a number is returned unchanged.

    Raises:
        ValueError: it is no duration.

    Example:
        >>> seconds_of("7d"), seconds_of("90s")
        (604800.0, 90.0)
    """
    if isinstance(duration, int | float) and not isinstance(duration, bool) and duration > 0:
        return float(duration)
    found = re.fullmatch(r"(\d{1,9})([smhdw])", duration.strip()) if isinstance(duration, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError("write a duration as a number and s, m, h, d or w, such as 12h or 30d")
    return float(int(found[1]) * _SECONDS[found[2]])


def moment(seconds: float | None) -> str:
    """Return a time in readable form; "-" for a grant without an end."""
    if seconds is None:
        return "-"
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shape_of(shape: Sequence[int] | None) -> str:
    """Return a shape in short form: 569x30."""
    if shape is None:
        return "-"
    return "x".join(str(size) for size in shape) or "one number"
