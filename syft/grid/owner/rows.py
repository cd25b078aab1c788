"""Rows of the HTTP API of a node, as objects with plain fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from syft.core.labels import printable


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row of the API."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Make a row of the fields that this version knows."""
        return cls(**{field.name: row[field.name] for field in dataclasses.fields(cls) if field.name in row})


@dataclasses.dataclass(frozen=True, slots=True)
class GrantedRequest(Row):
    """An approved request: the user may fetch the sealed copy until it expires or is revoked."""

    id: str
    user: str
    scope: str
    object: str
    granted_at: float
    expires: float | None
    revoked_at: float | None
    request: str


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedObject(Row):
    """A published object: metadata, never values."""

    id: str
    kind: str
    shape: list[int] | None
    dtype: str | None
    tags: list[str]
    description: str | None
    owner: str | None
    published: bool
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class BudgetLimit(Row):
    """A limit of a privacy budget, and the amount spent of it."""

    data: str | None
    owner: str | None
    user: str | None
    epsilon: float
    delta: float
    spent: float | None
    left: float
    releases: int
    neighbours: str


@dataclasses.dataclass(frozen=True, slots=True)
class BudgetCharge(Row):
    """The charge of one release."""

    number: int
    at: float
    user: str
    data: list[str]
    what: str
    event: dict[str, str | float | int]


@dataclasses.dataclass(frozen=True, slots=True)
class AuditEntry(Row):
    """A row of the audit log."""

    number: int
    time: float
    user: str | None
    action: str
    object: str | None
    how: str
    allowed: bool | None
    reason: str
    request: str
    hash: str


@dataclasses.dataclass(frozen=True, slots=True)
class NodeUser(Row):
    """A user with a password."""

    user: str
    role: str
    added: float


@dataclasses.dataclass(frozen=True, slots=True)
class PermittedProgram(Row):
    """A plan that users may run on private data."""

    id: str
    hash: str
    name: str
    data: list[str]
    users: list[str] | None
    runs: int | None
    taken: int
    max_outputs: int
    allowed_at: float
    expires: float | None
    revoked_at: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramListing(Row):
    """The code of a plan, to be read before it is allowed."""

    hash: str
    code: str
    inputs: int
    operations: int
    alters: bool
    draws: bool

    def __repr__(self) -> str:
        return f"{printable(self.code)}\nhash {self.hash}"
