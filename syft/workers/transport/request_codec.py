"""Requests and responses as bytes, for every transport.

A request is (released ids, message, whether a response is wanted, number of hops); a response is a value or an
ErrorMessage. Instead of True, a client may state how many failures it knows of: if there are more, the request is not
done. So nothing leaves or changes for a client that receives an earlier error instead.
The peer is not trusted: bytes that are not a request give an error and change nothing.
"""

from __future__ import annotations

import builtins
import contextvars
import traceback
from typing import TYPE_CHECKING, Any

import torch

from syft import exceptions
from syft.core.byte_budget import spending
from syft.core.id_provider import ObjectId, is_id
from syft.core.references import TensorMeta
from syft.exceptions import NotDoneError, RemoteError, SerdeError, SyftError
from syft.exceptions.notebook import hide_library
from syft.exceptions.remote_traceback import RemoteTraceback, facts_of
from syft.messaging.message import ErrorMessage, Message
from syft.serde import deserialize, serialize
from syft.workers.access.policy import may_leave
from syft.workers.execution.batch import take_steps as take_steps
from syft.workers.execution.copies import complete_transfer, drop_claims, offer_claims
from syft.workers.execution.router import log_message, outgoing, put_back, route
from syft.workers.execution.session import Session, serving
from syft.workers.transport.framing import RefusedBody
from syft.workers.transport.pipe import Bytes
from syft.workers.transport.stream import wire_form

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

MAX_ERROR_CHARS = 20_000


# Errors that keep their type on the way back. All others become a RemoteError.
_NEVER_REBUILT = (Warning, OSError, StopIteration, StopAsyncIteration, BaseExceptionGroup)
_KNOWN_ERRORS: dict[str, type[Exception]] = {
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, _NEVER_REBUILT)
    },
    **{
        name: value
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and issubclass(value, SyftError)
    },
    "_LinAlgError": vars(torch.linalg)["LinAlgError"],  # torch's stubs do not name it
    "OutOfMemoryError": torch.OutOfMemoryError,
}


# Workers that may forward a request: pointers to pointers to pointers ...
MAX_HOPS = 16
_hops: contextvars.ContextVar[int] = contextvars.ContextVar("syft_hops", default=0)


def is_passing_on() -> bool:
    """Return whether the current thread serves a request, so that messages are sent on behalf of its client."""
    return _hops.get() != 0


def write_request(
    client: Any, released: tuple[ObjectId, ...], message: Message, waits: bool | int, hops: int | None = None
) -> bytes:
    """Serialize a request, with its number of hops, so that none circulates for ever.

    If `waits` is a number, it is done only if no more than that many calls failed before.
    """
    return serialize((released, message, waits, _hops.get() if hops is None else hops), client)


def answer(worker: BaseWorker, session: Session, request: bytes | bytearray) -> bytes:
    """Answer one request of a peer; never raises. Objects that leave with the response are released at once."""
    written, leaving = respond(worker, session, request)
    if leaving is not None:
        let_go(leaving)
    return written


def respond(worker: BaseWorker, session: Session, request: bytes | bytearray) -> tuple[bytes, Any]:
    """Answer one request of a peer; never raises.

    Returns:
        The response, empty if none is wanted; and the objects that leave with it. Release them with `let_go`, or keep
        them with `router.put_back`, once it is known whether the response arrived.
    """
    if session.byte_budget is None:
        return _respond(worker, session, request)
    with spending(session.byte_budget):
        return _respond(worker, session, request)


def _respond(worker: BaseWorker, session: Session, request: bytes | bytearray) -> tuple[bytes, Any]:
    response: Any = None
    waits: bool | int = False
    served = serving.set(session)
    try:
        released, message, waits, hops = _read_request(session, request)
        for obj_id in released:
            session.release(obj_id)
        if type(waits) is int and session.failures > waits:
            error = NotDoneError("Calls before this one failed, so it was not done.")
            error.syft_step = session.failures  # type: ignore[attr-defined]
            raise error
        log_message(worker, message)
        passed_on = _hops.set(hops + 1)
        try:
            response = route(worker, session, message)
        finally:
            _hops.reset(passed_on)
        if waits is False:
            return b"", None
        if worker.object_store.object_manager is not None:
            worker.object_store.object_manager.flush(session)
        written = serialize(wire_form(response), worker)
        leaving = tuple(outgoing(response))
        for each in leaving:
            offer_claims(each.obj)
        return written, leaving or None
    except Exception as error:
        put_back(response)
        if waits is False:
            session.failures += 1
        return serialize(_error_message(worker, session, error), worker), None
    finally:
        serving.reset(served)


def let_go(response: object) -> None:
    """Release the objects that left with a response, and their claims."""
    for leaving in outgoing(response):
        drop_claims(leaving.obj)
        leaving.gone()


def _read_request(
    session: Session, request: bytes | bytearray
) -> tuple[tuple[ObjectId, ...], Message, bool | int, int]:
    if type(request) is RefusedBody:
        raise request.error
    # The buffer of a frame has no other user, so a large tensor in it is not copied.
    owned = type(request) is bytearray
    parts = deserialize(request, session.reader, max_message_bytes=session.max_message_bytes, owns_buffer=owned)
    if type(parts) is not tuple or len(parts) != 4:
        raise SerdeError("These bytes are not a request: it takes released ids, a message and a flag.")
    released, message, waits, hops = parts
    if not isinstance(message, Message) or type(waits) not in (bool, int) or type(released) is not tuple:
        raise SerdeError("These bytes are not a request: its parts have the wrong types.")
    if not all(map(is_id, released)):
        raise SerdeError("These bytes are not a request: released objects are named by their ids.")
    if type(hops) is not int or not 0 <= hops <= MAX_HOPS:
        raise SerdeError(f"This request was forwarded {hops} times; the pointers behind it may form a cycle.")
    return released, message, waits, hops


def _error_message(worker: BaseWorker, session: Session, error: Exception) -> ErrorMessage:
    """Describe an error for a peer; with the traceback only if the policy permits error texts."""
    frames = "".join(traceback.format_tb(error.__traceback__)[-6:]) if _tells_errors(worker, session) else ""
    where, text = "\n".join(filter(None, (frames.rstrip(), facts_of(error)))), str(error)
    step = getattr(error, "syft_step", None)  # index in a batch of calls; of NotDoneError, the number of failures
    said = (type(error).__name__, _bounded(text), _bounded(where))
    return ErrorMessage(said if type(step) is not int else (*said, str(step)))


def _tells_errors(worker: BaseWorker, session: Session) -> bool:
    if not session.sends_tracebacks:
        return False
    try:
        return may_leave(worker, session, None, "error text")
    except Exception:  # a policy that raises permits nothing
        return False


def _bounded(text: str) -> str:
    """Return a text that can be serialized: of bounded length, and without lone surrogates."""
    if len(text) > MAX_ERROR_CHARS:
        text = text[:MAX_ERROR_CHARS] + " ..."
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_answer(client: BaseWorker, location: BaseWorker, written: Bytes) -> Any:
    """Read a response: return its value, or raise its error."""
    if not written:
        return None
    response = deserialize(written, client, owns_buffer=type(written) is bytearray)
    if isinstance(response, ErrorMessage):
        raise error_of(location, response)
    if not isinstance(response, TensorMeta):
        complete_transfer(response)
    return response


def error_of(location: Any, response: ErrorMessage) -> Exception:
    """Rebuild the error that a worker described."""
    name, text, where = (*map(str, response.contents), "", "", "")[:3]
    kind = _KNOWN_ERRORS.get(name, RemoteError)
    error = kind.__new__(kind)
    Exception.__init__(error, text if kind is not RemoteError else f"{name}: {text}")
    if len(response.contents) > 3:
        error.syft_step = str(response.contents[3])  # type: ignore[attr-defined]
    error.__cause__ = RemoteTraceback(location.id, where)
    hide_library(error)
    return error
