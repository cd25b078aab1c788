"""SessionWorker: the worker of a session process. It holds what its user brought and what the user may read anyway."""

from __future__ import annotations

import mmap
import os
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.object_storage import ObjectStore
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError
from syft.federated.client.federated_client import FederatedClient
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.proxies.calls import ObjectProxy, Proxy
from syft.grid.isolation.records.items import read_item, write_item
from syft.grid.storage.interface import Damaged, Item, Storage
from syft.grid.storage.object_manager import ObjectManager
from syft.grid.storage.restore import revive
from syft.messaging.plan.plan import Plan
from syft.workers.base import BaseWorker
from syft.workers.execution.session import Session
from syft.workers.transport.socket_stream import SERVED


class SessionStore(ObjectStore):
    """The objects of a session process; what is not here is looked up among the published objects of the node.

    Args:
        worker_id: the id of the node.
        worker: the worker.
        services: the supervisor.
    """

    def __init__(self, worker_id: object, worker: Any, services: Services) -> None:
        super().__init__(worker_id)
        self._worker = worker
        self._services = services
        # Readable objects of others: id -> (stamp, object).
        self._read: dict[ObjectId, tuple[str, Any]] = {}

    def get(self, obj_id: ObjectId) -> Any:
        """Return an object whose value is in this process; of an object of others, a copy that calls may write to.

        Raises:
            GetNotPermittedError: it is in the vault.
        """
        found = self.look(obj_id)
        if isinstance(found, Proxy | ObjectProxy):
            raise in_vault(self.worker_id, obj_id, found)
        return found if obj_id in self.objects else _own_copy(found)

    def look(self, obj_id: ObjectId) -> Any:
        """Return an object, or its proxy if the object is in the vault."""
        try:
            return self.objects[obj_id]
        except KeyError:
            return self._published(obj_id)

    def _published(self, obj_id: ObjectId) -> Any:
        stamp, known = self._read.get(obj_id, ("", None))
        answer = self._services.ask("open", obj_id, stamp)
        if answer.header is None:
            self._read.pop(obj_id, None)
            raise ObjectNotFoundError(obj_id, self.worker_id, self._departed.get(obj_id, ""))
        right, row = answer.header
        item = read_item(row)
        if right == "compute":
            return self._worker.vault.admit(item)
        if item.stamp == stamp:
            return known
        obj = revive(self._worker, item, value_of(answer))
        self._read[obj_id] = (item.stamp, obj)
        return obj

    def is_of_others(self, obj_id: ObjectId) -> bool:
        """Whether an object is readable here, and belongs to somebody else."""
        return obj_id not in self.objects


def _own_copy(obj: Any) -> Any:
    """Return an object in memory of its own: a result may be a view of it, and be written to later."""
    if isinstance(obj, Plan):
        return obj.copy()
    if type(obj) in (torch.Tensor, torch.nn.Parameter):
        return obj.detach().clone().requires_grad_(obj.requires_grad)
    return obj


def in_vault(worker_id: object, obj_id: ObjectId, proxy: Any) -> GetNotPermittedError:
    """Return the error for a request for the value of an object in the vault."""
    why = getattr(proxy, "why", "") or "it was computed from private data"
    return GetNotPermittedError(
        f"Node {worker_id!r} does not release this value: {why}. Ask the owner for it with "
        'ptr.request(reason="..."), or compute something that may be released.'
    )


def value_of(frame: Any) -> memoryview:
    """Return the bytes of an answer: its body, or a file that was handed over, mapped copy-on-write."""
    if not frame.fds:
        return memoryview(frame.body)
    fd = frame.fds[0]
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return memoryview(bytearray())
        return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_COPY))
    finally:
        os.close(fd)


class SessionKeeper(ObjectManager):
    """The keeper of a session process: published objects are the supervisor's, and proxies are the vault's."""

    def drop(self, obj_id: ObjectId) -> None:
        """Take an object out; one that is in the vault is released there."""
        if isinstance(dict.get(self.objects, obj_id), Proxy | ObjectProxy):
            self.worker.vault.release(obj_id)
        super().drop(obj_id)


class SupervisedStorage(Storage):
    """The user's part of the node's store, reached through the supervisor.

    Args:
        services: the supervisor.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def put(self, item: Item, value: Any, checksum: str | None = None) -> Item:
        """Have an object written; it is on disk when this returns."""
        return read_item(self._services.call("put", write_item(item), body=value))

    def amend(self, item: Item) -> Item:
        """Have the description of an object written again."""
        return read_item(self._services.call("amend", write_item(item)))

    def read(self, item: Item) -> memoryview:
        """Return the value of an object."""
        return value_of(self._services.ask("read", item.id, item.stamp))

    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Have an object removed."""
        return bool(self._services.call("remove", obj_id, stamp))

    def items(self) -> list[Item]:
        """Return the user's stored objects without their values."""
        return [read_item(row) for row in self._services.call("items")]

    def damaged(self) -> list[Damaged]:
        """Return nothing: damaged objects are the supervisor's business."""
        return []

    def close(self) -> None:
        """Do nothing: the store is the supervisor's."""


class SessionWorker(BaseWorker, FederatedClient):
    """The worker of one user at a node.

    Args:
        id: the name of the node.
        services: the supervisor.
        trusts_script_modules: whether script modules that the user sends are loaded.
    """

    # Owners name objects by the text of their ids, so users may not choose ids that look like others.
    takes_any_id = False

    def __init__(self, id: ObjectId, services: Services, trusts_script_modules: bool = False) -> None:
        super().__init__(None, id, auto_add=False)
        self.services = services
        # What is done with each type of message.
        self.routes: dict[type, Any] = {}
        self.acquaintances: Any = None
        # Whether the owner takes part in federated runs with secure aggregation only.
        self.requires_secure = False
        self.object_store = SessionStore(id, self, services)
        self.trusts_script_modules = trusts_script_modules
        for prepare in SERVED:
            prepare(self)

    def open_session(self, client_id: object) -> Session:
        """Begin a session of the user, or of another node on the user's behalf."""
        session = super().open_session(client_id)
        session.routes = self.routes
        return session

    def look(self, obj_id: ObjectId) -> Any:
        """Return an object, or its proxy."""
        return self.object_store.look(obj_id)  # type: ignore[attr-defined]

    def forget(self, obj_id: ObjectId) -> None:
        """Stop holding a published object that was deleted at the node."""
        store = self.object_store
        dict.pop(store.objects, obj_id, None)
        store.claims.forget(obj_id)
        store.note_departure(obj_id, "it was deleted by the owner of the node")
