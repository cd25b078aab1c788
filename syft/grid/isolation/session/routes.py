"""What a session process does with messages that are not about the user's own objects alone.

All other messages are answered as by any worker: everything in a session process may be fetched by its user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syft.core.id_provider import is_id
from syft.core.labels import description_of, tags_of
from syft.exceptions import GetNotPermittedError, NotPermittedError, ObjectNotFoundError, SyftError
from syft.grid.isolation.children.worker import in_vault, value_of
from syft.grid.isolation.proxies.calls import ObjectProxy, Proxy, describe
from syft.grid.isolation.records.items import plain_lists, read_meta
from syft.messaging import message as m
from syft.serde import deserialize
from syft.tensors.private import opened
from syft.workers.execution import router
from syft.workers.execution.copies import copy_of_held
from syft.workers.execution.results import meta_of
from syft.workers.execution.router import Handler, OutgoingCopy
from syft.workers.execution.session import Session

ROUTES: dict[type, Handler] = {}
_PROXIES = (Proxy, ObjectProxy)
_NO_LIMIT = 1 << 62


def answers(message_type: type) -> Callable[[Handler], Handler]:
    """Register what a session process does with a type of message."""

    def register(handler: Handler) -> Handler:
        ROUTES[message_type] = handler
        return handler

    return register


def routes() -> dict[type, Handler]:
    """Return the whole table: what any worker does, except for the messages above."""
    return {**router.ROUTES, **ROUTES}


# --- objects ------------------------------------------------------------------------------------------------------


@answers(m.ObjectMessage)
def keep_object(worker: Any, session: Session, message: m.ObjectMessage) -> None:
    """Keep an object of the user; a private tensor names the users who may read it."""
    if session.via is None and message.claimant not in (None, session.client_id):
        raise NotPermittedError(f"Worker {worker.id!r} keeps objects for the user who sends them, not for others.")
    obj, users = opened(message.contents)
    if obj is not message.contents:
        message = m.ObjectMessage(obj, message.obj_id, message.published, message.claimant)
    router.keep_object(worker, session, message)
    if users and message.published:
        worker.services.call("share", message.obj_id, tuple(map(str, users)), False)


@answers(m.ObjectRequestMessage)
def give_object(worker: Any, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Give an object to the user: one of this process, a published one that the user may read, or a released copy."""
    obj_id = message.contents[0]
    store = worker.object_store
    held = store.look(obj_id)
    if isinstance(held, _PROXIES):
        return OutgoingCopy(released(worker, obj_id, held), session, obj_id, published=False)
    if store.is_of_others(obj_id):
        return OutgoingCopy(copy_of_held(worker, held), session, obj_id, published=False)
    return router.give_object(worker, session, message)


def released(worker: Any, obj_id: Any, proxy: Any) -> Any:
    """Return the released copy of an object in the vault.

    Raises:
        GetNotPermittedError: none was released; the text says how the request stands.
    """
    answer = worker.services.ask("fetch", obj_id)
    if isinstance(answer.header, str):
        if not answer.header:
            raise in_vault(worker.id, obj_id, proxy)
        raise GetNotPermittedError(f"Node {worker.id!r} does not release this value. {answer.header}")
    found = deserialize(value_of(answer), worker, max_message_bytes=_NO_LIMIT, owns_buffer=True)
    return found if answer.header is None else found[answer.header]


@answers(m.GetShapeMessage)
def describe_tensor(worker: Any, session: Session, message: m.GetShapeMessage) -> Any:
    """Give shape, dtype, requires_grad and device."""
    held = worker.vault.resolve(message.contents)
    if held is None:
        return None
    return describe(held) if isinstance(held, _PROXIES) else meta_of(held)


@answers(m.IsNoneMessage)
def is_none(worker: Any, session: Session, message: m.IsNoneMessage) -> bool:
    """Return whether an object or attribute is None."""
    return worker.vault.resolve(message.contents) is None


@answers(m.ForceObjectDeleteMessage)
def delete_object(worker: Any, session: Session, message: m.ForceObjectDeleteMessage) -> None:
    """Delete an object now: one of the user, or as an owner of the node any published one."""
    store, obj_id = worker.object_store, message.contents
    if obj_id in store.objects:
        store.remove(obj_id)
    elif not worker.services.call("remove", obj_id, None):
        store.look(obj_id)  # raises for what is not there
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not let {session.client_id!r} delete an object of somebody else."
        )


@answers(m.RetainMessage)
def retain_object(worker: Any, session: Session, message: m.RetainMessage) -> None:
    """Keep an object for one more owner."""
    if worker.object_store.look(message.contents) is None:
        raise ObjectNotFoundError(message.contents, worker.id, "")
    if message.contents in worker.object_store.objects:
        worker.object_store.claims.offer(message.contents, session)


@answers(m.SearchMessage)
def search(worker: Any, session: Session, message: m.SearchMessage) -> list[Any]:
    """Describe the objects that match every word: the user's own, and the published ones of the node."""
    found, words = [], message.contents
    for obj_id, obj in worker.object_store.outlines().items():
        tags, text = tags_of(obj), description_of(obj) or ""
        if all(word == obj_id or word in tags or (isinstance(word, str) and word in text) for word in words):
            meta = describe(obj) if isinstance(obj, _PROXIES) else meta_of(obj)
            found.append((obj_id, meta, tags, text or None))
    own = {row[0] for row in found} | worker.object_store.objects.keys()
    for obj_id, meta, tags, text in worker.services.call("search", *words):
        if obj_id not in own:
            found.append((obj_id, read_meta(meta), set(tags), text))
    return found


# --- rights -------------------------------------------------------------------------------------------------------


@answers(m.RequestReleaseMessage)
def request_release(worker: Any, session: Session, message: m.RequestReleaseMessage) -> Any:
    """Ask the owner to release an object."""
    ids = message.contents if type(message.contents) is tuple else (message.contents,)
    if not ids or not all(map(is_id, ids)):
        raise SyftError("A request names at least one object.")
    held = [worker.object_store.look(obj_id) for obj_id in ids]
    if not all(isinstance(one, _PROXIES) for one in held):
        raise SyftError("You may read this object: fetch it with ptr.get(), without a request.")
    kind = getattr(held[0], "pointer_kind", "tensor")
    shape = tuple(held[0].shape) if len(held) == 1 and isinstance(held[0], Proxy) else None
    size = sum(map(worker.vault.bytes_of, held))
    tags = tuple(sorted({tag for one in held for tag in tags_of(one)}))
    return plain_lists(worker.services.call("request", ids, message.reason, kind, shape, size, tags))


def _forward(name: str, *fields: str) -> Handler:
    """Return a handler that passes fields of a message on to the supervisor, which knows the user."""

    def handler(worker: Any, session: Session, message: Any) -> Any:
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
