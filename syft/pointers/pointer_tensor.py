"""PointerTensor: a remote tensor with the whole API of torch.Tensor; each call is one message."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, below, keep_ids
from syft.exceptions import GetNotPermittedError, InvalidTensorForRemoteGetError
from syft.pointers import ways_back
from syft.pointers.lease import Lease
from syft.pointers.moves import Move, SharedMemory, check_differentiable, link_local, share_memory
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_rules import RULES, set_attribute
from syft.pointers.remote_call import call, pointer_kinds
from syft.pointers.wrapper_methods import WrapperMethods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from syft.workers.base import BaseWorker

_Tensor: Any = torch.Tensor
# The command that makes a remote tensor private.
MAKE_PRIVATE = "syft.make_private"


class PointerTensor(ObjectPointer, WrapperMethods):
    """A reference to a tensor at another worker.

    Shape, dtype and device are known without a message. See ObjectPointer for the arguments.

    Args:
        shape: ignored, for compatibility; the shape is requested when it is needed.
    """

    priority: ClassVar[int] = 0
    # Moves that gradients of this tensor flow back through.
    _moves: tuple[Move, ...] = ()
    # The memory that it may share with views, or with the tensor that it is a view of.
    _memory: SharedMemory | None = None
    # How many pointers lead from its worker to the copies of these moves; 0 if the copies are at its worker.
    _relays = 0
    # The move whose copy the last of these pointers points at, if it does not point at a result.
    _relayed: Move | None = None
    _is_private = False

    def __init__(
        self,
        location: object = None,
        id_at_location: ObjectId | None = None,
        owner: object = None,
        id: ObjectId | None = None,
        garbage_collect_data: bool = True,
        shape: Sequence[int] | None = None,
        point_to_attr: str | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(location, id_at_location, owner, id, garbage_collect_data, point_to_attr, tags, description)

    wrap = AbstractTensor.wrap

    def _second(self) -> PointerTensor:
        """Return a second pointer to the same tensor, with the same labels and the same way back for gradients."""
        made: PointerTensor = PointerTensor._attach(self.lease, self._owner, self._meta, self.point_to_attr)
        made.tags, made.description = self.tags, self.description
        share_memory((self,), made)
        made._moves, made._is_private = self._moves, self._is_private
        made._relays, made._relayed = self._relays, self._relayed
        return made

    def tensor_meta(self) -> TensorMeta:
        """Return shape, dtype, requires_grad and device; requested from the worker if not known yet."""
        if self._meta is None:
            self._meta = self.lease.stream.describe(self.ref())
        return self._meta

    def get_shape(self) -> torch.Size:
        """Request the shape from the worker."""
        self._meta = self.lease.stream.describe(self.ref())
        return self._meta.shape

    @property
    def shape(self) -> torch.Size:
        """The shape of the remote tensor."""
        return self.tensor_meta().shape

    @shape.setter
    def shape(self, value: Any) -> None:
        self._meta = dataclasses.replace(self.tensor_meta(), shape=torch.Size(value))

    @property
    def grad(self) -> Any:
        """A pointer to the remote gradient, or None if there is none."""
        return self._grad()

    @grad.setter
    def grad(self, value: object) -> None:
        self.setattr("grad", value)

    def _grad(self) -> Any:
        meta = self.lease.stream.grad_meta(self.ref())
        if meta is None:
            return None
        name = "grad" if self.point_to_attr is None else f"{self.point_to_attr}.grad"
        return PointerTensor._attach(self.lease, self._owner, meta, name)

    def grad_of(self, shell: object) -> Any:
        """Return the wrapped remote gradient; the same wrapper as long as its metadata is the same."""
        meta = self.lease.stream.grad_meta(self.ref())
        if meta is None:
            return None
        wrapped = self.__dict__.get("_grad_shell")
        if wrapped is None or wrapped.__dict__["child"]._meta != meta:
            name = "grad" if self.point_to_attr is None else f"{self.point_to_attr}.grad"
            wrapped = self._grad_shell = PointerTensor._attach(self.lease, self._owner, meta, name).wrap()
        return wrapped

    def set_grad_of(self, shell: object, value: object) -> None:
        """Set the remote gradient."""
        set_attribute(self, "grad", value)

    @property
    def data(self) -> Any:
        """A pointer to the remote `.data`."""
        return call(_Tensor.data.__get__, (self,), {})

    @data.setter
    def data(self, value: object) -> None:
        self.setattr("data", value)

    @property
    def private(self) -> bool:
        """Whether this pointer made the remote tensor private: its worker then releases it to no client."""
        return self._is_private

    @private.setter
    def private(self, value: bool) -> None:
        if not value:
            raise GetNotPermittedError(
                "A pointer can't set private = False. The owner of the worker can, on the tensor at the worker."
            )
        self.lease.stream.run(MAKE_PRIVATE, (self.ref(),), {}, None)
        self._is_private = True

    def setattr(self, name: str, value: object) -> None:
        """Set `grad`, `data` or `requires_grad` of the remote tensor."""
        set_attribute(self, name, value)

    def clone(self, *, memory_format: torch.memory_format | None = None) -> Any:
        """Return a pointer with the same id to a copy of the remote tensor, at its worker."""
        options = {} if memory_format is None else {"memory_format": memory_format}
        return keep_ids(self, call(torch.Tensor.clone, (self,), options))

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {
            "location": self.location,
            "id_at_location": self.id_at_location,
            "garbage_collect_data": self.garbage_collect_data,
        }

    def get(self, user: Any = None, reason: str = "", deregister_ptr: bool = True) -> Any:
        """Fetch the tensor and remove it from its worker; a copy that was moved keeps its way back for gradients."""
        obj = super().get(user, reason, deregister_ptr)
        return ways_back.fetched(self, obj, call) if self._moves or self._relays else obj

    def move(self, location: BaseWorker | ObjectId, requires_grad: bool = False) -> Any:
        """Move the remote tensor to another worker and return a pointer to it there.

        A move to its own worker does nothing; a move to the local worker is `.get()`.

        Args:
            location: the receiving worker.
            requires_grad: whether gradients flow back through the move. This tensor then stays, its copy requires a
                gradient, and backward passes at the new worker continue at this one.
        """
        destination = self._owner.get_worker(location, fail_hard=True)
        if requires_grad:
            return self._move_with_gradient(destination)
        if destination is self.location:
            return self
        if destination is self._owner:
            return self.get()
        source = self if self.point_to_attr is None else self.copy()
        moved = source._hand_over(destination)
        if source._moves or source._relays:
            ways_back.moved_on(source, moved)
        return moved

    def _move_with_gradient(self, destination: BaseWorker) -> Any:
        meta = self.tensor_meta()
        check_differentiable(meta, "move")
        if destination is self.location:
            return self if meta.requires_grad else call(_Tensor.requires_grad_, (self,), {})
        if self.point_to_attr is not None:
            return call(_Tensor.detach, (self,), {})._move_with_gradient(destination)
        copy = call(_Tensor.detach, (self,), {})
        moved = copy.get() if destination is self._owner else copy._hand_over(destination)
        root = None
        if meta.requires_grad:
            call(_Tensor.retain_grad, (self,), {})  # it has a gradient afterwards, also if it is a result
            with torch.enable_grad():
                root = call(_Tensor.clone, (self,), {})  # calls that change this tensor later are no part of its graph
        source = PointerTensor._attach(self.lease, self._owner, meta)  # move_() lets this pointer become the copy
        source._relays = self._relays
        if root is not None and self._relays:
            root._relays = self._relays
        if destination is self._owner:
            return link_local(moved, source, root, call)
        call(_Tensor.requires_grad_, (moved,), {})
        moved.reshaped = False
        moved._relays = self._relays
        Move(source, moved, root)
        return moved

    def _hand_over(self, destination: BaseWorker) -> PointerTensor:
        self.lease.check()
        new_id = ID_PROVIDER.pop()
        stream = self._owner.stream_to(destination)  # opened first, so that this client owns the claim there
        meta = self.lease.stream.hand_over(self.id_at_location, destination, new_id, keep_pointer=False)
        self.lease.spend(f"it was moved to {destination.id!r}")
        self.lease.note_leaf(meta)
        lease = Lease(stream, new_id)
        pointer = PointerTensor._attach(lease, self._owner, meta)
        pointer.tags, pointer.description = set(self.tags), self.description
        return pointer

    def remote_send(self, destination: BaseWorker, change_location: bool = False) -> Any:
        """Move the remote tensor on; this pointer then points at a pointer (or at the tensor).

        Args:
            destination: the receiving worker.
            change_location: point at the tensor instead of at the pointer that replaces it.
        """
        destination = self._owner.get_worker(destination, fail_hard=True)
        if change_location:
            return self.move(destination)
        self.lease.check()
        new_id = ID_PROVIDER.pop()
        meta = self.lease.stream.hand_over(self.id_at_location, destination, new_id, keep_pointer=True)
        self._meta = meta if meta is not None else self._meta
        if self._moves or self._relays:
            ways_back.sent_on(self)
        return self

    def remote_get(self) -> Any:
        """Make the pointer that this pointer points at fetch its tensor, there."""
        self.lease.check()
        self._meta = self.lease.stream.fetch_there(self.id_at_location)
        if self._moves or self._relays:
            ways_back.fetched_there(self)
        return self

    mid_get = remote_get

    def attr(self, attr_name: str) -> Any:
        """Return an attribute: metadata, or a pointer to the remote attribute."""
        if attr_name in ("shape", "dtype", "requires_grad", "device"):
            return getattr(self.tensor_meta(), attr_name)
        if attr_name == "grad":
            return self.grad
        return self.__getattr__(attr_name)

    def item(self) -> Any:
        """Request the value of a one-element tensor."""
        return call(torch.Tensor.item, (self,), {})

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call where the data is."""
        rule = RULES.get(function)
        return call(function, args, kwargs) if rule is None else rule(function, args, kwargs)

    @staticmethod
    def simplify(worker: BaseWorker | None, ptr: Any) -> tuple[Any, ...]:
        """Return the fields another worker needs to use this pointer."""
        if getattr(ptr, "_moves", ()):
            ways_back.check_serializable(ptr)
        meta = ptr.tensor_meta() if isinstance(ptr, PointerTensor) else None
        return (*ObjectPointer.simplify(worker, ptr), meta)


pointer_kinds["tensor"] = PointerTensor


def require_pointer(obj: object) -> ObjectPointer:
    """Return the pointer inside an object, or raise."""
    found = below(obj)
    if not isinstance(found, ObjectPointer):
        raise InvalidTensorForRemoteGetError(obj)
    return found
