"""The published data of a node, and its privacy budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from syft.core.id_provider import parse_id, short_id
from syft.exceptions import SyftError
from syft.grid.owner.api import NodeApi, quoted
from syft.grid.owner.rows import BudgetCharge, BudgetLimit, PublishedObject
from syft.grid.owner.tables import Columns, Listing, RowTable
from syft.grid.owner.texts import moment, shape_of

_NAMED = "dataset:"

_DATA: Columns = {
    "tags": lambda row: sorted(row.tags),
    "kind": lambda row: row.kind,
    "shape": lambda row: shape_of(row.shape),
    "dtype": lambda row: row.dtype,
    "description": lambda row: (row.description or "")[:60],
    "id": lambda row: short_id(parse_id(row.id)),
}


class PublishedData(Listing[PublishedObject]):
    """The published objects of a node. Methods take the name of a data set, a tag, an id, or a pointer."""

    def list(self, tag: str | None = None, limit: int = 100, skip: int = 0) -> RowTable[PublishedObject]:
        """Return published objects: shapes and tags, never values.

        Args:
            tag: only objects with this tag.
            limit: the maximum number, up to 1000.
            skip: leave out this many at the start.
        """
        rows = [PublishedObject.of(row) for row in self._api.ask("GET", "objects", tag=tag, limit=limit, skip=skip)]
        return RowTable("published data", _DATA, rows, "Nothing is published here.")

    _rows = list

    def id_of(self, data: object) -> str:
        """Return the id of a data set.

        Args:
            data: its name or tag (`"ages"` or `"#ages"`), its id, a pointer to it, or a row of `list`.

        Raises:
            SyftError: several objects have the tag.
        """
        if isinstance(data, PublishedObject):
            return data.id
        at_location = getattr(data, "id_at_location", None)
        if at_location is not None:
            return str(at_location)
        text = str(data)
        if text.startswith(_NAMED):
            return text
        tag = text if text.startswith("#") else f"#{text}"
        found = [row.id for row in self.list(tag=tag, limit=1000)]
        if len(found) > 1:
            raise SyftError(f"{len(found)} objects have the tag {tag!r}: {', '.join(found[:5])}. Use the id of one.")
        return found[0] if found else text

    def publish(self, name: str, tensor: torch.Tensor, tags: Iterable[str] = (), description: str | None = None) -> str:
        """Publish a tensor as private data, and return its id.

        Args:
            name: its name; users find it by the tag `#name`.
            tensor: a plain tensor.
            tags: more tags.
            description: a public text.
        """
        if not isinstance(tensor, torch.Tensor):
            raise SyftError(f"publish({name!r}, ...) needs a tensor, got {type(tensor).__name__}.")
        words = {f"#{word.removeprefix('#')}" for word in (name, *tags)}
        client = self._api.client()
        try:
            return str(send_published(client, tensor.detach().clone().contiguous(), words, description))
        finally:
            client.close()

    def share(self, data: object, users: Sequence[str] | str = (), public: bool = False) -> None:
        """Set the users who may read a data set and all results from it alone; nobody, if none is named.

        Args:
            data: the data set.
            users: the users.
            public: every user may read it.
        """
        readers = [users] if isinstance(users, str) else [*users]
        self._api.ask("PUT", f"objects/{quoted(self.id_of(data))}/users", {"users": readers, "public": public})

    def delete(self, data: object) -> None:
        """Delete an object, from disk too."""
        self._api.ask("DELETE", f"objects/{quoted(self.id_of(data))}")


def send_published(client: Any, tensor: Any, tags: Iterable[str], description: str | None) -> Any:
    """Send a tensor to a node as published data, and return its id."""
    tensor = tensor.tag(*tags)
    if description is not None:
        tensor = tensor.describe(description)
    pointer = tensor.send(client, garbage_collect_data=False)
    client.synchronize()  # raises if it was not stored
    return pointer.id_at_location


def _number(value: float | None) -> str:
    return "no bound" if value is None or math.isinf(value) else f"{value:.4g}"


_WHOSE = {None: "all together", "*": "each"}
_CHARGES: Columns = {
    "entry": lambda row: row.number,
    "time": lambda row: moment(row.at),
    "user": lambda row: row.user,
    "data": lambda row: [short_id(parse_id(each)) for each in row.data],
    "what": lambda row: row.what,
}


class PrivacyBudgets(Listing[BudgetLimit]):
    """The limits on what answers with noise may reveal, and the amounts spent."""

    def __init__(self, api: NodeApi) -> None:
        super().__init__(api)
        self._data = PublishedData(api)

    def show(self, user: str | None = None) -> RowTable[BudgetLimit]:
        """Return all limits, or those of one user."""
        names = {row.id: " ".join(sorted(row.tags)) for row in self._data.list(limit=1000)}
        columns: Columns = {
            "data": lambda row: "all data" if row.data is None else names.get(row.data) or short_id(parse_id(row.data)),
            "user": lambda row: _WHOSE.get(row.user, row.user),
            "epsilon": lambda row: f"{row.epsilon:g}",
            "delta": lambda row: f"{row.delta:g}",
            "spent": lambda row: _number(row.spent),
            "left": lambda row: _number(row.left),
            "releases": lambda row: row.releases,
        }
        rows = [BudgetLimit.of(row) for row in self._api.ask("GET", "budget", user=user)]
        return RowTable("privacy budgets", columns, rows, "There are no limits, so all data is closed: budget.set(...)")

    _rows = show

    def set(self, data: object, epsilon: float, delta: float = 0.0, user: str | None = None) -> RowTable[BudgetLimit]:
        """Set a limit; only data that a limit names answers queries with noise.

        Args:
            data: the data set; None: all data together.
            epsilon: the maximum privacy loss; 0 stops all answers.
            delta: the probability of a larger loss; 0 allows no Gaussian noise.
            user: a user; "*": each user separately; None: all users together.
        """
        named = None if data is None else self._data.id_of(data)
        self._api.ask("PUT", "budget", {"data": named, "user": user, "epsilon": epsilon, "delta": delta})
        return self.show()

    def remove(self, data: object = None, user: str | None = None) -> None:
        """Remove a limit; the amounts spent stay spent."""
        self._api.ask("DELETE", "budget", data=None if data is None else self._data.id_of(data), user=user)

    def entries(self, user: str | None = None, after: int = 0, limit: int = 100) -> RowTable[BudgetCharge]:
        """Return the charges, the oldest first.

        Args:
            user: only charges of this user.
            after: leave out entries up to this number.
            limit: the maximum number, up to 1000.
        """
        found = self._api.ask("GET", "budget/entries", user=user, after=after, limit=limit)
        return RowTable("charges", _CHARGES, [BudgetCharge.of(row) for row in found], "Nothing was charged.")
