"""Names of users, where rights go by them."""

from __future__ import annotations

import functools

from syft.exceptions import AccountError
from syft.grid.identity.names import user_name


@functools.lru_cache(maxsize=4096)
def canonical(name: object) -> object:
    """Return the one form of a user's name; what is no name stays what it is."""
    try:
        return user_name(name)
    except AccountError:
        return name
