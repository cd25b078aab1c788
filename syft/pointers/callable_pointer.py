"""CallablePointer: a reference to a remote object that can be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_object, pointer_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker


class CallablePointer(ObjectPointer):
    """A pointer to a callable at another worker; see ObjectPointer for the arguments."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the remote object with arguments at its worker; returns pointers to its results."""
        return call_object("syft.call", self, args, kwargs)


pointer_kinds["callable"] = CallablePointer


def create_callable_pointer(
    location: BaseWorker,
    id: ObjectId,
    id_at_location: ObjectId,
    owner: BaseWorker,
    tags: Iterable[str],
    description: str | None,
    garbage_collect_data: bool = True,
    register_pointer: bool = True,
) -> CallablePointer:
    """Make a pointer to a callable; with `register_pointer`, its owner stores it."""
    pointer = CallablePointer(
        location=location,
        id=id,
        id_at_location=id_at_location,
        owner=owner,
        tags=tags,
        description=description,
        garbage_collect_data=garbage_collect_data,
    )
    if register_pointer and pointer._owner is not None:
        pointer._owner.register_obj(pointer)
    return pointer
