"""The job that reviews a requested result. Its output is for the data owner and never reaches the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import ObjectId
from syft.grid.isolation.programs.process import ProgramProcess, job
from syft.grid.isolation.programs.review.checks import Case, warnings_of
from syft.grid.isolation.programs.review.combinations import refine
from syft.grid.isolation.programs.review.influence import FAILURES, Computation, Influences
from syft.grid.isolation.programs.review.preview import preview_of
from syft.grid.isolation.records.record_reader import read_slice
from syft.grid.isolation.records.records import CallRecord
from syft.grid.isolation.records.replay import seal_all
from syft.serde import deserialize

Parts = tuple[tuple[str, tuple[ObjectId, ...], int], ...]


@job("review")
def review(
    process: ProgramProcess,
    body: bytearray,
    reason: str,
    least_rows: int,
    seconds: float,
    copy_size: int,
    slices: Parts,
) -> bytes:
    """Return the warnings and the preview of a sealed copy.

    Args:
        process: the process, with the data sets.
        body: the sealed copy, then the slices.
        reason: the user's reason.
        least_rows: a result must depend on at least this many rows.
        seconds: the time that repeated runs may take.
        copy_size: the size of the sealed copy.
        slices: the request, the ids and the size of each slice: of the copy, then of earlier releases. None of the
            copy, if its code does not describe it.
    """
    view = memoryview(body)
    sealed = deserialize(view[:copy_size], max_message_bytes=1 << 40)
    result = sealed if isinstance(sealed, tuple) else (sealed,)
    computations, at = [], copy_size
    for name, ids, size in slices:
        computations.append(Computation(name, read_slice(view[at : at + size]), ids))
        at += size
    same = _is_same(computations[0], process, bytes(view[:copy_size])) if computations else None
    influences = None
    if same:
        influences = Influences(computations, process.data, seconds)
        refine(influences, least_rows)
    calls = tuple(r.name for one in computations[:1] for r in one.records if type(r) is CallRecord)
    case = Case(result, process.data, influences, least_rows, reason, calls)
    packed: bytes = msgpack.packb(
        {
            "verified": same,
            "warnings": [(warned.kind, warned.text) for warned in warnings_of(case)],
            "notes": _notes(influences, computations),
            "preview": preview_of(result),
        }
    )
    return packed


def _is_same(computation: Computation, process: ProgramProcess, sealed: bytes) -> bool:
    """Return whether the computation gives the sealed copy again."""
    try:
        return bytes(seal_all(computation.run(process.data))) == sealed
    except FAILURES:
        return False


def _notes(influences: Influences | None, computations: Sequence[Computation]) -> list[str]:
    """Return what was checked, and what was not."""
    if influences is None:
        return ["The code can't be run again, so the rows that it depends on are unknown."]
    notes: list[Any] = [f"Rows were replaced in {len(influences.groups)} groups."]
    if influences.is_partial:
        notes.append("Time was over before the last groups were single rows.")
    if influences.failed:
        notes.append(f"{influences.failed} runs with replaced rows failed.")
    if len(influences.computations) < len(computations):
        notes.append("Some earlier releases can't be computed again, so they were not compared.")
    if sum(influences.counts) * 2 > len(influences.groups):
        notes.append("There are too many numbers to look for combinations of them.")
    return notes
