"""The client's side of encrypted models: hosting one at workers, and querying it, as a user or by invitation.

The owner splits the model into shares here and sends each party its part of a fixed program. From then on the owner has
no part in requests. A client splits its inputs into shares itself, sends each party its shares, and adds up the shares
of the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.tensor import AbstractTensor
from syft.display.facts import FactList, Shown
from syft.exceptions import (
    ModelError,
    ObjectNotFoundError,
    PinnedPartyError,
    ProtocolError,
    SyftError,
    WorkerLostError,
)
from syft.hook.syft_tensor import SyftTensor
from syft.hosting.client import inputs_of, plain_plan
from syft.hosting.client import shapes_of as plan_shapes
from syft.hosting.server import PREFIX, Facts
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage
from syft.mpc.runtime import client
from syft.mpc.serving import endpoint
from syft.mpc.serving.invitation import Invitation, ServingParty
from syft.mpc.serving.model_recording import record_model
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit
from syft.mpc.serving.server import encodings_of
from syft.mpc.serving.tensor_encoding import Encodings, Shares, is_share, shapes_of, show_shapes
from syft.mpc.values.sharing import generate_shares
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import following_id
from syft.workers.base import BaseWorker
from syft.workers.delegation.introduction import fingerprints_of, introduce
from syft.workers.peer import PeerWorker
from syft.workers.transport import handshake
from syft.workers.transport.socket_stream import SocketStream
from syft.workers.transport.stream import FailureGroup, InlineStream, Stream, close_all
from syft.workers.virtual import VirtualWorker

T = TypeVar("T")
# Fractional bits of a hosted model: errors of about 1e-4, numbers up to 2^29.
PRECISION = {"base": 2, "precision_fractional": 16}
# Seconds until a server must accept the connection of an invited client.
_CONNECT_TIMEOUT = 30.0


class EncryptedDraft:
    """A model that was split into shares here, and was not sent yet; `parts` has the part of each party."""

    def __init__(
        self,
        model: object,
        name: str,
        holders: Sequence[BaseWorker],
        provider: BaseWorker,
        allow_remote_inference: bool,
        args_shape: Sequence[Sequence[int]] | None = None,
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        limit = check_limit(max_requests_per_user)
        plan = plain_plan(model, args_shape)
        shapes = list(plan_shapes(plan) if args_shape is None else map(tuple, args_shape))
        if not shapes:
            raise ModelError(f"The input shapes of {name!r} are unknown. Pass args_shape=[(1, 64)].")
        keys = _keys_of([*holders, provider])
        proxy = plan.copy()
        # Workers of this process stand for the holders, so that no holder has shares before the model is complete.
        proxies = [VirtualWorker(None, id=worker.id, auto_add=False) for worker in holders]
        dealer = VirtualWorker(None, id=provider.id, auto_add=False)

        def copy_share(pointer: ObjectPointer) -> torch.Tensor:
            share: torch.Tensor = pointer.location.object_store.get(pointer.id_at_location)
            return share.clone()

        try:
            proxy.fix_precision_(**PRECISION).share_(*proxies, crypto_provider=dealer)
            recorded = record_model(proxy, shapes)
            more = dealer.id, os.urandom(16).hex(), keys, limit
            self.parts = [recorded.parts_of(worker.id, copy_share, *more) for worker in proxies]
        finally:
            for worker in (*proxies, dealer):
                worker.stop()
        self.name, self.holders, self.provider = name, tuple(holders), provider
        self.allow_remote_inference = allow_remote_inference

    def host(self, worker: BaseWorker) -> None:
        """Send a party its part."""
        contents = tuple(self.parts[self.holders.index(worker)])
        local_worker().send_msg(HostSharesMessage(contents, self.name, self.allow_remote_inference), worker)


def _keys_of(workers: Sequence[BaseWorker]) -> tuple[str, ...]:
    """Return the fingerprints of nodes; workers of this program have none, and are identified by id."""
    nodes = [worker for worker in workers if getattr(worker, "is_node", False)]
    return fingerprints_of(local_worker(), workers) if len(nodes) == len(workers) else ()


def ask_encrypted(
    holders: Sequence[BaseWorker], provider: BaseWorker, rows: Sequence[Facts], data: object
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Query a hosted encrypted model, given the facts that each holder returned about it."""
    facts = rows[0]
    name = facts["name"]
    if not facts.get("mpc") or any(row != facts for row in rows) or len(rows) != len(holders):
        raise ModelError(f"The parties of the model {name!r} describe it differently. Host it again.")
    subject, outputs = f"The model {name!r}", encodings_of(facts["outputs"])
    shares = split_inputs(encodings_of(facts["inputs"]), inputs_of(data), len(holders), subject)
    holders = [_for_purpose(worker, f"{PREFIX}{name}") for worker in holders]
    introduce(local_worker(), [*holders, _for_purpose(provider, f"dealer:{name}")])
    streams = [local_worker().stream_to(worker) for worker in holders]
    results = run_query(streams, name, facts["version"], shares, len(outputs), Stream.fetch_many)
    return add_results(outputs, results, subject)


def _for_purpose(worker: BaseWorker, purpose: str) -> BaseWorker:
    """Return a worker as it is reached for one purpose; workers of this program serve all purposes alike."""
    view = getattr(worker, "for_purpose", None)
    return worker if view is None else view(purpose)


# --- requests ---------------------------------------------------------------------------------------------------


def split_inputs(encodings: Encodings, tensors: Sequence[torch.Tensor], count: int, subject: str) -> list[Shares]:
    """Return the shares of plain inputs, one tuple for each of `count` parties; `subject` names the model in errors."""
    shapes = tuple([tuple(tensor.shape) for tensor in tensors])
    if shapes != shapes_of(encodings):
        expected = show_shapes(shapes_of(encodings))
        raise ModelError(f"{subject} takes {expected}, not {show_shapes(shapes)}. Nothing was sent.")
    encoded = [encoding.encode(tensor) for encoding, tensor in zip(encodings, tensors, strict=True)]
    return list(zip(*[generate_shares(each, count) for each in encoded], strict=True))


def run_query(
    streams: Sequence[Stream],
    name: str,
    version: str,
    shares: Sequence[Shares],
    count: int,
    fetch: Callable[[Stream, list[ObjectId]], T],
) -> list[T]:
    """Send each party its shares of a request, and fetch its shares of the `count` results by their ids."""
    run_id, ids = ID_PROVIDER.pop(), [ID_PROVIDER.pop()]
    while len(ids) < count:
        ids.append(following_id(ids[-1]))
    messages = [SharedInferenceMessage(mine, name, version, run_id, ids[0]) for mine in shares]
    client.post_run(list(zip(streams, messages, strict=True)), (streams[0].client.id, run_id), FailureGroup())
    return fetch_results(streams, lambda stream: fetch(stream, ids))


def fetch_results(streams: Iterable[Stream], fetch: Callable[[Stream], T]) -> list[T]:
    """Fetch the result of each party; if any of them fails, raise the error that says most about the cause."""
    results: list[T] = []
    errors: list[Exception] = []
    for stream in streams:
        try:
            results.append(fetch(stream))
        except (SyftError, TimeoutError) as error:
            errors.append(error)
    if errors:
        raise min(errors, key=_vagueness)
    return results


def _vagueness(error: Exception) -> int:
    """Return a rank: some errors only say that another party left the run, or that there is no result."""
    if isinstance(error, PinnedPartyError | ModelError):
        return 0
    return 2 if isinstance(error, ObjectNotFoundError) else 1


def add_results(
    encodings: Encodings, results: Sequence[Sequence[object]], subject: str
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Add up and decode shares of results, which no party is trusted to send in the right number and shapes."""
    rows = [[share for share in shares if is_share(share)] for shares in results]
    for row, shares in zip(rows, results, strict=True):
        if len(row) != len(shares) or tuple([tuple(share.shape) for share in row]) != shapes_of(encodings):
            raise ModelError(f"A party of {subject} sent a result that does not consist of shares of the right shapes.")
    totals = [sum(column[1:], column[0]) for column in zip(*rows, strict=True)]
    decoded = tuple([encoding.decode(total) for encoding, total in zip(encodings, totals, strict=True)])
    return decoded[0] if len(decoded) == 1 else decoded


# --- by invitation ------------------------------------------------------------------------------------------------


class ModelClient(Shown):
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

    def _open(self, client: BaseWorker, server: ServingParty, name: str) -> Stream:
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

    def _facts(self) -> FactList:
        return self._invitation._facts() if self._invitation else (("state", "not connected"),)

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
