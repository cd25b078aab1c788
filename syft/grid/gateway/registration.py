"""Membership: the registration of a node at a gateway.

The node registers, proves its address, and sends heartbeats with its searchable contents: the tags of published objects
and the names of models for others. Values are never sent.
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
# Maximum bytes of all tags in one request.
_MAX_BYTES = 600_000
# Seconds between checks for changes.
LOOK = 1.0
_MAX_PAUSE = 30.0


class Proof(BaseModel):
    """The response to a gateway's challenge."""

    answer: str


class Membership:
    """The registration of a node at a gateway.

    Args:
        gateway_url: https://host:port, or http://localhost:port for a gateway on this machine.
        token: the token for the gateway.
        ca: the file of the authority that signed the gateway's certificate; None: the system's authorities.
        address: the URL for clients, wss://host:port, if it differs from the listening address.
        look: seconds between checks for changes.

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
        self._sent_index: Any = None
        self._lifetime = 30.0
        self._renewed_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def router(self, node: Node) -> APIRouter:
        """Return the route of the gateway's challenge; pass this method to `Node` as one of its routers."""
        self._node = node
        router = APIRouter(tags=["gateway"])

        @router.get(PATH)
        def proof(challenge: str = Query(pattern=r"^[0-9a-f]{64}$", max_length=64)) -> Proof:
            """Respond to the challenge of a gateway."""
            return Proof(answer=answer(self._secret, challenge, str(node.worker.id)))

        return router

    def start(self) -> None:
        """Register, and send heartbeats in a thread until `stop`."""
        if self._node is None:
            raise SyftError("Pass the router to the node first: Node(settings, [*ROUTERS, membership.router]).")
        self._thread = threading.Thread(target=self._run, name="syft gateway", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Deregister from the gateway."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(10)
        if self._lease is not None:
            try:
                self._send("POST", f"/v1/nodes/{self._name()}/leave", {"lease": self._lease})
            except (OSError, SyftError):  # the registration expires anyway
                logger.info("Could not deregister from the gateway %s", self.gateway_url)
            self._lease = None

    def _run(self) -> None:
        pause = self._look
        while not self._stopping.is_set():
            try:
                self.refresh()
                pause = self._look
            except (OSError, SyftError) as error:
                if pause == self._look:
                    logger.warning("Could not register at the gateway %s: %s", self.gateway_url, error)
                self._lease = None
                pause = min(2 * pause, _MAX_PAUSE)
            self._stopping.wait(pause)

    def refresh(self) -> None:
        """Send changes to the gateway, or a heartbeat if it is due."""
        index = index_of(self._node.worker)
        if self._lease is None:
            self._register(index)
            return
        changed = index != self._sent_index
        if changed or time.monotonic() - self._renewed_at > self._lifetime / 3:
            given = {"lease": self._lease, **({"index": index} if changed else {})}
            self._send("PUT", f"/v1/nodes/{self._name()}", given)
            self._sent_index, self._renewed_at = index, time.monotonic()

    def _register(self, index: dict[str, Any]) -> None:
        given = {
            "id": str(self._node.worker.id),
            "address": self._address or self._node.url,
            "secret": self._secret.hex(),
            "index": index,
        }
        found = self._send("POST", "/v1/nodes", given)
        lease, lifetime = found.get("lease"), found.get("lifetime")
        if not isinstance(lease, str) or not isinstance(lifetime, int | float):
            raise SyftError("The server at this address is not a gateway.")
        self._lifetime = float(lifetime)
        self._sent_index, self._renewed_at, self._lease = index, time.monotonic(), lease

    def _send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            found = ask(self._where, method, path, body, timeout=15.0)
        except AuthenticationError as error:
            raise AuthenticationError(
                "it rejects the token of this node; its owner issues one with python -m syft gateway token, "
                f"for --gateway-token-file ({error})"
            ) from None
        return found if isinstance(found, dict) else {}

    def _name(self) -> str:
        return quote(str(self._node.worker.id), safe="")


def index_of(worker: BaseWorker) -> dict[str, Any]:
    """Return the searchable contents of a worker: the tag sets of published objects, and the models for others."""
    store = worker.object_store
    sets: set[tuple[str, ...]] = set()
    room = _MAX_BYTES
    for obj_id, obj in store.outlines().items():
        if str(obj_id).startswith(PREFIX):  # models are listed by name
            continue
        tags = tuple(sorted(tag for tag in tags_of(obj) if 0 < len(tag) <= MAX_TAG)[:MAX_TAGS])
        if tags and tags not in sets and store.claims.is_published(obj_id):
            room -= len(json.dumps(tags))
            if room < 0 or len(sets) >= MAX_SETS:
                logger.warning("Not all tags of this node fit into a registration.")
                break
            sets.add(tags)
    rows = [facts_of(worker, name) for name in names_at(worker)[:MAX_MODELS]]
    models = [{"name": row["name"], "mpc": row["mpc"]} for row in rows if row is not None and is_shared(row)]
    return {"tags": [list(tags) for tags in sorted(sets)], "models": models}
