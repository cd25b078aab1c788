"""Shown: objects that show themselves as a table of facts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from syft.core.labels import one_line
from syft.display.tables import table_html

FactList = Iterable[tuple[str, object]]
# Maximum length of a value in a line of text.
_MAX_TEXT = 120


def facts_text(title: str, facts: FactList) -> str:
    """Render a title and facts as one line; facts that are None or empty are left out."""
    shown = [f"{name}: {_short(value)}" for name, value in facts if value is not None and value != ""]
    return f"<{' '.join([title, ', '.join(shown)]).rstrip()}>"


def _short(value: object) -> str:
    text = one_line(number_text(value))
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def number_text(value: object) -> str:
    """Return a value as text; floats have four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def time_text(seconds: object) -> str | None:
    """Return seconds since 1970 as a date and a time in UTC; None if they are no number."""
    if not isinstance(seconds, int | float):
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def place_of(tensor: Any) -> str:
    """Return where a tensor is, without a message: "here", "at bob", or "shared by alice, bob"."""
    own = getattr(tensor, "__dict__", {})
    link = own.get("child")
    while link is not None and not hasattr(link, "lease"):
        child = getattr(link, "__dict__", {}).get("child")
        if type(child) is dict:
            names = ", ".join(map(str, child))
            kind = type(link).__name__
            shared = {"AdditiveSharingTensor": "shared by", "MultiPointerTensor": "at"}.get(kind)
            return "here" if shared is None else f"{shared} {names}"
        link = child
    return "here" if link is None else f"at {link.location.id}"


def rows_of(tensor: Any) -> int | None:
    """Return the number of rows of a tensor, or of any data set here, without a message; None if it is not known."""
    shape = getattr(tensor, "shape", None)
    if shape is None:
        return len(tensor) if hasattr(tensor, "__len__") else None
    return int(shape[0]) if len(shape) else None


class Shown:
    """An object that shows itself as a table of facts.

    A subclass defines `_facts()`, pairs of a name and a value; facts that are None or empty are left out. It may define
    `__repr__` and `_title()` too. Facts never hold values of tensors.
    """

    __slots__ = ()

    def _title(self) -> str:
        return type(self).__name__

    def _facts(self) -> FactList:
        raise NotImplementedError(f"{type(self).__name__} must define _facts().")

    def __repr__(self) -> str:
        return facts_text(self._title(), self._facts())

    def _repr_html_(self) -> str:
        return table_html(self._title(), self._facts())
