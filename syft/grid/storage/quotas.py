"""Quotas: how many objects and bytes each user, and all users together, may hold at a node.

Memory is counted, not tensors: views of one tensor count its memory once, and a small view of a large tensor counts
all of it. Checks and charges take a few dictionary operations, independent of the number of objects.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from syft.core.id_provider import ObjectId
from syft.core.string import String
from syft.core.tensor import AbstractTensor
from syft.exceptions import IdNotUniqueError, QuotaExceededError
from syft.federated.client.stored_dataset import StoredDataset
from syft.he.paillier_tensor import PaillierTensor
from syft.hook.syft_tensor import SyftTensor
from syft.hosting.server import Hosted
from syft.messaging.plan.plan import Plan

# Estimated overhead of an object, so that empty objects count too.
OBJECT_BYTES = 512
_OPERATION_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """Limits on the objects of a user; None is no limit.

    Attributes:
        max_objects: the number of objects.
        max_bytes: bytes of memory, of published and temporary objects.
    """

    max_objects: int | None = None
    max_bytes: int | None = None


# The default quotas of one user and of all users together.
USER_QUOTA = Quota(100_000, 8 * 2**30)
NODE_QUOTA = Quota(1_000_000, 32 * 2**30)


@dataclasses.dataclass(slots=True)
class Usage:
    """The number of objects that a user holds, and their bytes."""

    objects: int = 0
    bytes: int = 0


def memory_of(obj: object) -> dict[int, int]:
    """Return the memory of the values of an object: addresses, and bytes at each."""
    if type(obj) is torch.Tensor and obj.layout is torch.strided and not (obj.requires_grad and obj.is_leaf):
        storage = obj.untyped_storage()  # the common case, on the path of every call
        address = storage.data_ptr()
        return {address: storage.nbytes()} if address else {}
    if isinstance(obj, PaillierTensor):
        return obj.memory()
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
    if isinstance(obj, np.ndarray):
        return _array_memory(obj)
    inside = [getattr(obj, name, None) for name in ("child", "_obj")]
    if type(inside[0]) is dict:
        inside = [*inside[0].values(), inside[1]]
    below = [memory_of(each) for each in inside if isinstance(each, torch.Tensor | AbstractTensor | np.ndarray)]
    return _joined(below + _module_memory(inside))


def _array_memory(array: np.ndarray[Any, Any]) -> dict[int, int]:
    """Return the memory of an array: a view keeps all of the array that it is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return {array.ctypes.data: array.nbytes} if array.nbytes else {}


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
    """The objects of one user: their number, and the memory blocks they use with a reference count each."""

    __slots__ = ("bytes", "max_bytes", "max_objects", "objects", "pieces", "user")

    def __init__(self, user: object, quota: Quota) -> None:
        self.user = user
        self.max_objects = math.inf if quota.max_objects is None else quota.max_objects
        self.max_bytes = math.inf if quota.max_bytes is None else quota.max_bytes
        self.objects = 0
        self.bytes = 0
        self.pieces: dict[int, list[int]] = {}  # address -> [objects, bytes]

    def growth(self, memory: Mapping[int, int]) -> int:
        """Return the additional bytes that an object would take."""
        pieces, total = self.pieces, OBJECT_BYTES
        for where, size in memory.items():
            if where not in pieces:
                total += size
        return total

    def check(self, growth: int, who: str, advice: str) -> None:
        """Raise if one more object with `growth` additional bytes exceeds the quota."""
        if self.objects >= self.max_objects:
            bound, unit = self.max_objects, "objects"
        elif self.bytes + growth > self.max_bytes:
            bound, unit = self.max_bytes, "bytes"
        else:
            return
        raise QuotaExceededError(
            f"{who} may hold at most {bound} {unit} at this node. The object was not stored. {advice}."
        )

    def add(self, memory: Mapping[int, int]) -> None:
        """Count the memory blocks of an object."""
        pieces = self.pieces
        for where, size in memory.items():
            piece = pieces.get(where)
            if piece is None:
                pieces[where] = [1, size]
            else:
                piece[0] += 1

    def subtract(self, memory: Mapping[int, int]) -> int:
        """Stop counting the memory blocks of an object; returns the bytes that this frees."""
        pieces, total = self.pieces, OBJECT_BYTES
        for where in memory:
            piece = pieces[where]
            if piece[0] > 1:
                piece[0] -= 1
            else:
                total += piece[1]
                del pieces[where]
        return total


# Stands for the present holder of an object.
SAME: Any = object()


class QuotaLedger:
    """The objects that each user holds, with their memory. The usage of the node is the sum over all users.

    Args:
        user: the quota of one user; the owner of the node (None) is limited by the node's quota only.
        node: the quota of all users together.
        users: quotas of individual users, by name.

    Attributes:
        entries: the holder and the memory of each object, by id.
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
        """Return the usage of a user, or of the whole node."""
        with self._lock:
            found = self._all if node else self._holdings.get(user)
            return Usage() if found is None else Usage(found.objects, found.bytes)

    def room(self, user: object) -> float:
        """Return the bytes that a user may still allocate."""
        with self._lock:
            own = self._holdings.get(user) or self._new(user)
            return min(own.max_bytes - own.bytes, self._all.max_bytes - self._all.bytes)

    def charge(self, obj_id: ObjectId, user: object, memory: Mapping[int, int], checked: bool = True) -> None:
        """Charge an object to a user; the quotas are enforced if `checked`.

        Raises:
            QuotaExceededError: a quota would be exceeded; nothing changes.
        """
        everybody = self._all
        with self._lock:
            if obj_id in self.entries:
                raise IdNotUniqueError(f"An object with id {obj_id!r} already exists here.")
            own = self._holdings.get(user) or self._new(user)
            growth = own.growth(memory)
            if checked:
                own.check(growth, "You", "Release or delete objects first")
                everybody.check(growth, "All users together", "Try again later, or ask the owner of the node")
            self._holdings[user] = own
            self.entries[obj_id] = own, memory
            own.add(memory)
            own.objects += 1
            own.bytes += growth
            everybody.objects += 1
            everybody.bytes += growth

    def release(self, obj_id: ObjectId) -> Any:
        """Remove the charge of an object; returns the user who held it."""
        everybody = self._all
        with self._lock:
            entry = self.entries.pop(obj_id, None)
            if entry is None:
                return None
            own, memory = entry
            freed = own.subtract(memory)
            own.objects -= 1
            own.bytes -= freed
            everybody.objects -= 1
            everybody.bytes -= freed
            if not own.objects:
                del self._holdings[own.user]
        return own.user

    def recharge(self, obj_id: ObjectId, memory: Mapping[int, int]) -> None:
        """Update the memory of an object, without enforcing the quotas."""
        if obj_id in self.entries and self.entries[obj_id][1] != memory:
            self.charge(obj_id, self.release(obj_id), memory, checked=False)

    def exchange(self, obj_id: ObjectId, memory: Mapping[int, int], user: object = SAME) -> Callable[[], None]:
        """Charge an object that replaces another one, and return a function that restores the previous charge.

        Raises:
            QuotaExceededError: a quota would be exceeded; nothing changes.
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
        """Return whether the holder of an object, or the node, exceeds its byte quota."""
        with self._lock:
            if obj_id not in self.entries:
                return False
            own = self.entries[obj_id][0]
            return own.bytes > own.max_bytes or self._all.bytes > self._all.max_bytes
