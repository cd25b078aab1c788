"""ObjectWrapper: gives any object an id, tags and a description, so that it can be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.object import AbstractObject
from syft.pointers.callable_pointer import CallablePointer, create_callable_pointer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker


class ObjectWrapper(AbstractObject):
    """An object that is not a tensor, such as a script module, made sendable.

    Args:
        obj: the object.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
    """

    is_lasting = True

    def __init__(
        self,
        obj: Any,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        owner: BaseWorker | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self._obj = obj

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object."""
        return self._obj(*args, **kwargs)

    @property
    def obj(self) -> Any:
        """The object inside."""
        return self._obj

    def send(self, location: BaseWorker | ObjectId, **kwargs: object) -> Any:
        """Send the object to a worker and return a pointer that can be called."""
        return self.owner.send(self, location, **kwargs)

    @staticmethod
    def create_pointer(
        object: Any,
        owner: BaseWorker,
        location: BaseWorker,
        ptr_id: ObjectId,
        id_at_location: ObjectId | None = None,
        garbage_collect_data: bool | None = None,
        **kwargs: Any,
    ) -> CallablePointer:
        """Make a pointer to an object that a worker holds."""
        return create_callable_pointer(
            location=location,
            id=ptr_id,
            id_at_location=id_at_location if id_at_location is not None else object.id,
            owner=owner,
            tags=object.tags,
            description=object.description,
            garbage_collect_data=bool(garbage_collect_data),
        )

    def __repr__(self) -> str:
        return f"<ObjectWrapper of {type(self._obj).__name__} id:{self.id}>"

    @staticmethod
    def simplify(worker: BaseWorker | None, obj: ObjectWrapper) -> tuple[Any, ...]:
        """Return id, object, tags and description."""
        return (obj.id, obj._obj, obj.tags, obj.description)

    @staticmethod
    def detail(worker: BaseWorker | None, obj_wrapper_tuple: tuple[Any, ...]) -> ObjectWrapper:
        """Rebuild a wrapper at a worker."""
        obj_id, obj, tags, description = obj_wrapper_tuple
        check_labels(obj_id, tags, description)
        return ObjectWrapper(obj, id=obj_id, tags=tags, description=description, owner=worker)
