"""Restore the objects of a worker from stored descriptions and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.labels import DESCRIPTION, TAGS, set_id
from syft.core.object_storage import ObjectOutline
from syft.grid.storage.interface import Item
from syft.serde import deserialize

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

_ANONYMOUS = ("a client without a name",)
_NO_LIMIT = 1 << 62  # a stored value with the right checksum was accepted before


def revive(worker: BaseWorker, item: Item, value: memoryview) -> Any:
    """Return the object of a description and its bytes; the object takes ownership of the buffer."""
    obj = deserialize(value, worker, max_message_bytes=_NO_LIMIT, owns_buffer=True)
    set_id(obj, item.id)
    if not isinstance(obj, torch.Tensor):
        obj.tags, obj.description = set(item.tags), item.description
        return obj
    for name, label in ((TAGS, set(item.tags)), (DESCRIPTION, item.description)):
        obj.__dict__.pop(name, None)
        if label:
            obj.__dict__[name] = label
    return obj


def payer_of(session: Session) -> object:
    """Return the user whose quota a session's objects count against; None for the owner of the node."""
    if getattr(session, "role", None) == "owner":
        return None
    return _ANONYMOUS if session.client_id is None else session.client_id


def outline_of(item: Item) -> ObjectOutline:
    """Return the placeholder of a stored object until it is read."""
    return ObjectOutline(item.id, item.meta, set(item.tags), item.description)
