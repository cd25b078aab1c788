"""ResultStore: stores the tensors of a result, describes it, and lets the policy decide about values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syft.core.id_provider import ObjectId
from syft.core.object import AbstractObject
from syft.core.object_storage import ObjectOutline
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.string import String
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import GetNotPermittedError, IdNotUniqueError, SyftError
from syft.messaging.message import Operation
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.remote_call import following_id, rebuild_container
from syft.workers.access.policy import check_release, releases_all
from syft.workers.execution.copies import copy_value
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Calls that reveal a tensor's shape, dtype, graph and memory, not its values; they need no approval of the policy.
METADATA_CALLS = frozenset(
    f"torch.Tensor.{name}"
    for name in (
        "is_leaf.__get__ dim size numel nelement element_size is_floating_point is_complex is_signed __len__ "
        "ndimension is_same_size can_cast retains_grad.__get__ output_nr.__get__ _version.__get__ stride "
        "is_contiguous storage_offset is_conj is_neg is_set_to is_inference dim_order"
    ).split()
) | frozenset(
    f"torch.{name}"
    for name in (
        "is_same_size result_type can_cast is_signed is_floating_point is_complex numel is_conj is_neg"
    ).split()
)
_METADATA_TYPES = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class ResultStore:
    """Stores the tensors of a result and describes it for the client."""

    worker: BaseWorker
    session: Session
    operation: Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kept: list[ObjectId] = dataclasses.field(default_factory=list)

    def register(self, result: object) -> Any:
        """Return the result with stored objects in place of values that need a pointer: all are stored, or none.

        An in-process client reads the metadata from the tensors themselves; `describe` makes the wire form.
        """
        try:
            return self._register(result)
        except Exception:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Release the objects of the result."""
        for obj_id in self.kept:
            self.session.release(obj_id)

    def _register(self, result: object) -> Any:
        if isinstance(result, torch.Tensor):
            for position, arg in enumerate((*self.args, *self.kwargs.values())):
                if result is arg and type(self._sent(position)) is Ref:
                    return SameAs(position, TensorMeta.of(result))
            self._keep(result)
            return result
        if result is None:
            return None
        if result is NotImplemented:
            kinds = ", ".join(type(arg).__name__ for arg in self.args)
            raise TypeError(f"{self.operation.cmd_name} does not accept arguments of type {kinds}.")
        if isinstance(result, AbstractObject):
            self._keep(result)
            return ObjectMeta(kind_of(result))
        if isinstance(result, _METADATA_TYPES) or self.operation.cmd_name in METADATA_CALLS:
            return result
        if type(result) is dict:
            return {key: self._register(item) for key, item in result.items()}
        if isinstance(result, tuple | list) and next(iter_tensors(result), None) is not None:
            return rebuild_container(type(result), [self._register(item) for item in result])
        if isinstance(result, tuple) and not result:
            return result
        return self._release(result)

    def _sent(self, position: int) -> Any:
        """Return a result that is an argument: only objects that were held here before can be named to the client."""
        args = self.operation.cmd_args
        return args[position] if position < len(args) else [*self.operation.cmd_kwargs.values()][position - len(args)]

    def _keep(self, obj: object) -> None:
        if not self.operation.return_ids:
            raise SyftError(f"{self.operation.cmd_name} has a result, but the message has no id for it.")
        obj_id = following_id(self.kept[-1]) if self.kept else self.operation.return_ids[0]
        if obj_id in self.worker.object_store.objects:
            raise IdNotUniqueError(
                f"Worker {self.worker.id!r} already holds an object with id {obj_id!r}; "
                f"the result of {self.operation.cmd_name} is not kept."
            )
        self.session.keep(obj_id, obj)
        self.kept.append(obj_id)

    def _release(self, value: object) -> Any:
        """Return a Python value, if the policy releases every object that it was computed from."""
        if not isinstance(value, bool | int | float | complex | str | bytes | list | tuple | np.ndarray | np.generic):
            raise GetNotPermittedError(
                f"{self.operation.cmd_name} returns a {type(value).__name__}, which can't leave {self.worker.id!r}."
            )
        if not releases_all(self.worker):
            check_given(self.worker, self.session, self.operation, self.operation.cmd_name)
        return value if isinstance(value, bool | int | float | complex | str | bytes) else copy_value(value)


def check_given(worker: BaseWorker, session: Session, operation: Operation, how: str) -> None:
    """Raise unless the policy releases every held object that a call names; values in the message need no approval."""
    for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs)):
        if type(leaf) is Ref:
            check_release(worker, session, worker.object_store.get(leaf.id), how, obj_id=leaf.id)


def describe(response: object) -> Any:
    """Return the wire form of a result: metadata in place of tensors."""
    return map_tensors(lambda leaf: TensorMeta.of(leaf) if isinstance(leaf, torch.Tensor) else leaf, response)


def kind_of(obj: object) -> str:
    """Return the kind of pointer an object needs."""
    if isinstance(obj, torch.Tensor):
        return "tensor"
    if isinstance(obj, String):
        return "string"
    return "callable" if isinstance(obj, ObjectWrapper) else getattr(obj, "pointer_kind", "object")


def meta_of(obj: object) -> TensorMeta | ObjectMeta:
    """Return the metadata of an object, which reveals no values."""
    if type(obj) is ObjectOutline:
        known: TensorMeta | ObjectMeta = obj.meta
        return known
    return TensorMeta.of(obj) if isinstance(obj, torch.Tensor) else ObjectMeta(kind_of(obj))
