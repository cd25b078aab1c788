"""Hosted encrypted models: a shared program at each party, which users of the nodes query.

A client sends shares of its inputs, all parties run the program together, and the client fetches its shares of the
result, which the last step of the program refreshed.

The user also introduces the nodes to each other, so the user's statement about their identities does not count. When a
model is hosted, its owner's client reads the fingerprint of each node's identity key, and every party stores the ids
and fingerprints of all parties and of the dealer. In a run, each party connects to exactly these nodes, in this order,
and each of them must prove its key on that connection (`workers.delegation.key_proofs`) before anything is computed.
The dealer sends seeds only to parties that prove their keys. Workers in this process and processes of one program are
identified by id: the program that created them also connects them.

The parties compare a 16-byte digest of the model's name, version, program, parties and dealer in every frame.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import ModelError
from syft.hosting.server import Facts, Hosted, find_model, require_inference, store_model
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage, check_name
from syft.messaging.message import RunMessage
from syft.mpc.protocols import program
from syft.mpc.runtime.worker import runtime_of, store_results
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit, spend
from syft.mpc.serving.shared_program import SharedProgram
from syft.mpc.serving.tensor_encoding import Encodings, read_rows, shapes_of, write_rows
from syft.serde import register
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.delegation.key_proofs import Prover


class EncryptedModel(Hosted):
    """One party's part of an encrypted model.

    Args:
        name: the name of the model.
        allow_remote_inference: whether other users may query it.
        program: the program, with this party's shares.
        inputs: the encodings of the inputs.
        outputs: the encodings of the results.
        version: identifies one of the models that had this name; the same at all parties.
        keys: the fingerprints of the identity keys of the parties, in order, and of the dealer; empty: they are
            identified by id.
        max_requests_per_user: the number of requests of one user in a day; None: no limit.
    """

    is_encrypted = True

    def __init__(
        self,
        name: str,
        allow_remote_inference: bool,
        program: SharedProgram,
        inputs: Encodings,
        outputs: Encodings,
        version: str,
        keys: tuple[str, ...] = (),
        max_requests_per_user: int | None = DEFAULT_REQUESTS,
    ) -> None:
        super().__init__(name, False, allow_remote_inference)
        self.version = version
        self.keys = keys
        self.max_requests_per_user = max_requests_per_user
        self.program = program
        self.inputs = inputs
        self.outputs = outputs

    @property
    def parties(self) -> tuple[ObjectId, ...]:
        """The ids of the parties, in order."""
        return self.program.parties

    @property
    def provider(self) -> ObjectId | None:
        """The id of the dealer."""
        return self.program.provider

    def details(self) -> Facts:
        """Return the facts for users who may query it."""
        return {
            "parties": self.parties,
            "provider": self.provider,
            "inputs": write_rows(self.inputs),
            "outputs": write_rows(self.outputs),
            "version": self.version,
            "keys": self.keys,
            "max_requests_per_user": self.max_requests_per_user,
        }

    @property
    def pins(self) -> dict[ObjectId, str] | None:
        """The fingerprints of the keys that parties and dealer must prove, by id; None: they are identified by id."""
        return dict(zip(_members(self.program), self.keys, strict=True)) if self.keys else None

    @functools.cached_property
    def agreement(self) -> dict[str, Any]:
        """The values that the parties compare in every frame of a run, beside parties and dealer."""
        return {"model": self.name, "version": self.version, "program": self.program.digest()}

    def contents(self) -> list[Any]:
        """Return the tensors that use memory."""
        return [item for item in self.program.given if isinstance(item, torch.Tensor)]

    @staticmethod
    def simplify(worker: BaseWorker, model: EncryptedModel) -> tuple[Any, ...]:
        """Return the name, the permission, and the other parts."""
        return (model.name, model.allow_remote_inference, contents_of(model))

    @staticmethod
    def detail(worker: BaseWorker, parts: tuple[Any, ...]) -> EncryptedModel:
        """Rebuild a model that may come from anyone; the program is checked before the first request."""
        name, allow_remote_inference, contents = parts
        if type(contents) is tuple and len(contents) == 8:  # stored before parties were pinned by key
            contents = (*contents, (), DEFAULT_REQUESTS)
        if type(contents) is not tuple or len(contents) != 10 or type(contents[7]) is not str:
            raise ModelError("These are not the parts of an encrypted model.")
        steps, outputs, given, parties, provider, input_rows, output_rows, version, keys, limit = contents
        inputs, results = encodings_of(input_rows), encodings_of(output_rows)
        program = SharedProgram(steps, outputs, given, shapes_of(inputs), parties, provider)
        program.check()
        more = version[:64], _check_keys(keys, program), check_limit(limit)
        return EncryptedModel(check_name(name), allow_remote_inference, program, inputs, results, *more)


def _members(program: SharedProgram) -> tuple[ObjectId, ...]:
    """Return the ids of the parties, in order, and of the dealer."""
    return program.parties if program.provider is None else (*program.parties, program.provider)


def _check_keys(keys: tuple[str, ...], program: SharedProgram) -> tuple[str, ...]:
    """Return the fingerprints of parties and dealer if there is one for each, and all are different."""
    members = _members(program)
    if type(keys) is not tuple or not all(map(is_fingerprint, keys)) or len(keys) not in (0, len(members)):
        raise ModelError("An encrypted model needs the fingerprint of each party and of its dealer.")
    if keys and not len(set(keys)) == len(set(members)) == len(set(zip(members, keys, strict=True))):
        raise ModelError(
            "The parties of an encrypted model and its dealer must be different nodes with different keys."
        )
    return keys


def contents_of(model: EncryptedModel) -> tuple[Any, ...]:
    """Return the parts of an encrypted model for a message."""
    program = model.program
    parts = (program.steps, program.outputs, program.given, program.parties, program.provider)
    encodings = write_rows(model.inputs), write_rows(model.outputs)
    return (*parts, *encodings, model.version, model.keys, model.max_requests_per_user)


def encodings_of(rows: Any) -> Encodings:
    """Return the encodings of inputs or results that came from outside."""
    try:
        return read_rows(rows)
    except (TypeError, ValueError):
        raise ModelError("The encodings of a model's inputs or results are not valid.") from None


@handles(HostSharesMessage)
def host_shares(worker: BaseWorker, session: Session, message: HostSharesMessage) -> None:
    """Host this party's part of an encrypted model."""
    model = read_hosted(worker, message)
    prover = _prover_of(worker)
    if prover is not None:
        check_own_key(worker, model, prover, is_required=session.conversation is not None)
    store_model(worker, session, model)


def read_hosted(worker: BaseWorker, message: HostSharesMessage) -> EncryptedModel:
    """Return the model of a message that hosts it here."""
    model = EncryptedModel.detail(worker, (message.name, message.allow_remote_inference, message.contents))
    if worker.id not in model.parties:
        raise ModelError(f"Worker {worker.id!r} is not one of the parties of the model {model.name!r}.")
    return model


def check_own_key(worker: BaseWorker, model: EncryptedModel, prover: Prover, is_required: bool) -> None:
    """Raise unless a model names the key of this node, or names no keys and need not."""
    if is_required and not model.keys:
        raise ModelError(
            f"Node {worker.id!r} hosts encrypted models only with the keys of all parties and of the dealer. "
            "Host the model with grid.serve_model(..., mpc=True) of this version."
        )
    if model.keys and model.keys[model.parties.index(worker.id)] != prover.key.fingerprint:
        raise ModelError(f"The key that the model {model.name!r} names for node {worker.id!r} is not its own.")


def _prover_of(worker: BaseWorker) -> Prover | None:
    """Return the prover of a worker behind a server; None: it belongs to this program."""
    registry = getattr(worker, "delegations", None)
    return None if registry is None else registry.prover


@handles(SharedInferenceMessage)
def infer_shared(worker: BaseWorker, session: Session, message: SharedInferenceMessage) -> None:
    """Run an encrypted model on a client's shares, and store the shares of the result for the client."""
    model = find_model(worker, session, message.name)
    require_inference(worker, session, model)
    if not isinstance(model, EncryptedModel):
        raise ModelError(f"The model {model.name!r} at {worker.id!r} is not encrypted. Query it with mpc=False.")
    if message.version != model.version:
        raise ModelError(f"The model {model.name!r} was replaced just now. Query it again.")
    subject = f"The model {model.name!r}"
    shares = model.program.check_shares(message.contents, subject, ModelError)
    if not is_id(message.run_id) or not is_id(message.return_id):
        raise ModelError("The ids of a run and of its results are integers or strings.")
    if runtime_of(worker, session) is not None and not model.keys and _prover_of(worker) is not None:
        raise ModelError(
            f"The model {model.name!r} at {worker.id!r} was hosted without the keys of its parties, so it can't be "
            "queried. Its owner must host it again."
        )
    header = message.run_id, program.NAME, model.parties, model.provider, model.agreement, message.return_id
    run = RunMessage((), *header)
    user = worker, session.client_id, model.name, model.version, model.max_requests_per_user
    finish = functools.partial(_store, worker, session, run)
    admit = functools.partial(spend, *user)
    model.program.run(worker, session, run, shares, finish, subject, admit, model.pins)


def _store(worker: BaseWorker, session: Session, run: RunMessage, result: Any) -> None:
    """Store copies of the shares of a result: they are the client's own, as if it had sent them."""
    store_results(worker, session, run, tuple([share.clone() for share in result]))


register(EncryptedModel, code=171)
