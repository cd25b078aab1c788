"""HTTP routes of objects, without their values."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

import torch
from fastapi import APIRouter, HTTPException, Path, Query

from syft.core.id_provider import MAX_ID_CHARS, ObjectId, all_named, parse_id
from syft.core.labels import description_of, printable, tags_of
from syft.core.object_storage import ObjectOutline
from syft.core.references import ObjectMeta, TensorMeta
from syft.grid.identity.names import user_name
from syft.grid.identity.roles import Capability
from syft.grid.isolation.supervisor.access import READ, right_of
from syft.grid.node.api.access import caller, make_router, needs, refusals
from syft.grid.node.api.models import ObjectRow, Sharing
from syft.grid.server.auth import Principal
from syft.grid.storage.quotas import memory_of
from syft.workers.execution.execute import kind_of

if TYPE_CHECKING:
    from syft.grid.node.node import Node

_MAX_TEXT = 2000
_MAX_LISTED = 10
ObjectIdPath = Annotated[str, Path(min_length=1, max_length=MAX_ID_CHARS)]


def make_objects(node: Node) -> APIRouter:
    """Return the routes of objects."""
    router = make_router("objects")
    anybody, owner = caller(node), needs(node, Capability.MANAGE_NODE)

    @router.get("/objects", responses=refusals())
    def list_objects(
        tag: str | None = Query(default=None, max_length=MAX_ID_CHARS, description="only objects with this tag"),
        published: bool = Query(default=True, description="skip temporary objects of sessions"),
        skip: int = Query(default=0, ge=0, le=2**31),
        limit: int = Query(default=100, ge=1, le=1000),
        principal: Principal = anybody,
    ) -> list[ObjectRow]:
        """List the published objects."""
        store = node.worker.object_store
        found = (
            (obj_id, obj)
            for obj_id, obj in store.outlines().items()
            if (tag is None or tag in tags_of(obj))
            and (not published or store.claims.is_published(obj_id))
            and right_of(node, principal, obj_id) is not None
        )
        return [_row(node, principal, *each) for each in itertools.islice(found, skip, skip + limit)]

    @router.delete("/objects/{object_id:path}", status_code=204, responses=refusals(404, 409))
    def delete_object(
        object_id: str = Path(min_length=1, max_length=MAX_ID_CHARS), principal: Principal = owner
    ) -> None:
        """Delete an object, also from disk."""
        store = node.worker.object_store
        obj_id = find_id(store.objects, object_id)
        store.remove(obj_id)
        store.note_departure(obj_id, "it was deleted by the owner of the node")
        node.audit.write(principal.user, "delete", obj_id=obj_id, allowed=True)

    @router.put("/objects/{object_id:path}/users", status_code=204, responses=refusals(404, 409))
    def share_object(given: Sharing, object_id: ObjectIdPath, principal: Principal = owner) -> None:
        """Replace the readers of a data set."""
        obj_id = find_id(node.worker.object_store.objects, object_id)
        names = [user_name(user) for user in given.users]
        node.policy.share(node.worker, obj_id, names, given.public, by=principal.user)

    return router


def find_id(objects: Any, text: str) -> ObjectId:
    """Return the id of an object, given as text: the text of a number means the number, or its first digits.

    Users choose ids, so a number may be the id of one object and the first digits of another's. That is refused.
    """
    found = all_named(parse_id(text), objects)
    if not found:
        raise HTTPException(404, f"There is no object {printable(text)!r}.")
    if len(found) > 1:
        raise HTTPException(409, several(text, found))
    return found[0]


def several(text: str, found: list[ObjectId]) -> str:
    """Return the error of a text that names several objects."""
    listed = ", ".join(printable(obj_id) for obj_id in found[:_MAX_LISTED])
    return f"{printable(text)!r} names {len(found)} objects: {listed}. Use all digits of one, or delete the other."


def _row(node: Node, principal: Principal, obj_id: ObjectId, obj: object) -> ObjectRow:
    meta = meta_of(obj)
    item, description = node.object_manager.item(obj_id), description_of(obj)
    owner = None if item is None else item.facts.owner
    return ObjectRow(
        id=str(obj_id),
        kind=getattr(meta, "kind", "tensor"),
        shape=list(meta.shape) if isinstance(meta, TensorMeta) else None,
        dtype=str(meta.dtype).removeprefix("torch.") if isinstance(meta, TensorMeta) else None,
        tags=sorted(str(tag)[:_MAX_TEXT] for tag in tags_of(obj)),
        description=None if description is None else description[:_MAX_TEXT],
        owner=str(owner) if isinstance(owner, str | int) else None,
        published=node.worker.object_store.claims.is_published(obj_id),
        size=_size(node, principal, obj_id, obj),
    )


def meta_of(obj: object) -> Any:
    """Return the description of an object, without reading it."""
    if isinstance(obj, ObjectOutline):
        return obj.meta
    return TensorMeta.of(obj) if isinstance(obj, torch.Tensor) else ObjectMeta(kind_of(obj))


def _size(node: Node, principal: Principal, obj_id: ObjectId, obj: object) -> int | None:
    """Return the size of an object; None if the caller may not read it, since it may depend on values."""
    if right_of(node, principal, obj_id) != READ:
        return None
    item = node.object_manager.item(obj_id)
    if item is not None:
        return int(item.memory)
    return None if isinstance(obj, ObjectOutline) else sum(memory_of(obj).values())
