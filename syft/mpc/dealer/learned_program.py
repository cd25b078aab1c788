"""LearnedProgram: the deals that a dealer expects of a program, learned from its first run."""

from __future__ import annotations

import dataclasses
from typing import Any

# Limits the runs of one kind that are dealt ahead, and their bytes.
DEPTH = 8
Sequence = list[tuple[str, tuple[Any, ...]]]


@dataclasses.dataclass(slots=True)
class LearnedProgram:
    """The deals of a key.

    Attributes:
        sequence: the deals of one run.
        latest: the last instance that the party started.
        depth: the number of instances that are dealt ahead.
        sent: the instances that were sent to the party.
        fits: the number of deals that fit into a pack; None until it is known.
    """

    sequence: Sequence
    latest: int
    depth: int = 1
    sent: set[int] = dataclasses.field(default_factory=set)
    fits: int | None = None


def is_instance(value: object) -> bool:
    """Return whether a value is a valid number of a run, with numbers left for later runs."""
    return type(value) is int and 0 < value < 2**32 - DEPTH - 1
