"""Node: a worker with a store, users and rights, served on one port."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from fastapi import APIRouter

from syft.config import configure
from syft.grid.identity import NodeIdentity
from syft.grid.node.app import Desk, make_app
from syft.grid.node.doors import Door, OpenDoor
from syft.grid.node.server import PortServer
from syft.grid.node.settings import Settings
from syft.grid.node.tokens import TokenDoor
from syft.grid.node.worker import NodeWorker
from syft.grid.rights import Audit, AuditLog, MemoryRecords, NodePolicy, Records, StoredAudit, StoredRecords
from syft.grid.storage import Headroom, Keeper, Loaded, Quota, Storage, load_folder, open_storage
from syft.workers.peers import Rules
from syft.workers.tls import is_loopback, server_context

logger = logging.getLogger("syft.node")


class Node:
    """One owner's node. Without a store everything is gone when it stops.

    Args:
        settings: how it is run.
        routers: functions that make what is answered over HTTP, given the node.

    Example:
        >>> node = Node(Settings(id="hospital-a", tokens=False))  # doctest: +SKIP
        >>> node.start()  # doctest: +SKIP
    """

    def __init__(self, settings: Settings, routers: Iterable[Any] = ()) -> None:
        self.settings = settings
        self._closing = contextlib.ExitStack()
        try:
            self._open(settings)
            made: list[APIRouter] = [router(self) for router in routers]
            app = make_app(self.desk, made, title=f"resyft node {settings.id}")
            context = server_context(settings.certificate, settings.key) if settings.tls else None  # type: ignore[arg-type]
            self.server = PortServer(app, settings.host, settings.port, context, settings.heartbeat)
        except Exception:
            self._closing.close()
            raise

    def _open(self, settings: Settings) -> None:
        self.identity: NodeIdentity = self._closing.enter_context(NodeIdentity.open(self._home(), settings.id))
        self.storage: Storage | None = None
        if settings.store is not None:
            self.storage = self._closing.enter_context(open_storage(str(settings.store)))
        requests, grants = (self._records(area) for area in ("requests", "grants"))
        books = None if self.storage is None else self.storage.records
        self.policy = NodePolicy(settings.owner, requests, grants, self._audit(), books)
        self.audit = self.policy.audit
        self.worker = NodeWorker(settings.id, self.policy)
        self.worker.trusts_script_modules = settings.trust_script_modules
        self.keeper = Keeper(
            self.worker,
            storage=self.storage,
            quota=Quota(settings.max_user_objects, settings.max_user_bytes),
            node_quota=Quota(settings.max_objects, settings.max_bytes),
            headroom=Headroom(settings.max_memory),
        )
        self._closing.callback(self.keeper.close)
        self.loaded = Loaded() if settings.data is None else load_folder(self.worker, settings.data)
        door: Door = TokenDoor(self.identity) if settings.tokens else OpenDoor()
        most, each = settings.max_connections, settings.max_user_connections
        self.desk = Desk(self.worker, door, settings.grace, most, each, settings.max_message_bytes)
        self.desk.patience = 3 * settings.heartbeat
        self.desk.welcome_nodes(Rules(settings.ca, is_loopback(settings.host), settings.peers))

    def _home(self) -> Path:
        if self.settings.identity_folder is not None:
            return self.settings.identity_folder
        return Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="syft-node-"))) / "identity"

    def _records(self, area: str) -> Records:
        return MemoryRecords() if self.storage is None else StoredRecords(self.storage.records, area)

    def _audit(self) -> Audit:
        return AuditLog() if self.storage is None else StoredAudit(self.storage.records)

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return self.server.url

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.server.port

    def start(self) -> None:
        """Serve in a thread, and return when clients can come."""
        self.server.start()

    def take_process(self) -> None:
        """Make this process the node's own: its worker is the local one, and its settings hold for all threads."""
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        configure(stream_timeout=self.settings.stream_timeout, heartbeat=self.settings.heartbeat)
        self.worker.be_local()

    def run(self) -> None:
        """Serve until interrupted, and close everything: the node has this process to itself."""
        self.take_process()
        try:
            self.server.run()
        finally:
            self.close()

    def stop(self) -> None:
        """Stop to serve, and close everything."""
        self.server.stop()
        self.close()

    def close(self) -> None:
        """Close store and users. Twice does no harm."""
        try:
            self.worker.close()
        except Exception as error:  # of a call to somebody else; who serves others closes in any case
            logger.warning("A call of %r to another worker had failed: %s", self.worker.id, error)
        self._closing.close()
