"""Serving: an encrypted model answers private requests of clients that its owner invites.

The model is recorded once as a program, which becomes an endpoint at each party, with the party's shares of the model.
From then on the owner has no part in a request: clients send shares to the parties, which learn neither the model, nor
the inputs, nor the results.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> alice, bob, carol = (sy.VirtualWorker(hook, id=f"serving-{name}") for name in ("alice", "bob", "carol"))
    >>> model = torch.nn.Linear(2, 1)
    >>> _ = torch.nn.init.constant_(model.weight, 0.5), torch.nn.init.zeros_(model.bias)
    >>> served = model.fix_precision().share(alice, bob, crypto_provider=carol).serve(in_shape=(1, 2), num_requests=3)
    >>> client = sy.mpc.connect(served.invite())
    >>> client.query_model(torch.tensor([[1.0, 3.0]]))
    tensor([[2.]])
    >>> served.requests_left
    2
    >>> served.stop()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from syft._suggestions import suggests_keywords
from syft.core.id_provider import ObjectId
from syft.display.facts import FactList, Shown
from syft.exceptions import SyftError
from syft.hook import base
from syft.messaging.message import Operation
from syft.mpc.runtime import client
from syft.mpc.serving import endpoint
from syft.mpc.serving.invitation import Invitation, ServingParty
from syft.mpc.serving.model_recording import Answer, InputShape, Model, RecordedModel, record_model
from syft.mpc.serving.tensor_encoding import shapes_of, show_shapes
from syft.pointers.object_pointer import ObjectPointer
from syft.workers.spawned import SpawnedWorker
from syft.workers.virtual import VirtualWorker

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


@suggests_keywords
def serve(
    model: Model, in_shape: InputShape, num_requests: int | None = None, answer: Answer | None = None
) -> ServedModel:
    """Serve an encrypted model to clients that are invited.

    Args:
        model: a module whose parameters are shared, `model.fix_precision().share(alice, bob, crypto_provider=carol)`,
            or a plan whose state is shared. It is served as it is now, in evaluation mode; later changes here do not
            change the served model.
        in_shape: the shape of one request, with its batch dimension; a list of shapes for a model of several inputs.
        num_requests: the number of requests of all clients together; None: unlimited.
        answer: computes the result that clients get from the model's output, on shares as well:
            `lambda y: y.argmax(dim=1)`.

    Returns:
        The served model: `invite()` clients, and `stop()`.
    """
    if num_requests is not None and (type(num_requests) is not int or num_requests < 1):
        raise SyftError(f"num_requests must be an integer of at least 1, or None for no limit, got {num_requests!r}.")
    return ServedModel(record_model(model, in_shape, answer), num_requests)


class ServedModel(Shown):
    """A model that parties serve; its owner invites clients, and stops it."""

    def __init__(self, recorded: RecordedModel, num_requests: int | None) -> None:
        shared = recorded.shared
        self._owner: BaseWorker = next(iter(shared.child.values()))._owner
        self._workers = shared.locations
        provider = self._owner.get_worker(shared.crypto_provider, fail_hard=True)
        client.check_kinds(self._workers, provider)
        self._provider: ObjectId = provider.id
        self.name = os.urandom(16).hex()
        self.inputs, self.outputs, self.num_requests = recorded.inputs, recorded.outputs, num_requests
        self._unassigned = num_requests
        self._invitations: list[Invitation] = []
        self._is_stopped = False
        try:
            for worker in self._workers:
                parts = recorded.parts_of(worker.id, ObjectPointer.ref, self._provider, self.name)
                self._call(worker, endpoint.OPEN, self.name, tuple(parts), num_requests)
        except Exception:
            self.stop()
            raise

    def _call(self, worker: BaseWorker, command: str, *args: object) -> Any:
        return self._owner.stream_to(worker).ask(Operation(command, None, args, {}, ()))

    def _call_all(self, command: str, *args: object) -> None:
        """Call a command that ends something at all servers; errors are ignored, because a lost server has ended it."""
        for worker in self._workers:
            try:
                self._call(worker, command, *args)
            except SyftError:
                continue

    def invite(self, num_requests: int | None = None) -> Invitation:
        """Return an invitation for one client; send it over a secure channel, as `invitation.to_text()`.

        Args:
            num_requests: the number of requests of the client; by default all that are not assigned to others yet.
        """
        if self._is_stopped:
            raise SyftError("This model is not served any more. Serve it again to invite clients.")
        requests = self._unassigned if num_requests is None else num_requests
        if requests is not None and (type(requests) is not int or requests < 1):
            raise SyftError(
                "All requests are assigned to other clients. Revoke an invitation, or serve with more requests."
                if num_requests is None
                else f"num_requests of an invitation must be an integer of at least 1, got {num_requests!r}."
            )
        if self._unassigned is not None and requests is not None and requests > self._unassigned:
            raise SyftError(f"{self._unassigned} of {self.num_requests} requests are left, got {requests}.")
        client_id = f"client-{os.urandom(16).hex()}"
        try:
            for worker in self._workers:
                self._call(worker, endpoint.INVITE, self.name, client_id, requests)
            servers = tuple([self._server(worker, client_id) for worker in self._workers])
        except Exception:
            self._call_all(endpoint.REVOKE, self.name, client_id)
            raise
        made = Invitation(self.name, client_id, servers, self._provider, self.inputs, self.outputs, requests)
        self._invitations.append(made)
        if self._unassigned is not None and requests is not None:
            self._unassigned -= requests
        return made

    def _server(self, worker: BaseWorker, client_id: str) -> ServingParty:
        if isinstance(worker, SpawnedWorker):
            return ServingParty(worker.id, worker.invite(client_id, endpoint.purpose_of(self.name)))
        if isinstance(worker, VirtualWorker):
            return ServingParty(worker.id)
        raise SyftError(f"Clients can't be invited to worker {worker.id!r}: only its creator can admit them.")

    def revoke(self, invitation: Invitation) -> None:
        """Refuse the client of an invitation from now on; its remaining requests can be assigned to others."""
        if invitation not in self._invitations:
            raise SyftError("This invitation is not for this model, or was revoked before.")
        try:
            left = self._left(invitation)
        except SyftError:  # a server is lost; the others must be notified nevertheless
            left = 0
        self._invitations.remove(invitation)
        self._invalidate(invitation)
        self._call_all(endpoint.REVOKE, self.name, invitation.client_id)
        if self._unassigned is not None and left is not None:
            self._unassigned += left

    def _invalidate(self, invitation: Invitation) -> None:
        """Invalidate the secrets of an invitation at the servers."""
        for worker, server in zip(self._workers, invitation.servers, strict=True):
            if server.address is not None:
                worker.dismiss(invitation.client_id, server.address)

    def _left(self, invitation: Invitation) -> int | None:
        """Return the number of requests that an invitation has left: the lowest count of all servers."""
        left = [self._call(worker, endpoint.LEFT, self.name, invitation.client_id) for worker in self._workers]
        return None if min(left) < 0 else min(left)

    @property
    def requests_left(self) -> int | None:
        """The number of requests that are left, as the servers count; None: unlimited."""
        if self.num_requests is None:
            return None
        if self._is_stopped:
            return 0
        return (self._unassigned or 0) + sum(self._left(invitation) or 0 for invitation in self._invitations)

    def stop(self) -> None:
        """Stop serving: the parties refuse clients and drop the program."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for invitation in self._invitations:
            self._invalidate(invitation)
        self._invitations.clear()
        self._call_all(endpoint.CLOSE, self.name)

    def __enter__(self) -> ServedModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _facts(self) -> FactList:
        yield from (("parties", ", ".join(str(worker.id) for worker in self._workers)), ("dealer", self._provider))
        yield from (
            (name, show_shapes(shapes_of(side))) for name, side in (("takes", self.inputs), ("gives", self.outputs))
        )
        yield from (("state", "stopped" if self._is_stopped else "serving"), ("invitations", len(self._invitations)))

    def __repr__(self) -> str:
        places = ", ".join(str(worker.id) for worker in self._workers)
        takes, gives = (show_shapes(shapes_of(side)) for side in (self.inputs, self.outputs))
        state = "stopped" if self._is_stopped else f"{len(self._invitations)} invitations"
        return f"<ServedModel at {places}: {takes} -> {gives}, {state}>"


class ServingMethods:
    """Methods for nn.Module: the public names are copied onto that class."""

    def serve(
        self: Any, in_shape: InputShape, num_requests: int | None = None, answer: Answer | None = None
    ) -> ServedModel:
        """Serve this encrypted model to clients that are invited; arguments as `sy.mpc.serve`."""
        return serve(self, in_shape, num_requests, answer)


base.module_methods.append(ServingMethods)
