"""Serving: an encrypted model answers private requests, and its owner hands out invitations to ask.

The model is recorded once on a shared tensor that has no numbers, and what was recorded becomes an endpoint at each
party, with the party's shares of the model. From then on the owner has no part in a request: clients talk to the
parties, which learn neither the model, nor what is asked, nor the answer.

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

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, UnsupportedOperation
from syft.hook import base, modules
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan import Plan
from syft.mpc.program.compile import Assembled, Part
from syft.mpc.runtime import client
from syft.mpc.runtime.recording import ShareRecording, Value, outline, value_of
from syft.mpc.serving import endpoint
from syft.mpc.serving.guest_session import purpose_of
from syft.mpc.serving.invitation import Invitation, Number, Server, Shape
from syft.pointers.object_pointer import ObjectPointer
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor
from syft.workers.spawned import SpawnedWorker
from syft.workers.virtual import VirtualWorker


def serve(
    model: torch.nn.Module | Plan,
    in_shape: Any,
    num_requests: int | None = None,
    answer: Callable[[Any], Any] | None = None,
) -> ServedModel:
    """Let an encrypted model answer requests of clients that are invited.

    Args:
        model: a module whose parameters are shared, `model.fix_precision().share(alice, bob, crypto_provider=carol)`,
            or a plan whose state is. It is served as it is now, in evaluation mode; what becomes of it here
            afterwards changes nothing.
        in_shape: the shape of one request, its batch included; a list of shapes for a model of several inputs.
        num_requests: how many requests the parties answer, all clients together; None for any number.
        answer: what is told of the model's output, computed on shares as well: `lambda y: y.argmax(dim=1)`.

    Returns:
        The served model: `invite()` clients, and `stop()`.
    """
    if num_requests is not None and (type(num_requests) is not int or num_requests < 1):
        raise SyftError("num_requests is a whole number from 1 on, or None for any number.")
    found = record_model(model, in_shape, answer)
    return ServedModel(found.form, found.part, found.values, found.inputs, found.outputs, num_requests)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedModel:
    """A model as a program.

    Attributes:
        form: a shared tensor of the model's parties.
        part: what the parties run.
        values: what stands for the inputs in it.
        inputs: what it takes.
        outputs: what it gives.
    """

    form: AdditiveSharingTensor
    part: Part
    values: list[Value]
    inputs: tuple[Number, ...]
    outputs: tuple[Number, ...]


def record_model(model: Any, in_shape: Any, answer: Callable[[Any], Any] | None = None) -> RecordedModel:
    """Record what the parties of an encrypted model run; arguments as `serve`. Nothing is sent."""
    form = _form_of(model)
    inputs = tuple([Number(shape, form.scale, form.field) for shape in _shapes_of(in_shape)])
    values = [Value(torch.Size(number.shape)) for number in inputs]
    with _evaluating(model), ShareRecording() as recording, torch.no_grad():
        result = model(*[form.like(outline(value, form.child)).wrap() for value in values])
        links = _links_of(result if answer is None else answer(result))
        # Fresh shares of the answer tell who adds them up nothing but the answer.
        outputs = [recording.value(client.run("refresh", _shares_of(link))) for link in links]
    if recording.writes:
        raise SyftError("This model changes its own tensors when it runs, so it can't be served.")
    part, *others = Assembled(recording, outputs).parts
    if others:
        raise UnsupportedOperation("serve", "parties that need a helper", "Share with protocol='beaver' or 'fss'.")
    return RecordedModel(form.child, part, values, inputs, tuple(map(_number_of, links)))


def _form_of(model: Any) -> FixedPrecisionTensor:
    """Return a link in the format of a model's parameters, at its parties."""
    if not isinstance(model, torch.nn.Module | Plan):
        raise SyftError(f"serve() takes an encrypted module or plan, not a {type(model).__name__}.")
    for tensor in modules.tensors_of(model) if isinstance(model, torch.nn.Module) else model.state.tensors():
        link = tensor.__dict__.get("child") if isinstance(tensor, SyftTensor) else None
        if isinstance(link, FixedPrecisionTensor) and link.is_shared:
            return link
    raise SyftError(
        "Only encrypted models are served. Encrypt it first: "
        "model.fix_precision().share(alice, bob, crypto_provider=carol)."
    )


def _shapes_of(in_shape: Any) -> list[Shape]:
    several = isinstance(in_shape, list) and in_shape and isinstance(in_shape[0], tuple | list)
    shapes = [tuple(shape) for shape in (in_shape if several else [in_shape])]
    if not all(type(size) is int and size >= 0 for shape in shapes for size in shape):
        raise SyftError("in_shape is the shape of one request, as (1, 64), or a list of such shapes.")
    return shapes


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a module in evaluation mode, and each of its parts back afterwards; a plan has none."""
    before = [(part, part.training) for part in model.modules()] if isinstance(model, torch.nn.Module) else []
    for part, _ in before:
        part.training = False
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _links_of(result: Any) -> list[Any]:
    links = [leaf.__dict__.get("child") if isinstance(leaf, SyftTensor) else None for leaf in iter_tensors(result)]
    if not links or not all(isinstance(_shares_of(link), AdditiveSharingTensor) for link in links):
        raise SyftError("A served model returns a shared tensor, or a tuple of them.")
    return links


def _shares_of(link: Any) -> Any:
    return link.child if isinstance(link, FixedPrecisionTensor) else link


def _number_of(link: Any) -> Number:
    if isinstance(link, FixedPrecisionTensor):
        dtype = str(link.decodes_to).removeprefix("torch.")
        return Number(tuple(link.shape), link.scale, link.field, dtype=dtype)
    return Number(tuple(link.shape), 1, 2**62, is_whole=True)


def given_to(party: Any, item: Any, values: list[Value]) -> Any:
    """Return what a program begins with as a party gets it: the number of an input, a pointer, or a plain tensor."""
    if type(item) is not Value or item.shares is None:
        return item
    stands_for = value_of(item.shares)
    return item.shares[party] if stands_for is None else values.index(stands_for)


def _given(item: Any, values: list[Value], party: Any) -> Any:
    found = given_to(party, item, values)
    return found.ref() if isinstance(found, ObjectPointer) else found


class ServedModel:
    """A model that parties serve; its owner invites clients, and ends it.

    Args:
        model: a shared tensor of the model's parties.
        part: what the parties run.
        values: what stands for the inputs in it.
        inputs: what it takes.
        outputs: what it gives.
        num_requests: how many requests are answered.
    """

    def __init__(
        self,
        model: AdditiveSharingTensor,
        part: Part,
        values: list[Value],
        inputs: tuple[Number, ...],
        outputs: tuple[Number, ...],
        num_requests: int | None,
    ) -> None:
        self._owner = next(iter(model.child.values()))._owner
        self._workers = model.locations
        provider = self._owner.get_worker(model.crypto_provider, fail_hard=True)
        client.check_kinds(self._workers, provider)
        self._provider = provider.id
        self.name = os.urandom(16).hex()
        self.inputs, self.outputs, self.num_requests = inputs, outputs, num_requests
        self._unpromised = num_requests
        self._invitations: list[Invitation] = []
        self._is_stopped = False
        parties = tuple([worker.id for worker in self._workers])
        shapes = tuple([number.shape for number in inputs])
        steps, outputs = part.options["steps"], part.options["outputs"]
        try:
            for worker in self._workers:
                given = tuple([_given(item, values, worker.id) for item in part.args])
                what = (steps, outputs, given, shapes, parties, self._provider, num_requests)
                self._tell(worker, endpoint.OPEN, self.name, *what)
        except Exception:
            self.stop()
            raise

    def _tell(self, worker: Any, what: str, *args: Any) -> Any:
        return self._owner.stream_to(worker).ask(Operation(what, None, args, {}, ()))

    def _tell_all(self, what: str, *args: Any) -> None:
        """Tell the servers to end something; one that is gone, or never began, has nothing to end."""
        for worker in self._workers:
            try:
                self._tell(worker, what, *args)
            except SyftError:
                continue

    def invite(self, num_requests: int | None = None) -> Invitation:
        """Return an invitation for one client: hand it over as it is, or as `invitation.to_text()`.

        Args:
            num_requests: how many requests it is good for; by default all that were not promised to others yet.
        """
        if self._is_stopped:
            raise SyftError("This model is not served any more; serve it again to invite clients.")
        requests = self._unpromised if num_requests is None else num_requests
        if requests is not None and (type(requests) is not int or requests < 1):
            raise SyftError(
                "All requests were promised to other clients: revoke an invitation, or serve with more."
                if num_requests is None
                else "An invitation is good for a whole number of requests, from 1 on."
            )
        if self._unpromised is not None and requests is not None and requests > self._unpromised:
            raise SyftError(f"Of {self.num_requests} requests {self._unpromised} are left to be promised.")
        guest = f"guest-{os.urandom(16).hex()}"
        try:
            for worker in self._workers:
                self._tell(worker, endpoint.INVITE, self.name, guest, requests)
            servers = tuple([self._server(worker, guest) for worker in self._workers])
        except Exception:
            self._tell_all(endpoint.REVOKE, self.name, guest)
            raise
        made = Invitation(self.name, guest, servers, self._provider, self.inputs, self.outputs, requests)
        self._invitations.append(made)
        if self._unpromised is not None and requests is not None:
            self._unpromised -= requests
        return made

    def _server(self, worker: Any, guest: str) -> Server:
        if isinstance(worker, SpawnedWorker):
            return Server(worker.id, worker.invite(guest, purpose_of(self.name)))
        if isinstance(worker, VirtualWorker):
            return Server(worker.id)
        raise SyftError(f"Only who started worker {worker.id!r} can let a client in there.")

    def revoke(self, invitation: Invitation) -> None:
        """Answer the client of an invitation no more; requests that it did not use can be promised to others."""
        if invitation not in self._invitations:
            raise SyftError("This invitation is not one to this model, or was revoked before.")
        try:
            left = self._left(invitation)
        except SyftError:  # a server is gone; the others are told all the same
            left = 0
        self._invitations.remove(invitation)
        self._shut(invitation)
        self._tell_all(endpoint.REVOKE, self.name, invitation.guest)
        if self._unpromised is not None and left is not None:
            self._unpromised += left

    def _shut(self, invitation: Invitation) -> None:
        """Have the servers take the secrets of an invitation no more."""
        for worker, server in zip(self._workers, invitation.servers, strict=True):
            if server.address is not None:
                worker.dismiss(invitation.guest, server.address)

    def _left(self, invitation: Invitation) -> int | None:
        """Ask the servers how many requests an invitation is still good for: what the strictest one says."""
        left = [self._tell(worker, endpoint.LEFT, self.name, invitation.guest) for worker in self._workers]
        return None if min(left) < 0 else min(left)

    @property
    def requests_left(self) -> int | None:
        """How many requests will still be answered, as the servers count; None for any number."""
        if self.num_requests is None:
            return None
        if self._is_stopped:
            return 0
        return (self._unpromised or 0) + sum(self._left(invitation) or 0 for invitation in self._invitations)

    def stop(self) -> None:
        """Stop serving: clients get no more answers, and the parties forget the program."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for invitation in self._invitations:
            self._shut(invitation)
        self._invitations.clear()
        self._tell_all(endpoint.CLOSE, self.name)

    def __enter__(self) -> ServedModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        places = ", ".join(str(worker.id) for worker in self._workers)
        takes, gives = (" and ".join(str(number.shape) for number in side) for side in (self.inputs, self.outputs))
        state = "stopped" if self._is_stopped else f"{len(self._invitations)} invitations"
        return f"<ServedModel at {places}: {takes} -> {gives}, {state}>"


class ServingMethods:
    """A stand-in for nn.Module: its public names are copied onto the real one."""

    def serve(
        self: Any, in_shape: Any, num_requests: int | None = None, answer: Callable[[Any], Any] | None = None
    ) -> ServedModel:
        """Let this encrypted model answer requests of clients that are invited; arguments as `sy.mpc.serve`."""
        return serve(self, in_shape, num_requests, answer)


base.module_methods.append(ServingMethods)
