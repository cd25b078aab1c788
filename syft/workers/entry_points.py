"""EntryPoints: serialized messages in, serialized answers out, for transports of your own.

The streams of this library do not use them, nor does the port of a node: there each client has a session.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from syft.core.labels import set_id
from syft.core.references import TensorMeta
from syft.exceptions import GetNotPermittedError, NotPermittedError, ResponseSignatureError, SerdeError
from syft.messaging import message as m
from syft.serde import deserialize, serialize
from syft.workers.execution.copies import offer_claims
from syft.workers.execution.router import OutgoingObject, log_message, outgoing, put_back, route
from syft.workers.execution.session import Session, serving
from syft.workers.transport.request_codec import answer, let_go
from syft.workers.transport.stream import Stream, wire_form
from syft.workers.wire_form import found_pointer

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")

# Errors that are the answer, as bytes: reading them raises. All others are raised at once.
_ANSWERS = (GetNotPermittedError, ResponseSignatureError)


class EntryPoints:
    """The documented calls that take and return bytes."""

    msg_history: list[m.Message]

    def recv_msg(self: Any, bin_message: bytes) -> bytes:
        """Respond to a serialized message of an unknown client.

        Args:
            bin_message: `sy.serde.serialize(message)`.

        Returns:
            The serialized answer. `sy.serde.deserialize` raises GetNotPermittedError if the worker does not release
            the object.
        """
        if not isinstance(bin_message, bytes | bytearray | memoryview):
            raise SerdeError(
                f"recv_msg takes bytes, got {type(bin_message).__name__}. Write them with sy.serde.serialize(message)."
            )
        if not self.serves_unknown_clients:
            raise NotPermittedError(f"Worker {self.id!r} serves connected clients only. Connect with sy.connect(url).")
        if self.verbose:
            logger.info("%s received %d bytes", self.id, len(bin_message))
        message = deserialize(bin_message, self._reader())
        if type(message) is tuple and self._reader() is self:  # the request of a stream
            return answer(self, Session(self, None), bytes(bin_message))
        if not isinstance(message, m.Message):
            raise SerdeError(
                f"recv_msg takes a serialized message, got a {type(message).__name__}. "
                "Pass sy.serde.serialize(ObjectMessage(x)), or another class of syft.messaging.message."
            )
        self._settle()
        log_message(self, message)
        try:
            return bytes(self._respond(published(message)))
        except _ANSWERS as error:
            return serialize(error, self)

    def _recv_msg(self, message: bytes) -> bytes:
        """Respond to a serialized message; transports of your own may override it."""
        return self.recv_msg(message)

    def _send_msg(self, message: bytes, location: BaseWorker) -> bytes:
        """Deliver a serialized message to another worker and return its serialized answer."""
        return location._recv_msg(message)

    def _get_msg(self, index: int) -> m.Message:
        """Return a message that the worker received, by its index in the log that `log_msgs=True` keeps."""
        self._settle()
        return self.msg_history[index]

    def _settle(self) -> None:
        """Wait until pending requests are done, if the worker serves them in a thread."""

    def _reader(self) -> Any:
        """Return the worker that resolves the pointers in a message."""
        return self

    def _respond(self: Any, message: m.Message) -> bytes:
        """Process a message and return the serialized answer."""
        session, response = Session(self, None), None
        served = serving.set(session)
        try:
            response = route(self, session, message)
            if type(response) is OutgoingObject:
                set_id(response.obj, response.obj_id)
            written = serialize(documented_answer(self, message, response), self)
            if self.object_store.object_manager is not None:
                self.object_store.object_manager.flush(session)
        except Exception:
            put_back(response)
            raise
        finally:
            serving.reset(served)
        leaving = tuple(outgoing(response))
        for each in leaving:
            offer_claims(each.obj)
        let_go(leaving)
        return written


def published(message: m.Message) -> m.Message:
    """Return a message whose objects stay at the worker: no client has a session that could keep them."""
    if type(message) is m.ObjectMessage:
        return dataclasses.replace(message, published=True, claimant=None)
    if type(message) is m.BatchMessage:
        return m.BatchMessage(tuple(map(published, message.contents)))
    return message


def documented_answer(worker: Any, message: m.Message, response: object) -> Any:
    """Return the documented answer to a message: pointers for a search, the sizes for a shape."""
    if type(message) is m.SearchMessage and isinstance(response, list):
        return [found_pointer(worker, Stream(worker, worker), *row) for row in response]
    return wire_form(sizes_of(response) if type(message) is m.GetShapeMessage else response)


def sizes_of(response: object) -> Any:
    """Return the documented answer to the question for a shape."""
    return response.shape if isinstance(response, TensorMeta) else response
