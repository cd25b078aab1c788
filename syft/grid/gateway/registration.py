"""Membership: how a node makes itself known to a gateway, and stays known.

It registers, proves that it is where it says, and tells again and again that it is there, and what can be found: the
tags of what is published, and the names of models that others may use. Never values.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import BaseModel

from syft.core.labels import tags_of
from syft.exceptions import AuthenticationError, SyftError
from syft.grid.gateway.address_challenge import PATH, answer
from syft.grid.gateway.models import MAX_MODELS, MAX_SETS, MAX_TAG, MAX_TAGS
from syft.hosting.server import PREFIX, facts_of, is_shared, names_at
from syft.workers.node_client import parse_address
from syft.workers.transport.http import ask
from syft.workers.websocket_client import where_of

if TYPE_CHECKING:
    from syft.grid.node.node import Node
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.node")
# Bytes of all tags that are told together: a request has an upper bound.
_MAX_BYTES = 600_000
# How often it is looked whether there is something new to tell, in seconds.
LOOK = 1.0
_LONGEST_PAUSE = 30.0


class Proof(BaseModel):
    """The answer to a gateway's challenge."""

    answer: str


class Membership:
    """A node's place in the grid of a gateway.

    Args:
        gateway_url: https://host:port, or http://localhost:port for a gateway of this machine.
        token: what the gateway is shown.
        ca: the file of the authority that signed the gateway's certificate; None: those of the system.
        address: where clients reach the node, if that is not what it listens on: wss://host:port.
        look: how often it is looked whether there is something new to tell, in seconds.

    Example:
        >>> membership = Membership("http://localhost:5000")  # doctest: +SKIP
        >>> node = Node(settings, [*ROUTERS, membership.router])  # doctest: +SKIP
        >>> node.start(); membership.start()  # doctest: +SKIP
    """

    def __init__(
        self,
        gateway_url: str,
        token: str | None = None,
        ca: Any = None,
        address: str | None = None,
        look: float = LOOK,
    ) -> None:
        self.gateway_url = gateway_url
        self._where = where_of(*parse_address(gateway_url), token, ca)
        self._address = address
        self._look = look
        self._secret = secrets.token_bytes(32)
        self._node: Any = None
        self._lease: str | None = None
        self._told: Any = None
        self._lifetime = 30.0
        self._renewed_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def router(self, node: Node) -> APIRouter:
        """Return what the node answers to the gateway: to be given to `Node` as one of its routers."""
        self._node = node
        router = APIRouter(tags=["gateway"])

        @router.get(PATH)
        def proof(challenge: str = Query(pattern=r"^[0-9a-f]{64}$", max_length=64)) -> Proof:
            """Answer the challenge of a gateway that this node registers with."""
            return Proof(answer=answer(self._secret, challenge, str(node.worker.id)))

        return router

    def start(self) -> None:
        """Become known, and stay so until `stop`, in a thread."""
        if self._node is None:
            raise SyftError("Give the node this membership's router first: Node(settings, [*ROUTERS, m.router]).")
        self._thread = threading.Thread(target=self._run, name="syft gateway", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the grid."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(10)
        if self._lease is not None:
            try:
                self._tell("POST", f"/v1/nodes/{self._name()}/leave", {"lease": self._lease})
            except (OSError, SyftError):  # it finds out by itself
                logger.info("The gateway %s was not told that this node leaves", self.gateway_url)
            self._lease = None

    def _run(self) -> None:
        pause = self._look
        while not self._stopping.is_set():
            try:
                self.refresh()
                pause = self._look
            except (OSError, SyftError) as error:
                if pause == self._look:
                    logger.warning("The gateway %s can't be told of this node: %s", self.gateway_url, error)
                self._lease = None
                pause = min(2 * pause, _LONGEST_PAUSE)
            self._stopping.wait(pause)

    def refresh(self) -> None:
        """Tell the gateway what is new, or that this node is still there if that is due."""
        index = index_of(self._node.worker)
        if self._lease is None:
            self._register(index)
            return
        changed = index != self._told
        if changed or time.monotonic() - self._renewed_at > self._lifetime / 3:
            given = {"lease": self._lease, **({"index": index} if changed else {})}
            self._tell("PUT", f"/v1/nodes/{self._name()}", given)
            self._told, self._renewed_at = index, time.monotonic()

    def _register(self, index: dict[str, Any]) -> None:
        given = {
            "id": str(self._node.worker.id),
            "address": self._address or self._node.url,
            "secret": self._secret.hex(),
            "index": index,
        }
        found = self._tell("POST", "/v1/nodes", given)
        lease, lifetime = found.get("lease"), found.get("lifetime")
        if not isinstance(lease, str) or not isinstance(lifetime, int | float):
            raise SyftError("What answers there is not a gateway.")
        self._lifetime = float(lifetime)
        self._told, self._renewed_at, self._lease = index, time.monotonic(), lease

    def _tell(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            found = ask(self._where, method, path, body, timeout=15.0)
        except AuthenticationError as error:
            raise AuthenticationError(
                "it does not accept the token of this node; its owner makes one with python -m syft gateway token, "
                f"for --gateway-token-file ({error})"
            ) from None
        return found if isinstance(found, dict) else {}

    def _name(self) -> str:
        return quote(str(self._node.worker.id), safe="")


def index_of(worker: BaseWorker) -> dict[str, Any]:
    """Return what can be found at a worker: the sets of tags of what is published, and the models for others."""
    store = worker.object_store
    sets: set[tuple[str, ...]] = set()
    room = _MAX_BYTES
    for obj_id, obj in store.outlines().items():
        if str(obj_id).startswith(PREFIX):  # models are told by their names
            continue
        tags = tuple(sorted(tag for tag in tags_of(obj) if 0 < len(tag) <= MAX_TAG)[:MAX_TAGS])
        if tags and tags not in sets and store.claims.is_published(obj_id):
            room -= len(json.dumps(tags))
            if room < 0 or len(sets) >= MAX_SETS:
                logger.warning("Not all tags of this node fit into what a gateway is told.")
                break
            sets.add(tags)
    rows = [facts_of(worker, name) for name in names_at(worker)[:MAX_MODELS]]
    models = [{"name": row["name"], "mpc": row["mpc"]} for row in rows if row is not None and is_shared(row)]
    return {"tags": [list(tags) for tags in sorted(sets)], "models": models}
