"""The outcome of a review as lines of text, for the owner."""

from __future__ import annotations

from typing import Any

from syft.grid.owner.texts import shape_of


def review_lines(review: dict[str, Any] | None) -> list[str]:
    """Return the warnings, the notes and the preview of a review; nothing before it."""
    if review is None:
        return []
    warnings = [f"WARNING: {warned['text']}" for warned in review["warnings"]]
    previews = [f"Preview: {_preview(part)}" for part in review["preview"]]
    return [*previews, *(warnings or ["No warnings."]), *(f"    {note}" for note in review["notes"])]


def _preview(part: dict[str, Any]) -> str:
    """Return one line about an object of a sealed copy: its values, or their statistics."""
    name = part["kind"] if part.get("shape") is None else f"{part['kind']} {shape_of(part['shape'])}"
    if "values" in part:
        return f"{name}: {', '.join(map(_number, part['values']))}"
    if "mean" in part:
        return f"{name}: " + ", ".join(f"{key} {part[key]:.6g}" for key in ("min", "mean", "max", "std"))
    return f"{name}: no numbers"


def _number(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)  # all digits: a value may be hidden in the last ones
