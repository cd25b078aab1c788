"""Lists that show themselves as tables: rows of a node, and results of searches. They are lists otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from syft.core.id_provider import short_id
from syft.core.labels import description_of, one_line, tags_of
from syft.core.references import TensorMeta
from syft.display.facts import number_text, time_text
from syft.display.tables import grid_html, grid_text

# Maximum number of rows that are shown, and the length of a cell.
SHOWN_ROWS = 30
_MAX_CELL = 60
# Columns that are seconds since 1970.
_TIMES = frozenset({"at", "decided_at", "expires_at", "revoked_at"})
_POINTER_COLUMNS = ("id", "kind", "at", "shape", "dtype", "tags", "description")


class Rows(list[dict[str, Any]]):
    """Rows of a node, such as budgets or requests: a list of dicts that shows itself as a table.

    Args:
        rows: the rows.
        title: their name, in the plural.
        columns: the columns to show first; the others follow. Columns without a value are left out.
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), title: str = "rows", columns: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.title = title
        self.columns = tuple(columns)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        every = dict.fromkeys((*self.columns, *(name for row in self for name in row)))
        names = [name for name in every if any(row.get(name) not in (None, "", (), []) for row in self)]
        return names, [[_cell(name, row.get(name)) for name in names] for row in self[:SHOWN_ROWS]]

    def _head(self) -> str:
        more = f", the first {SHOWN_ROWS}" if len(self) > SHOWN_ROWS else ""
        return f"{self.title} ({len(self)}{more})" if self else f"no {self.title}"

    def __repr__(self) -> str:
        return f"{self._head()}\n{grid_text(*self._table(), left=99)}" if self else f"<{self._head()}>"

    def _repr_html_(self) -> str:
        return grid_html(self._head(), *self._table())

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (list(self), self.title, self.columns)


class Found(list[Any]):
    """The objects that a search found: a list of pointers that shows itself as a table.

    Args:
        found: the pointers.
        words: the words of the search.
        hint: a sentence about tags that are similar, for a search without a result.
    """

    def __init__(self, found: Iterable[Any] = (), words: Iterable[object] = (), hint: str = "") -> None:
        super().__init__(found)
        self.words = tuple(words)
        self.hint = hint.strip()

    def _missed(self) -> str:
        return f"no object matches {', '.join(repr(word) for word in self.words)}. {self.hint}".strip()

    def __repr__(self) -> str:
        return f"[]  # {one_line(self._missed())}" if not self and self.hint else list.__repr__(self)

    def _repr_html_(self) -> str:
        title = f"{len(self)} found" if self else self._missed()
        return grid_html(title, _POINTER_COLUMNS if self else ("",), [_pointer_row(one) for one in self[:SHOWN_ROWS]])

    def __reduce__(self) -> tuple[Any, ...]:
        return Found, (list(self), self.words, self.hint)


class FoundByWorker(dict[Any, Any]):
    """The objects that a search of several workers found: a dict of lists that shows itself as a table.

    Args:
        found: the pointers, by the id of their worker.
        words: the words of the search.
        hint: a sentence about tags that are similar, for a search without a result.
    """

    def __init__(self, found: dict[Any, Any], words: Iterable[object] = (), hint: str = "") -> None:
        super().__init__(found)
        self._empty = Found((), words, hint)

    @property
    def hint(self) -> str:
        """A sentence about tags that are similar, for a search without a result."""
        return self._empty.hint

    def __repr__(self) -> str:
        return dict.__repr__(self) if self or not self.hint else f"{{}}  # {one_line(self._empty._missed())}"

    def _repr_html_(self) -> str:
        return Found([one for found in self.values() for one in found], self._empty.words, self.hint)._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        return FoundByWorker, (dict(self), self._empty.words, self.hint)


def _pointer_row(found: Any) -> list[str]:
    """Return a row about an object that was found, from what its pointer knows."""
    link = getattr(found, "__dict__", {}).get("child", found)
    meta = getattr(link, "_meta", None)
    known = isinstance(meta, TensorMeta)
    obj_id = getattr(link, "id_at_location", None)
    return [
        "" if obj_id is None else short_id(obj_id),
        type(link).__name__,
        str(getattr(getattr(link, "location", None), "id", "here")),
        str(tuple(meta.shape)) if isinstance(meta, TensorMeta) else "",
        str(meta.dtype) if isinstance(meta, TensorMeta) and known else "",
        one_line(" ".join(sorted(getattr(link, "tags", None) or tags_of(found)))),
        one_line((getattr(link, "description", None) or description_of(found) or "").split("\n")[0])[:_MAX_CELL],
    ]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _TIMES and isinstance(value, int | float):
        return time_text(value) or ""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = one_line(number_text(value))
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 3]}..."
