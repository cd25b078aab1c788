"""Stream: the ordered message channel from one client to one worker.

Commands, sends and deletions are written without waiting; fetches, queries and searches wait. The operations of
pointers are defined here once, by two methods that each kind of stream supplies: `post` and `ask`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from syft.core import metrics
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.messaging import message as m
from syft.serde import serialize
from syft.workers.access.policy import ALLOW_ALL
from syft.workers.execution.copies import copy_for
from syft.workers.execution.execute import describe, execute
from syft.workers.execution.router import OutgoingObject, log_message, route

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Ids that are released with one message; the others wait for the next.
_MAX_RELEASED = 1 << 16


class FailureGroup:
    """Calls to several workers that fail together: only one failure is reported to the user.

    Attributes:
        streams: the streams that the calls were sent over.
    """

    __slots__ = ("_unreported", "streams")

    def __init__(self) -> None:
        self._unreported = [True]
        self.streams: list[Any] = []

    @property
    def is_reported(self) -> bool:
        """Whether a failure was reported."""
        return not self._unreported

    def report(self) -> bool:
        """Return whether a failure is to be reported: True the first time, False afterwards."""
        try:
            return self._unreported.pop()  # atomic: streams record failures in threads of their own
        except IndexError:
            return False


class ReleaseQueue(collections.deque[ObjectId]):
    """Ids that a client released; the next message carries them. Finalizers of any thread may append."""

    def take(self) -> tuple[ObjectId, ...]:
        """Remove and return the ids for one message."""
        taken: list[ObjectId] = []
        with contextlib.suppress(IndexError):  # another thread took the last one
            while self and len(taken) < _MAX_RELEASED:
                taken.append(self.popleft())
        return tuple(taken)


class Stream:
    """An ordered channel of messages from a client to the worker that responds."""

    # Whether the next call to the worker opens another stream, because this one is over.
    is_replaced = False
    # Whether small calls are batched (see `batching`).
    gathers = False
    # The number of leases of objects that were not fetched, moved or deleted.
    leases = 0
    # Whether errors of calls that no caller waits for are raised by a later call.
    defers_failures = False
    # The number of tensors that required a gradient and have left the worker, counted where failures are deferred.
    departed_leaves = 0

    def __init__(self, client: Any, location: Any) -> None:
        self.client = client
        self.location = location

    def post(self, message: m.Message, failure_group: FailureGroup | None = None) -> None:
        """Send a message that needs no response; the failures of a group of messages are reported once."""
        raise NotImplementedError(f"{type(self).__name__} must define post()")

    def ask(self, message: m.Message) -> Any:
        """Send a message and wait for its response."""
        raise NotImplementedError(f"{type(self).__name__} must define ask()")

    def release(self, obj_id: ObjectId) -> None:
        """Drop the client's claim on an object; called by finalizers, so it neither waits nor raises."""
        raise NotImplementedError(f"{type(self).__name__} must define release()")

    def run(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        base: ObjectId | None,
        originals: object = None,
    ) -> Any:
        """Run a call, with a `Ref` for each object that the worker holds, and return the description of its result.

        `originals` are the arguments as pointers, for streams that infer the result spec by themselves.
        """
        return self.ask(self._operation(name, args, kwargs, base))

    def _operation(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], base: Any) -> m.Operation:
        return m.Operation(name, None, args, kwargs, () if base is None else (base,), torch.is_grad_enabled())

    def store(self, obj: Any, obj_id: ObjectId, published: bool, claimant: Any = None) -> None:
        """Store an object at the worker."""
        self.post(m.ObjectMessage(obj, obj_id, published, claimant))

    def fetch(self, obj_id: ObjectId, reason: str = "", user: object = None) -> Any:
        """Fetch an object from the worker; a node ignores the user, which is self-declared."""
        return self.ask(m.ObjectRequestMessage((obj_id, user, reason)))

    def fetch_many(self, obj_ids: list[ObjectId]) -> list[Any]:
        """Fetch several objects from the worker with one message."""
        return list(self.ask(m.BatchMessage(tuple(m.ObjectRequestMessage((i, None, "")) for i in obj_ids))))

    def store_many(self, objects: list[tuple[Any, ObjectId]]) -> None:
        """Store several objects at the worker with one message."""
        self.post(m.BatchMessage(tuple(m.ObjectMessage(obj, obj_id) for obj, obj_id in objects)))

    def delete(self, obj_id: ObjectId) -> None:
        """Delete an object, regardless of its owners."""
        self.post(m.ForceObjectDeleteMessage(obj_id))

    def retain(self, obj_id: ObjectId) -> None:
        """Add a claim on an object."""
        self.post(m.RetainMessage(obj_id))

    def claim(self, obj_id: ObjectId) -> None:
        """Take over a claim that was passed on with a pointer."""
        self.post(m.ClaimMessage(obj_id))

    def publish(self, obj_id: ObjectId) -> None:
        """Keep an object beyond the client's pointers and session."""
        self.post(m.PublishMessage(obj_id))

    def is_none(self, ref: Ref) -> bool:
        """Query whether an object is None."""
        return bool(self.ask(m.IsNoneMessage(ref)))

    def describe(self, ref: Ref) -> Any:
        """Query the metadata of a tensor."""
        return self.ask(m.GetShapeMessage(ref))

    def grad_meta(self, ref: Ref) -> TensorMeta | None:
        """Query the metadata of a tensor's gradient; None if it has none."""
        attribute = "grad" if ref.attribute is None else f"{ref.attribute}.grad"
        found: TensorMeta | None = self.ask(m.GetShapeMessage(Ref(ref.id, attribute)))
        return found

    def note_gradient(self, ref: Ref, meta: TensorMeta) -> None:
        """Note the metadata of a gradient that this client has just set."""

    def hand_over(self, obj_id: ObjectId, destination: BaseWorker, new_id: ObjectId, keep_pointer: bool) -> Any:
        """Have the worker send an object on; returns the object's metadata at the destination."""
        # Waits: later requests on the stream to the destination must find the object there.
        return self.ask(m.HandOverMessage(obj_id, destination.id, new_id, keep_pointer))

    def fetch_there(self, obj_id: ObjectId) -> TensorMeta:
        """Have the worker replace a pointer that it holds by the object it points at."""
        found: TensorMeta = self.ask(m.FetchThereMessage(obj_id))
        return found

    def search(self, query: list[Any]) -> list[Any]:
        """Return the objects that match every word."""
        return list(self.ask(m.SearchMessage(query)))

    def request_release(self, obj_id: ObjectId | tuple[ObjectId, ...], reason: str) -> dict[str, Any]:
        """Request the release of an object, or of several together, from the owner; returns the request."""
        return dict(self.ask(m.RequestReleaseMessage(obj_id, reason)))

    def released(self, request_id: str) -> Any:
        """Return the released copy of an approved request."""
        base = ID_PROVIDER.pop()
        fetch = m.Operation("syft.released", None, (request_id,), {}, (base,))
        _, found = self.ask(m.BatchMessage((fetch, m.ObjectRequestMessage((base, None, "")))))
        return found.contents["value"]

    def request_status(self, request_id: str) -> dict[str, Any]:
        """Query the status of a request."""
        return dict(self.ask(m.RequestStatusMessage(request_id)))

    def raise_failure(self) -> None:
        """Raise the unreported error of an earlier call, if there is one."""

    def synchronize(self) -> None:
        """Wait until everything sent so far is done, and raise the first error."""
        self.ask(m.BatchMessage(()))

    def barrier(self) -> None:
        """Wait until other workers can see what was sent so far; needed before a pointer is passed on."""

    def close(self) -> None:
        """End the session of the client at the worker; then raise the unreported error of an earlier call."""


def close_all(streams: Iterable[Any]) -> None:
    """Close all streams; then raise the first unreported error of an earlier call."""
    call_all([stream.close for stream in streams])


def call_all(calls: Iterable[Callable[[], None]]) -> None:
    """Make all calls; then raise the first error."""
    failed: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


def close_incoming(worker: Any) -> None:
    """Close the streams to a worker, after pending requests are done; then raise the first error."""
    streams, worker._incoming = worker._incoming, []
    for stream in streams:
        stream.client._streams.pop(worker.stream_key, None)
    close_all(streams)


class InlineStream(Stream):
    """A stream to a worker of this process: same messages, no bytes, immediate errors."""

    def __init__(self, client: Any, location: Any, session: Any = None) -> None:
        super().__init__(client, location)
        self.session = location.open_session(client.id) if session is None else session

    def run(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        base: ObjectId | None,
        originals: object = None,
    ) -> Any:
        """Run a call; the response is the stored result itself, whose metadata the client reads."""
        operation = self._operation(name, args, kwargs, base)
        response = execute(self.location, self.session, operation)
        if metrics._active or self.location.log_msgs:
            self._observe(operation, response, waited=is_value(response))
        return response

    def grad_meta(self, ref: Ref) -> TensorMeta | None:
        """Return the metadata of a tensor's gradient; optimizers read it three times per parameter and step."""
        location = self.location
        if metrics._active or location.log_msgs or ref.attribute is not None or location.policy is not ALLOW_ALL:
            return super().grad_meta(ref)
        grad = self.location.object_store.get(ref.id).grad
        return None if grad is None else TensorMeta.of(grad)

    def post(self, message: m.Message, failure_group: FailureGroup | None = None) -> None:
        """Deliver a message, with copies of the objects in it."""
        self._deliver(self._copied(message), waited=False)

    def _copied(self, message: m.Message) -> m.Message:
        if type(message) is m.ObjectMessage:
            return dataclasses.replace(message, contents=copy_for(self.location, message.contents))
        if type(message) is m.BatchMessage:
            return m.BatchMessage(tuple(self._copied(part) for part in message.contents))
        return message

    def ask(self, message: m.Message) -> Any:
        """Deliver a message and return its response."""
        response = self._deliver(self._copied(message), waited=True)
        if isinstance(response, OutgoingObject):
            return response.hand_out(self.client)
        if type(response) is tuple:
            return tuple(r.hand_out(self.client) if isinstance(r, OutgoingObject) else r for r in response)
        return response

    def _deliver(self, message: m.Message, waited: bool) -> Any:
        response = route(self.location, self.session, message)
        if metrics._active or self.location.log_msgs:
            self._observe(message, response, waited)
        return response

    def _observe(self, message: m.Message, response: object, waited: bool) -> None:
        """Log and count a message, with the size that it would have as bytes."""
        log_message(self.location, message)
        if metrics._active:
            size = len(serialize(message, self.client))
            if waited:
                size += len(serialize(wire_form(response), self.location))
            metrics.record(self.client.id, self.location.id, size, waited)

    def release(self, obj_id: ObjectId) -> None:
        """Drop the client's claim on an object."""
        self.session.release(obj_id)

    def close(self) -> None:
        """End the session."""
        self.session.close()


def wire_form(response: object) -> Any:
    """Return a response as it is serialized."""
    if isinstance(response, OutgoingObject):
        return response.obj
    if type(response) is tuple and any(isinstance(part, OutgoingObject | tuple) for part in response):
        return tuple(wire_form(part) for part in response)
    return describe(response)


def is_value(response: object) -> bool:
    """Return whether the caller waits for this response: a value, not the description of a stored object."""
    return response is not None and not isinstance(
        response, torch.Tensor | TensorMeta | SameAs | ObjectMeta | tuple | list
    )
