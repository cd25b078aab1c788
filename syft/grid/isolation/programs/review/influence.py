"""Influence of rows: how a result changes when rows of its data sets are replaced by a typical row.

A recorded computation is run again on changed data. Rows are replaced in groups, and groups that matter are split, so
that a mean over a million rows takes about a hundred runs, and one row among them is found in twenty more.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError
from syft.federated.client.stored_dataset import StoredDataset
from syft.grid.isolation.records.records import Blob, Record
from syft.grid.isolation.records.replay import ConfinedWorker, Runner
from syft.messaging.plan.plan import Plan

# Maximum number of numbers of one result whose influences are computed; they are taken at equal distances.
MAX_NUMBERS = 256
# Groups of rows at the start. More numbers need more groups, since each number may fit one group by chance.
GROUPS, GROUPS_PER_NUMBER = 64, 4
# Changes below this multiple of the rounding error of a result are rounding errors.
ROUNDING = 64.0
# Errors of failed calls, of torch and of the library.
FAILURES = (SyftError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
Data: TypeAlias = Mapping[ObjectId, Any]


class _ReadPlan:
    """A plan that is read once and used by every run: to compile one takes longer than to run it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._state = [tensor.detach().clone() for tensor in plan.state.tensors()]

    def fresh(self) -> Plan:
        """Return the plan with the state that it was sent with."""
        with torch.no_grad():
            for tensor, value in zip(self._plan.state.tensors(), self._state, strict=True):
                tensor.copy_(value)
                tensor.grad = None
        return self._plan


class _PlanRunner(Runner):
    """A runner that reads each plan once."""

    def __init__(self, data: Data, plans: dict[str, _ReadPlan]) -> None:
        super().__init__(ConfinedWorker("review"), data)
        self._plans = plans

    def _read(self, blob: Blob) -> Any:
        if blob.kind != "plan":
            return super()._read(blob)
        if blob.hash not in self._plans:
            self._plans[blob.hash] = _ReadPlan(super()._read(blob))
        return self._plans[blob.hash].fresh()


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """A recorded computation.

    Attributes:
        name: the request it belongs to.
        records: its records.
        ids: the objects that are its result.
        plans: its plans by hash, as they are read.
    """

    name: str
    records: Sequence[Record]
    ids: tuple[ObjectId, ...]
    plans: dict[str, _ReadPlan] = dataclasses.field(default_factory=dict, repr=False)

    def run(self, data: Data) -> list[Any]:
        """Return its result on data sets. Raises the error of a call that fails."""
        runner = _PlanRunner(data, self.plans)
        for record in self.records:
            runner.run(record)
        return [runner.get(obj_id) for obj_id in self.ids]


def numbers_of(objects: Sequence[object]) -> torch.Tensor:
    """Return all numbers of a result as one float64 vector; objects without numbers add none."""
    parts = [tensor for obj in objects for tensor in _tensors(obj)]
    flat = [torch.view_as_real(part.resolve_conj()) if part.is_complex() else part for part in parts]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *(part.reshape(-1).to(torch.float64) for part in flat)])


def _tensors(obj: object) -> list[torch.Tensor]:
    if isinstance(obj, Plan):
        return [tensor.detach() for tensor in obj.state.tensors()]
    if isinstance(obj, StoredDataset):
        return [part.detach() for part in obj.contents()]
    if isinstance(obj, torch.Tensor):
        return [obj.detach().to_dense() if obj.layout is not torch.strided else obj.detach()]
    if isinstance(obj, bool | int | float):
        return [torch.tensor(obj)]
    if isinstance(obj, tuple | list):
        return [tensor for part in obj for tensor in _tensors(part)]
    return []


def rounding_of(objects: Sequence[object]) -> float:
    """Return the relative rounding error of a result: that of its least exact tensor."""
    kinds = {tensor.dtype for obj in objects for tensor in _tensors(obj)}
    return max((torch.finfo(kind).eps for kind in kinds if kind.is_floating_point or kind.is_complex), default=0.0)


# --- rows -----------------------------------------------------------------------------------------------------------


def rows_of(obj: object) -> int | None:
    """Return the number of rows of a data set; None if it has no rows."""
    first = obj.data if isinstance(obj, StoredDataset) else obj
    return len(first) if isinstance(first, torch.Tensor) and first.ndim and len(first) else None


def typical_rows(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the median of each column, and the median of its values that differ from that one.

    A cell that equals the first is replaced by the second, so that every cell of a replaced row changes.
    """
    values = tensor.detach()
    if values.dtype is torch.bool:
        first = values.to(torch.uint8).median(dim=0).values.to(torch.bool)
        return first, ~first
    if values.is_complex():
        first = torch.view_as_complex(torch.view_as_real(values).nanmedian(dim=0).values.contiguous())
        return first, first + 1
    exact = values.to(torch.float64)
    first = values.gather(0, exact.nanmedian(dim=0, keepdim=True).indices)
    others = torch.where(values == first, torch.nan, exact)
    second = values.gather(0, others.nanmedian(dim=0, keepdim=True).indices)
    return first[0], second[0]


class DataRows:
    """The rows of data sets. Data sets with equally many rows are taken to describe the same people, row by row."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._typical = {
            obj_id: [typical_rows(part) for part in parts_of(obj)]
            for obj_id, obj in data.items()
            if rows_of(obj) is not None
        }
        # The numbers of rows of the data sets, each once.
        self.sizes = sorted({size for obj in data.values() if (size := rows_of(obj)) is not None})

    def replaced(self, size: int, rows: torch.Tensor) -> Data:
        """Return the data with some rows of all data sets of a size replaced by their typical row."""
        return {
            obj_id: self._changed(obj_id, obj, rows) if rows_of(obj) == size else obj
            for obj_id, obj in self._data.items()
        }

    def _changed(self, obj_id: ObjectId, obj: object, rows: torch.Tensor) -> object:
        parts = []
        for part, (first, second) in zip(parts_of(obj), self._typical[obj_id], strict=True):
            parts.append(part.detach().clone())
            parts[-1][rows] = torch.where(part[rows] == first, second, first)
        return StoredDataset(*parts) if isinstance(obj, StoredDataset) else parts[0]


def parts_of(obj: object) -> list[torch.Tensor]:
    """Return the tensors of a data set."""
    if isinstance(obj, StoredDataset):
        return list(obj.contents())
    return [obj] if isinstance(obj, torch.Tensor) else []


# --- influence ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RowGroup:
    """Rows that are replaced together, and the change of all results.

    Attributes:
        size: the number of rows of their data sets.
        rows: their indices.
        changes: the change of each number of each computation.
    """

    size: int
    rows: torch.Tensor
    changes: torch.Tensor


class Influences:
    """The influence of groups of rows on the numbers of several computations.

    Args:
        computations: the computations, the reviewed one first.
        data: the data sets that they read.
        seconds: the time that runs may take in all.
        clock: the time in seconds.
    """

    def __init__(
        self,
        computations: Sequence[Computation],
        data: Data,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data = data
        self._rows = DataRows(data)
        self._clock = clock
        self._end = clock() + seconds
        self.computations: list[Computation] = []
        self.failed = 0
        # Whether time ran out before all groups that matter were single rows.
        self.is_partial = False
        bases, errors = [], []
        for computation in computations:
            base, rounding = self._base(computation)
            if base is not None:
                self.computations.append(computation)
                bases.append(base)
                errors.append(torch.full_like(base, rounding))
        self._picked = [_spread(len(base)) for base in bases]
        # The numbers that are watched, of all computations one after the other, and the size of their rounding errors.
        self.base = torch.cat([base[picked] for base, picked in zip(bases, self._picked, strict=True)] or [_NOTHING])
        error = torch.cat([error[picked] for error, picked in zip(errors, self._picked, strict=True)] or [_NOTHING])
        self.tolerance = ROUNDING * error * self.base.abs().nan_to_num(0.0, 0.0, 0.0)
        self.groups: list[RowGroup] = []
        self._start()

    def _base(self, computation: Computation) -> tuple[torch.Tensor | None, float]:
        try:
            result = computation.run(self._data)
        except FAILURES:
            return None, 0.0
        return numbers_of(result), rounding_of(result)

    @property
    def counts(self) -> list[int]:
        """The number of watched numbers of each computation."""
        return [len(picked) for picked in self._picked]

    @property
    def matrix(self) -> torch.Tensor:
        """The changes by number and group; changes within the rounding error are 0."""
        if not self.groups:
            return torch.zeros(len(self.base), 0, dtype=torch.float64)
        changes = torch.stack([group.changes for group in self.groups], dim=1)
        return torch.where(changes.abs() > self.tolerance[:, None], changes, 0.0)

    def _start(self) -> None:
        wanted = max(GROUPS, GROUPS_PER_NUMBER * len(self.base))
        for size in self._rows.sizes:
            order = torch.randperm(size, generator=torch.Generator().manual_seed(size))
            self._add(size, list(order.tensor_split(min(size, wanted))))

    def split(self, chosen: Collection[int]) -> bool:
        """Split groups of several rows in halves. Returns whether anything was split."""
        large = [number for number in chosen if len(self.groups[number].rows) > 1]
        if large and self._clock() >= self._end:
            self.is_partial = True
            return False
        parents = [self.groups[number] for number in large]
        self.groups = [group for number, group in enumerate(self.groups) if number not in set(large)]
        for parent in parents:
            self._add(parent.size, list(parent.rows.tensor_split(2)))
        return bool(parents)

    def _add(self, size: int, groups: list[torch.Tensor]) -> None:
        for number, rows in enumerate(groups):
            if self._clock() >= self._end and number + 1 < len(groups):
                self.is_partial = True
                rest = torch.cat(groups[number:])
                self.groups.append(RowGroup(size, rest, self._changes(size, rest)))
                return
            self.groups.append(RowGroup(size, rows, self._changes(size, rows)))

    def _changes(self, size: int, rows: torch.Tensor) -> torch.Tensor:
        data = self._rows.replaced(size, rows)
        parts = []
        for computation, picked in zip(self.computations, self._picked, strict=True):
            try:
                found = numbers_of(computation.run(data))
            except FAILURES:
                self.failed += 1
                found = _NOTHING
            usable = len(picked) == 0 or len(found) > int(picked[-1])
            parts.append(found[picked] if usable else torch.full((len(picked),), torch.nan, dtype=torch.float64))
        return _difference(torch.cat(parts or [_NOTHING]), self.base)


_NOTHING = torch.zeros(0, dtype=torch.float64)


def _spread(count: int) -> torch.Tensor:
    """Return the indices of at most `MAX_NUMBERS` numbers, at equal distances."""
    if count <= MAX_NUMBERS:
        return torch.arange(count)
    return torch.linspace(0, count - 1, MAX_NUMBERS).round().long()


def _difference(found: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """Return the change of each number. A number that becomes or stops being finite changes by its own size."""
    change = found - base
    same = (found == base) | (found.isnan() & base.isnan())
    size = torch.where(base.isfinite(), base.abs(), found.abs()).nan_to_num(1.0, 1.0, 1.0).clamp_min(1.0)
    return torch.where(same, 0.0, torch.where(change.isfinite(), change, size))
