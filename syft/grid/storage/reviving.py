"""Stored descriptions and bytes as objects of a worker, and whose they are."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import DESCRIPTION, TAGS, set_id
from syft.core.object_storage import Outline
from syft.grid.storage.interface import Facts, Item
from syft.serde import deserialize
from syft.workers.provenance import known_rights, ledger_of, rights_from_row, row_of, set_rights

_RIGHTS = "rights"
_NOBODY = ("a client without a name",)
_NO_LIMIT = 1 << 62  # what is on our own disk, with the right checksum, was let in before


def restore_rights(worker: Any, item: Item, obj: Any) -> None:
    """Give an object, or its outline, the rights that were stored with it."""
    if _RIGHTS in item.facts.notes:
        rights = rights_from_row(worker, item.facts.notes[_RIGHTS])
        set_rights(obj, rights)
        if rights.mark:
            ledger_of(worker).marked.add(item.id)


def revive(worker: Any, item: Item, value: memoryview) -> Any:
    """Return the object of a description and of bytes that nobody else uses."""
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


def payer_of(session: Any) -> object:
    """Return whose an object of a session counts as: the owner of the node has no bounds but the node's."""
    if getattr(session, "role", None) == "owner":
        return None
    return _NOBODY if session.client_id is None else session.client_id


def facts_of(obj_id: ObjectId, obj: Any, default: Facts) -> Facts:
    """Return whose an object is, as the worker's policy noted it on the object; else the default."""
    rights = known_rights(obj)
    if rights is None:
        owner = default.owner if isinstance(default.owner, str | int) else None
        return dataclasses.replace(default, owner=owner)
    row = row_of(rights)
    ids = tuple(source["id"] for source in row["sources"] if source["id"] is not None)
    own = [source["allowed_users"] for source in row["sources"] if source["id"] == obj_id]
    return Facts(row["owner"], ids, tuple(own[0]) if own else default.allowed_users, {**default.notes, _RIGHTS: row})


def outline_of(item: Item) -> Outline:
    """Return what stands for a stored object until somebody asks for it."""
    return Outline(item.id, item.meta, set(item.tags), item.description)
