"""Access: what a user may do with a published object of the node: nothing, compute with it, or read it."""

from __future__ import annotations

from typing import Any

from syft.core.id_provider import ObjectId
from syft.grid.storage.interface import Item
from syft.grid.storage.object_manager import HIDDEN_KIND
from syft.hosting.server import FLAGS, PREFIX

COMPUTE, READ = "compute", "read"
OWNER = "owner"
# A hosted model with one of these tags is for all users of the node.
_FOR_OTHERS = frozenset({FLAGS["allow_download"], FLAGS["allow_remote_inference"]})


def right_of(node: Any, principal: Any, obj_id: ObjectId) -> str | None:
    """Return what a user may do with a published object.

    Args:
        node: the node.
        principal: the user, with `user` and `role`.
        obj_id: the id of the object.

    Returns:
        READ, COMPUTE, or None for an object that does not exist as far as this user is concerned.
    """
    item = _published(node, obj_id)
    if item is None:
        return None
    if principal.role == OWNER or node.policy.may_read(item.facts, principal.user):
        return READ
    return None if _is_withheld(item) else COMPUTE


def may_change(node: Any, principal: Any, obj_id: ObjectId) -> bool:
    """Whether a user may change or delete a published object: its own, or as an owner of the node all."""
    item = _published(node, obj_id)
    if item is None:
        return False
    return principal.role == OWNER or (item.facts.owner is not None and item.facts.owner == principal.user)


def _is_withheld(item: Item) -> bool:
    """Whether an object is a hosted model that its owner offers to nobody: it does not exist for other users."""
    return type(item.id) is str and item.id.startswith(PREFIX) and _FOR_OTHERS.isdisjoint(item.tags)


def _published(node: Any, obj_id: ObjectId) -> Item | None:
    """Return a stored object, unless it is a sealed copy: those belong to their requests, and nobody names them."""
    item: Item | None = node.keeper.item(obj_id)
    return None if item is None or item.kind == HIDDEN_KIND else item
