"""Sanitize texts from users before owners read them: bounded length, no control characters."""

from __future__ import annotations

from syft.core.labels import printable

MAX_TEXT = 500


def bounded(text: object, max_length: int = MAX_TEXT) -> str:
    """Return a text on one line, of bounded length, without control characters."""
    cut = str(text)[: 4 * max_length].encode("utf-8", "replace").decode("utf-8")
    clean = printable(" ".join(cut.split()))
    return clean if len(clean) <= max_length else clean[: max_length - 3] + "..."
