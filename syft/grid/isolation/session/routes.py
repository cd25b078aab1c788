"""Handlers of a session process for messages that concern more than the user's own objects.

All other messages have the handlers of any worker: the user may fetch everything in a session process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import description_of, tags_of
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import GetNotPermittedError, NotPermittedError, ObjectNotFoundError, SyftError
from syft.grid.isolation.children.worker import SessionWorker, not_released, read_value, value_of
from syft.grid.isolation.proxies.objects import PROXIES, AnyProxy, Proxy, describe, value_bytes
from syft.grid.isolation.records.items import matches, plain_lists, read_meta
from syft.messaging import message as m
from syft.tensors.private import opened
from syft.workers.execution import router
from syft.workers.execution.copies import copy_of_held
from syft.workers.execution.results import meta_of
from syft.workers.execution.router import Handler, OutgoingCopy
from syft.workers.execution.session import Session

ROUTES: dict[type, Handler] = {}


def handles(message_type: type) -> Callable[[Handler], Handler]:
    """Register the handler of a session process for a type of message."""

    def register(handler: Handler) -> Handler:
        ROUTES[message_type] = handler
        return handler

    return register


def routes() -> dict[type, Handler]:
    """Return the handlers of any worker, with those of this table in front."""
    return {**router.ROUTES, **ROUTES}


def _meta(obj: object) -> TensorMeta | ObjectMeta:
    return describe(obj) if isinstance(obj, PROXIES) else meta_of(obj)


# --- objects ------------------------------------------------------------------------------------------------------


@handles(m.ObjectMessage)
def keep_object(worker: SessionWorker, session: Session, message: m.ObjectMessage) -> None:
    """Store an object of the user; a private tensor names the users who may read it."""
    if session.via is None and message.claimant not in (None, session.client_id):
        raise NotPermittedError(
            f"Worker {worker.id!r} stores objects for the user who sends them, not for other users."
        )
    obj, users = opened(message.contents)
    if obj is not message.contents:
        message = m.ObjectMessage(obj, message.obj_id, message.published, message.claimant)
    router.keep_object(worker, session, message)
    if users and message.published:
        worker.services.call("share", message.obj_id, tuple(map(str, users)), False)


@handles(m.ObjectRequestMessage)
def give_object(worker: SessionWorker, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Send an object to the user: an object of this process, a readable published one, or a released copy."""
    obj_id = message.contents[0]
    store = worker.object_store
    held = store.look(obj_id)
    if isinstance(held, PROXIES):
        return OutgoingCopy(released(worker, obj_id, held), session, obj_id, published=False)
    if store.is_of_others(obj_id):
        return OutgoingCopy(copy_of_held(worker, held), session, obj_id, published=False)
    return router.give_object(worker, session, message)


def released(worker: SessionWorker, obj_id: ObjectId, proxy: AnyProxy) -> Any:
    """Return the released copy of an object in the vault.

    Raises:
        GetNotPermittedError: no copy was released; the text gives the status of the request.
    """
    answer = worker.services.ask("fetch", obj_id)
    if isinstance(answer.header, str):
        if not answer.header:
            raise not_released(worker.id, proxy)
        raise GetNotPermittedError(f"Node {worker.id!r} does not release this value. {answer.header}")
    found = read_value(worker, value_of(answer))
    return found if answer.header is None else found[answer.header]


@handles(m.GetShapeMessage)
def describe_tensor(worker: SessionWorker, session: Session, message: m.GetShapeMessage) -> Any:
    """Return shape, dtype, requires_grad and device."""
    held = worker.vault.resolve(message.contents)
    return None if held is None else _meta(held)


@handles(m.IsNoneMessage)
def is_none(worker: SessionWorker, session: Session, message: m.IsNoneMessage) -> bool:
    """Return whether an object or attribute is None."""
    return worker.vault.resolve(message.contents) is None


@handles(m.ForceObjectDeleteMessage)
def delete_object(worker: SessionWorker, session: Session, message: m.ForceObjectDeleteMessage) -> None:
    """Delete an object of the user, or as an owner of the node any published object."""
    store, obj_id = worker.object_store, message.contents
    if obj_id in store.objects:
        store.remove(obj_id)
    elif not worker.services.call("remove", obj_id, None):
        store.look(obj_id)  # raises if the object does not exist
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not let {session.client_id!r} delete an object of another user."
        )


@handles(m.RetainMessage)
def retain_object(worker: SessionWorker, session: Session, message: m.RetainMessage) -> None:
    """Add a claim on an object."""
    if worker.object_store.look(message.contents) is None:
        raise ObjectNotFoundError(message.contents, worker.id, "")
    if message.contents in worker.object_store.objects:
        worker.object_store.claims.offer(message.contents, session)


@handles(m.SearchMessage)
def search(worker: SessionWorker, session: Session, message: m.SearchMessage) -> list[Any]:
    """Describe the objects of the user and the published objects of the node that match every word."""
    found, words = [], message.contents
    for obj_id, obj in worker.object_store.outlines().items():
        tags, text = tags_of(obj), description_of(obj) or ""
        if matches(words, obj_id, tags, text):
            found.append((obj_id, _meta(obj), tags, text or None))
    own = {row[0] for row in found} | worker.object_store.objects.keys()
    for obj_id, meta, tags, text in worker.services.call("search", *words):
        if obj_id not in own:
            found.append((obj_id, read_meta(meta), set(tags), text))
    return found


# --- rights -------------------------------------------------------------------------------------------------------


@handles(m.RequestReleaseMessage)
def request_release(worker: SessionWorker, session: Session, message: m.RequestReleaseMessage) -> Any:
    """Request the release of objects from the owner."""
    ids = message.contents if type(message.contents) is tuple else (message.contents,)
    if not ids or not all(map(is_id, ids)):
        raise SyftError("request() needs at least one object.")
    held = [worker.object_store.look(obj_id) for obj_id in ids]
    if not all(isinstance(one, PROXIES) for one in held):
        raise SyftError("You may read this object: fetch it with ptr.get(), without a request.")
    kind = getattr(held[0], "pointer_kind", "tensor")
    shape = tuple(held[0].shape) if len(held) == 1 and isinstance(held[0], Proxy) else None
    size = sum(map(value_bytes, held))
    tags = tuple(sorted({tag for one in held for tag in tags_of(one)}))
    return plain_lists(worker.services.call("request", ids, message.reason, kind, shape, size, tags))


def _forward(name: str, *fields: str) -> Handler:
    """Return a handler that forwards fields of a message to the supervisor, which knows the user."""

    def handler(worker: SessionWorker, session: Session, message: m.Message) -> Any:
        return plain_lists(worker.services.call(name, *(getattr(message, field) for field in fields)))

    return handler


ROUTES.update(
    {
        m.RequestStatusMessage: _forward("request_status", "contents"),
        m.ListRightsMessage: _forward("list_rights", "contents", "status"),
        m.DecideRequestMessage: _forward("decide", "contents", "approved", "expires", "scope", "answer"),
        m.RevokeGrantMessage: _forward("revoke", "contents"),
        m.ShareSourceMessage: _forward("share", "contents", "allowed_users", "public"),
    }
)
