"""Endpoints: models that a party serves to invited clients, and the commands of their owners.

An endpoint is a shared program with a request limit for each guest, an invited client (see `guest_session`). Each party
counts requests by itself, before it takes part. Only the session that opened an endpoint controls it, and the endpoint
ends with that session.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import CommandNotAllowedError, ProtocolError
from syft.messaging.message import RunMessage
from syft.mpc.serving.shared_program import SharedProgram, Shares
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.mpc.serving.guest_session import GuestSession
    from syft.workers.base import BaseWorker

OPEN, INVITE, REVOKE, LEFT, CLOSE = (f"syft.mpc_endpoint_{what}" for what in "open invite revoke left close".split())
MAX_ENDPOINTS = 256
MAX_GUESTS = 4096

_endpoints: weakref.WeakKeyDictionary[BaseWorker, dict[str, ModelEndpoint]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class ModelEndpoint:
    """A shared program at one party, with the requests that each guest has left.

    Args:
        owner: the session that opened it; the endpoint ends with it.
        name: the name of the endpoint.
        program: the program.
        limit: the number of requests of all guests together; None: unlimited.
    """

    def __init__(self, owner: Session, name: str, program: SharedProgram, limit: int | None) -> None:
        self.owner = owner
        self.name = name
        self.program = program
        # Compared by the parties of a run, beside the name.
        self.options = {"program": program.digest()}
        self._unassigned = limit
        self._left: dict[ObjectId, int | None] = {}
        self._sessions: dict[ObjectId, GuestSession] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ModelEndpoint of {self.owner.client_id!r} for {len(self._left)} guests>"

    @property
    def is_over(self) -> bool:
        """Whether the owner's session has ended."""
        return self.owner not in self.owner.worker._sessions

    def invite(self, guest: ObjectId, requests: int | None) -> None:
        """Assign a number of requests to a guest, from those that the owner allows for all guests together."""
        with self._lock:
            if guest in self._left or len(self._left) >= MAX_GUESTS:
                raise ProtocolError(f"This guest was invited before, or the limit of {MAX_GUESTS} guests is reached.")
            if self._unassigned is not None:
                if requests is None or requests > self._unassigned:
                    raise ProtocolError(f"{self._unassigned} requests are left for new guests.")
                self._unassigned -= requests
            self._left[guest] = requests

    def revoke(self, guest: ObjectId) -> None:
        """Refuse a guest from now on; its remaining requests can be assigned to another one."""
        with self._lock:
            left = self._left.pop(guest, None)
            if self._unassigned is not None and left is not None:
                self._unassigned += left
            session = self._sessions.pop(guest, None)
        if session is not None:
            session.dismiss()

    def close(self) -> None:
        """Refuse all guests from now on."""
        for guest in list(self._left):
            self.revoke(guest)

    def left(self, guest: ObjectId) -> int | None:
        """Return the number of requests that a guest has left; None: unlimited."""
        with self._lock:
            return self._left.get(guest, 0)

    def spend(self, guest: ObjectId) -> None:
        """Count a request of a guest, or refuse it; a request that fails later has been counted."""
        with self._lock:
            self._require(guest)
            left = self._left[guest]
            if left == 0:
                raise ProtocolError("All requests of this invitation were used. Ask the model's owner for another one.")
            if left is not None:
                self._left[guest] = left - 1

    def _require(self, guest: ObjectId) -> None:
        if guest not in self._left or self.is_over:
            raise ProtocolError("This model is not served to you. Ask its owner for an invitation.")

    def add_session(self, session: GuestSession) -> None:
        """Add the session of a guest; its earlier session ends, so that a guest has one connection at a time."""
        with self._lock:
            self._require(session.guest_id)
            earlier = self._sessions.pop(session.guest_id, None)
            self._sessions[session.guest_id] = session
        if earlier is not None:
            earlier.disconnect()

    def remove_session(self, session: GuestSession) -> bool:
        """Remove a session that has ended; returns whether it was the guest's current one."""
        with self._lock:
            is_current = self._sessions.get(session.guest_id) is session
            if is_current:
                del self._sessions[session.guest_id]
        return is_current

    def check(self, message: RunMessage) -> Shares:
        """Return the shares of a guest's request if they are valid."""
        requested = (message.name, message.parties, message.provider, message.options)
        if requested != (self.name, self.program.parties, self.program.provider, {}):
            raise ProtocolError("The request does not name this model with its parties and its dealer.")
        return self.program.check_shares(message.contents, "The served model", ProtocolError)


# --- commands of the owner ------------------------------------------------------------------------------------


def endpoint_of(worker: BaseWorker, name: object) -> ModelEndpoint:
    """Return an endpoint of a worker."""
    found = _endpoints.get(worker, {}).get(name) if type(name) is str else None
    if found is None or found.is_over:
        raise ProtocolError("No model is served here under this name.")
    return found


def _own(worker: BaseWorker, session: Session, name: object) -> ModelEndpoint:
    """Return an endpoint that this session opened; no other session controls it."""
    endpoint = endpoint_of(worker, name)
    if endpoint.owner is not session:
        raise ProtocolError("No model is served here under this name.")
    return endpoint


def _open(worker: BaseWorker, session: Session, *args: Any) -> None:
    """Open an endpoint, from its name, the fields of its program, and the number of requests."""
    if len(args) != 8 or session not in worker._sessions:
        raise CommandNotAllowedError("Serving this")
    name, *parts, limit = args
    if type(name) is not str or len(name) != 32 or not set(name) <= set("0123456789abcdef"):
        raise ProtocolError("The name of an endpoint has 32 hexadecimal digits.")
    steps, outputs, given, inputs, parties, provider = parts
    if not _is_limit(limit) or type(inputs) is not tuple:
        raise ProtocolError("An endpoint needs the shapes of its inputs and the number of requests, or None.")
    if type(given) is tuple:  # copied: later writes to a share must not change the served model
        given = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in given)
    program = SharedProgram(steps, outputs, given, inputs, parties, provider)
    program.check()
    if worker.id not in program.parties:
        raise ProtocolError(f"Worker {worker.id!r} is not one of the parties of this endpoint.")
    endpoint = ModelEndpoint(session, name, program, limit)
    with _lock:
        mine = _endpoints.setdefault(worker, {})
        for over in [key for key, other in mine.items() if other.is_over]:
            del mine[over]
        if name in mine or len(mine) >= MAX_ENDPOINTS:
            raise ProtocolError(f"This name is in use, or the limit of {MAX_ENDPOINTS} endpoints is reached.")
        mine[name] = endpoint


def _is_limit(number: object) -> TypeGuard[int | None]:
    return number is None or (type(number) is int and number >= 0)


def _invite(worker: BaseWorker, session: Session, name: object, guest: object, requests: object) -> None:
    """Invite a guest to an endpoint."""
    if not is_id(guest) or not _is_limit(requests):
        raise ProtocolError("An invitation needs the id of a guest and a number of requests, or None.")
    _own(worker, session, name).invite(guest, requests)


def _revoke(worker: BaseWorker, session: Session, name: object, guest: object) -> None:
    """Revoke the invitation of a guest."""
    if is_id(guest):
        _own(worker, session, name).revoke(guest)


def _left(worker: BaseWorker, session: Session, name: object, guest: object) -> int:
    """Return the number of requests that a guest has left (-1: unlimited)."""
    left = _own(worker, session, name).left(guest) if is_id(guest) else 0
    return -1 if left is None else left


def _close(worker: BaseWorker, session: Session, name: object) -> None:
    """Close an endpoint."""
    endpoint = _own(worker, session, name)
    with _lock:
        _endpoints[worker].pop(endpoint.name, None)
    endpoint.close()


WORKER_COMMANDS.update({OPEN: _open, INVITE: _invite, REVOKE: _revoke, LEFT: _left, CLOSE: _close})
