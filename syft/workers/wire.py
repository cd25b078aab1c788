"""Bytes in, bytes out: how a worker answers a peer, whatever carries the bytes.

A request is (ids released meanwhile, message, whether an answer is wanted); an answer is a value or an
ErrorMessage. Nothing here trusts the peer: bytes that are no request give an error and change nothing.
"""

from __future__ import annotations

import builtins
import traceback
from typing import Any

from syft import exceptions
from syft.core.id_provider import ObjectId
from syft.core.references import TensorMeta
from syft.exceptions import RemoteError, SerdeError, SyftError
from syft.messaging.message import ErrorMessage, Message
from syft.serde import deserialize, serialize
from syft.workers.policy import ALLOW_ALL, Release
from syft.workers.router import Leaving, route
from syft.workers.session import Session
from syft.workers.stream import wire_form
from syft.workers.values import complete_transfer, end_claims

# Errors that may come back under their own name. Everything else becomes a RemoteError.
_KNOWN_ERRORS: dict[str, type[Exception]] = {
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning | OSError)
    },
    **{
        name: value
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and issubclass(value, SyftError)
    },
}


def write_request(client: Any, released: tuple[ObjectId, ...], message: Message, waits: bool) -> bytes:
    """Write a request."""
    return serialize((released, message, waits), client)


def answer(worker: Any, session: Session, request: bytes) -> bytes:
    """Answer one request of a peer; never raises."""
    try:
        released, message, waits = _read_request(worker, request)
        for obj_id in released:
            session.release(obj_id)
        if worker.log_msgs:
            worker.msg_history.append(message)
        response = route(worker, session, message)
        if not waits:
            return b""
        written = serialize(wire_form(response), worker)
        for leaving in response if type(response) is tuple else (response,):
            if isinstance(leaving, Leaving):
                end_claims(leaving.obj)
        return written
    except Exception as error:
        return serialize(_error_message(worker, session, error), worker)


def _read_request(worker: Any, request: bytes) -> tuple[tuple[ObjectId, ...], Message, bool]:
    parts = deserialize(request, worker)
    if type(parts) is not tuple or len(parts) != 3:
        raise SerdeError("These bytes are not a request: it takes released ids, a message and a flag.")
    released, message, waits = parts
    if not isinstance(message, Message) or type(waits) is not bool or type(released) is not tuple:
        raise SerdeError("These bytes are not a request: its parts have the wrong types.")
    if not all(isinstance(obj_id, int | str) for obj_id in released):
        raise SerdeError("These bytes are not a request: released objects are named by their ids.")
    return released, message, waits


def _error_message(worker: Any, session: Session, error: Exception) -> ErrorMessage:
    """Describe an error for a peer; where it happened only if the policy lets error texts out."""
    open_policy = worker.policy is ALLOW_ALL or worker.policy.allows(Release(None, session.client_id, "error text"))
    where = "".join(traceback.format_tb(error.__traceback__)[-6:]) if open_policy else ""
    notes = "\n".join(getattr(error, "__notes__", ()))
    return ErrorMessage((type(error).__name__, str(error) + (f"\n{notes}" if notes else ""), where))


def read_answer(client: Any, location: Any, written: bytes) -> Any:
    """Read an answer: return its value, or raise its error under its own name."""
    if not written:
        return None
    response = deserialize(written, client)
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
    if where:
        error.add_note(f"Traceback on worker {location.id!r}:\n{where.rstrip()}")
    else:
        error.add_note(f"This happened on worker {location.id!r}.")
    return error
