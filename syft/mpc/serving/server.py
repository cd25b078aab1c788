"""Encrypted models that are hosted: a fixed program at each party, with the party's shares of the model.

A client brings shares of what it asks, all parties run the program together, and the client fetches its shares of the
answer, which were made fresh by the last step. Nobody, whoever may ask, can name the model's shares in a run of another
program: they are in no store under an id of their own.

The user also introduces the nodes to each other, so the user's word on their identities does not count. When a model is
hosted, its owner's client asks each node for the fingerprint of its identity key, and every party stores ids and
fingerprints of all parties and of the dealer. In a run, each party connects to exactly these, in this order, and each
of them has to prove its key on the very connection that is used (`workers.proofs`) before anything is computed. The
dealer gives seeds to parties that prove their keys only. Workers in this process and processes of one program are
pinned by id: whoever made them also connects them.

The parties compare 16 bytes of the model's name, version and program, and of parties and dealer, in every frame.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import IdNotUniqueError, ModelError, ProtocolError, SyftError
from syft.hosting.server import Facts, Hosted, find_model, require_inference, shelve
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage, check_name
from syft.messaging.message import RunMessage
from syft.mpc.protocols import program
from syft.mpc.runtime import rendezvous
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.worker import key_of, runtime_of
from syft.mpc.serving.endpoint import Served, check_places
from syft.mpc.serving.invitation import Number, read_number
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit, spend
from syft.pointers.remote_call import following_id
from syft.serde import register
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

Rows = tuple[tuple[Any, ...], ...]


class EncryptedModel(Hosted):
    """One party's part of an encrypted model.

    Args:
        name: what it is called.
        allow_remote_inference: whether others may ask it.
        served: what is run, with this party's shares.
        parties: the ids of those who hold shares, in order.
        provider: the id of the dealer.
        inputs: what it takes.
        outputs: what it gives.
        version: which one this is of those that had this name, the same at all parties.
        keys: the fingerprints of the identity keys of the parties, in order, and of the dealer; empty: they are pinned
            by id.
        max_requests_per_user: the number of requests of one user in a day; None: no limit.
    """

    is_encrypted = True

    def __init__(
        self,
        name: str,
        allow_remote_inference: bool,
        served: Served,
        parties: tuple[ObjectId, ...],
        provider: ObjectId | None,
        inputs: tuple[Number, ...],
        outputs: tuple[Number, ...],
        version: str,
        keys: tuple[str, ...] = (),
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        super().__init__(name, False, allow_remote_inference)
        self.version = version
        self.keys = keys
        self.max_requests_per_user = max_requests_per_user
        self.served = served
        self.parties = parties
        self.provider = provider
        self.inputs = inputs
        self.outputs = outputs

    def details(self) -> Facts:
        """Return what those may know of it who may ask it."""
        return {
            "parties": self.parties,
            "provider": self.provider,
            "inputs": rows_of(self.inputs),
            "outputs": rows_of(self.outputs),
            "version": self.version,
            "keys": self.keys,
            "max_requests_per_user": self.max_requests_per_user,
        }

    @property
    def places(self) -> tuple[ObjectId, ...]:
        """The ids of the parties, in order, and of the dealer."""
        return self.parties if self.provider is None else (*self.parties, self.provider)

    @property
    def pins(self) -> dict[ObjectId, str] | None:
        """The fingerprints of the keys that parties and dealer must prove, by id; None: they are pinned by id."""
        return dict(zip(self.places, self.keys, strict=True)) if self.keys else None

    @functools.cached_property
    def agreed(self) -> dict[str, Any]:
        """What the parties compare in every frame of a run, beside parties and dealer."""
        return {"model": self.name, "version": self.version, "program": self.served.digest()}

    def contents(self) -> list[Any]:
        """Return what takes memory."""
        return [item for item in self.served.given if isinstance(item, torch.Tensor)]

    def check(self, shares: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Return the shares that a client brings, if they are what the model takes."""
        if any(type(share) is not torch.Tensor or share.dtype is not torch.int64 for share in shares):
            raise ModelError("An encrypted model is asked with shares: tensors of int64.")
        shapes = tuple([tuple(share.shape) for share in shares])
        if shapes != self.served.inputs:
            raise ModelError(f"The model {self.name!r} takes shares of {self.served.inputs}, not of {shapes[:8]}.")
        return shares

    def start(self, shares: tuple[torch.Tensor, ...], party: Party) -> Any:
        """Make the coroutine of this party."""
        served = self.served
        return program.program(party, *served.begin(shares), steps=served.steps, outputs=served.outputs)

    @staticmethod
    def simplify(worker: Any, model: EncryptedModel) -> tuple[Any, ...]:
        """Return name, what is allowed, and what is run."""
        return (model.name, model.allow_remote_inference, contents_of(model))

    @staticmethod
    def detail(worker: Any, parts: tuple[Any, ...]) -> EncryptedModel:
        """Rebuild a model that may come from anyone; all that is run is checked before the first client asks."""
        name, allow_remote_inference, contents = parts
        if type(contents) is tuple and len(contents) == 8:  # stored before parties were pinned by key
            contents = (*contents, (), DEFAULT_REQUESTS)
        if type(contents) is not tuple or len(contents) != 10 or type(contents[7]) is not str:
            raise ModelError("These are not the parts of an encrypted model.")
        steps, outputs, given, parties, provider, takes, gives, version, keys, limit = contents
        inputs, results = numbers_of(takes), numbers_of(gives)
        served = Served(steps, outputs, given, tuple([number.shape for number in inputs]))
        check_places(parties, provider)
        served.check(len(parties))
        more = version[:64], _check_keys(keys, parties, provider), check_limit(limit)
        return EncryptedModel(
            check_name(name), allow_remote_inference, served, parties, provider, inputs, results, *more
        )


def _check_keys(keys: Any, parties: tuple[ObjectId, ...], provider: ObjectId | None) -> tuple[str, ...]:
    """Return the fingerprints of parties and dealer, if there is one for each, and no two nodes share one."""
    places = parties if provider is None else (*parties, provider)
    if type(keys) is not tuple or not all(map(is_fingerprint, keys)) or len(keys) not in (0, len(places)):
        raise ModelError("An encrypted model has a fingerprint of each party and of its dealer.")
    if keys and not len(set(keys)) == len(set(places)) == len(set(zip(places, keys, strict=True))):
        raise ModelError("The parties of an encrypted model and its dealer are different nodes, with different keys.")
    return keys


def contents_of(model: EncryptedModel) -> tuple[Any, ...]:
    """Return what an encrypted model is made of, as it travels."""
    served = model.served
    numbers = rows_of(model.inputs), rows_of(model.outputs)
    program = (served.steps, served.outputs, served.given, model.parties, model.provider, *numbers)
    return (*program, model.version, model.keys, model.max_requests_per_user)


def rows_of(numbers: tuple[Number, ...]) -> Rows:
    """Return the forms of tensors as plain values."""
    return tuple([number.row() for number in numbers])


def numbers_of(rows: Any) -> tuple[Number, ...]:
    """Return the forms of tensors that came from outside."""
    try:
        return tuple([read_number(*row) for row in rows])
    except (TypeError, ValueError):
        raise ModelError("These are not the forms of a model's inputs or outputs.") from None


@handles(HostSharesMessage)
def host_shares(worker: Any, session: Session, message: HostSharesMessage) -> None:
    """Host this party's part of an encrypted model."""
    parts = (message.name, message.allow_remote_inference, message.contents)
    model = EncryptedModel.detail(worker, parts)
    if worker.id not in model.parties:
        raise ModelError(f"Worker {worker.id!r} is not one of the parties of the model {model.name!r}.")
    prover = _prover_of(worker)
    if prover is not None:
        if not model.keys and session.conversation is not None:
            raise ModelError(
                f"Node {worker.id!r} hosts encrypted models only if the keys of all parties and of the dealer come "
                "along. Host the model with grid.serve_model(..., mpc=True) of this version."
            )
        if model.keys and model.keys[model.parties.index(worker.id)] != prover.key.fingerprint:
            raise ModelError(f"The key that the model {model.name!r} names for node {worker.id!r} is not its own.")
    shelve(worker, session, model)


def _prover_of(worker: Any) -> Any:
    """Return what a worker behind a server proves its identity with; None: it is one of this program."""
    acquaintances = getattr(worker, "acquaintances", None)
    return None if acquaintances is None else acquaintances.prover


@handles(SharedInferenceMessage)
def infer_shared(worker: Any, session: Session, message: SharedInferenceMessage) -> None:
    """Run an encrypted model on a client's shares, and keep the shares of the answer for the client."""
    model = find_model(worker, session, message.name)
    require_inference(worker, session, model)
    if not isinstance(model, EncryptedModel):
        raise ModelError(f"The model {model.name!r} at {worker.id!r} is not encrypted: ask it with mpc=False.")
    if message.version != model.version:
        raise ModelError(f"The model {model.name!r} was replaced just now; ask again.")
    shares = model.check(message.contents)
    if not is_id(message.run_id) or not is_id(message.return_id):
        raise ModelError("A run and its results have ids.")
    start = functools.partial(model.start, shares)
    finish = functools.partial(_keep, worker, session, message.return_id)
    _run(worker, session, model, message, start, finish)


def _run(
    worker: Any,
    session: Session,
    model: EncryptedModel,
    message: SharedInferenceMessage,
    start: Callable[[Party], Any],
    finish: Callable[[Any], None],
) -> None:
    index, count = model.parties.index(worker.id), len(model.parties)
    run = RunMessage((), message.run_id, program.NAME, model.parties, model.provider, model.agreed, message.return_id)
    key = key_of(session.client_id, message.run_id)
    runtime = runtime_of(worker, session)
    if runtime is not None and not model.keys and _prover_of(worker) is not None:
        raise ModelError(
            f"The model {model.name!r} at {worker.id!r} was hosted without the keys of its parties, so it answers "
            "nobody. Its owner has to host it again."
        )
    try:
        _spend(worker, session, model, runtime, run)
        if runtime is not None:
            runtime.run(session, run, index, count, start, finish, model.pins)
        else:
            seat = rendezvous.Participant(worker.id, start, finish, (model.agreed, model.places))
            rendezvous.join(key, index, count, count, seat, session.may_wait)
    except Exception as error:
        if runtime is None:
            rendezvous.close(key, error)
        if isinstance(error, SyftError):
            raise
        # Texts of torch may show numbers of its arguments, and those are shares.
        raise ProtocolError(
            f"The model {model.name!r} failed at worker {worker.id!r} with a {type(error).__name__}; "
            "its text may show shares, so it is not told."
        ) from None


def _spend(worker: Any, session: Session, model: EncryptedModel, runtime: Any, run: RunMessage) -> None:
    """Count the request; beyond the limit, notify the other parties, so that none of them waits."""
    try:
        spend(worker, session.client_id, model.name, model.version, model.max_requests_per_user)
    except Exception as error:
        if runtime is not None:
            runtime.give_up(session, run, len(model.parties), error, model.pins)
        raise


def _keep(worker: Any, session: Session, return_id: ObjectId, result: Any) -> None:
    """Keep the shares of an answer: they are the client's own, as if it had sent them."""
    kept: list[ObjectId] = []
    obj_id = return_id
    try:
        for share in result if isinstance(result, tuple | list) else (result,):
            if obj_id in worker.object_store.objects:
                raise IdNotUniqueError(f"Worker {worker.id!r} already holds an object with id {obj_id!r}.")
            session.keep(obj_id, share.clone())
            kept.append(obj_id)
            obj_id = following_id(obj_id)
    except Exception:
        for other in kept:
            session.release(other)
        raise


register(EncryptedModel, code=171)
