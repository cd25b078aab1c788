"""Sender: sends objects to other workers, where they keep their ids as far as those are free."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.labels import id_of, is_private, tags_of
from syft.core.object import AbstractObject
from syft.core.object_storage import ObjectStorage
from syft.core.references import TensorMeta
from syft.exceptions import IdNotUniqueError, SyftError
from syft.messaging import message as m
from syft.pointers.lease import Lease
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.remote_call import pointer_kinds
from syft.pointers.ways_back import carried_by_sender, relay
from syft.workers.address_book import AddressBook
from syft.workers.execution import private_flag
from syft.workers.execution.copies import pointers_in, prepare_transfer, warn_if_graph
from syft.workers.execution.execute import kind_of

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class Sender(AddressBook, ObjectStorage):
    """The part of a worker that sends objects."""

    # Whether each user has a store, in which an object would hide a published one with the same id.
    stores_apart = False

    def stream_to(self, location: Any) -> Any:
        """Return the ordered stream from this worker to another."""
        raise NotImplementedError(f"{type(self).__name__} must define stream_to()")

    def send(
        self,
        obj: object,
        workers: object,
        ptr_id: ObjectId | None = None,
        garbage_collect_data: bool | None = None,
        **kwargs: object,
    ) -> Any:
        """Send an object to a worker and return a pointer to it.

        The object keeps its id there, unless that is taken; then it gets a new one.

        Args:
            obj: a tensor or another sendable object.
            workers: the worker (or a list with one worker).
            ptr_id: the id of the pointer.
            garbage_collect_data: whether the object is deleted with its pointers; by default a tensor is, unless it
                has tags. Objects with tags are published; they, plans, protocols and ObjectWrappers stay until
                they are deleted.
            **kwargs: ignored, as in earlier releases.
        """
        if isinstance(workers, list | tuple):
            if len(workers) != 1:
                raise NotImplementedError("worker.send takes one worker; tensor.send(alice, bob) takes several.")
            workers = workers[0]
        destination = self.get_worker(workers, fail_hard=True)
        if isinstance(obj, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            obj = ObjectWrapper(obj)
        if not isinstance(obj, torch.Tensor | AbstractObject):
            raise SyftError(f"A {type(obj).__name__} can't be sent as it is: send a tensor, or an ObjectWrapper of it.")
        warn_if_graph(obj)
        published = bool(tags_of(obj)) if garbage_collect_data is None else not garbage_collect_data
        lasting = garbage_collect_data is None and getattr(obj, "is_lasting", False)
        own = id_of(obj)
        held = destination._may_hold(own)
        obj_id = ID_PROVIDER.pop() if held else own
        pointer = self.send_object(obj, destination, obj_id, published, lasting=lasting, may_be_taken=held is None)
        if ptr_id is not None:
            pointer.id = ptr_id
        return pointer

    def send_object(
        self,
        obj: object,
        destination: BaseWorker,
        obj_id: ObjectId,
        published: bool,
        claimant: ObjectId | None = None,
        *,
        lasting: bool = False,
        may_be_taken: bool = False,
    ) -> Any:
        """Send an object under a given id and return a pointer to it.

        Args:
            obj: the object.
            destination: the worker.
            obj_id: its id there.
            published: whether it stays until it is deleted.
            claimant: the client that owns the claim on it, if not this worker.
            lasting: whether it stays although it is not published: its pointers do not release it.
            may_be_taken: wait for the worker, and use a new id if this one is taken.
        """
        stream = self.stream_to(destination)
        prepare_transfer(obj, destination)
        if may_be_taken and (is_private(obj) or destination.stores_apart):
            obj_id, may_be_taken = self._id_for(obj, destination), not is_private(obj)
        destination._reserve(obj_id)
        getattr(stream, "moved", {}).pop(obj_id, None)  # an earlier object had the same id
        inner = pointers_in(obj) if isinstance(obj, torch.Tensor) else []
        with carried_by_sender() if inner else contextlib.nullcontext():
            if may_be_taken:
                obj_id = _store_or_rename(stream, m.ObjectMessage(obj, obj_id, published, claimant))
            else:
                private_flag.store(stream, obj, obj_id, published, claimant)
        lease = Lease(stream, obj_id, owned=not published and not lasting)
        lease.kept = lasting and not published
        meta = None
        if isinstance(obj, torch.Tensor):  # what a pointer points at keeps its graph
            meta = TensorMeta.of(obj) if inner else TensorMeta.of_copy(obj)
        owner: Any = self
        pointer = pointer_kinds[kind_of(obj)]._attach(lease, owner, meta)
        private_flag.label(pointer, obj)
        if inner:
            relay(inner, pointer)
        return pointer

    def send_many(self, objects: list[Any], destination: BaseWorker, garbage_collect_data: bool = True) -> list[Any]:
        """Send several tensors to a worker with one message, and return pointers to them."""
        stream = self.stream_to(destination)
        ids = self._ids_for(objects, destination)
        for obj, obj_id in zip(objects, ids, strict=True):
            prepare_transfer(obj, destination)
            destination._reserve(obj_id)
        private_flag.store_many(stream, list(zip(objects, ids, strict=True)))
        leases = [Lease(stream, obj_id, owned=garbage_collect_data) for obj_id in ids]
        kind: Any = pointer_kinds["tensor"]
        made = [kind._attach(lease, self, TensorMeta.of_copy(obj)) for lease, obj in zip(leases, objects, strict=True)]
        for pointer, obj in zip(made, objects, strict=True):
            pointer._is_private = is_private(obj)
        return made

    def _ids_for(self, objects: list[Any], destination: BaseWorker) -> list[ObjectId]:
        """Return the ids of objects at their destination: their own, and new ones for those that are taken."""
        own = [id_of(obj) for obj in objects]
        held = {obj_id: destination._may_hold(obj_id) for obj_id in own}
        unknown = [obj_id for obj_id, answer in held.items() if answer is None]
        if unknown:
            found = self.stream_to(destination).ask(m.BatchMessage(tuple(m.SearchMessage([i]) for i in unknown)))
            # A search also finds tags, descriptions and longer ids with these first digits.
            held.update((i, any(row[0] == i for row in rows)) for i, rows in zip(unknown, found, strict=True))
        seen: set[ObjectId] = set()
        ids = []
        for obj_id in own:
            ids.append(ID_PROVIDER.pop() if held[obj_id] or obj_id in seen else obj_id)
            seen.add(obj_id)
        return ids

    def _id_for(self, obj: object, destination: BaseWorker) -> ObjectId:
        """Reserve the id of an object at its destination: its own, or a new one if that is taken."""
        (chosen,) = self._ids_for([obj], destination)
        destination._reserve(chosen)
        return chosen

    def _may_hold(self, obj_id: ObjectId) -> bool | None:
        """Return whether this worker holds an object of an id; None if that is not known here."""
        return obj_id in self.object_store.objects

    def _reserve(self, obj_id: ObjectId) -> None:
        """Record the id of an object that is being sent here, if the store does not show it at once."""

    def _note_release(self, obj_id: ObjectId, is_gone: bool) -> None:
        """Record that a client of this process released an object here, or that the object is gone."""

    def send_obj(self, obj: object, location: BaseWorker | ObjectId) -> None:
        """Send an object under its own id; it stays until it is deleted."""
        self.send_object(obj, self.get_worker(location, fail_hard=True), id_of(obj), published=True)


def _store_or_rename(stream: Any, message: m.ObjectMessage) -> ObjectId:
    """Store an object at a worker, under a new id if its own is taken; returns the id."""
    try:
        stream.ask(message)
    except IdNotUniqueError:
        obj_id = ID_PROVIDER.pop()
        stream.location._reserve(obj_id)
        stream.store(message.contents, obj_id, message.published, message.claimant)
        return obj_id
    assert message.obj_id is not None  # noqa: S101
    return message.obj_id
