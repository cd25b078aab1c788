"""HTTP routes of the status of a node, for its owner."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import APIRouter

from syft.grid.identity.roles import Capability
from syft.grid.node.api.access import make_router, needs, refusals
from syft.grid.node.api.models import Status
from syft.grid.server.auth import Principal

if TYPE_CHECKING:
    from syft.grid.node.node import Node


def make_status(node: Node) -> APIRouter:
    """Return the routes of the node's status."""
    router = make_router("node")
    owner = needs(node, Capability.MANAGE_NODE)
    started = time.monotonic()

    @router.get("/status", responses=refusals())
    def status(principal: Principal = owner) -> Status:
        """Return the status of the node."""
        usage, settings = node.object_manager.ledger.usage(node=True), node.settings
        return Status(
            id=str(node.worker.id),
            owner=settings.owner,
            version=node.context.version(),
            fingerprint=node.identity.fingerprint,
            uptime=time.monotonic() - started,
            tokens=node.context.authenticator.tokens,
            tls=settings.tls,
            durable=node.storage is not None,
            figures=node.context.figures(),
            users=len(node.identity.users),
            published=count_published(node),
            objects=usage.objects,
            bytes=usage.bytes,
            max_objects=settings.max_objects,
            max_bytes=settings.max_bytes,
            pending_requests=len(node.policy.requests.list(status="pending")),
        )

    return router


def count_published(node: Node) -> int:
    """Return the number of published objects."""
    store = node.worker.object_store
    return sum(store.claims.is_published(obj_id) for obj_id in store.outlines())
