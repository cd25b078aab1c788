"""The table from message types to handlers. Nothing else determines how a worker responds."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.core.context import acting_as
from syft.core.id_provider import ObjectId, names_id
from syft.core.labels import check_description, check_tags, description_of, id_of, set_id, tags_of
from syft.core.object import AbstractObject
from syft.core.references import TensorMeta
from syft.exceptions import (
    IdNotUniqueError,
    InvalidTensorForRemoteGetError,
    QuotaExceededError,
    SerdeError,
    WorkerNotFoundError,
)
from syft.messaging import message as m
from syft.messaging.call_batch import StepsMessage
from syft.pointers.pointer_tensor import require_pointer
from syft.tensors.private import check_private
from syft.workers.access.policy import check_release
from syft.workers.execution.copies import await_pointers, complete_transfer, copy_for, drop_claims, offer_claims
from syft.workers.execution.departed_leaves import mark_departed, mark_returned
from syft.workers.execution.execute import execute, meta_of, resolve
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")

Handler = Callable[[Any, Session, Any], Any]
ROUTES: dict[type, Handler] = {m.Operation: execute}
# Name of a command about plans or protocols -> its handler.
PLAN_COMMANDS: dict[str, Any] = {}


def handles(message_type: type) -> Callable[[Handler], Handler]:
    """Register the handler of a message type."""

    def register(handler: Handler) -> Handler:
        if message_type in ROUTES:
            raise ValueError(f"{message_type.__name__} already has a handler")
        ROUTES[message_type] = handler
        return handler

    return register


def route(worker: BaseWorker, session: Session, message: object) -> Any:
    """Process a message and return the response."""
    routes = session.routes
    handler = (ROUTES if routes is None else routes).get(type(message))
    if handler is None:
        recipient = "" if routes is None else f" to {session.client_id!r}"
        raise SerdeError(f"A {type(message).__name__} is not a message that a worker answers{recipient}.")
    return handler(worker, session, message)


def log_message(worker: BaseWorker, message: m.Message) -> None:
    """Add a message to the worker's log, if it keeps one: each call of a batch by itself, and no barriers."""
    if worker.log_msgs and not (type(message) is m.BatchMessage and not message.contents):
        worker.msg_history.extend(message.operations() if type(message) is StepsMessage else (message,))


def _holder(worker: Any, session: Session, claimant: Any) -> Session | None:
    """Return the session that owns the claim on a new object; None: its client is not connected yet."""
    if claimant is None:
        return session
    if session.via is not None:  # a worker that acts for a client gives claims to that client only
        patron: Session = session if session.delegation is None else session.delegation.session
        return patron
    found: Session | None = worker.session_of(claimant)
    return found


@handles(m.ObjectMessage)
def keep_object(worker: BaseWorker, session: Session, message: m.ObjectMessage) -> None:
    """Store an object."""
    obj = message.contents
    if not isinstance(obj, torch.Tensor | AbstractObject):
        raise SerdeError(f"A {type(obj).__name__} is not an object that a worker keeps; wrap it in an ObjectWrapper.")
    check_tags(*tags_of(obj))
    check_description(description_of(obj))
    obj_id = message.obj_id if message.obj_id is not None else id_of(obj)
    if obj_id in worker.object_store.objects:
        raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
    complete_transfer(obj)
    holder = _holder(worker, session, message.claimant)
    set_id(obj, obj_id)
    if holder is not None:
        holder.keep(obj_id, obj, message.published)
    else:
        session.keep(obj_id, obj, message.published)
        if not message.published:  # for a client that is not connected yet
            worker.object_store.claims.offer(obj_id, session)
            worker.object_store.claims.release(obj_id, session)


@handles(m.ObjectRequestMessage)
def give_object(worker: BaseWorker, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Return an object and remove it, if the policy releases it."""
    obj_id, user, reason = message.contents
    obj = worker.object_store.get(obj_id)
    check_private(obj, user)
    check_release(worker, session, obj, "get", str(reason or ""), obj_id=obj_id)
    await_pointers(obj)
    store = worker.object_store
    published, publisher = store.claims.is_published(obj_id), store.claims.publisher_of(obj_id)
    # It stays on disk until it has arrived.
    item = None if store.object_manager is None else store.object_manager.begin_fetch(obj_id)
    cause = f"it was fetched by {session.client_id!r}"
    store.pop(obj_id, cause)
    if not (published and publisher is None):  # the owner of the worker may hold its own tensor still
        mark_departed(obj, obj_id, cause)
    return OutgoingObject(obj, session, obj_id, published, publisher, item)


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class OutgoingObject:
    """An object in a response; its claims leave with it once it has been copied or serialized."""

    obj: Any
    session: Session
    obj_id: ObjectId
    published: bool
    publisher: object = None
    item: Any = None  # the store's handle of it

    def stay(self) -> None:
        """Put the object back: it could not leave."""
        store = self.session.worker.object_store
        if self.item is not None and store.object_manager is not None:
            store.object_manager.cancel_fetch(self.item)
        self.session.keep(self.obj_id, self.obj, published=self.published, is_own_id=False)
        mark_returned(self.obj)
        if self.published:
            store.claims.publish(self.obj_id, self.publisher)

    def gone(self) -> None:
        """Record that the object has arrived."""
        if self.item is not None and self.session.worker.object_store.object_manager is not None:
            self.session.worker.object_store.object_manager.finish_fetch(self.item)

    def hand_out(self, client: BaseWorker) -> Any:
        """Copy the object for an in-process client, which takes over its claims."""
        try:
            proxy = copy_for(client, self.obj)
        except Exception:
            self.stay()
            raise
        offer_claims(self.obj)
        drop_claims(self.obj)
        self.gone()
        complete_transfer(proxy)
        return proxy


class OutgoingCopy(OutgoingObject):
    """A copy in a response; the original stays, so a copy that can't leave is dropped."""

    def stay(self) -> None:
        """Do nothing: there is nothing to put back."""


@handles(m.IsNoneMessage)
def is_none(worker: BaseWorker, session: Session, message: m.IsNoneMessage) -> bool:
    """Return whether an object or attribute is None."""
    return resolve(worker, message.contents) is None


@handles(m.GetShapeMessage)
def describe_tensor(worker: BaseWorker, session: Session, message: m.GetShapeMessage) -> Any:
    """Return shape, dtype, requires_grad and device."""
    obj = resolve(worker, message.contents)
    if obj is None:
        return None
    return meta_of(obj)


@handles(m.ForceObjectDeleteMessage)
def delete_object(worker: BaseWorker, session: Session, message: m.ForceObjectDeleteMessage) -> None:
    """Delete an object now."""
    worker.object_store.remove(message.contents)


@handles(m.RetainMessage)
def retain_object(worker: BaseWorker, session: Session, message: m.RetainMessage) -> None:
    """Add a claim on an object, offered to another client."""
    worker.object_store.get(message.contents)
    worker.object_store.claims.offer(message.contents, session)


@handles(m.ClaimMessage)
def claim_object(worker: BaseWorker, session: Session, message: m.ClaimMessage) -> None:
    """Let a client take over an offered claim."""
    if message.contents in worker.object_store.objects:
        # Only clients that the owner passed the id to know it, so any client that names it may take the claim.
        worker.object_store.claims.claim(message.contents, session)


@handles(m.PublishMessage)
def publish_object(worker: BaseWorker, session: Session, message: m.PublishMessage) -> None:
    """Keep an object beyond the session that sent it."""
    worker.object_store.get(message.contents)
    if worker.object_store.object_manager is not None:
        worker.object_store.object_manager.make_durable(session, message.contents)
    worker.object_store.claims.publish(message.contents, session.client_id)


@handles(m.ReleaseMessage)
def release_objects(worker: BaseWorker, session: Session, message: m.ReleaseMessage) -> None:
    """Drop one claim for each id."""
    for obj_id in message.contents:
        session.release(obj_id)


@handles(m.HandOverMessage)
def hand_over(worker: Any, session: Session, message: m.HandOverMessage) -> Any:
    """Send an object on to another worker, leaving a pointer or nothing."""
    obj = worker.object_store.get(message.contents)
    check_release(worker, session, obj, "move", f"to {message.destination}", obj_id=message.contents)
    destination = worker.known(message.destination)
    if destination is None:  # known workers are not revealed to clients
        raise WorkerNotFoundError(message.destination, ("not disclosed to peers",))
    with acting_as(worker):
        # The claim on a moved object belongs to the client; if a pointer stays, it belongs to this worker.
        claimant = None if message.keep_pointer else session.client_id
        pointer = worker.send_object(obj, destination, message.new_id, bool(tags_of(obj)), claimant)
        pointer.lease.stream.barrier()
    cause = f"it was moved to {message.destination!r} by {session.client_id!r}"
    claims = worker.object_store.claims
    if not claims.is_published(message.contents) or claims.publisher_of(message.contents) is not None:
        mark_departed(obj, message.contents, cause)
    if message.keep_pointer:
        worker.object_store.objects[message.contents] = pointer.wrap()
        return pointer.tensor_meta()
    pointer.lease.owned = False
    worker.object_store.pop(message.contents, cause)
    return pointer.tensor_meta() if isinstance(obj, torch.Tensor) else None


@handles(m.FetchThereMessage)
def fetch_there(worker: BaseWorker, session: Session, message: m.FetchThereMessage) -> Any:
    """Replace a pointer held here by the object that it points at."""
    held = worker.object_store.get(message.contents)
    # The worker acts at another one on its own behalf.
    check_release(worker, session, held, "remote_get", obj_id=message.contents)
    pointer = require_pointer(held)
    with acting_as(worker):
        obj = pointer.get(deregister_ptr=False)  # the object below takes its place, and its claims
    if not isinstance(obj, torch.Tensor):
        raise InvalidTensorForRemoteGetError(obj)
    worker.object_store.objects[message.contents] = obj
    return TensorMeta.of(obj)


@handles(m.SearchMessage)
def search(worker: BaseWorker, session: Session, message: m.SearchMessage) -> list[Any]:
    """Describe the objects that match every word: by id, by tag, or inside the description."""
    found = []
    for obj_id, obj in worker.object_store.outlines().items():
        tags, text = tags_of(obj), description_of(obj) or ""
        if all(names_id(w, obj_id) or w in tags or (isinstance(w, str) and w in text) for w in message.contents):
            found.append((obj_id, meta_of(obj), tags, text or None))
    return found


@handles(m.BatchMessage)
def run_batch(worker: BaseWorker, session: Session, message: m.BatchMessage) -> tuple[Any, ...]:
    """Process several messages in order."""
    answers: list[Any] = []
    try:
        for part in message.contents:
            answers.append(route(worker, session, part))
    except Exception:
        put_back(tuple(answers))  # they will not be sent
        raise
    return tuple(answers)


def outgoing(response: object) -> Iterator[OutgoingObject]:
    """Yield the objects that leave with a response."""
    if isinstance(response, OutgoingObject):
        yield response
    elif type(response) is tuple:
        for part in response:
            yield from outgoing(part)


def put_back(response: object) -> None:
    """Put the objects of a response back that is not sent."""
    for leaving in outgoing(response):
        try:
            leaving.stay()
        except (IdNotUniqueError, QuotaExceededError) as error:  # its id or its room is taken by now
            logger.warning("An object that did not arrive could not be put back: %s", error)


@handles(m.PlanCommandMessage)
def plan_command(worker: BaseWorker, session: Session, message: m.PlanCommandMessage) -> Any:
    """Fetch a plan or a protocol."""
    return worker.execute_plan_command(session, message)
