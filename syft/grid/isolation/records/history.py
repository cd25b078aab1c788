"""VaultHistory: the records of one vault, in order, and the slice of them that leads to an object."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from syft.core.id_provider import ObjectId
from syft.grid.isolation.records import effects
from syft.grid.isolation.records.records import Blob, CallRecord, DeleteRecord, LoadRecord, PutRecord, Record
from syft.grid.isolation.records.slicer import Slicer, made_by

MAX_RECORDS = 50_000
MAX_BLOB_BYTES = 64 * 2**20
# Bytes of records without their blobs. In memory a record takes about ten times as many.
MAX_HEADER_BYTES = 8 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """The records that lead to one object or several.

    Attributes:
        ids: the objects.
        records: the records, in order; deletions of ids that are used again are among them.
        datasets: the data sets that they name.
        others: the number of other calls that the vault ran.
        reasons: the reasons why a replay may give other values; empty if it gives the same, unless a plan draws random
            numbers.
        numbers: the numbers of the records in the history, by which a vault reports failed records.
    """

    ids: tuple[ObjectId, ...]
    records: tuple[Record, ...]
    datasets: tuple[LoadRecord, ...]
    others: int
    reasons: tuple[str, ...]
    numbers: frozenset[int] = frozenset()

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls among the records."""
        return tuple(record for record in self.records if type(record) is CallRecord)

    def plan_blobs(self) -> dict[str, Blob]:
        """Return the plans that were sent along, by hash, to be described by a program process."""
        return {blob.hash: blob for record in self.records for blob in record.blobs if blob.kind == "plan"}


class VaultHistory:
    """The records of one vault.

    Args:
        max_records: the maximum number of records; the oldest are dropped first.
        max_blob_bytes: the maximum bytes of blobs; further blobs are dropped.
        max_header_bytes: the maximum bytes of records without blobs; the oldest records are dropped first.
    """

    def __init__(
        self,
        max_records: int = MAX_RECORDS,
        max_blob_bytes: int = MAX_BLOB_BYTES,
        max_header_bytes: int = MAX_HEADER_BYTES,
    ) -> None:
        self.max_records = max_records
        self.max_blob_bytes = max_blob_bytes
        self.max_header_bytes = max_header_bytes
        self.blob_bytes = self.header_bytes = 0
        self.calls = 0
        self.dropped = 0
        # Hashes of plans that change neither their arguments nor their state (`describe_plan`).
        self.non_mutating_plans: set[str] = set()
        # Each with its bytes without blobs.
        self._records: deque[tuple[Record, int]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Record, size: int = 0) -> int:
        """Add a record that takes `size` bytes with its blobs, and return its number."""
        blob_bytes = _blob_bytes(record)
        header_bytes = max(0, size - blob_bytes)
        if blob_bytes and self.blob_bytes + blob_bytes > self.max_blob_bytes:
            record = _without_blobs(record)
        else:
            self.blob_bytes += blob_bytes
        self._records.append((record, header_bytes))
        self.header_bytes += header_bytes
        self.calls += type(record) is CallRecord
        while len(self._records) > self.max_records or self.header_bytes > self.max_header_bytes:
            oldest, oldest_bytes = self._records.popleft()
            self.blob_bytes -= _blob_bytes(oldest)
            self.header_bytes -= oldest_bytes
            self.dropped += 1
        return self.dropped + len(self._records) - 1

    def snapshot(self) -> Snapshot:
        """Return the present history."""
        records = tuple(record for record, _ in self._records)
        return Snapshot(records, self.dropped, self.calls, self.non_mutating_plans)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A history at one point.

    Attributes:
        records: the records that are kept, in order.
        dropped: the number of older records, and so the number of the first record.
        calls: the number of calls that were sent to the vault.
        non_mutating_plans: hashes of plans that change neither their arguments nor their state.
    """

    records: tuple[Record, ...]
    dropped: int
    calls: int
    non_mutating_plans: Collection[str] = frozenset()

    def slice(self, *ids: ObjectId) -> Slice:
        """Return the records that lead to objects.

        Raises:
            ObjectNotFoundError: no record creates one of them.
        """
        chosen, missing = Slicer(self.records, self.non_mutating_plans).slice(ids)
        selected = _with_deletions(self.records, chosen)
        datasets = tuple({r.obj_id: r for r in selected if type(r) is LoadRecord}.values())
        calls = [record for record in selected if type(record) is CallRecord]
        unknown = (
            ("earlier calls are no longer kept" if self.dropped else "an object is of unknown origin")
            if missing
            else ""
        )
        numbers = frozenset(self.dropped + index for index in chosen)
        return Slice(ids, selected, datasets, self.calls - len(calls), tuple(_reasons(selected, unknown)), numbers)


def _blob_bytes(record: Record) -> int:
    return sum(len(blob.data) for blob in record.blobs)


def _without_blobs(record: Record) -> Record:
    if type(record) is PutRecord:
        return dataclasses.replace(record, blob=record.blob.without_data())
    if type(record) is CallRecord:
        return dataclasses.replace(record, blobs=tuple(blob.without_data() for blob in record.blobs))
    return record


def _reasons(records: Sequence[Record], unknown: str) -> Iterable[str]:
    """Yield the reasons why a replay of records may give other values."""
    if unknown:
        yield unknown
    dropped = sum(1 for record in records for blob in record.blobs if blob.dropped)
    if dropped:
        yield f"{dropped} large argument{'s are' if dropped > 1 else ' is'} no longer kept"
    calls = [record for record in records if type(record) is CallRecord]
    for text, names in (
        ("random numbers are drawn by", {call.name for call in calls if effects.draws(call)}),
        ("the effect is unknown of", {call.name for call in calls if not effects.is_known(call)}),
    ):
        if names:
            yield f"{text} {', '.join(sorted(names)[:8])}{', ...' if len(names) > 8 else ''}"


def _with_deletions(records: Sequence[Record], chosen: Collection[int]) -> tuple[Record, ...]:
    """Return the chosen records, with deletions of the objects they create: an id may be used again."""
    made: set[ObjectId] = set()
    selected: list[Record] = []
    for number, record in enumerate(records):
        if number in chosen:
            selected.append(record)
            made.update(made_by(record))
        elif type(record) is DeleteRecord and not made.isdisjoint(record.ids):
            selected.append(DeleteRecord(tuple(obj_id for obj_id in record.ids if obj_id in made)))
    while selected and type(selected[-1]) is DeleteRecord:
        selected.pop()
    return tuple(selected)
