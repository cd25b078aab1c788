"""Slicer: finds the records of a vault's history that could have influenced an object.

The supervisor knows names, ids and plain arguments, and no values. A slice therefore holds every call that may have
influenced its object: calls that created a value it was computed from, calls that changed memory it may share, and
backward passes that reached its gradients.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeAlias

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.exceptions import ObjectNotFoundError
from syft.grid.isolation.records import effects
from syft.grid.isolation.records.records import CallRecord, LoadRecord, PutRecord, Record

# Maximum number of results of one call: they take the ids that follow the chosen one.
MAX_RESULTS = 65_536
Key: TypeAlias = Hashable


def made_by(record: Record) -> tuple[ObjectId, ...]:
    """Return the ids of the objects that a record creates."""
    if type(record) is CallRecord:
        return record.return_ids
    return (record.obj_id,) if type(record) is PutRecord or type(record) is LoadRecord else ()


class _DisjointSets:
    """Disjoint sets of keys (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[Key, Key] = {}

    def of(self, key: Key) -> Key:
        """Return the representative of the set that holds a key."""
        parents = self._parents
        root = key
        while (parent := parents.get(root, root)) != root:
            root = parent
        while key != root:
            parents[key], key = root, parents.get(key, root)
        return root

    def join(self, keys: Iterable[Key]) -> None:
        """Merge the sets of keys."""
        roots = [self.of(key) for key in keys]
        for root in roots[1:]:
            if root != roots[0]:
                self._parents[self.of(root)] = self.of(roots[0])


class _ResultKeys:
    """Keys of objects: all results of one call share a key, since their number is unknown."""

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


class Slicer:
    """Finds the records that an object depends on.

    Args:
        records: all records, in order.
        non_mutating: the hashes of plans that change neither their arguments nor their state.
    """

    def __init__(self, records: Sequence[Record], non_mutating: Collection[str]) -> None:
        self.records = records
        self.keys = _ResultKeys(base for record in records for base in made_by(record))
        # Objects that may share memory, and objects that may be in one autograd graph.
        self.memory, self.graphs = _DisjointSets(), _DisjointSets()
        self._non_mutating = non_mutating
        self._non_mutating_plans: set[Key] = set()
        self._need_gradient: set[Key] = set()
        # (object, member of a graph that may have saved its memory)
        self._saved: list[tuple[Key, Key]] = []
        for record in records:
            self._index(record)
        self.saved_by: dict[Key, set[Key]] = {}
        for key, member in self._saved:
            self.saved_by.setdefault(self.memory.of(key), set()).add(self.graphs.of(member))

    def _index(self, record: Record) -> None:
        if type(record) is PutRecord:
            self._need_gradient.add(self.keys.of(record.obj_id))
            if record.blob.kind == "plan" and self._non_mutating and record.blob.hash in self._non_mutating:
                self._non_mutating_plans.add(self.keys.of(record.obj_id))
        elif type(record) is CallRecord:
            self._index_call(record)

    def _index_call(self, call: CallRecord) -> None:
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

    def runs_non_mutating_plan(self, call: CallRecord) -> bool:
        """Return whether a call runs a plan that changes neither its arguments nor its state."""
        first = next(call.refs(), None) if call.name == effects.RUN_PLAN else None
        return first is not None and self.keys.of(first.id) in self._non_mutating_plans

    def written(self, call: CallRecord) -> list[Ref]:
        """Return the references to objects that a call may change."""
        return [] if self.runs_non_mutating_plan(call) else effects.writes(call)

    def slice(self, ids: Sequence[ObjectId]) -> tuple[set[int], bool]:
        """Return the indices of the records that lead to objects, and whether records are missing."""
        needs = _Dependencies(self)
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
                raise ObjectNotFoundError(obj_id, "the vault", "no record of the call that created it exists")
        return chosen, bool(needs.values - made)

    def _is_named(self, key: Key, chosen: Iterable[int]) -> bool:
        """Return whether a chosen record is a call on an object; the record that created it may be dropped."""
        calls = [record for number in chosen if type(record := self.records[number]) is CallRecord]
        return any(self.keys.of(ref.id) == key for call in calls for ref in call.refs())


class _Dependencies:
    """The objects that a slice depends on at a point of the history, walked from its end."""

    def __init__(self, slicer: Slicer) -> None:
        self._slicer = slicer
        self.values: set[Key] = set()
        self._memory: set[Key] = set()
        # Graphs of objects whose gradients are read, and graphs whose saved values are read.
        self._gradients: set[Key] = set()
        self._saved: set[Key] = set()

    def add(self, obj_id: ObjectId) -> None:
        """Depend on the values of an object."""
        key = self._slicer.keys.of(obj_id)
        self.values.add(key)
        self._memory.add(self._slicer.memory.of(key))

    def _graph(self, obj_id: ObjectId) -> Key:
        return self._slicer.graphs.of(self._slicer.keys.of(obj_id))

    def is_changed_by(self, call: CallRecord) -> bool:
        """Return whether a call may change an object in this set."""
        slicer = self._slicer
        for ref in slicer.written(call):
            memory = slicer.memory.of(slicer.keys.of(ref.id))
            if memory in self._memory or not self._saved.isdisjoint(slicer.saved_by.get(memory, ())):
                return True
        if call.name in effects.BACKWARD or not (effects.is_plain(call) or slicer.runs_non_mutating_plan(call)):
            return any(self._graph(ref.id) in self._gradients for ref in call.refs())
        return False

    def add_arguments(self, call: CallRecord) -> None:
        """Depend on the objects that a call reads."""
        whole = effects.reads_gradients(call) and not self._slicer.runs_non_mutating_plan(call)
        for ref in call.refs():
            self.add(ref.id)
            if whole or (ref.attribute is not None and "grad" in ref.attribute):
                self._gradients.add(self._graph(ref.id))
            if whole or call.name in effects.WALKS_GRAPH:
                self._saved.add(self._graph(ref.id))
