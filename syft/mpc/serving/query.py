"""Querying: a client asks a served model, from a process that is neither the owner's nor a server's.

The client splits its input into shares itself, so nobody else ever sees it; it sends one message to each server and
adds up the shares of the answer.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER
from syft.core.tensor import AbstractTensor
from syft.exceptions import ObjectNotFoundError, ProtocolError, SyftError, WorkerLostError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import ObjectRequestMessage, RunMessage
from syft.mpc.serving import guest_session
from syft.mpc.serving.invitation import Invitation, Number, Server
from syft.mpc.values.sharing import generate_shares
from syft.workers.base import BaseWorker
from syft.workers.peer import PeerWorker
from syft.workers.transport import handshake
from syft.workers.transport.socket_stream import SocketStream
from syft.workers.transport.stream import close_all
from syft.workers.virtual import VirtualWorker

# How long a server may take until it lets a client in, in seconds.
_PATIENCE = 30.0
_WITHDRAWN = (
    "Server {!r} does not take this invitation, or is gone: the model's owner may have withdrawn it, or stopped "
    "serving. Ask for another one."
)


class ModelClient:
    """A client of one served model.

    Args:
        worker: the worker that asks, where the model is served by workers of this process; the local worker by default.
    """

    def __init__(self, worker: Any = None) -> None:
        self._worker = worker
        self._invitation: Invitation | None = None
        self._streams: list[Any] = []
        self._left: int | None = None
        self._asking = threading.Lock()

    def connect_to_model(
        self, invitation: Invitation | str, in_shape: Any = None, out_shape: Any = None
    ) -> ModelClient:
        """Connect to the servers of a model.

        Args:
            invitation: from the model's owner, or its text.
            in_shape: the shape that is going to be asked with, to be checked.
            out_shape: the shape that is expected, to be checked.
        """
        if self._invitation is not None:
            raise SyftError("This client is connected to a model already; make another client for another model.")
        given = invitation if isinstance(invitation, Invitation) else Invitation.from_text(invitation)
        for what, shape, numbers in (("takes", in_shape, given.inputs), ("gives", out_shape, given.outputs)):
            if shape is not None and [tuple(shape)] != [number.shape for number in numbers]:
                raise SyftError(f"The served model {what} {_shapes(numbers)}, not {tuple(shape)}.")
        me = BaseWorker(None, given.guest, auto_add=False)
        try:
            for server in given.servers:
                self._streams.append(self._open(me, server, given.name))
        except Exception:
            self.close()
            raise
        self._invitation, self._left = given, given.requests
        return self

    def _open(self, me: Any, server: Server, name: str) -> Any:
        if server.address is not None:
            return _Remote(server).open_guest_stream(me, name)
        known = (self._worker or local_worker()).get_worker(server.id, fail_hard=True)
        if not isinstance(known, VirtualWorker):
            raise SyftError(
                f"Worker {server.id!r} is not one of this process, and the invitation has no address of it."
            )
        return _guest_stream(known, me, name)

    @property
    def requests_left(self) -> int | None:
        """How many requests the invitation was still good for, as the servers said last; None for any number."""
        return self._left

    def query_model(self, *inputs: Any) -> Any:
        """Ask the model, and return what it gives: a tensor, or a tuple of tensors.

        Args:
            *inputs: plain tensors, of the shapes that the model takes.
        """
        invitation = self._connected()
        numbers = invitation.inputs
        if any(isinstance(given, SyftTensor | AbstractTensor) for given in inputs):
            raise SyftError("A served model is asked with plain tensors: they are shared here, and nobody sees them.")
        tensors = [torch.as_tensor(given) for given in inputs]
        if [tuple(tensor.shape) for tensor in tensors] != [number.shape for number in numbers]:
            shown = " and ".join(str(tuple(tensor.shape)) for tensor in tensors) or "nothing"
            raise SyftError(f"The served model takes {_shapes(numbers)}, not {shown}. Nothing was sent.")
        count = len(invitation.servers)
        whole = [number.encode(tensor) for number, tensor in zip(numbers, tensors, strict=True)]
        shares = list(zip(*[generate_shares(each, count) for each in whole], strict=True))
        with self._asking:  # all servers must hear of two requests in the same order
            answers = self._ask(invitation, shares)
        totals = self._total(invitation, answers)
        results = [number.decode(total) for number, total in zip(invitation.outputs, totals, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    def _connected(self) -> Invitation:
        if self._invitation is None or not self._streams:
            raise SyftError("This client is not connected to a model: client.connect_to_model(invitation).")
        return self._invitation

    def _ask(self, invitation: Invitation, shares: list[tuple[torch.Tensor, ...]]) -> list[tuple[Any, ...]]:
        """Send each server its shares, and fetch its shares of the answer."""
        run_id, result_id = ID_PROVIDER.pop(), ID_PROVIDER.pop()
        parties = tuple([server.id for server in invitation.servers])
        answers: list[tuple[Any, ...]] = []
        errors: list[Exception] = []
        for stream, mine in zip(self._streams, shares, strict=True):
            try:
                stream.post(RunMessage(mine, run_id, invitation.name, parties, invitation.provider, {}, result_id))
            except WorkerLostError:
                raise SyftError(_WITHDRAWN.format(stream.location.id)) from None
        for stream in self._streams:
            try:
                answers.append(stream.ask(ObjectRequestMessage((result_id, None, ""))))
            except WorkerLostError:
                errors.append(SyftError(_WITHDRAWN.format(stream.location.id)))
            except (SyftError, TimeoutError) as error:
                errors.append(error)
        if errors:
            # One says what went wrong; others may only say that they were left alone, or have nothing to give.
            raise min(errors, key=lambda error: isinstance(error, ObjectNotFoundError))
        return answers

    def _total(self, invitation: Invitation, answers: list[tuple[Any, ...]]) -> list[torch.Tensor]:
        """Add up the shares of an answer, which come from servers that are not trusted to be right in form."""
        shapes = [number.shape for number in invitation.outputs]
        rows: list[list[torch.Tensor]] = []
        for answer in answers:
            left, *shares = answer if type(answer) is tuple and answer else (None,)
            if type(left) is not int or not all(_is_share(share) for share in shares):
                raise ProtocolError("A server sent something that is not an answer.")
            if [tuple(share.shape) for share in shares] != shapes:
                raise ProtocolError("A server sent an answer of another shape than it was announced.")
            rows.append(shares)
            self._left = None if left < 0 else left
        totals = []
        for column in zip(*rows, strict=True):
            total = column[0].clone()
            for share in column[1:]:
                total += share
            totals.append(total)
        return totals

    def close(self) -> None:
        """Leave; the invitation stays good for the requests that are left."""
        streams, self._streams, self._invitation = self._streams, [], None
        close_all(streams)

    def __enter__(self) -> ModelClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ModelClient of {self._invitation!r}>" if self._invitation else "<ModelClient, not connected>"


def _is_share(value: Any) -> bool:
    return type(value) is torch.Tensor and value.dtype is torch.int64


def _shapes(numbers: tuple[Number, ...]) -> str:
    return " and ".join(str(number.shape) for number in numbers)


class _Remote(PeerWorker):
    """A server in another process, as its guest sees it."""

    lost_reason = "it closed the connection."

    def __init__(self, server: Server) -> None:
        super().__init__(server.id)
        self._address = server.address

    def open_guest_stream(self, me: Any, name: str) -> SocketStream:
        """Connect to an endpoint."""
        if self._address is None:
            raise SyftError(f"Worker {self.id!r} has no address.")
        try:
            sock = handshake.connect(self._address, guest_session.purpose_of(name), timeout=_PATIENCE)
        except OSError:
            raise SyftError(_WITHDRAWN.format(self.id)) from None
        return SocketStream(me, self, sock)


def _guest_stream(worker: VirtualWorker, me: Any, name: str) -> Any:
    """Open a stream to a worker of this process, with the session of a guest."""
    guest = guest_session.visit(worker, me.id, name)
    stream = worker.open_stream(me)
    guest.may_wait = stream.session.may_wait
    stream.session.close()
    stream.session = guest
    return stream


def connect(invitation: Invitation | str, worker: Any = None) -> ModelClient:
    """Connect to a served model: `sy.mpc.connect(invitation).query_model(x)`."""
    return ModelClient(worker).connect_to_model(invitation)
