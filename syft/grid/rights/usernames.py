"""Canonical names of users, for access checks."""

from __future__ import annotations

import functools

from syft.exceptions import AccountError
from syft.grid.identity.names import user_name


@functools.lru_cache(maxsize=4096)
def canonical(name: object) -> object:
    """Return the canonical form of a user's name; an invalid name is returned unchanged."""
    try:
        return user_name(name)
    except AccountError:
        return name
