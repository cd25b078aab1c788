"""Guests: clients that may run a served model on shares of their own, and do nothing else.

A guest comes with a token that is good for one endpoint. It can send two kinds of messages: run the model on these
shares, and give me my shares of the result. Nothing of a guest ever gets into the worker's store, and nothing of the
store is within its reach: what it sends is read by somebody who holds nothing and knows nobody.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import socket
from collections.abc import Mapping
from typing import Any

import torch

from syft.config import current
from syft.core.id_provider import ObjectId
from syft.exceptions import ObjectNotFoundError, ProtocolError, SyftError
from syft.messaging.message import ObjectRequestMessage, RunMessage
from syft.mpc.runtime import rendezvous
from syft.mpc.runtime.worker import key_of, runtime_of
from syft.mpc.serving.endpoint import Endpoint, endpoint_of
from syft.workers.base import BaseWorker
from syft.workers.execution.router import OutgoingCopy
from syft.workers.execution.session import Session
from syft.workers.transport.framing import FramedConnection
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import PURPOSES, PeerIdentity, serve

# Purpose of a guest's connection; the name of the endpoint follows.
PURPOSE = "mpc-serve"
# Results of a guest that wait to be fetched; of more the oldest are dropped.
MAX_RESULTS = 16
# What a guest's message may have beside its shares, in bytes.
_ROOM = 1 << 14


def purpose_of(name: str) -> str:
    """Return the purpose of a connection to an endpoint."""
    return f"{PURPOSE}:{name}"


class GuestSession(Session):
    """The visit of a guest.

    Args:
        worker: the worker.
        client_id: who the guest is, as its token says.
        endpoint: what it may ask.
    """

    sends_tracebacks = False

    def __init__(self, worker: Any, client_id: ObjectId, endpoint: Endpoint) -> None:
        super().__init__(worker, client_id)
        self.guest_id = client_id
        self.endpoint = endpoint
        self.circle = endpoint.owner.circle  # whom the model's owner made known to the worker
        self.results: dict[ObjectId, tuple[torch.Tensor, ...]] = {}
        self.connection: FramedConnection | None = None
        size = _ROOM + sum(8 * torch.Size(shape).numel() for shape in endpoint.served.inputs)
        self.max_message_bytes: int = min(size, current().max_message_bytes)
        self._nobody = BaseWorker(None, os.urandom(16).hex(), auto_add=False)

    @property
    def routes(self) -> Mapping[type, Any]:  # type: ignore[override]
        """The messages that a guest may send."""
        return _ROUTES

    @property
    def reader(self) -> Any:
        """Somebody who holds nothing and knows nobody, so that no name in a message leads anywhere."""
        return self._nobody

    def keep(self, obj_id: ObjectId, obj: Any, published: bool = False, is_own_id: bool = True) -> None:
        """Refuse: nothing of a guest is kept in the store."""
        raise ProtocolError("Nothing is kept for a guest.")

    def release(self, obj_id: ObjectId) -> None:
        """Do nothing: a guest has no claims."""

    def put(self, result_id: ObjectId, result: Any) -> None:
        """Keep a result until it is fetched."""
        self.results[result_id] = tuple(result)
        while len(self.results) > MAX_RESULTS:
            del self.results[next(iter(self.results))]

    def hang_up(self) -> None:
        """End this visit; the guest may come again."""
        if self.connection is not None:
            self.connection.close()

    def dismiss(self) -> None:
        """End this visit, whatever runs."""
        self.hang_up()
        self._leave()

    def close(self) -> None:
        """Drop what the guest did not fetch, and the connections to the other parties that were for it alone."""
        self.results.clear()
        if self.endpoint.depart(self):
            self._leave()

    def _leave(self) -> None:
        runtime = runtime_of(self.worker, self)
        if runtime is not None:
            runtime.leave(self)


def visit(worker: Any, client_id: ObjectId, name: str, sock: socket.socket | None = None) -> GuestSession:
    """Begin the visit of a guest, which may come by a socket: from then on it can be ended."""
    guest = GuestSession(worker, client_id, endpoint_of(worker, name))
    if sock is not None:
        guest.connection = FramedConnection(SocketPipe(sock), guest.max_message_bytes, current().max_message_bytes)
    guest.endpoint.arrive(guest)
    return guest


def _run(worker: Any, guest: GuestSession, message: RunMessage) -> None:
    """Run a served model on the shares of a guest."""
    endpoint = guest.endpoint
    shares = endpoint.check(message)
    endpoint.spend(guest.guest_id)
    message = dataclasses.replace(message, options=endpoint.options)
    index, count = endpoint.parties.index(worker.id), len(endpoint.parties)
    key = key_of(guest.client_id, message.run_id)
    runtime = runtime_of(worker, guest)
    start = functools.partial(endpoint.start, shares)
    finish = functools.partial(guest.put, message.return_id)
    try:
        if runtime is not None:
            runtime.run(guest, message, index, count, start, finish)
        else:
            seat = rendezvous.Participant(worker.id, start, finish, (endpoint.name, endpoint.options))
            rendezvous.join(key, index, count, count, seat, guest.may_wait)
    except Exception as error:
        if runtime is None:
            rendezvous.close(key, error)
        if isinstance(error, SyftError):
            raise
        # Texts of torch may show numbers of its arguments, and those are shares.
        raise ProtocolError(
            f"The served model failed at worker {worker.id!r} with a {type(error).__name__}; "
            "its text may show shares, so it is not told."
        ) from None


def _give(worker: Any, guest: GuestSession, message: ObjectRequestMessage) -> tuple[Any, ...]:
    """Give a guest its shares of a result, and say how many requests it has left (-1: any number)."""
    result_id: Any = message.contents[0] if message.contents else None
    shares = guest.results.pop(result_id, None)
    if shares is None:
        raise ObjectNotFoundError(result_id, worker.id, "")
    left = guest.endpoint.left(guest.guest_id)
    return (-1 if left is None else left, *[OutgoingCopy(share, guest, result_id, False) for share in shares])


_ROUTES: dict[type, Any] = {RunMessage: _run, ObjectRequestMessage: _give}


def _take(worker: Any, visitor: PeerIdentity, purpose: str, sock: socket.socket) -> None:
    """Serve the connection of a guest until it ends."""
    if visitor.circle is not None:  # another worker, whom a client introduced: no guest
        sock.close()
        return
    try:
        guest = visit(worker, visitor.id, purpose.partition(":")[2], sock)
    except ProtocolError:
        sock.close()
        return
    if guest.connection is not None:
        serve(worker, guest, guest.connection)


PURPOSES[PURPOSE] = _take
