"""Access rights of a user to a published object of the node: none, compute with it, or read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from syft.core.id_provider import ObjectId
from syft.grid.storage.interface import Item
from syft.grid.storage.object_manager import HIDDEN_KIND
from syft.hosting.server import FLAGS, PREFIX

if TYPE_CHECKING:
    from syft.grid.node.node import Node

COMPUTE, READ = "compute", "read"
OWNER = "owner"
# Hosted models with one of these tags are available to all users of the node.
_FOR_OTHERS = frozenset({FLAGS["allow_download"], FLAGS["allow_remote_inference"]})


class HasRole(Protocol):
    """A user with a role at the node."""

    @property
    def user(self) -> Any:
        """The name of the user."""

    @property
    def role(self) -> str:
        """The role of the user."""


def right_of(node: Node, principal: HasRole, obj_id: ObjectId) -> str | None:
    """Return the right of a user to a published object.

    Returns:
        READ, COMPUTE, or None for an object that does not exist for this user.
    """
    item = _published(node, obj_id)
    if item is None:
        return None
    if principal.role == OWNER or node.policy.may_read(item.facts, principal.user):
        return READ
    return None if _is_withheld(item) else COMPUTE


def may_change(node: Node, principal: HasRole, obj_id: ObjectId) -> bool:
    """Return whether a user may change or delete a published object: owners of the node all, others their own."""
    item = _published(node, obj_id)
    return item is not None and controls(principal, item)


def controls(principal: HasRole, item: Item) -> bool:
    """Return whether a user is an owner of the node, or the owner of a stored object."""
    return principal.role == OWNER or (item.facts.owner is not None and item.facts.owner == principal.user)


def _is_withheld(item: Item) -> bool:
    """Return whether an object is a hosted model without users: it does not exist for users other than its owner."""
    return type(item.id) is str and item.id.startswith(PREFIX) and _FOR_OTHERS.isdisjoint(item.tags)


def _published(node: Node, obj_id: ObjectId) -> Item | None:
    """Return a stored object, unless it is a sealed copy: users can't name those."""
    item = node.object_manager.item(obj_id)
    return None if item is None or item.kind == HIDDEN_KIND else item
