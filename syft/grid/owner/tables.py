"""RowTable: rows that an owner asked a node for, shown as a table; and Listing, which asks again each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from syft.core.labels import one_line
from syft.display import grid_html, grid_text
from syft.grid.owner.api import NodeApi

R = TypeVar("R")
# Name of a column -> its text for a row.
Columns = Mapping[str, Callable[[Any], object]]


class RowTable(Sequence[R]):
    """Rows, in the order of the node.

    Args:
        title: a title, for HTML.
        columns: the columns.
        rows: the rows.
        nothing: the text that is shown if there are none.
    """

    def __init__(self, title: str, columns: Columns, rows: Sequence[R], nothing: str) -> None:
        self.title = title
        self.columns = columns
        self.rows = tuple(rows)
        self.nothing = nothing

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...
    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self) -> list[list[str]]:
        """Return the texts of all rows."""
        return [[cell_text(cell(row)) for cell in self.columns.values()] for row in self.rows]

    def __repr__(self) -> str:
        return grid_text(self.columns, self.cells(), left=len(self.columns)) if self.rows else self.nothing

    def _repr_html_(self) -> str:
        return grid_html(self.title, self.columns, self.cells()) if self.rows else f"<p>{self.nothing}</p>"


class Listing(Generic[R]):
    """Things of one kind at a node; each use asks the node.

    Args:
        api: the API of the node.
    """

    def __init__(self, api: NodeApi) -> None:
        self._api = api

    def _rows(self) -> RowTable[R]:
        """Return the newest rows."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[R]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def __getitem__(self, index: int) -> R:
        return self._rows()[index]

    def __repr__(self) -> str:
        return repr(self._rows())

    def _repr_html_(self) -> str:
        return self._rows()._repr_html_()


def cell_text(value: object) -> str:
    """Return the text of a cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(one_line(each) for each in value) or "-"
    return one_line(value)
