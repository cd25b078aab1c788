"""VaultHistory: the records of one vault, in order, and the slice of them that leads to an object.

The supervisor knows names, ids and plain arguments, and no value. So a slice holds every call that could have had an
influence on its object: calls that made something it was computed from, calls that changed something that may share
memory with it, and backward passes that reached its gradients.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

from syft.core.id_provider import ObjectId
from syft.exceptions import ObjectNotFoundError
from syft.grid.isolation.records import effects
from syft.grid.isolation.records.records import Blob, CallRecord, DeleteRecord, LoadRecord, PutRecord, Record

MAX_RECORDS = 50_000
MAX_BLOB_BYTES = 64 * 2**20
# Bytes of records without their blobs. In memory a record takes about ten times as many.
MAX_HEADER_BYTES = 8 * 2**20
# How many results one call can have: they take the ids that follow the one that was chosen.
MAX_RESULTS = 65_536
Key: TypeAlias = Hashable


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """The records that lead to one object or several.

    Attributes:
        ids: the objects.
        records: the records, in order; deletions of ids that are used again are among them.
        datasets: the data sets that they name.
        others: the number of other calls that the vault ran.
        reasons: why the slice can't be expected to give the same values again; empty if it can.
        numbers: the numbers of the records in the history, by which a vault reports the ones that failed.
    """

    ids: tuple[ObjectId, ...]
    records: tuple[Record, ...]
    datasets: tuple[LoadRecord, ...]
    others: int
    reasons: tuple[str, ...]
    numbers: frozenset[int] = frozenset()

    @property
    def obj_id(self) -> ObjectId:
        """The object, or the first of several."""
        return self.ids[0]

    @property
    def is_reproducible(self) -> bool:
        """Whether a replay should give the same values, bit for bit. Plans may still draw random numbers."""
        return not self.reasons

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls among the records."""
        return tuple(record for record in self.records if type(record) is CallRecord)

    def plan_blobs(self) -> dict[str, Blob]:
        """Return the plans that were sent along, by hash, to be described by a program process."""
        return {blob.hash: blob for record in self.records for blob in record.blobs if blob.kind == "plan"}

    def code(self, plans: dict[str, str] | None = None) -> str:
        """Return the calls as Python.

        Args:
            plans: the code of plans, by hash.
        """
        from syft.grid.isolation.records.listing import code_of

        return code_of(self, plans or {})


class VaultHistory:
    """The records of one vault.

    Args:
        max_records: how many records are kept; the oldest go first.
        max_blob_bytes: how many bytes of blobs are kept; further blobs are dropped.
        max_header_bytes: how many bytes of records are kept beside blobs; the oldest go first.
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
        self.lost = 0
        # Hashes of plans that are known to change neither their arguments nor their state (`describe_plan`).
        self.harmless_plans: set[str] = set()
        # Each with its bytes beside blobs.
        self._records: deque[tuple[Record, int]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Record, size: int = 0) -> int:
        """Add a record that goes to the vault, and return its number.

        Args:
            record: the record.
            size: the bytes that it takes, with its blobs.
        """
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
            self.lost += 1
        return self.lost + len(self._records) - 1

    def snapshot(self) -> Snapshot:
        """Return the history as it is now."""
        return Snapshot(tuple(record for record, _ in self._records), self.lost, self.calls, self.harmless_plans)

    def slice(self, *ids: ObjectId) -> Slice:
        """Return the records that lead to objects as they are now; see `Snapshot.slice`."""
        return self.snapshot().slice(*ids)


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A history at one point.

    Attributes:
        records: the records that are kept, in order.
        lost: the number of older records, and so the number of the first one.
        calls: the number of calls that the vault was given.
        harmless_plans: hashes of plans that change nothing.
    """

    records: tuple[Record, ...]
    lost: int
    calls: int
    harmless_plans: Collection[str] = frozenset()

    def slice(self, *ids: ObjectId) -> Slice:
        """Return the records that lead to objects.

        Raises:
            ObjectNotFoundError: no record makes one of them.
        """
        chosen, missing = _Slicer(self.records, self.harmless_plans).slice(ids)
        taken = _with_deletions(self.records, chosen)
        datasets = tuple({r.obj_id: r for r in taken if type(r) is LoadRecord}.values())
        calls = [record for record in taken if type(record) is CallRecord]
        unknown = (
            ("earlier calls are no longer kept" if self.lost else "an object is of unknown origin") if missing else ""
        )
        numbers = frozenset(self.lost + place for place in chosen)
        return Slice(ids, taken, datasets, self.calls - len(calls), tuple(_reasons(taken, unknown)), numbers)


def _blob_bytes(record: Record) -> int:
    return sum(len(blob.data) for blob in record.blobs)


def _without_blobs(record: Record) -> Record:
    if type(record) is PutRecord:
        return dataclasses.replace(record, blob=record.blob.without_data())
    if type(record) is CallRecord:
        return dataclasses.replace(record, blobs=tuple(blob.without_data() for blob in record.blobs))
    return record


def _reasons(records: Sequence[Record], unknown: str) -> Iterable[str]:
    """Yield why a replay of records may give other values."""
    if unknown:
        yield unknown
    dropped = sum(1 for record in records for blob in record.blobs if blob.dropped)
    if dropped:
        yield f"{dropped} large argument{'s are' if dropped > 1 else ' is'} no longer kept"
    calls = [record for record in records if type(record) is CallRecord]
    for text, names in (
        ("random numbers are drawn by", {call.name for call in calls if effects.draws(call)}),
        ("the effect is not known of", {call.name for call in calls if not effects.is_known(call)}),
    ):
        if names:
            yield f"{text} {', '.join(sorted(names)[:8])}{', ...' if len(names) > 8 else ''}"


def _with_deletions(records: Sequence[Record], chosen: Collection[int]) -> tuple[Record, ...]:
    """Return the chosen records, with deletions of what they make: an id may be used again."""
    made: set[ObjectId] = set()
    taken: list[Record] = []
    for number, record in enumerate(records):
        if number in chosen:
            taken.append(record)
            made.update(made_by(record))
        elif type(record) is DeleteRecord and not made.isdisjoint(record.ids):
            taken.append(DeleteRecord(tuple(obj_id for obj_id in record.ids if obj_id in made)))
    while taken and type(taken[-1]) is DeleteRecord:
        taken.pop()
    return tuple(taken)


def made_by(record: Record) -> tuple[ObjectId, ...]:
    """Return the ids that a record chooses for what it makes."""
    if type(record) is CallRecord:
        return record.return_ids
    return (record.obj_id,) if type(record) is PutRecord or type(record) is LoadRecord else ()


class _Groups:
    """Sets of keys that grow together (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Key, Key] = {}

    def of(self, key: Key) -> Key:
        """Return the key that stands for the group of a key."""
        above = self._above
        root = key
        while (higher := above.get(root, root)) != root:
            root = higher
        while key != root:
            above[key], key = root, above.get(key, root)
        return root

    def join(self, keys: Iterable[Key]) -> None:
        """Put keys in one group."""
        roots = [self.of(key) for key in keys]
        for root in roots[1:]:
            if root != roots[0]:
                self._above[self.of(root)] = self.of(roots[0])


class _Keys:
    """Keys of objects: results of one call share one, since how many there are is not known.

    Args:
        bases: the ids that calls chose for their first results.
    """

    def __init__(self, bases: Iterable[ObjectId]) -> None:
        self._bases = sorted({base for base in bases if type(base) is int})
        self._firsts: list[int] = []
        for number, base in enumerate(self._bases):
            near = number and base - self._bases[number - 1] < MAX_RESULTS
            self._firsts.append(self._firsts[-1] if near else base)

    def of(self, obj_id: ObjectId) -> Key:
        """Return the key of an object."""
        if type(obj_id) is int:
            at = bisect.bisect_right(self._bases, obj_id) - 1
            return self._firsts[at] if at >= 0 and obj_id - self._bases[at] < MAX_RESULTS else obj_id
        head, plus, number = str(obj_id).rpartition("+")
        return head if plus and number.isdecimal() else obj_id


class _Slicer:
    """Finds the records that an object depends on.

    Args:
        records: all records, in order.
        harmless: the hashes of plans that change nothing.
    """

    def __init__(self, records: Sequence[Record], harmless: Collection[str]) -> None:
        self.records = records
        self.keys = _Keys(base for record in records for base in made_by(record))
        # Objects that may share memory, and objects that may be in one graph of autograd.
        self.memory, self.graphs = _Groups(), _Groups()
        self._harmless = harmless
        self._harmless_plans: set[Key] = set()
        self._need_gradient: set[Key] = set()
        # (object, member of a graph that may have saved its memory)
        self._saved: list[tuple[Key, Key]] = []
        for record in records:
            self._follow(record)
        self.saved_by: dict[Key, set[Key]] = {}
        for key, member in self._saved:
            self.saved_by.setdefault(self.memory.of(key), set()).add(self.graphs.of(member))

    def _follow(self, record: Record) -> None:
        if type(record) is PutRecord:
            self._need_gradient.add(self.keys.of(record.obj_id))
            if record.blob.kind == "plan" and self._harmless and record.blob.hash in self._harmless:
                self._harmless_plans.add(self.keys.of(record.obj_id))
        elif type(record) is CallRecord:
            self._follow_call(record)

    def _follow_call(self, call: CallRecord) -> None:
        given = {self.keys.of(ref.id): None for ref in call.refs()}
        results = [self.keys.of(base) for base in call.return_ids]
        written = [self.keys.of(ref.id) for ref in self.written(call)]
        if not effects.is_fresh(call):
            self.memory.join([*results, *given])
        elif written:
            self.memory.join([*results, *written])
        if effects.shares(call):
            self.memory.join(given)
        if effects.may_need_gradient(call):
            self._need_gradient.update((*results, *written))
        needing = [key for key in (*given, *results) if key in self._need_gradient]
        if needing and (call.grad_enabled or not effects.is_plain(call)):
            linked = [*needing, *results, *written]
            self._need_gradient.update(linked)
            self.graphs.join(linked)
            self._saved += [(key, linked[0]) for key in (*given, *results)]

    def runs_harmless_plan(self, call: CallRecord) -> bool:
        """Say whether a call runs a plan that changes nothing."""
        first = next(call.refs(), None) if call.name == effects.RUN_PLAN else None
        return first is not None and self.keys.of(first.id) in self._harmless_plans

    def written(self, call: CallRecord) -> list[Any]:
        """Return the references to what a call may change."""
        return [] if self.runs_harmless_plan(call) else effects.writes(call)

    def slice(self, ids: Sequence[ObjectId]) -> tuple[set[int], bool]:
        """Return the indices of the records that lead to objects, and whether some are missing."""
        needs = _Needs(self)
        for obj_id in ids:
            needs.add(obj_id)
        chosen: set[int] = set()
        made: set[Key] = set()
        for number in range(len(self.records) - 1, -1, -1):
            record = self.records[number]
            keys = {self.keys.of(base) for base in made_by(record)}
            if type(record) is CallRecord:
                if not (keys & needs.values or needs.is_changed_by(record)):
                    continue
                needs.add_arguments(record)
            elif not keys & needs.values:
                continue
            chosen.add(number)
            made |= keys
        for obj_id in ids:
            if self.keys.of(obj_id) not in made and not self._is_named(self.keys.of(obj_id), chosen):
                raise ObjectNotFoundError(obj_id, "the vault", "no call that made it is known")
        return chosen, bool(needs.values - made)

    def _is_named(self, key: Key, chosen: Iterable[int]) -> bool:
        """Say whether one of some records is a call on an object; the record that made it may be lost."""
        calls = [record for number in chosen if type(record := self.records[number]) is CallRecord]
        return any(self.keys.of(ref.id) == key for call in calls for ref in call.refs())


class _Needs:
    """What is needed at a point of the history, looked at from its end.

    Args:
        slicer: knows which objects belong together.
    """

    def __init__(self, slicer: _Slicer) -> None:
        self._slicer = slicer
        self.values: set[Key] = set()
        self._memory: set[Key] = set()
        # Graphs of objects whose gradients are needed, and graphs whose saved values are needed.
        self._gradients: set[Key] = set()
        self._saved: set[Key] = set()

    def add(self, obj_id: ObjectId) -> None:
        """Need the values of an object."""
        key = self._slicer.keys.of(obj_id)
        self.values.add(key)
        self._memory.add(self._slicer.memory.of(key))

    def _graph(self, obj_id: ObjectId) -> Key:
        return self._slicer.graphs.of(self._slicer.keys.of(obj_id))

    def is_changed_by(self, call: CallRecord) -> bool:
        """Say whether a call may change something that is needed."""
        slicer = self._slicer
        for ref in slicer.written(call):
            memory = slicer.memory.of(slicer.keys.of(ref.id))
            if memory in self._memory or not self._saved.isdisjoint(slicer.saved_by.get(memory, ())):
                return True
        if call.name in effects.BACKWARD or not (effects.is_plain(call) or slicer.runs_harmless_plan(call)):
            return any(self._graph(ref.id) in self._gradients for ref in call.refs())
        return False

    def add_arguments(self, call: CallRecord) -> None:
        """Need what a call reads."""
        whole = effects.reads_gradients(call) and not self._slicer.runs_harmless_plan(call)
        for ref in call.refs():
            self.add(ref.id)
            if whole or (ref.attribute is not None and "grad" in ref.attribute):
                self._gradients.add(self._graph(ref.id))
            if whole or call.name in effects.WALKS_GRAPH:
                self._saved.add(self._graph(ref.id))
