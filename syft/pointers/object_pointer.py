"""ObjectPointer: a reference to an object that another worker holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId, is_id, short_id
from syft.core.labels import check_labels, one_line, printable
from syft.core.object import AbstractObject
from syft.core.references import Ref, TensorMeta
from syft.core.tensor import below
from syft.core.trees import iter_tensors
from syft.exceptions import (
    CannotRequestObjectAttributeError,
    ObjectNotFoundError,
    SyftError,
    UnsupportedOperationError,
    WorkerNotFoundError,
)
from syft.pointers.lease import Lease
from syft.pointers.request import Request, request_together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker


class ObjectPointer(AbstractObject):
    """A reference to an object at another worker.

    The object is deleted there with its last pointer, unless `garbage_collect_data` is False.

    Args:
        location: the worker that holds the object.
        id_at_location: the object's id there.
        owner: the worker this pointer belongs to; the local worker by default.
        id: the id of the pointer itself.
        garbage_collect_data: whether the object is deleted with its last pointer.
        point_to_attr: the name of an attribute of the object, if the pointer points at it.
        tags: its tags, which searches match.
        description: its description, which searches match.
    """

    # The metadata of a remote tensor, if known.
    _meta: TensorMeta | None = None

    def __init__(
        self,
        location: object = None,
        id_at_location: ObjectId | None = None,
        owner: object = None,
        id: ObjectId | None = None,
        garbage_collect_data: bool = True,
        point_to_attr: str | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.point_to_attr = point_to_attr
        self.id_at_location: ObjectId = id_at_location if id_at_location is not None else ID_PROVIDER.pop()
        if self._owner is None:
            self._owner = local_worker()
        self.location = self._owner.get_worker(location, fail_hard=True)
        stream = self._owner.stream_to(self.location)
        if garbage_collect_data:
            try:
                stream.retain(self.id_at_location)
            except ObjectNotFoundError:  # nothing to claim; the first use of the pointer says so
                garbage_collect_data = False
        self.lease = Lease(stream, self.id_at_location, garbage_collect_data)

    @classmethod
    def _attach(
        cls, lease: Lease, owner: BaseWorker, meta: TensorMeta | None = None, point_to_attr: str | None = None
    ) -> Self:
        """Make a pointer from a lease, sending nothing."""
        pointer = cls.__new__(cls)
        pointer._id = None
        pointer._owner = owner
        pointer.tags = set()
        pointer.description = None
        pointer._meta = meta
        pointer.point_to_attr = point_to_attr
        pointer.lease = lease
        pointer.location = lease.stream.location
        pointer.id_at_location = lease.obj_id
        return pointer

    @property
    def garbage_collect_data(self) -> bool:
        """Whether the remote object is deleted with its last pointer."""
        return self.lease.owned or self.lease.pending

    @garbage_collect_data.setter
    def garbage_collect_data(self, value: bool) -> None:
        owned = bool(value) and self.lease.spent is None
        lease = self.lease
        if owned is not lease.owned and lease.spent is None:
            if not owned:
                lease.stream.publish(self.id_at_location)
            elif not lease.kept:
                lease.stream.claim(self.id_at_location)
            lease.kept = False
        lease.owned, lease.pending = owned, False

    gc = garbage_collection = garbage_collect_data

    def set_garbage_collect_data(self, value: bool) -> None:
        """Set whether the remote object is deleted with its last pointer."""
        self.garbage_collect_data = value

    def ref(self) -> Ref:
        """Return the reference to the object in a message to its worker."""
        self.lease.check()
        return Ref(self.id_at_location, self.point_to_attr)

    @classmethod
    def create_pointer(
        cls,
        obj: Any,
        location: object = None,
        id_at_location: ObjectId | None = None,
        register: bool = False,
        owner: object = None,
        ptr_id: ObjectId | None = None,
        garbage_collect_data: bool | None = None,
        shape: object = None,
        **kwargs: Any,
    ) -> Self:
        """Make a pointer to an object that `location` holds (its owner by default)."""
        pointer = cls(
            location=location if location is not None else obj.owner,
            id_at_location=id_at_location if id_at_location is not None else obj.id,
            owner=owner,
            id=ptr_id,
            garbage_collect_data=bool(garbage_collect_data),
            tags=obj.tags,
            description=obj.description,
        )
        pointer._meta = TensorMeta.of(obj) if isinstance(obj, torch.Tensor) else None
        return pointer

    def wrap(self, register: bool = True, type: object = None, **kwargs: object) -> Any:
        """Return the pointer itself: only tensors need a wrapper."""
        return self

    @classmethod
    def handle_func_command(cls, command: tuple[Any, ...]) -> Any:
        """Send a command `(name, self, args, kwargs)` to the worker that its pointer points at."""
        pointer = cls.find_a_pointer(command)
        name, self, args, kwargs = command
        all_args = args if self is None else (self, *args)
        return pointer._owner.send_command(pointer.location, (name, None, all_args, kwargs or {}))

    @classmethod
    def find_a_pointer(cls, command: tuple[Any, ...]) -> ObjectPointer:
        """Return the first pointer among the arguments of a command."""
        for leaf in iter_tensors(command[1:]):
            found = below(leaf)
            if isinstance(found, ObjectPointer):
                return found
        raise SyftError("A command needs a pointer among its arguments, to find its worker.")

    def get(self, user: Any = None, reason: str = "", deregister_ptr: bool = True) -> Any:
        """Fetch the object and remove it from its worker.

        Args:
            user: the user who fetches, for private tensors in a sandbox; a node reads it from the connection.
            reason: a text for the worker's log.
            deregister_ptr: whether the owner of this pointer, if it stores it, removes it.
        """
        if self.point_to_attr is not None:
            raise CannotRequestObjectAttributeError(self.point_to_attr)
        self.lease.check()
        obj = self.lease.stream.fetch(self.id_at_location, reason, user)
        self.lease.spend_fetched(obj, self._owner)
        if deregister_ptr:
            self._deregister()
        return obj

    def _deregister(self) -> None:
        """Take this pointer, or its wrapper, out of the store of its owner."""
        # The store itself: `_objects` waits for the requests of all clients, and this may serve one of them.
        held = None if self._id is None else self._owner.object_store.objects.get(self._id)
        if held is self or getattr(held, "child", None) is self:
            self._owner.rm_obj(self._id)

    def request(self, reason: str = "") -> Request:
        """Request the release of the object from the owner of its worker.

        Args:
            reason: the purpose, for the owner.

        Returns:
            The request: `request.status()` returns its status, `request.wait(timeout)` waits for a decision. After
            the approval, `get()` works.
        """
        return request_together([self], str(reason))

    def put_back(self, obj: object) -> None:
        """Return the object that was just fetched to its worker, after an error."""
        self.lease.stream.store(obj, self.id_at_location, published=False)
        self.lease.restore()

    def get_(self, user: object = None, reason: str = "", deregister_ptr: bool = True) -> Any:
        """Fetch the object (a pointer can't become it in place)."""
        return self.get(user, reason, deregister_ptr)

    def delete(self) -> None:
        """Delete the remote object now, even if other clients have pointers to it."""
        self.lease.check()
        self.lease.stream.delete(self.id_at_location)
        self.lease.spend(f"it was deleted by {self._owner.id!r}")

    force_delete = delete

    def is_none(self) -> bool:
        """Return whether the remote object is None."""
        return bool(self.lease.stream.is_none(self.ref()))

    def tag(self, *tags: str) -> Any:
        """Add tags to this pointer and the remote object; an object with tags is published."""
        super().tag(*tags)
        self.lease.stream.run("syft.tag", (self.ref(), *tags), {}, None)
        if self.point_to_attr is None:
            self.garbage_collect_data = False
        return self

    def describe(self, description: str) -> Any:
        """Set the description of this pointer and the remote object."""
        super().describe(description)
        self.lease.stream.run("syft.describe", (self.ref(), description), {}, None)
        return self

    def attr(self, attr_name: str) -> Any:
        """Return a pointer to an attribute of the remote object."""
        name = attr_name if self.point_to_attr is None else f"{self.point_to_attr}.{attr_name}"
        return type(self)._attach(self.lease, self._owner, None, name)

    def setattr(self, name: str, value: object) -> None:
        """Refuse: an object's attributes are set by the calls its type allows."""
        raise UnsupportedOperationError(f"Setting the attribute {name!r}", f"a pointer to {type(self).__name__}")

    def _head(self) -> str:
        """Return the text that says where the object is; ids are shortened."""
        me = getattr(self._owner, "id", None)
        attr = f"::{self.point_to_attr}" if self.point_to_attr else ""
        there = f"{self.location.id}:{short_id(self.id_at_location)}{attr}"
        return f"[{type(self).__name__} | {me}:{short_id(self.id)} -> {there}]"

    def __repr__(self) -> str:
        return self._text(with_shape=False)

    def __str__(self) -> str:
        return self._text(with_shape=True)

    def _text(self, with_shape: bool) -> str:
        """Return the text of this pointer; an object with labels has a line for each, and for its shape."""
        text = self._head()
        shape = f"Shape: {self._meta.shape}" if isinstance(self._meta, TensorMeta) else ""
        if with_shape and shape and not self.tags and not self.description:
            text += f" {shape}"
        if self.lease.spent:
            text += f" (spent: {self.lease.spent})"
        elif (reason := getattr(self.lease.stream, "moved", {}).get(self.id_at_location)) is not None:
            text += f" (in the vault of {self.location.id}: {reason})"
        if self.tags:
            text += "\n\tTags: " + one_line(" ".join(sorted(self.tags)))
        if shape and (self.tags or self.description):
            text += f"\n\t{shape}"
        if self.description:
            text += "\n\tDescription: " + printable(self.description.split("\n")[0][:60])
        return text

    def _repr_html_(self) -> str:
        from syft.display import pointer_html

        return pointer_html(self)

    @staticmethod
    def simplify(worker: BaseWorker | None, ptr: ObjectPointer) -> tuple[Any, ...]:
        """Return the fields another worker needs to use this pointer."""
        ptr.lease.check()
        return (
            ptr.id,
            ptr.id_at_location,
            ptr.location.id,
            ptr.point_to_attr,
            ptr.tags,
            ptr.description,
            ptr.lease.owned,
        )

    @classmethod
    def detail(cls, worker: BaseWorker | None, object_tuple: tuple[Any, ...]) -> Any:
        """Rebuild a pointer at a worker; a pointer to that worker becomes the object itself.

        The new pointer has no claim until it takes over the one of its sender (see `adopt`).
        """
        obj_id, id_at_location, location_id, point_to_attr, tags, description, owned, *rest = object_tuple
        check_labels(obj_id, tags, description)
        meta = rest[0] if rest else None
        if not is_id(id_at_location) or not (meta is None or type(meta) is TensorMeta):
            raise TypeError("a pointer needs the id of its object, and its metadata")
        if worker is None:
            worker = local_worker()
        if location_id == worker.id:
            return worker.resolve(Ref(id_at_location, point_to_attr))
        location = worker.known(location_id) if is_id(location_id) else None
        if location is None:  # the workers known here are not disclosed to peers
            raise WorkerNotFoundError(location_id, ("not disclosed to peers",))
        lease = Lease(worker.stream_to(location), id_at_location, owned=False)
        lease.pending = bool(owned)
        pointer = cls._attach(lease, worker, meta, point_to_attr)
        pointer._id = obj_id
        pointer.tags = set(tags)
        pointer.description = description
        return pointer


def retain_for_transfer(pointer: ObjectPointer) -> None:
    """Claim the object once more, for the worker that a copy of this pointer is about to be sent to."""
    pointer.lease.check()
    if pointer.lease.owned:
        pointer.lease.stream.retain(pointer.id_at_location)


def adopt(pointer: ObjectPointer) -> None:
    """Take over the claim that came with a pointer."""
    if pointer.lease.pending:
        pointer.lease.pending, pointer.lease.owned = False, True
        pointer.lease.stream.claim(pointer.id_at_location)
