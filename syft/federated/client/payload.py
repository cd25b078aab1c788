"""Payload: plain values, tensors and plans by name, sent together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.core.object import AbstractObject
from syft.core.trees import register_leaf
from syft.exceptions import SerdeError
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import pointer_kinds
from syft.serde import register

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

MAX_NAMES = 256


class Payload(AbstractObject):
    """The arguments or the result of a call to a client session: values by name."""

    pointer_kind = "payload"

    def __init__(self, contents: dict[str, Any], id: ObjectId | None = None, owner: object = None) -> None:
        super().__init__(id=id, owner=owner)
        self.contents = contents

    def __repr__(self) -> str:
        return f"<Payload of {', '.join(sorted(self.contents)) or 'nothing'}>"

    @staticmethod
    def simplify(worker: BaseWorker, payload: Payload) -> tuple[Any, ...]:
        """Return the contents."""
        return (payload.contents,)

    @staticmethod
    def detail(worker: BaseWorker, payload_tuple: tuple[Any, ...]) -> Payload:
        """Rebuild a payload from untrusted parts."""
        (contents,) = payload_tuple
        if type(contents) is not dict or len(contents) > MAX_NAMES or not all(type(name) is str for name in contents):
            raise SerdeError("A payload must hold values by name.")
        return Payload(contents, owner=worker)


register_leaf(Payload)
pointer_kinds[Payload.pointer_kind] = ObjectPointer
register(Payload, code=164)
