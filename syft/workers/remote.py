"""RemoteWorker: the common part of workers outside of this process, as seen by their clients."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId, find_named, is_drawn_here
from syft.core.labels import set_id
from syft.exceptions import SyftError
from syft.federated.client.federated_client import RemoteFederatedClient
from syft.messaging import message as m
from syft.serde import serialize
from syft.workers.access.policy import ALLOW_ALL
from syft.workers.base import BaseWorker
from syft.workers.entry_points import sizes_of
from syft.workers.sent_ids import SentIds


class RemoteWorker(BaseWorker, RemoteFederatedClient):
    """A worker that is reached by messages only; its objects are not known here."""

    # Workers of this process can't take part in a joint computation with it.
    in_own_process = True
    # Whether it is behind a server, so that other workers need an introduction by a client.
    is_node = False
    returns_registered = True

    def __setattr__(self, name: str, value: object) -> None:
        if name == "policy" and value is not ALLOW_ALL:
            raise SyftError(
                f"Worker {self.id!r} is in another process, where a policy set here has no effect. "
                "Use a VirtualWorker, or a node, for data with a release policy."
            )
        super().__setattr__(name, value)

    def _reader(self) -> Any:
        """Return the local worker: the objects of this one are not known here."""
        return local_worker()

    def _respond(self, message: m.Message) -> bytes:
        """Forward a message on behalf of the local worker, and return the serialized answer."""
        sender = local_worker()
        if type(message) is m.SearchMessage:
            return serialize(list(sender.request_search(message.contents, self)), sender)
        response = sender.send_msg(message, self)
        if type(message) is m.ObjectRequestMessage:
            set_id(response, message.contents[0])
        return serialize(sizes_of(response) if type(message) is m.GetShapeMessage else response, sender)

    def _arrives(self, stream: Any) -> Any:
        """Register a stream from a client of this process, and return it."""
        self._incoming = [*(earlier for earlier in self._incoming if not earlier.is_over), stream]
        return stream

    def load_data(self, data: Iterable[Any]) -> None:
        """Send tensors to the worker; they stay until they are deleted."""
        sender = local_worker()
        for tensor in data:
            sender.send(tensor, self, garbage_collect_data=False)

    @functools.cached_property
    def _sent_ids(self) -> SentIds:
        return SentIds()

    def _may_hold(self, obj_id: ObjectId) -> bool | None:
        """Return whether it holds an object of an id; None: only the worker knows, for example of a received id."""
        return self._sent_ids.holds(obj_id, False if is_drawn_here(obj_id) else None)

    def _reserve(self, obj_id: ObjectId) -> None:
        """Record the id of an object that is being sent there."""
        self._sent_ids.add(obj_id)

    def _note_release(self, obj_id: ObjectId, is_gone: bool) -> None:
        """Record that an object was released, or that it is gone."""
        self._sent_ids.note_release(obj_id, is_gone)

    @property
    def _objects(self) -> dict[ObjectId, Any]:
        """Pointers to the objects held there, by id, after pending releases of this process."""
        for stream in self._incoming:
            if stream.has_released():
                stream.synchronize()
        found = local_worker().request_search([], self)
        return {pointer.id_at_location: pointer for pointer in found}

    @_objects.setter
    def _objects(self, objects: dict[ObjectId, Any]) -> None:
        raise SyftError(f"Worker {self.id!r} is in another process: send objects there, with x.send(worker).")

    def get_obj(self, obj_id: ObjectId) -> Any:
        """Return a pointer to the object of this id; the first digits of an id, as texts show it, are enough."""
        objects = self._objects
        named = find_named(obj_id, objects)
        if named is None:
            self.object_store.get(obj_id)  # raises the common error
        return objects[obj_id if named is None else named]

    def set_obj(self, obj: object) -> None:
        """Refuse: objects are sent to a worker in another process."""
        raise SyftError(f"Worker {self.id!r} is in another process: send the object there, with x.send(worker).")

    def rm_obj(self, remote_key: ObjectId) -> None:
        """Delete the object of this id; silent if it is not there."""
        local_worker().stream_to(self).post(m.ForceObjectDeleteMessage(remote_key))

    force_rm_obj = rm_obj

    def clear_objects(self, return_self: bool = True) -> Any:
        """Delete everything that the worker holds."""
        for obj_id in self._objects:
            self.rm_obj(obj_id)
        return self if return_self else None
