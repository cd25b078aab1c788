"""SessionWorker: the worker of a session process. It holds its user's objects and those that the user may read."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import set_id
from syft.core.object_storage import ObjectStore
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError
from syft.federated.client.federated_client import FederatedClient
from syft.federated.client.fit_service import trainer_of
from syft.federated.client.stored_dataset import DATASET, StoredDataset
from syft.grid.isolation.children.services import Services
from syft.grid.isolation.processes.channel import Bytes, Frame
from syft.grid.isolation.proxies.objects import PROXIES, AnyProxy
from syft.grid.isolation.records.items import read_item, write_item
from syft.grid.storage.interface import Damaged, Item, Storage
from syft.grid.storage.object_manager import ObjectManager
from syft.grid.storage.restore import revive
from syft.messaging.plan.plan import Plan
from syft.serde import deserialize
from syft.workers.base import BaseWorker
from syft.workers.execution.router import Handler
from syft.workers.execution.session import Session
from syft.workers.transport.socket_stream import SERVED

if TYPE_CHECKING:
    from syft.grid.isolation.processes.progress import ProgressPage
    from syft.grid.isolation.session.peering import SupervisedDelegations
    from syft.grid.isolation.session.vault_calls import VaultCalls

# For bytes that the supervisor passes: it has checked their size.
NO_LIMIT = 1 << 62


class SessionStore(ObjectStore):
    """The objects of a session process. Other ids are looked up among the published objects of the node."""

    def __init__(self, worker_id: object, worker: SessionWorker, services: Services) -> None:
        super().__init__(worker_id)
        self._worker = worker
        self._services = services
        # Readable objects of other users: id -> (stamp, object).
        self._read: dict[ObjectId, tuple[str, Any]] = {}

    def get(self, obj_id: ObjectId) -> Any:
        """Return an object with its value; for an object of another user, a copy that calls may write to.

        Raises:
            GetNotPermittedError: the object is in the vault.
        """
        found = self.look(obj_id)
        if isinstance(found, PROXIES):
            raise not_released(self.worker_id, found)
        return found if obj_id in self.objects else _own_copy(found)

    def look(self, obj_id: ObjectId) -> Any:
        """Return an object, or its proxy if it is in the vault."""
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
        """Return whether a readable object belongs to another user."""
        return obj_id not in self.objects


def _own_copy(obj: object) -> object:
    """Return a copy with its own memory: a result may be a view of it and be written to later."""
    if isinstance(obj, Plan):
        return obj.copy()
    if isinstance(obj, torch.Tensor) and type(obj) in (torch.Tensor, torch.nn.Parameter):
        return obj.detach().clone().requires_grad_(obj.requires_grad)
    return obj


def not_released(worker_id: object, proxy: AnyProxy) -> GetNotPermittedError:
    """Return the error for a request for the value of an object in the vault."""
    why = proxy.why or "it was computed from private data"
    return GetNotPermittedError(
        f"Node {worker_id!r} does not release this value: {why}. Ask the owner for it with "
        'ptr.request(reason="..."), or compute a result that may be released.'
    )


def value_of(frame: Frame) -> memoryview:
    """Return the bytes of a frame: its body, or the file whose descriptor it carries."""
    return map_file(frame.fds[0]) if frame.fds else memoryview(frame.body)


def map_file(fd: int) -> memoryview:
    """Map a file copy-on-write, and close its descriptor."""
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return memoryview(bytearray())
        return memoryview(mmap.mmap(fd, size, access=mmap.ACCESS_COPY))
    finally:
        os.close(fd)


def read_value(worker: BaseWorker, data: bytearray | memoryview) -> Any:
    """Return the object that trusted bytes hold, without a limit on its size."""
    return deserialize(data, worker, max_message_bytes=NO_LIMIT, owns_buffer=True)


def load_object(worker: BaseWorker, frame: Frame) -> tuple[ObjectId, Any]:
    """Store the object that the supervisor passed with an order, and return its id and the object."""
    obj_id = frame.header[1]
    obj = read_value(worker, value_of(frame))
    set_id(obj, obj_id)
    worker.object_store.objects[obj_id] = obj
    if isinstance(obj, StoredDataset) and type(obj_id) is str:
        trainer_of(worker).datasets[obj_id.removeprefix(DATASET)] = obj.dataset
    return obj_id, obj


class SessionObjectManager(ObjectManager):
    """The object manager of a session process: published objects are the supervisor's, and proxies are the vault's."""

    def drop(self, obj_id: ObjectId) -> None:
        """Remove an object; an object in the vault is released there."""
        if isinstance(dict.get(self.objects, obj_id), PROXIES):
            self.worker.vault.release(obj_id)
        super().drop(obj_id)


class SupervisedStorage(Storage):
    """The user's part of the node's store, behind the supervisor."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def put(self, item: Item, value: Bytes, checksum: str | None = None) -> Item:
        """Write an object; it is on disk when this returns."""
        return read_item(self._services.call("put", write_item(item), body=value))

    def amend(self, item: Item) -> Item:
        """Update the description of an object."""
        return read_item(self._services.call("amend", write_item(item)))

    def read(self, item: Item) -> memoryview:
        """Return the value of an object."""
        return value_of(self._services.ask("read", item.id, item.stamp))

    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object."""
        return bool(self._services.call("remove", obj_id, stamp))

    def items(self) -> list[Item]:
        """Return the user's stored objects without their values."""
        return [read_item(row) for row in self._services.call("items")]

    def damaged(self) -> list[Damaged]:
        """Return an empty list: only the supervisor reports damaged objects."""
        return []

    def close(self) -> None:
        """Do nothing: the supervisor closes the store."""


class SessionWorker(BaseWorker, FederatedClient):
    """The worker of one user at a node."""

    # Owners refer to objects by the text of their ids, so users must not choose ids that look like others.
    takes_any_id = False
    takes_quantized_tensors = False
    serves_unknown_clients = False
    # An unpublished plan is private to its user, and published means stored: it ends with the session.
    keeps_lasting_objects = False
    object_store: SessionStore
    vault: VaultCalls
    progress: ProgressPage
    delegations: SupervisedDelegations
    # Counts a request to an encrypted model; set in party processes only.
    spend_request: Callable[[str, str, int | None], None]

    def __init__(self, id: ObjectId, services: Services, trusts_script_modules: bool = False) -> None:
        super().__init__(None, id, auto_add=False)
        self.services = services
        # The handler of each type of message.
        self.routes: dict[type, Handler] = {}
        # Whether the owner allows federated runs with secure aggregation only.
        self.requires_secure = False
        self.object_store = SessionStore(id, self, services)
        self.trusts_script_modules = trusts_script_modules
        for prepare in SERVED:
            prepare(self)

    def open_session(self, client_id: object) -> Session:
        """Open a session of the user, or of another node on the user's behalf."""
        session = super().open_session(client_id)
        session.routes = self.routes
        return session

    def forget(self, obj_id: ObjectId) -> None:
        """Drop a published object that was deleted at the node."""
        store = self.object_store
        dict.pop(store.objects, obj_id, None)
        store.claims.forget(obj_id)
        store.note_departure(obj_id, "it was deleted by the owner of the node")
