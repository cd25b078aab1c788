"""Message type -> what a worker does with it. Nothing else decides that, least of all the sender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.context import acting_as
from syft.core.id_provider import ObjectId
from syft.core.labels import description_of, id_of, set_id, tags_of
from syft.core.object import AbstractObject
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import IdNotUniqueError, InvalidTensorForRemoteGet, SerdeError, WorkerNotFoundException
from syft.messaging import message as m
from syft.pointers.pointer_tensor import require_pointer
from syft.workers.execution import execute, kind_of, resolve
from syft.workers.policy import ALLOW_ALL, check_change, check_release
from syft.workers.session import Session
from syft.workers.values import complete_transfer, copy_for, end_claims, settle_pointers

Handler = Callable[[Any, Session, Any], Any]
ROUTES: dict[type, Handler] = {m.Operation: execute}


def handles(message_type: type) -> Callable[[Handler], Handler]:
    """Register what a worker does with a type of message."""

    def register(handler: Handler) -> Handler:
        if message_type in ROUTES:
            raise ValueError(f"{message_type.__name__} already has a handler")
        ROUTES[message_type] = handler
        return handler

    return register


def route(worker: Any, session: Session, message: Any) -> Any:
    """Answer a message."""
    routes = session.routes
    handler = (ROUTES if routes is None else routes).get(type(message))
    if handler is None:
        whom = "" if routes is None else f" to {session.client_id!r}"
        raise SerdeError(f"A {type(message).__name__} is not a message that a worker answers{whom}.")
    return handler(worker, session, message)


@handles(m.ObjectMessage)
def keep_object(worker: Any, session: Session, message: m.ObjectMessage) -> None:
    """Keep an object."""
    obj = message.contents
    if not isinstance(obj, torch.Tensor | AbstractObject):
        raise SerdeError(f"A {type(obj).__name__} is not an object that a worker keeps; wrap it in an ObjectWrapper.")
    obj_id = message.obj_id if message.obj_id is not None else id_of(obj)
    if obj_id in worker.object_store.objects:
        raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
    complete_transfer(obj)
    set_id(obj, obj_id)
    holder = session if message.claimant is None else worker.session_of(message.claimant)
    if holder is not None:
        holder.keep(obj_id, obj, message.published)
    else:
        session.keep(obj_id, obj, message.published)
        if not message.published:  # for a client who is not connected yet
            worker.object_store.claims.offer(obj_id, session)
            worker.object_store.claims.release(obj_id, session)


@handles(m.ObjectRequestMessage)
def give_object(worker: Any, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Give an object away, if the policy lets it leave."""
    obj_id, _user, reason = message.contents
    obj = worker.object_store.get(obj_id)
    check_release(worker, session, obj, "get", str(reason or ""))
    settle_pointers(obj)
    leaving = Leaving(obj, session, obj_id, worker.object_store.claims.is_published(obj_id))
    worker.object_store.pop(obj_id, f"it was fetched by {session.client_id!r}")
    return leaving


class Leaving:
    """An object on its way out; its claims go with it once it has been copied or written."""

    __slots__ = ("obj", "obj_id", "published", "session")

    def __init__(self, obj: Any, session: Session, obj_id: ObjectId, published: bool) -> None:
        self.obj = obj
        self.session = session
        self.obj_id = obj_id
        self.published = published

    def stay(self) -> None:
        """Put the object back: it could not leave after all."""
        self.session.keep(self.obj_id, self.obj, published=self.published)

    def hand_out(self, client: Any) -> Any:
        """Copy the object for an in-process client, which takes over its claims."""
        try:
            twin = copy_for(client, self.obj)
        except Exception:
            self.stay()
            raise
        end_claims(self.obj)
        complete_transfer(twin)
        return twin


class Copy(Leaving):
    """A copy on its way out; what it was made of stays, so a copy that can't leave is dropped."""

    def stay(self) -> None:
        """Nothing is to be put back."""


@handles(m.IsNoneMessage)
def is_none(worker: Any, session: Session, message: m.IsNoneMessage) -> bool:
    """Say whether an object or attribute is None."""
    return resolve(worker, message.contents) is None


@handles(m.GetShapeMessage)
def describe_tensor(worker: Any, session: Session, message: m.GetShapeMessage) -> Any:
    """Give shape, dtype, requires_grad and device."""
    obj = resolve(worker, message.contents)
    if obj is None:
        return None
    return TensorMeta.of(obj) if isinstance(obj, torch.Tensor) else ObjectMeta(kind_of(obj))


@handles(m.ForceObjectDeleteMessage)
def delete_object(worker: Any, session: Session, message: m.ForceObjectDeleteMessage) -> None:
    """Delete an object now; one that is not the client's own only if the policy lets it."""
    check_change(worker, session, message.contents, "delete")
    worker.object_store.remove(message.contents)


@handles(m.RetainMessage)
def retain_object(worker: Any, session: Session, message: m.RetainMessage) -> None:
    """Keep an object for one more owner."""
    worker.object_store.get(message.contents)
    worker.object_store.claims.offer(message.contents, session)


@handles(m.ClaimMessage)
def claim_object(worker: Any, session: Session, message: m.ClaimMessage) -> None:
    """Let a client take over a claim that was offered."""
    if message.contents in worker.object_store.objects:
        worker.object_store.claims.claim(message.contents, session)


@handles(m.PublishMessage)
def publish_object(worker: Any, session: Session, message: m.PublishMessage) -> None:
    """Let an object outlive the session that sent it."""
    worker.object_store.get(message.contents)
    check_change(worker, session, message.contents, "publish")
    worker.object_store.claims.publish(message.contents, session.client_id)


@handles(m.ReleaseMessage)
def release_objects(worker: Any, session: Session, message: m.ReleaseMessage) -> None:
    """Count one owner less for each id."""
    for obj_id in message.contents:
        session.release(obj_id)


@handles(m.HandOverMessage)
def hand_over(worker: Any, session: Session, message: m.HandOverMessage) -> Any:
    """Send an object on to another worker, leaving a pointer or nothing."""
    obj = worker.object_store.get(message.contents)
    check_release(worker, session, obj, "move", f"to {message.destination}")
    destination = worker.get_worker(message.destination) if message.destination in worker._known_workers else None
    if destination is None:  # whom this worker knows is nobody else's business
        raise WorkerNotFoundException(message.destination, ("not told to peers",))
    with acting_as(worker):
        # A moved object belongs to whoever asked for the move; one that a pointer stays for belongs to this worker.
        claimant = None if message.keep_pointer else session.client_id
        pointer = worker.send_object(obj, destination, message.new_id, bool(tags_of(obj)), claimant)
        pointer.lease.stream.settle()
    if message.keep_pointer:
        worker.object_store.objects[message.contents] = pointer.wrap()
        return pointer.tensor_meta()
    pointer.lease.owned = False
    worker.object_store.pop(message.contents, f"it was moved to {message.destination!r} by {session.client_id!r}")
    return pointer.tensor_meta() if isinstance(obj, torch.Tensor) else None


@handles(m.FetchThereMessage)
def fetch_there(worker: Any, session: Session, message: m.FetchThereMessage) -> Any:
    """Replace a pointer held here by what it points at."""
    check_change(worker, session, message.contents, "change by remote_get")
    held = worker.object_store.get(message.contents)
    check_release(worker, session, held, "remote_get")  # the worker acts at another one in its own name
    pointer = require_pointer(held)
    with acting_as(worker):
        obj = pointer.get()
    if not isinstance(obj, torch.Tensor):
        raise InvalidTensorForRemoteGet(obj)
    worker.object_store.objects[message.contents] = obj
    return TensorMeta.of(obj)


@handles(m.SearchMessage)
def search(worker: Any, session: Session, message: m.SearchMessage) -> list[Any]:
    """Describe the objects that match every word: by id, by tag, or inside the description."""
    found = []
    claims = worker.object_store.claims
    for obj_id, obj in worker.object_store.objects.copy().items():
        if worker.policy is not ALLOW_ALL and not (claims.is_published(obj_id) or claims.belongs_to(obj_id, session)):
            continue  # what somebody works with is theirs to know of
        tags, text = tags_of(obj), description_of(obj) or ""
        if all(word == obj_id or word in tags or (isinstance(word, str) and word in text) for word in message.contents):
            meta = TensorMeta.of(obj) if isinstance(obj, torch.Tensor) else ObjectMeta(kind_of(obj))
            found.append((obj_id, meta, tags, text or None))
    return found


@handles(m.BatchMessage)
def run_batch(worker: Any, session: Session, message: m.BatchMessage) -> tuple[Any, ...]:
    """Answer several messages in order."""
    answers: list[Any] = []
    try:
        for part in message.contents:
            answers.append(route(worker, session, part))
    except Exception:
        put_back(tuple(answers))  # nobody will get them
        raise
    return tuple(answers)


def put_back(response: Any) -> None:
    """Keep the objects of an answer that does not go out."""
    if isinstance(response, Leaving):
        response.stay()
    elif type(response) is tuple:
        for part in response:
            put_back(part)


@handles(m.PlanCommandMessage)
def plan_command(worker: Any, session: Session, message: m.PlanCommandMessage) -> Any:
    """Fetch a plan or a protocol."""
    return worker.execute_plan_command(session, message)
