"""Querying a served model by invitation, from a process that is neither the owner's nor a server's.

The client splits its input into shares itself, so no other process sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.tensor import AbstractTensor
from syft.exceptions import ProtocolError, SyftError, WorkerLostError
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.serving import endpoint
from syft.mpc.serving.client import add_results, run_query, split_inputs
from syft.mpc.serving.invitation import Invitation, Server
from syft.mpc.serving.tensor_encoding import shapes_of, show_shapes
from syft.workers.base import BaseWorker
from syft.workers.peer import PeerWorker
from syft.workers.transport import handshake
from syft.workers.transport.socket_stream import SocketStream
from syft.workers.transport.stream import InlineStream, Stream, close_all
from syft.workers.virtual import VirtualWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

# Seconds until a server must accept the connection of a client.
_CONNECT_TIMEOUT = 30.0


class ModelClient:
    """A client of one served model.

    Args:
        worker: the worker that queries models served by workers of this process; the local worker by default.
    """

    def __init__(self, worker: BaseWorker | None = None) -> None:
        self._worker = worker
        self._invitation: Invitation | None = None
        self._streams: list[Stream] = []
        self._left: int | None = None

    def connect_to_model(
        self,
        invitation: Invitation | str,
        in_shape: Sequence[int] | None = None,
        out_shape: Sequence[int] | None = None,
    ) -> ModelClient:
        """Connect to the servers of a model.

        Args:
            invitation: from the model's owner, or its text.
            in_shape: the expected shape of an input, to be checked.
            out_shape: the expected shape of a result, to be checked.
        """
        if self._invitation is not None:
            raise SyftError("This client is connected to a model already. Make another client for another model.")
        invited = invitation if isinstance(invitation, Invitation) else Invitation.from_text(invitation)
        for verb, shape, encodings in (("takes", in_shape, invited.inputs), ("gives", out_shape, invited.outputs)):
            if shape is not None and (tuple(shape),) != shapes_of(encodings):
                raise SyftError(f"The served model {verb} {show_shapes(shapes_of(encodings))}, not {tuple(shape)}.")
        client = BaseWorker(None, invited.client_id, auto_add=False)
        try:
            for server in invited.servers:
                self._streams.append(self._open(client, server, invited.name))
        except Exception:
            self.close()
            raise
        self._invitation, self._left = invited, invited.requests
        return self

    def _open(self, client: BaseWorker, server: Server, name: str) -> Stream:
        if server.address is not None:
            try:
                sock = handshake.connect(server.address, endpoint.purpose_of(name), timeout=_CONNECT_TIMEOUT)
            except OSError:
                raise _rejected(server.id) from None
            peer = PeerWorker(server.id)
            peer.lost_reason = "it closed the connection."
            return SocketStream(client, peer, sock)
        worker = (self._worker or local_worker()).get_worker(server.id, fail_hard=True)
        if not isinstance(worker, VirtualWorker):
            raise SyftError(f"Worker {server.id!r} is not in this process, and the invitation has no address for it.")
        session = endpoint.open_invited_session(worker, client.id, name)
        stream: InlineStream = worker.open_stream(client)
        session.may_wait = stream.session.may_wait
        stream.session.close()
        stream.session = session
        return stream

    @property
    def requests_left(self) -> int | None:
        """The number of requests left, as the servers reported last; None: unlimited."""
        return self._left

    def query_model(self, *inputs: Any) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Query the model, and return its result: a tensor, or a tuple of tensors.

        Args:
            *inputs: plain tensors, of the shapes that the model takes.
        """
        if self._invitation is None or not self._streams:
            raise SyftError("This client is not connected to a model. Call client.connect_to_model(invitation).")
        invitation, subject = self._invitation, "The served model"
        if any(isinstance(given, SyftTensor | AbstractTensor) for given in inputs):
            raise SyftError("query_model() takes plain tensors: they are split into shares here.")
        tensors = [torch.as_tensor(given) for given in inputs]
        shares = split_inputs(invitation.inputs, tensors, len(invitation.servers), subject)
        name, count = invitation.name, len(invitation.outputs)
        try:
            results = run_query(self._streams, name, name, shares, count, self._fetch)
        except WorkerLostError as error:
            raise _rejected(error.worker_id) from None
        return add_results(invitation.outputs, results, subject)

    def _fetch(self, stream: Stream, ids: list[ObjectId]) -> list[object]:
        """Fetch a server's shares of the results, and the number of requests that are left."""
        result = stream.fetch(ids[0])
        left, *received = result if type(result) is tuple and result else (None,)
        if type(left) is not int:
            raise ProtocolError(f"Server {stream.location.id!r} sent a message that is not a result.")
        self._left = None if left < 0 else left
        return received

    def close(self) -> None:
        """Disconnect; the invitation stays valid for the requests that are left."""
        streams, self._streams, self._invitation = self._streams, [], None
        close_all(streams)

    def __enter__(self) -> ModelClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ModelClient of {self._invitation!r}>" if self._invitation else "<ModelClient, not connected>"


def _rejected(server_id: object) -> SyftError:
    return SyftError(
        f"Server {server_id!r} rejects this invitation, or is lost: the model's owner may have revoked it, or stopped "
        "serving. Ask the owner for another one."
    )


def connect(invitation: Invitation | str, worker: BaseWorker | None = None) -> ModelClient:
    """Connect to a served model: `sy.mpc.connect(invitation).query_model(x)`."""
    return ModelClient(worker).connect_to_model(invitation)
