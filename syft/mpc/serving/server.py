"""Encrypted models at their parties: a fixed program with one party's shares, which clients query together.

A client sends shares of its inputs, all parties run the program together, and the client fetches its shares of the
result, which the last step of the program refreshed. Clients are users of the nodes that host the model (the handlers
here), or are invited by its owner (`endpoint`). No client can name the model's shares in a run of another program: the
shares are in no object store under an id of their own.

The user of a node also introduces the nodes to each other, so the user's statement about their identities does not
count. When a model is hosted, its owner's client reads the fingerprint of each node's identity key, and every party
stores the ids and fingerprints of all parties and of the dealer. In a run, each party connects to exactly these nodes,
in this order, and each of them must prove its key on that connection (`workers.delegation.key_proofs`) before anything
is computed. The dealer sends seeds only to parties that prove their keys. Workers in this process and processes of one
program are identified by id: the program that created them also connects them.

The parties compare a 16-byte digest of the model's name, version, program, parties and dealer in every frame.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import ModelError, ProtocolError
from syft.hosting.server import Facts, Hosted, find_model, require_inference, store_model
from syft.messaging.hosting import HostSharesMessage, SharedInferenceMessage, check_name
from syft.messaging.message import RunMessage
from syft.mpc.dealer.wire_protocol import digest
from syft.mpc.protocols import program
from syft.mpc.runtime.party import MAX_PARTIES, Party, PartyCoroutine
from syft.mpc.runtime.protocol_registry import entry_of
from syft.mpc.runtime.rendezvous import Start
from syft.mpc.runtime.worker import join_run, runtime_of, store_results
from syft.mpc.serving.request_limits import DEFAULT_REQUESTS, check_limit, spend
from syft.mpc.serving.tensor_encoding import (
    Encodings,
    Row,
    Shares,
    is_share,
    read_rows,
    shapes_of,
    show_shapes,
    write_rows,
)
from syft.serde import register
from syft.workers.delegation.key_proofs import is_fingerprint
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.delegation.key_proofs import Prover


class ModelParts(NamedTuple):
    """One party's part of an encrypted model, as it is sent and stored.

    Attributes:
        steps: the steps of the program.
        outputs: the numbers of the values that are returned.
        given: the first values, in order: a fixed tensor, or the index of an input of the client.
        parties: the ids of the parties, in order.
        provider: the id of the dealer.
        inputs: the encodings of the inputs, as rows.
        results: the encodings of the results, as rows.
        version: identifies one of the models that had this name; the same at all parties.
        keys: the fingerprints of the identity keys of the parties, in order, and of the dealer; empty: they are
            identified by id.
        max_requests_per_user: the number of requests of one user in a day; None: no limit.
    """

    steps: tuple[Any, ...]
    outputs: tuple[int, ...]
    given: tuple[Any, ...]
    parties: tuple[ObjectId, ...]
    provider: ObjectId | None
    inputs: tuple[Row, ...]
    results: tuple[Row, ...]
    version: str
    keys: tuple[str, ...] = ()
    max_requests_per_user: int | None = DEFAULT_REQUESTS


class EncryptedModel(Hosted):
    """One party's part of an encrypted model."""

    is_encrypted = True

    def __init__(self, name: str, allow_remote_inference: bool, parts: ModelParts) -> None:
        super().__init__(name, False, allow_remote_inference)
        self.parts = parts
        self.inputs, self.results = encodings_of(parts.inputs), encodings_of(parts.results)
        self.subject = f"The model {name!r}"

    @property
    def members(self) -> tuple[ObjectId, ...]:
        """The ids of the parties, in order, and of the dealer."""
        provider = self.parts.provider
        return self.parts.parties if provider is None else (*self.parts.parties, provider)

    def details(self) -> Facts:
        """Return the facts for users who may query it."""
        facts = ("parties", "provider", "version", "keys", "max_requests_per_user")
        encodings = {"inputs": write_rows(self.inputs), "outputs": write_rows(self.results)}
        return {fact: getattr(self.parts, fact) for fact in facts} | encodings

    @property
    def pins(self) -> dict[ObjectId, str] | None:
        """The fingerprints of the keys that parties and dealer must prove, by id; None: they are identified by id."""
        return dict(zip(self.members, self.parts.keys, strict=True)) if self.parts.keys else None

    @functools.cached_property
    def agreement(self) -> dict[str, Any]:
        """The values that the parties compare in every frame of a run, beside parties and dealer."""
        parts = self.parts
        given = [item if type(item) is int else (tuple(item.shape), str(item.dtype)) for item in parts.given]
        summary = digest(parts.steps, parts.outputs, given, shapes_of(self.inputs)).hex()
        return {"model": self.name, "version": parts.version, "program": summary}

    def contents(self) -> list[Any]:
        """Return the tensors that use memory."""
        return [item for item in self.parts.given if isinstance(item, torch.Tensor)]

    @staticmethod
    def simplify(worker: BaseWorker, model: EncryptedModel) -> tuple[Any, ...]:
        """Return the name, the permission, and the other parts."""
        return (model.name, model.allow_remote_inference, tuple(model.parts))

    @staticmethod
    def detail(worker: BaseWorker, parts: tuple[Any, ...]) -> EncryptedModel:
        """Rebuild a model that may come from anyone; the program is checked before the first request."""
        name, allow_remote_inference, contents = parts
        # Eight parts: stored before parties were pinned by key.
        if type(contents) is not tuple or len(contents) not in (8, 10) or type(contents[7]) is not str:
            raise ModelError("These are not the parts of an encrypted model.")
        read = ModelParts(*contents)
        model = EncryptedModel(check_name(name), allow_remote_inference, read._replace(version=read.version[:64]))
        model.check()
        return model

    def check(self) -> None:
        """Raise unless the model can be run: all that comes from the owner is checked before the first request."""
        parts = self.parts
        if type(parts.parties) is not tuple or not all(map(is_id, parts.parties)):
            raise ProtocolError("The parties of an encrypted model are the ids of workers.")
        if not 2 <= len(set(parts.parties)) == len(parts.parties) <= MAX_PARTIES:
            raise ProtocolError(f"An encrypted model has 2 to {MAX_PARTIES} different parties.")
        if parts.provider is not None and not is_id(parts.provider):
            raise ProtocolError("The dealer of an encrypted model is the id of a worker.")
        if type(parts.given) is not tuple or not all(map(self._is_given, parts.given)):
            raise ProtocolError("The first values of an encrypted model are tensors and indices of inputs.")
        program.read(parts.steps, parts.outputs, len(parts.given), len(parts.parties))
        inputs = tuple([torch.empty(shape, dtype=torch.int64, device="meta") for shape in shapes_of(self.inputs)])
        first = [torch.empty(item.shape, dtype=item.dtype, device="meta") for item in self.first_values(inputs)]
        entry_of(program.NAME).shape(*first, steps=parts.steps, outputs=parts.outputs)
        _check_keys(parts.keys, self.members)
        check_limit(parts.max_requests_per_user)

    def _is_given(self, item: object) -> bool:
        return type(item) is torch.Tensor or (type(item) is int and 0 <= item < len(self.inputs))

    def first_values(self, shares: Shares) -> list[torch.Tensor]:
        """Return the first values of the program, with shares of a client's inputs."""
        return [shares[item] if type(item) is int else item for item in self.parts.given]

    def check_shares(self, contents: tuple[object, ...]) -> Shares:
        """Return the shares of a client's inputs if they have the right dtype and shapes."""
        shares = tuple([share for share in contents if is_share(share)])
        if len(shares) != len(contents):
            raise ModelError(f"{self.subject} takes shares: tensors of int64.")
        shapes = tuple([tuple(share.shape) for share in shares])
        if shapes != shapes_of(self.inputs):
            expected = show_shapes(shapes_of(self.inputs))
            raise ModelError(f"{self.subject} takes {expected}, not {show_shapes(shapes[:8])}.")
        return shares


def _check_keys(keys: object, members: tuple[ObjectId, ...]) -> None:
    """Raise unless there is one fingerprint for each party and the dealer, all different, or none."""
    if type(keys) is not tuple or not all(map(is_fingerprint, keys)) or len(keys) not in (0, len(members)):
        raise ModelError("An encrypted model needs the fingerprint of each party and of its dealer.")
    if keys and not len(set(keys)) == len(set(members)) == len(set(zip(members, keys, strict=True))):
        raise ModelError(
            "The parties of an encrypted model and its dealer must be different nodes with different keys."
        )


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
    return read_part(worker, message.name, message.allow_remote_inference, message.contents)


def read_part(worker: BaseWorker, name: object, allow_remote_inference: bool, contents: object) -> EncryptedModel:
    """Return a model that came from its owner, of which a worker is to be a party."""
    model = EncryptedModel.detail(worker, (name, allow_remote_inference, contents))
    if worker.id not in model.parts.parties:
        raise ModelError(f"Worker {worker.id!r} is not one of the parties of the model {model.name!r}.")
    return model


def check_own_key(worker: BaseWorker, model: EncryptedModel, prover: Prover, is_required: bool) -> None:
    """Raise unless a model names the key of this node, or names no keys and need not."""
    keys = model.parts.keys
    if is_required and not keys:
        raise ModelError(
            f"Node {worker.id!r} hosts encrypted models only with the keys of all parties and of the dealer. "
            "Host the model with grid.serve_model(..., mpc=True) of this version."
        )
    if keys and keys[model.parts.parties.index(worker.id)] != prover.key.fingerprint:
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
    if message.version != model.parts.version:
        raise ModelError(f"The model {model.name!r} was replaced just now. Query it again.")
    if runtime_of(worker, session) is not None and not model.parts.keys and _prover_of(worker) is not None:
        raise ModelError(
            f"The model {model.name!r} at {worker.id!r} was hosted without the keys of its parties, so it can't be "
            "queried. Its owner must host it again."
        )
    user = worker, session.client_id, model.name, model.parts.version, model.parts.max_requests_per_user
    run_model(worker, session, message, model, functools.partial(spend, *user))


def run_model(
    worker: BaseWorker,
    session: Session,
    message: SharedInferenceMessage,
    model: EncryptedModel,
    admit: Callable[[], None],
    finish: Callable[[Shares], None] | None = None,
) -> None:
    """Run this party's part of a model on a client's shares; `admit` raises if the request exceeds a limit."""
    shares = model.check_shares(message.contents)
    if not is_id(message.run_id) or not is_id(message.return_id):
        raise ModelError("The ids of a run and of its results are integers or strings.")
    parts = model.parts
    header = message.run_id, program.NAME, parts.parties, parts.provider, model.agreement
    run = RunMessage((), *header, message.return_id)

    def start(party: Party) -> PartyCoroutine:
        return program.program(party, *model.first_values(shares), steps=parts.steps, outputs=parts.outputs)

    def prepare() -> tuple[Start, object]:
        admit()
        return start, header[1:]

    def store(result: Shares) -> None:  # copies: they are the client's own, as if it had sent them
        store_results(worker, session, run, tuple([share.clone() for share in result]))

    seat = parts.parties.index(worker.id), len(parts.parties)
    join_run(worker, session, run, seat, prepare, finish or store, model.subject, model.pins)


register(EncryptedModel, code=171)
