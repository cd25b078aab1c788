"""How much each user may hold at a node, and all of them together.

What counts is memory, not tensors: views of one tensor take its memory once, and a small view of a large tensor keeps
all of it. Checking and noting take a few dictionary operations, however much is held.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.string import String
from syft.exceptions import IdNotUniqueError, QuotaExceededError
from syft.federated.client.stored_dataset import StoredDataset
from syft.hook.syft_tensor import SyftTensor
from syft.hosting.server import Hosted
from syft.messaging.plan.plan import Plan

# What an object takes beside its values, about: so that many empty ones count too.
OBJECT_BYTES = 512
_OPERATION_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """A bound on what is held; None is no bound.

    Attributes:
        max_objects: how many objects.
        max_bytes: how many bytes of memory, of published objects and of temporary ones.
    """

    max_objects: int | None = None
    max_bytes: int | None = None


# What one user may hold, and all together, unless a node says otherwise.
USER_QUOTA = Quota(100_000, 8 * 2**30)
NODE_QUOTA = Quota(1_000_000, 32 * 2**30)


@dataclasses.dataclass(slots=True)
class Usage:
    """What somebody holds: how many objects, and their bytes."""

    objects: int = 0
    bytes: int = 0


def memory_of(obj: object) -> dict[int, int]:
    """Return where the values of an object are, and how many bytes they take there."""
    if type(obj) is torch.Tensor and obj.layout is torch.strided and not (obj.requires_grad and obj.is_leaf):
        storage = obj.untyped_storage()  # the common case, which every call comes by
        place = storage.data_ptr()
        return {place: storage.nbytes()} if place else {}
    if isinstance(obj, SyftTensor):
        return memory_of(obj.__dict__.get("child"))
    if isinstance(obj, torch.Tensor):
        found = dict(_storage(part) for part in _parts(obj))
        if (obj.is_leaf or obj.retains_grad) and obj.grad is not None:
            found |= memory_of(obj.grad)
        found.pop(0, None)
        return found
    if isinstance(obj, Plan):
        state = {id(obj): _OPERATION_BYTES * len(obj.operations)}
        return _joined([state, *map(memory_of, obj.state.tensors())])
    if isinstance(obj, String):
        return {id(obj): sys.getsizeof(obj.child)}
    if isinstance(obj, Hosted | StoredDataset):
        return _joined([memory_of(each) for each in obj.contents()])
    inside = [getattr(obj, name, None) for name in ("child", "_obj")]
    return _joined([memory_of(each) for each in inside if isinstance(each, torch.Tensor)] + _module_memory(inside))


def _module_memory(inside: list[Any]) -> list[dict[int, int]]:
    modules = [each for each in inside if isinstance(each, torch.nn.Module)]
    return [memory_of(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())]


def _joined(several: list[dict[int, int]]) -> dict[int, int]:
    return {where: size for each in several for where, size in each.items()}


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._values(), tensor._indices()]
    return [tensor.values()]


class _Holding:
    """What one holder has: how many objects, and the memory they are in, with how many of them are in each piece."""

    __slots__ = ("bytes", "max_bytes", "max_objects", "objects", "pieces", "user")

    def __init__(self, user: object, quota: Quota) -> None:
        self.user = user
        self.max_objects = math.inf if quota.max_objects is None else quota.max_objects
        self.max_bytes = math.inf if quota.max_bytes is None else quota.max_bytes
        self.objects = 0
        self.bytes = 0
        self.pieces: dict[int, list[int]] = {}  # where -> [objects, bytes]

    def growth(self, memory: Mapping[int, int]) -> int:
        """Return how many bytes more an object would take."""
        pieces, total = self.pieces, OBJECT_BYTES
        for where, size in memory.items():
            if where not in pieces:
                total += size
        return total

    def refuse(self, growth: int, who: str, what: str) -> None:
        """Raise if so many bytes, or one more object, are too much."""
        if self.objects >= self.max_objects:
            bound, unit = self.max_objects, "objects"
        elif self.bytes + growth > self.max_bytes:
            bound, unit = self.max_bytes, "bytes"
        else:
            return
        raise QuotaExceededError(
            f"{who} may hold {bound} {unit} at this node, and this would be more. It was not kept: {what}."
        )

    def add(self, memory: Mapping[int, int]) -> None:
        """Note the pieces of an object."""
        pieces = self.pieces
        for where, size in memory.items():
            piece = pieces.get(where)
            if piece is None:
                pieces[where] = [1, size]
            else:
                piece[0] += 1

    def take(self, memory: Mapping[int, int]) -> int:
        """Forget the pieces of an object; returns how many bytes are free by that."""
        pieces, total = self.pieces, OBJECT_BYTES
        for where in memory:
            piece = pieces[where]
            if piece[0] > 1:
                piece[0] -= 1
            else:
                total += piece[1]
                del pieces[where]
        return total


# Stands for the user who holds an object already.
SAME: Any = object()


class QuotaLedger:
    """Who holds what. All together hold the sum of what each does.

    Args:
        user: what one user may hold; the owner of the node (None) is bound by the node's own alone.
        node: what all may hold together.
        users: other bounds for some users, by name.

    Attributes:
        entries: for each object by id, its holder, and where its values are.
    """

    def __init__(
        self, user: Quota = USER_QUOTA, node: Quota = NODE_QUOTA, users: Mapping[Any, Quota] | None = None
    ) -> None:
        self.quota = user
        self.node_quota = node
        self.users = dict(users or {})
        self.entries: dict[ObjectId, tuple[_Holding, Mapping[int, int]]] = {}
        self._holdings: dict[Any, _Holding] = {}
        self._all = _Holding(None, node)
        self._lock = threading.Lock()

    def _new(self, user: object) -> _Holding:
        return _Holding(user, Quota() if user is None else self.users.get(user, self.quota))

    def usage(self, user: object = None, node: bool = False) -> Usage:
        """Return what a user holds, or everybody."""
        with self._lock:
            found = self._all if node else self._holdings.get(user)
            return Usage() if found is None else Usage(found.objects, found.bytes)

    def room(self, user: object) -> float:
        """Return how many bytes a user may still take."""
        with self._lock:
            own = self._holdings.get(user) or self._new(user)
            return min(own.max_bytes - own.bytes, self._all.max_bytes - self._all.bytes)

    def charge(self, obj_id: ObjectId, user: object, memory: Mapping[int, int], checked: bool = True) -> None:
        """Note that a user holds an object.

        Args:
            obj_id: its id.
            user: who.
            memory: where its values are, and how many bytes there.
            checked: whether bounds count.

        Raises:
            QuotaExceededError: that would be too much; nothing is noted.
        """
        everybody = self._all
        with self._lock:
            if obj_id in self.entries:
                raise IdNotUniqueError(f"An object with id {obj_id!r} is held here already.")
            own = self._holdings.get(user) or self._new(user)
            growth = own.growth(memory)
            if checked:
                own.refuse(growth, "You", "release or delete some first")
                everybody.refuse(growth, "All users together", "try again later, or ask its owner")
            self._holdings[user] = own
            self.entries[obj_id] = own, memory
            own.add(memory)
            own.objects += 1
            own.bytes += growth
            everybody.objects += 1
            everybody.bytes += growth

    def release(self, obj_id: ObjectId) -> Any:
        """Note that an object is not held any more; returns who held it."""
        everybody = self._all
        with self._lock:
            entry = self.entries.pop(obj_id, None)
            if entry is None:
                return None
            own, memory = entry
            freed = own.take(memory)
            own.objects -= 1
            own.bytes -= freed
            everybody.objects -= 1
            everybody.bytes -= freed
            if not own.objects:
                del self._holdings[own.user]
        return own.user

    def recharge(self, obj_id: ObjectId, memory: Mapping[int, int]) -> None:
        """Note that the memory of an object is another now, which was not asked for before."""
        if obj_id in self.entries and self.entries[obj_id][1] != memory:
            self.charge(obj_id, self.release(obj_id), memory, checked=False)

    def exchange(self, obj_id: ObjectId, memory: Mapping[int, int], user: object = SAME) -> Callable[[], None]:
        """Note that an object takes the place of one that is held.

        Args:
            obj_id: the id of both.
            memory: where the values of the new one are, and how many bytes there.
            user: the user who holds it from now on; by default the one who held the other.

        Returns:
            A function that notes the earlier one again.

        Raises:
            QuotaExceededError: that would be too much; nothing is noted.
        """
        with self._lock:
            before = self.entries[obj_id][1]
        holder = self.release(obj_id)

        def undo() -> None:
            self.release(obj_id)
            self.charge(obj_id, holder, before, checked=False)

        try:
            self.charge(obj_id, holder if user is SAME else user, memory)
        except QuotaExceededError:
            undo()
            raise
        return undo

    def is_over(self, obj_id: ObjectId) -> bool:
        """Say whether the holder of an object has more than is allowed, or all have."""
        with self._lock:
            if obj_id not in self.entries:
                return False
            own = self.entries[obj_id][0]
            return own.bytes > own.max_bytes or self._all.bytes > self._all.max_bytes
