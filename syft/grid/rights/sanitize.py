"""Texts that users write and owners read: bounded, and without anything that would do something to a terminal."""

from __future__ import annotations

from syft.core.labels import printable

MAX_TEXT = 500


def bounded(text: object, most: int = MAX_TEXT) -> str:
    """Return a text on one line, of bounded length, that can be shown and written anywhere."""
    cut = str(text)[: 4 * most].encode("utf-8", "replace").decode("utf-8")
    clean = printable(" ".join(cut.split()))
    return clean if len(clean) <= most else clean[: most - 3] + "..."
