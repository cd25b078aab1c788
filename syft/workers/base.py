"""BaseWorker: a party with an id, an address book, a store of objects, and streams to other parties."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from syft._suggestions import did_you_mean, missing_attribute
from syft.codes import PLAN_CMDS
from syft.core.context import local_worker, refuse_while_recording
from syft.core.id_provider import ObjectId
from syft.core.labels import id_of
from syft.core.object_storage import ObjectStorage
from syft.core.references import Ref, TensorMeta
from syft.display import Found
from syft.exceptions import GetNotPermittedError, PlanCommandUnknownError, SyftError
from syft.hook.remote import Remote
from syft.messaging import message as m
from syft.pointers import ways_back
from syft.pointers.lease import Lease
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import Results, call
from syft.pointers.request import Request, request_together
from syft.serde import register
from syft.workers import wire_form
from syft.workers.abstract import AbstractWorker
from syft.workers.access.policy import ALLOW_ALL, ReleasePolicy
from syft.workers.address_book import AddressBook
from syft.workers.entry_points import EntryPoints
from syft.workers.execution.execute import resolve
from syft.workers.execution.router import PLAN_COMMANDS, route
from syft.workers.execution.session import Session
from syft.workers.sending import Sender
from syft.workers.transport.stream import close_all

if TYPE_CHECKING:
    from syft.hook.torch_hook import TorchHook

logger = logging.getLogger("syft.workers")


class BaseWorker(Sender, EntryPoints, AbstractWorker):
    """A party: a store of objects, message handlers, and the other parties it knows.

    Args:
        hook: the TorchHook.
        id: the name of the worker.
        data: tensors to hold from the start.
        is_client_worker: whether it only sends and never stores (as the local worker `me`).
        log_msgs: keep every message received in `msg_history`.
        verbose: log every message at info level.
        auto_add: register it and the workers known to the local worker with each other.
    """

    # Runs calls that name private data elsewhere; only session processes of nodes have one.
    vault: Any = None
    # Records the name of the current call; only session processes of nodes have one.
    progress: Any = None
    # Whether clients may choose any id for their objects.
    takes_any_id = True
    # Whether plans, protocols and ObjectWrappers outlive the sessions of the clients that sent them.
    keeps_lasting_objects = True

    def __init__(
        self,
        hook: TorchHook | None = None,
        id: ObjectId = 0,
        data: Iterable[torch.Tensor] | None = None,
        is_client_worker: bool = False,
        log_msgs: bool = False,
        verbose: bool = False,
        auto_add: bool = True,
    ) -> None:
        ObjectStorage.__init__(self, id)
        self.id = id
        self.hook = hook
        self.is_client_worker = is_client_worker
        self.log_msgs = log_msgs
        self.verbose = verbose
        self.msg_history: list[Any] = []
        self.policy: ReleasePolicy = ALLOW_ALL
        self.compression: str | None = None
        self.trusts_script_modules = False
        self.trusts_translations = False
        self.remote = Remote(self, "torch")
        self.auto_add = auto_add
        AddressBook.__init__(self)
        self._streams: dict[ObjectId, Any] = {}
        self._incoming: list[Any] = []
        self._sessions: list[Session] = []
        self._opening = threading.RLock()
        if auto_add:
            self._join(getattr(hook, "local_worker", None))
        if data is not None:
            self.load_data(data)

    # --- streams and messages -------------------------------------------------------------------------------

    def stream_to(self, location: Any) -> Any:
        """Return the ordered stream from this worker to another, opening it when first needed."""
        refuse_while_recording("A message to another worker")
        if location is self and (own := self._stream_to_itself()) is not None:
            return own
        key = location.stream_key
        stream = self._streams.get(key)
        if stream is None or stream.location is not location or stream.is_replaced:
            with self._opening:  # two streams to one worker would not preserve the order
                stream = self._streams.get(key)
                if stream is None or stream.location is not location or stream.is_replaced:
                    stream = self._streams[key] = location.open_stream(self)
        return stream

    @property
    def stream_key(self) -> Any:
        """The key of streams to this worker, at the workers that open them."""
        return self.id

    def open_stream(self, client: BaseWorker) -> Any:
        """Open a stream from a client to this worker."""
        raise SyftError(f"{type(self).__name__} can't be reached: it must define open_stream().")

    def open_session(self, client_id: object) -> Session:
        """Begin the session of a client at this worker."""
        session = Session(self, client_id)
        self._sessions.append(session)
        return session

    def send_msg(self, message: m.Message, location: BaseWorker | ObjectId) -> Any:
        """Send a message to another worker and return its response."""
        return self.stream_to(self.get_worker(location, fail_hard=True)).ask(message)

    def synchronize(self) -> Any:
        """Wait until everything that the local worker sent here is done, and raise the first error."""
        local_worker().stream_to(self).synchronize()
        return self

    def close(self) -> None:
        """Close the streams of this worker; then raise the unreported error of an earlier call."""
        streams = list(self._streams.values())
        self._streams.clear()
        close_all(streams)

    # --- objects --------------------------------------------------------------------------------------------

    def load_data(self, data: Iterable[Any]) -> None:
        """Hold tensors of the owner; they stay until they are deleted."""
        for tensor in data:
            self.object_store.objects[id_of(tensor)] = tensor
            if isinstance(tensor, torch.Tensor):
                tensor.__dict__["_syft_owner"] = self

    @property
    def _tensors(self) -> dict[ObjectId, Any]:
        """The tensors among the objects held, by id."""
        return {obj_id: obj for obj_id, obj in self._objects.items() if isinstance(obj, torch.Tensor)}

    def resolve(self, ref: Ref) -> Any:
        """Return the object behind a pointer that was sent to the worker it points at.

        Only without a release policy: otherwise a message could place a held object where a text is expected, and read
        it in an error or a search.
        """
        if self.policy is not ALLOW_ALL:
            raise GetNotPermittedError(
                f"Worker {self.id!r} has a release policy, so a message can't name its objects by pointers to it."
            )
        return resolve(self, ref)

    def register_obj(self, obj: object, obj_id: ObjectId | None = None) -> None:
        """Store an object, unless this worker only sends."""
        if not self.is_client_worker:
            super().register_obj(obj, obj_id)

    def de_register_obj(self, obj: object, _recurse_torch_objs: bool = True) -> None:
        """Remove an object from the store."""
        if not self.is_client_worker:
            super().de_register_obj(obj, _recurse_torch_objs)

    @contextmanager
    def registration_enabled(self) -> Iterator[None]:
        """Let a worker that only sends store objects inside a `with` block."""
        before, self.is_client_worker = self.is_client_worker, False
        try:
            yield
        finally:
            self.is_client_worker = before

    def session_of(self, client_id: ObjectId) -> Session | None:
        """Return the session of a connected client."""
        return next((session for session in self._sessions if session.client_id == client_id), None)

    def get_many(self, pointers: list[Any]) -> list[Any]:
        """Fetch the objects of several pointers, with one message per worker."""
        results: dict[int, Any] = {}
        for location in {id(pointer.location): pointer.location for pointer in pointers}.values():
            there = [pointer for pointer in pointers if pointer.location is location]
            for pointer in there:
                pointer.lease.check()
            fetched = self.stream_to(location).fetch_many([pointer.id_at_location for pointer in there])
            for pointer, value in zip(there, fetched, strict=True):
                pointer.lease.spend_fetched(value, self)
                results[id(pointer)] = ways_back.fetched(pointer, value, call) if pointer._moves else value
        return [results[id(pointer)] for pointer in pointers]

    def request_many(self, pointers: list[Any], reason: str) -> Request:
        """Request the release of several objects from the owner of a worker, with one request."""
        return request_together(pointers, reason)

    def request_obj(
        self, obj_id: ObjectId, location: BaseWorker | ObjectId, user: object = None, reason: str = ""
    ) -> Any:
        """Fetch an object from another worker."""
        return self.stream_to(self.get_worker(location, fail_hard=True)).fetch(obj_id, reason)

    def respond_to_obj_req(self, request_msg: tuple[Any, ...]) -> Any:
        """Return an object and remove it: (id, user, reason)."""
        return route(self, Session(self, None), m.ObjectRequestMessage(tuple(request_msg))).obj

    # --- commands -------------------------------------------------------------------------------------------

    def send_command(self, recipient: BaseWorker, message: tuple[Any, ...], return_ids: object = None) -> Any:
        """Send a command `(name, owner, args, kwargs)` and return pointer(s) to its result(s)."""
        name, owner, args, kwargs = message
        recipient = self.get_worker(recipient, fail_hard=True)
        stream = self.stream_to(recipient)
        operation = self.create_message_execute_command(name, owner, return_ids, *args, **(kwargs or {}))
        base = operation.return_ids[0]
        given = tuple(a.ref() if isinstance(a, ObjectPointer) else a for a in operation.cmd_args)
        response = stream.run(operation.cmd_name, given, operation.cmd_kwargs, base)
        first = ObjectPointer._attach(Lease(stream, base, owned=False), self)
        return Results(first, operation.cmd_args, operation.cmd_kwargs, base).build(response)

    create_message_execute_command = staticmethod(wire_form.create_operation)

    def execute_command(self, message: object) -> Any:
        """Run an operation here, without a client."""
        return route(self, Session(self, None), message)

    def execute_plan_command(self, session: Session, message: m.PlanCommandMessage) -> Any:
        """Respond to `fetch_plan` or `fetch_protocol`."""
        handler = PLAN_COMMANDS.get(message.command_name)
        if handler is None:
            raise PlanCommandUnknownError(message.command_name)
        return handler(self, session, *message.contents)

    def fetch_plan(self, plan_id: ObjectId, location: BaseWorker | ObjectId, copy: bool = False) -> Any:
        """Fetch a plan (or a copy of it) from a worker."""
        plan = self.send_msg(m.PlanCommandMessage((plan_id, copy), PLAN_CMDS.FETCH_PLAN), location)
        plan.owner = self
        return plan

    def fetch_protocol(self, protocol_id: ObjectId, location: BaseWorker | ObjectId, copy: bool = False) -> Any:
        """Fetch a protocol (or a copy of it) from a worker."""
        return self.send_msg(m.PlanCommandMessage((protocol_id, copy), PLAN_CMDS.FETCH_PROTOCOL), location)

    # --- questions ------------------------------------------------------------------------------------------

    @staticmethod
    def is_tensor_none(obj: object) -> bool:
        """Return whether an object is None."""
        return obj is None

    def request_is_remote_tensor_none(self, pointer: ObjectPointer) -> bool:
        """Return whether a remote object is None."""
        pointer = pointer.__dict__.get("child", pointer)
        return bool(self.stream_to(pointer.location).is_none(pointer.ref()))

    @staticmethod
    def get_tensor_shape(tensor: torch.Tensor) -> list[int]:
        """Return a shape as a list."""
        return list(tensor.shape)

    def request_remote_tensor_shape(self, pointer: ObjectPointer) -> torch.Size:
        """Return the shape of a remote tensor."""
        pointer = pointer.__dict__.get("child", pointer)
        meta: TensorMeta = self.stream_to(pointer.location).describe(pointer.ref())
        return meta.shape

    def search(self, query: object) -> list[Any]:
        """Find the objects of this worker that match every word: by id, tag, or inside the description.

        Args:
            query: a word, or a list of words that must all match.

        Returns:
            Pointers; deleting them deletes no object. Without a match, the list shows similar tags that you may see.
        """
        found: list[Any] = local_worker().request_search(query, location=self)
        return found

    def request_search(self, query: object, location: BaseWorker | ObjectId) -> list[Any]:
        """Find the objects of another worker that match every word."""
        words = list(query) if isinstance(query, list | tuple | set) else [query]
        location = self.get_worker(location, fail_hard=True)
        if location is self:
            session = Session(self, self.id)
            here = route(self, session, m.SearchMessage(words))
            hint = "" if here else _similar_tags(words, lambda other: route(self, session, m.SearchMessage(other)))
            return Found((self.object_store.get(obj_id) for obj_id, *_ in here), words, hint)
        stream = self.stream_to(location)
        rows = stream.search(words)
        hint = "" if rows else _similar_tags(words, stream.search)
        return Found((wire_form.found_pointer(self, stream, *row) for row in rows), words, hint)

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name):
            return missing_attribute(self, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} id:{self.id} #objects:{len(self._objects)}>"

    def _repr_html_(self) -> str:
        from syft.display import worker_html

        return worker_html(self)

    simplify = staticmethod(wire_form.simplify)
    detail = staticmethod(wire_form.detail)
    force_simplify = staticmethod(wire_form.force_simplify)
    force_detail = staticmethod(wire_form.force_detail)


def _similar_tags(words: list[Any], search: Callable[[list[Any]], list[Any]]) -> str:
    """Return a suggestion for the words of a search without a match, from the tags that the same search may show."""
    if not any(isinstance(word, str) for word in words):
        return ""
    with suppress(SyftError):  # the search itself has worked
        tags = {tag for _, _, visible, _ in search([]) for tag in visible}
        return "".join(did_you_mean(word, sorted(tags)) for word in words if word not in tags)
    return ""


register(
    BaseWorker,
    code=161,
    forced_code=162,
    force_simplify=BaseWorker.force_simplify,
    force_detail=BaseWorker.force_detail,
)
