"""Neighbouring relations: the unit that an epsilon protects. The two relations are never mixed in one account."""

from __future__ import annotations

import enum


class Neighbours(enum.StrEnum):
    """The relation of two data sets that differ by one unit. Every report of an epsilon contains the value.

    Attributes:
        REPLACE_ROW: two data sets of the same size that differ in the values of one row. Queries, DP-SGD and the
            budgets of data sets use it: the number of rows is public.
        ADD_REMOVE_CLIENT: two sets of clients of which one has one client more. `UserPrivacy` uses it.
    """

    REPLACE_ROW = "replace-one row"
    ADD_REMOVE_CLIENT = "add/remove one client"

    @classmethod
    def _missing_(cls, value: object) -> Neighbours:
        raise ValueError(f"neighbours must be {' or '.join(repr(known.value) for known in cls)}, got {value!r:.50}")
