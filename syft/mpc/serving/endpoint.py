"""Endpoints: encrypted models that a party serves to invited clients, and the sessions of these clients.

An endpoint is an encrypted model with a request limit for each client. Each party counts requests by itself, before it
takes part. Only the session that opened an endpoint controls it, and the endpoint ends with that session.

An invited client connects with a token that is valid for one endpoint. It can send two kinds of messages: run the model
on these shares, and return my shares of the result. Nothing of it is stored in the worker's object store, and it can't
name objects of the store: its messages are deserialized by a worker that holds nothing.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import threading
import weakref
from typing import Any, TypeGuard

import torch

from syft.config import current
from syft.core.id_provider import ObjectId, is_id
from syft.core.trees import map_tensors
from syft.exceptions import CommandNotAllowedError, ObjectNotFoundError, ProtocolError
from syft.messaging.hosting import SharedInferenceMessage
from syft.messaging.message import ObjectRequestMessage
from syft.mpc.runtime.worker import runtime_of
from syft.mpc.serving.server import EncryptedModel, read_part, run_model
from syft.mpc.serving.tensor_encoding import Shares, shapes_of
from syft.workers.base import BaseWorker
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.router import OutgoingCopy
from syft.workers.execution.session import Session
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PURPOSES, PeerIdentity, serve

OPEN, INVITE, REVOKE, LEFT, CLOSE = (f"syft.mpc_endpoint_{what}" for what in "open invite revoke left close".split())
MAX_ENDPOINTS = 256
MAX_CLIENTS = 4096
# Purpose of a client's connection; the name of the endpoint follows.
PURPOSE = "mpc-serve"
# Limits results that wait to be fetched; the oldest are dropped.
MAX_RESULTS = 16
# Bytes of a client's message beside its shares.
_OVERHEAD = 1 << 14

_endpoints: weakref.WeakKeyDictionary[BaseWorker, dict[str, ModelEndpoint]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class ModelEndpoint:
    """An encrypted model at one party, with the requests that each invited client has left."""

    def __init__(self, owner: Session, model: EncryptedModel, limit: int | None) -> None:
        self.owner = owner
        self.model = model
        self._unassigned = limit
        self._left: dict[ObjectId, int | None] = {}
        self._sessions: dict[ObjectId, InvitedSession] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ModelEndpoint of {self.owner.client_id!r} for {len(self._left)} clients>"

    @property
    def is_over(self) -> bool:
        """Whether the owner's session has ended."""
        return self.owner not in self.owner.worker._sessions

    def invite(self, client_id: ObjectId, requests: int | None) -> None:
        """Assign a number of requests to a client, from those that the owner allows for all clients together."""
        with self._lock:
            if client_id in self._left or len(self._left) >= MAX_CLIENTS:
                raise ProtocolError(f"This client was invited before, or the limit of {MAX_CLIENTS} is reached.")
            if self._unassigned is not None:
                if requests is None or requests > self._unassigned:
                    raise ProtocolError(f"{self._unassigned} requests are left for new clients.")
                self._unassigned -= requests
            self._left[client_id] = requests

    def revoke(self, client_id: ObjectId) -> None:
        """Refuse a client from now on; its remaining requests can be assigned to another one."""
        with self._lock:
            left = self._left.pop(client_id, None)
            if self._unassigned is not None and left is not None:
                self._unassigned += left
            session = self._sessions.pop(client_id, None)
        if session is not None:
            session.dismiss()

    def close(self) -> None:
        """Refuse all clients from now on."""
        for client_id in list(self._left):
            self.revoke(client_id)

    def left(self, client_id: ObjectId) -> int | None:
        """Return the number of requests that a client has left; None: unlimited."""
        return self._left.get(client_id, 0)

    def spend(self, client_id: ObjectId) -> None:
        """Count a request of a client, or refuse it; a request that fails later has been counted."""
        with self._lock:
            self._require(client_id)
            left = self._left[client_id]
            if left == 0:
                raise ProtocolError("All requests of this invitation were used. Ask the model's owner for another one.")
            if left is not None:
                self._left[client_id] = left - 1

    def _require(self, client_id: ObjectId) -> None:
        if client_id not in self._left or self.is_over:
            raise ProtocolError("This model is not served to you. Ask its owner for an invitation.")

    def add_session(self, session: InvitedSession) -> None:
        """Add the session of a client; its earlier session ends, so that a client has one connection at a time."""
        with self._lock:
            self._require(session.client_id)
            earlier = self._sessions.pop(session.client_id, None)
            self._sessions[session.client_id] = session
        if earlier is not None:
            earlier.disconnect()

    def remove_session(self, session: InvitedSession) -> bool:
        """Remove a session that has ended; returns whether it was the client's current one."""
        with self._lock:
            is_current = self._sessions.get(session.client_id) is session
            if is_current:
                del self._sessions[session.client_id]
        return is_current


# --- commands of the owner ------------------------------------------------------------------------------------


def _endpoint_of(worker: BaseWorker, name: object, owner: Session | None = None) -> ModelEndpoint:
    """Return an endpoint of a worker; if a session is given, one that it opened: no other session controls it."""
    found = _endpoints.get(worker, {}).get(name) if type(name) is str else None
    if found is None or found.is_over or owner not in (None, found.owner):
        raise ProtocolError("No model is served here under this name.")
    return found


def _open(worker: BaseWorker, session: Session, name: object, contents: object, limit: object) -> None:
    """Open an endpoint for a model with a number of requests; contents as `server.ModelParts`."""
    if session not in worker._sessions:
        raise CommandNotAllowedError("Serving this")
    if type(name) is not str or not re.fullmatch("[0-9a-f]{32}", name):
        raise ProtocolError("The name of an endpoint has 32 hexadecimal digits.")
    if not _is_limit(limit):
        raise ProtocolError("An endpoint needs a number of requests, or None.")
    # Copied: later writes to a share must not change the served model.
    copied = map_tensors(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, contents)
    model = read_part(worker, name, False, copied)
    model.subject = "The served model"
    with _lock:
        mine = _endpoints.setdefault(worker, {})
        for over in [key for key, other in mine.items() if other.is_over]:
            del mine[over]
        if name in mine or len(mine) >= MAX_ENDPOINTS:
            raise ProtocolError(f"This name is in use, or the limit of {MAX_ENDPOINTS} endpoints is reached.")
        mine[name] = ModelEndpoint(session, model, limit)


def _is_limit(number: object) -> TypeGuard[int | None]:
    return number is None or (type(number) is int and number >= 0)


def _invite(worker: BaseWorker, session: Session, name: object, client_id: object, requests: object) -> None:
    """Invite a client to an endpoint."""
    if not is_id(client_id) or not _is_limit(requests):
        raise ProtocolError("An invitation needs the id of a client and a number of requests, or None.")
    _endpoint_of(worker, name, session).invite(client_id, requests)


def _revoke(worker: BaseWorker, session: Session, name: object, client_id: object) -> None:
    """Revoke the invitation of a client."""
    if is_id(client_id):
        _endpoint_of(worker, name, session).revoke(client_id)


def _left(worker: BaseWorker, session: Session, name: object, client_id: object) -> int:
    """Return the number of requests that a client has left (-1: unlimited)."""
    left = _endpoint_of(worker, name, session).left(client_id) if is_id(client_id) else 0
    return -1 if left is None else left


def _close(worker: BaseWorker, session: Session, name: str) -> None:
    """Close an endpoint."""
    endpoint = _endpoint_of(worker, name, session)
    with _lock:
        _endpoints[worker].pop(name, None)
    endpoint.close()


WORKER_COMMANDS.update({OPEN: _open, INVITE: _invite, REVOKE: _revoke, LEFT: _left, CLOSE: _close})


# --- sessions of invited clients ------------------------------------------------------------------------------


def purpose_of(name: str) -> str:
    """Return the purpose of a connection to an endpoint."""
    return f"{PURPOSE}:{name}"


class InvitedSession(Session):
    """The session of an invited client."""

    sends_tracebacks = False

    def __init__(self, worker: BaseWorker, client_id: ObjectId, endpoint: ModelEndpoint) -> None:
        super().__init__(worker, client_id)
        self.client_id: ObjectId = client_id
        self.endpoint = endpoint
        # It uses the parties that the model's owner introduced, and its runs are ordered apart from the owner's.
        self.delegation, self.via = endpoint.owner.delegation, client_id
        self.results: dict[ObjectId, Shares] = {}
        self.connection: FramedConnection | None = None
        size = _OVERHEAD + sum(8 * torch.Size(shape).numel() for shape in shapes_of(endpoint.model.inputs))
        self.max_message_bytes: int = min(size, current().max_message_bytes)
        self._reader = BaseWorker(None, os.urandom(16).hex(), auto_add=False)
        self._reader.takes_quantized_tensors = False

    @property
    def reader(self) -> BaseWorker:
        """A worker that holds no objects and knows no workers, so that no name in a message can be resolved."""
        return self._reader

    def keep(self, obj_id: ObjectId, obj: object, published: bool = False, is_own_id: bool = True) -> None:
        """Refuse: nothing of an invited client is stored."""
        raise ProtocolError("Invited clients of a served model can't store objects.")

    def release(self, obj_id: ObjectId) -> None:
        """Do nothing: an invited client has no claims."""

    def put(self, result_id: ObjectId, result: Shares) -> None:
        """Store a result until it is fetched."""
        self.results[result_id] = tuple(result)
        while len(self.results) > MAX_RESULTS:
            del self.results[next(iter(self.results))]

    def disconnect(self) -> None:
        """Close the connection; the client may connect again."""
        if self.connection is not None:
            self.connection.close()

    def dismiss(self) -> None:
        """Close the connection and abort runs."""
        self.disconnect()
        self._leave()

    def close(self) -> None:
        """Drop results that were not fetched, and connections to other parties for this client."""
        self.results.clear()
        if self.endpoint.remove_session(self):
            self._leave()

    def _leave(self) -> None:
        runtime = runtime_of(self.worker, self)
        if runtime is not None:
            runtime.leave(self)


def open_invited_session(
    worker: BaseWorker, client_id: ObjectId, name: str, sock: socket.socket | None = None
) -> InvitedSession:
    """Open the session of an invited client at an endpoint; without a socket, of a client in this process."""
    session = InvitedSession(worker, client_id, _endpoint_of(worker, name))
    if sock is not None:
        session.connection = FramedConnection(SocketPipe(sock), session.max_message_bytes, current().max_message_bytes)
    session.endpoint.add_session(session)
    return session


def _run(worker: BaseWorker, session: InvitedSession, message: SharedInferenceMessage) -> None:
    """Run a served model on the shares of an invited client."""
    model = session.endpoint.model
    if (message.name, message.version) != (model.name, model.parts.version):
        raise ProtocolError("The request does not name this model.")
    admit = functools.partial(session.endpoint.spend, session.client_id)
    run_model(worker, session, message, model, admit, functools.partial(session.put, message.return_id))


def _give_result(worker: BaseWorker, session: InvitedSession, message: ObjectRequestMessage) -> tuple[Any, ...]:
    """Return a client's shares of a result, and the number of requests that it has left (-1: unlimited)."""
    result_id: Any = message.contents[0] if message.contents else None
    shares = session.results.pop(result_id, None)
    if shares is None:
        raise ObjectNotFoundError(result_id, worker.id, "")
    left = session.endpoint.left(session.client_id)
    return (-1 if left is None else left, *[OutgoingCopy(share, session, result_id, False) for share in shares])


InvitedSession.routes = {SharedInferenceMessage: _run, ObjectRequestMessage: _give_result}


def _serve_invited(worker: BaseWorker, peer: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Serve the connection of an invited client until it ends."""
    if peer.delegation is not None:  # another worker that a client introduced
        sock.close()
        return
    try:
        session = open_invited_session(worker, peer.id, purpose.partition(":")[2], sock)
    except ProtocolError:
        sock.close()
        return
    if session.connection is not None:
        serve(worker, session, session.connection)


PURPOSES[PURPOSE] = _serve_invited
