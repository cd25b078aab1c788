"""Guest sessions: invited clients may run a served model on shares of their own, and do nothing else.

A guest connects with a token that is valid for one endpoint. It can send two kinds of messages: run the model on these
shares, and return my shares of the result. Nothing of a guest is stored in the worker's object store, and a guest
cannot name objects of the store: its messages are deserialized by a worker that holds nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import torch

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.exceptions import ObjectNotFoundError, ProtocolError
from syft.messaging.message import ObjectRequestMessage, RunMessage
from syft.mpc.runtime.worker import runtime_of
from syft.mpc.serving.endpoint import ModelEndpoint, endpoint_of
from syft.mpc.serving.shared_program import Shares
from syft.workers.base import BaseWorker
from syft.workers.execution.router import OutgoingCopy
from syft.workers.execution.session import Session
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PURPOSES, PeerIdentity, serve

# Purpose of a guest's connection; the name of the endpoint follows.
PURPOSE = "mpc-serve"
# Limits results that wait to be fetched; the oldest are dropped.
MAX_RESULTS = 16
# Bytes of a guest's message beside its shares.
_OVERHEAD = 1 << 14


def purpose_of(name: str) -> str:
    """Return the purpose of a connection to an endpoint."""
    return f"{PURPOSE}:{name}"


class GuestSession(Session):
    """The session of a guest.

    Args:
        worker: the worker.
        client_id: the id of the guest, from its token.
        endpoint: the endpoint that it may query.
    """

    sends_tracebacks = False

    def __init__(self, worker: BaseWorker, client_id: ObjectId, endpoint: ModelEndpoint) -> None:
        super().__init__(worker, client_id)
        self.guest_id = client_id
        self.endpoint = endpoint
        self.delegation = endpoint.owner.delegation  # the parties that the model's owner introduced
        self.results: dict[ObjectId, Shares] = {}
        self.connection: FramedConnection | None = None
        size = _OVERHEAD + sum(8 * torch.Size(shape).numel() for shape in endpoint.program.inputs)
        self.max_message_bytes: int = min(size, current().max_message_bytes)
        self._reader = BaseWorker(None, os.urandom(16).hex(), auto_add=False)

    @property
    def routes(self) -> Mapping[type, Callable[..., Any]]:  # type: ignore[override]
        """The messages that a guest may send."""
        return _ROUTES

    @property
    def reader(self) -> BaseWorker:
        """A worker that holds no objects and knows no workers, so that no name in a message can be resolved."""
        return self._reader

    def keep(self, obj_id: ObjectId, obj: object, published: bool = False, is_own_id: bool = True) -> None:
        """Refuse: nothing of a guest is stored."""
        raise ProtocolError("Guests of a served model can't store objects.")

    def release(self, obj_id: ObjectId) -> None:
        """Do nothing: a guest has no claims."""

    def put(self, result_id: ObjectId, result: Shares) -> None:
        """Store a result until it is fetched."""
        self.results[result_id] = tuple(result)
        while len(self.results) > MAX_RESULTS:
            del self.results[next(iter(self.results))]

    def disconnect(self) -> None:
        """Close the connection; the guest may connect again."""
        if self.connection is not None:
            self.connection.close()

    def dismiss(self) -> None:
        """Close the connection and abort runs."""
        self.disconnect()
        self._leave()

    def close(self) -> None:
        """Drop results that were not fetched, and connections to other parties for this guest."""
        self.results.clear()
        if self.endpoint.remove_session(self):
            self._leave()

    def _leave(self) -> None:
        runtime = runtime_of(self.worker, self)
        if runtime is not None:
            runtime.leave(self)


def open_guest_session(
    worker: BaseWorker, client_id: ObjectId, name: str, sock: socket.socket | None = None
) -> GuestSession:
    """Open the session of a guest at an endpoint.

    Args:
        worker: the worker.
        client_id: the id of the guest.
        name: the name of the endpoint.
        sock: the guest's connection; None for a guest in this process.
    """
    guest = GuestSession(worker, client_id, endpoint_of(worker, name))
    if sock is not None:
        guest.connection = FramedConnection(SocketPipe(sock), guest.max_message_bytes, current().max_message_bytes)
    guest.endpoint.add_session(guest)
    return guest


def _run(worker: BaseWorker, guest: GuestSession, message: RunMessage) -> None:
    """Run a served model on the shares of a guest."""
    endpoint = guest.endpoint
    shares = endpoint.check(message)
    endpoint.spend(guest.guest_id)
    message = dataclasses.replace(message, options=endpoint.options)
    finish = functools.partial(guest.put, message.return_id)
    endpoint.program.run(worker, guest, message, shares, finish, "The served model")


def _give_result(worker: BaseWorker, guest: GuestSession, message: ObjectRequestMessage) -> tuple[Any, ...]:
    """Return a guest's shares of a result, and the number of requests that it has left (-1: unlimited)."""
    result_id: Any = message.contents[0] if message.contents else None
    shares = guest.results.pop(result_id, None)
    if shares is None:
        raise ObjectNotFoundError(result_id, worker.id, "")
    left = guest.endpoint.left(guest.guest_id)
    return (-1 if left is None else left, *[OutgoingCopy(share, guest, result_id, False) for share in shares])


_ROUTES: dict[type, Callable[..., Any]] = {RunMessage: _run, ObjectRequestMessage: _give_result}


def _serve_guest(worker: BaseWorker, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Serve the connection of a guest until it ends."""
    if visitor.delegation is not None:  # another worker that a client introduced, not a guest
        sock.close()
        return
    try:
        guest = open_guest_session(worker, visitor.id, purpose.partition(":")[2], sock)
    except ProtocolError:
        sock.close()
        return
    if guest.connection is not None:
        serve(worker, guest, guest.connection)


PURPOSES[PURPOSE] = _serve_guest
