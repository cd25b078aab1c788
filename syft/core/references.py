"""References to objects inside messages, and their metadata."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId, is_id

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

CPU = torch.device("cpu")


# Not frozen, like TensorMeta below: several are made for every call, and a frozen dataclass takes four times as
# long to make. They are never changed.
@dataclasses.dataclass(slots=True, unsafe_hash=True)
class Ref:
    """An argument that is already at the worker that receives the message.

    Attributes:
        id: the id of the object there.
        attribute: one of its attributes instead (`grad`), or None.
    """

    id: ObjectId
    attribute: str | None = None

    @staticmethod
    def simplify(worker: AbstractWorker, ref: Ref) -> tuple[Any, ...]:
        """Return the fields."""
        return (ref.id, ref.attribute)

    @staticmethod
    def detail(worker: AbstractWorker, payload: tuple[Any, ...]) -> Ref:
        """Rebuild from the fields."""
        ref_id, attribute = payload
        if not is_id(ref_id) or not (attribute is None or isinstance(attribute, str)):
            raise TypeError("a reference needs an id and an attribute name")
        return Ref(ref_id, attribute)


@dataclasses.dataclass(slots=True, unsafe_hash=True)
class TensorMeta:
    """The public metadata of a remote tensor."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool = False
    device: torch.device = CPU

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMeta:
        """Read the metadata of a tensor."""
        return cls(tensor.shape, tensor.dtype, tensor.requires_grad, tensor.device)

    @classmethod
    def of_copy(cls, tensor: torch.Tensor) -> TensorMeta:
        """Return the metadata that a copy of a tensor has elsewhere: without its graph, a result needs no gradient."""
        return cls(tensor.shape, tensor.dtype, tensor.requires_grad and tensor.is_leaf, tensor.device)

    @staticmethod
    def simplify(worker: AbstractWorker, meta: TensorMeta) -> tuple[Any, ...]:
        """Return the fields."""
        return (meta.shape, meta.dtype, meta.requires_grad, meta.device)

    @staticmethod
    def detail(worker: AbstractWorker, payload: tuple[Any, ...]) -> TensorMeta:
        """Rebuild from the fields."""
        shape, dtype, requires_grad, device = payload
        if not isinstance(shape, torch.Size) or not isinstance(dtype, torch.dtype):
            raise TypeError("tensor metadata needs a shape and a dtype")
        if not isinstance(requires_grad, bool) or not isinstance(device, torch.device):
            raise TypeError("tensor metadata needs a flag and a device")
        return TensorMeta(shape, dtype, requires_grad, device)


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The public metadata of a remote object that is not a tensor: its kind."""

    kind: str

    @staticmethod
    def simplify(worker: AbstractWorker, meta: ObjectMeta) -> tuple[Any, ...]:
        """Return the fields."""
        return (meta.kind,)

    @staticmethod
    def detail(worker: AbstractWorker, payload: tuple[Any, ...]) -> ObjectMeta:
        """Rebuild from the fields."""
        return ObjectMeta(str(payload[0]))


@dataclasses.dataclass(frozen=True, slots=True)
class SameAs:
    """A result that is the very object of an argument, as every in-place call returns.

    Attributes:
        position: which argument.
        meta: its metadata after the call, which an in-place call may have changed.
    """

    position: int
    meta: Any = None

    @staticmethod
    def simplify(worker: AbstractWorker, same: SameAs) -> tuple[Any, ...]:
        """Return the fields."""
        return (same.position, same.meta)

    @staticmethod
    def detail(worker: AbstractWorker, payload: tuple[Any, ...]) -> SameAs:
        """Rebuild from the fields."""
        position, meta = payload
        if not isinstance(position, int):
            raise TypeError("a position is a number")
        return SameAs(position, meta)
