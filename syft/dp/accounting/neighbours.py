"""Neighbouring data sets: what an epsilon protects. The two definitions are never mixed in one account."""

from __future__ import annotations

import enum


class Neighbours(enum.StrEnum):
    """Which two data sets differ by one unit. The value is the text that every report of an epsilon carries.

    Attributes:
        REPLACE_ROW: two data sets of the same size that differ in the values of one row. Queries, DP-SGD and the
            budgets of data sets use it: the number of rows is public.
        ADD_REMOVE_CLIENT: two sets of clients of which one has one client more. `UserPrivacy` uses it.
    """

    REPLACE_ROW = "replace-one row"
    ADD_REMOVE_CLIENT = "add/remove one client"


def neighbours_from(value: object) -> Neighbours:
    """Return the definition that a text names; raises ValueError for any other value."""
    for known in Neighbours:
        if value == known.value:
            return known
    names = " or ".join(repr(known.value) for known in Neighbours)
    raise ValueError(f"neighbours must be {names}, not {value!r:.50}")
