"""ClientPolicy: conditions that the owner of a worker sets for secure aggregation, enforced against the server.

Without one a client trusts the server to list real clients: a server that lists keys of invented clients could unmask
the real ones. A list of known identities prevents that: each client signs its keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from syft.core import signatures
from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.key_agreement import draw, joined
from syft.federated.client.secure_aggregation.participants import MAX_CLIENTS, MIN_CLIENTS, Participants

if TYPE_CHECKING:
    from syft.federated.client.session import ClientSession
    from syft.workers.base import BaseWorker

IDENTITY_BYTES = 32
# Share of the clients of a round. With half of them or less, the server could ask each half for a different secret.
HALF, TWO_THIRDS = 0.5, 2 / 3
_ATTRIBUTE = "_secure_guard"


class Identity:
    """A long-lived signing key of a client, by which other clients recognize it.

    Args:
        secret: its 32 secret bytes; drawn if None. Keep them with the data.

    Attributes:
        public: the public key, 32 bytes to give to the owners of other clients.
        secret: the secret bytes, from which the same identity can be built again.
    """

    __slots__ = ("_key", "public", "secret")

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = draw(IDENTITY_BYTES) if secret is None else secret
        if type(self.secret) is not bytes or len(self.secret) != IDENTITY_BYTES:
            raise TrainingError(f"The secret of an identity must have {IDENTITY_BYTES} bytes.")
        self._key = Ed25519PrivateKey.from_private_bytes(self.secret)
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, run: str, round: int, keys: bytes) -> bytes:
        """Return an entry of the participants' list: keys, identity and signature."""
        return keys + self.public + self._key.sign(_text(run, round, keys))

    def __repr__(self) -> str:
        return f"<Identity {self.public.hex()[:16]}>"


def _text(run: str, round: int, keys: bytes) -> bytes:
    return joined(b"syft secure keys 1", run.encode(), round, keys)


@dataclasses.dataclass(frozen=True, slots=True)
class ClientPolicy:
    """The conditions that an owner sets.

    Attributes:
        required: whether training and evaluation for others need secure aggregation.
        min_clients: minimum number of clients in a round.
        identity: signs the keys of the client; None for unsigned keys.
        known: the public identities of accepted clients; empty to accept any.
        min_threshold: the threshold must be more than this share of the clients.
    """

    required: bool = False
    min_clients: int = MIN_CLIENTS
    identity: Identity | None = None
    known: frozenset[bytes] = frozenset()
    min_threshold: float = HALF

    def check(self, participants: Participants, run: str, round: int) -> None:
        """Raise if a round has too few clients, too low a threshold, or an unknown client."""
        if len(participants) < self.min_clients:
            raise TrainingError(
                f"The owner of this client requires {self.min_clients} clients in a round of secure aggregation, got "
                f"{len(participants)}."
            )
        least = int(Fraction(self.min_threshold).limit_denominator(MAX_CLIENTS) * len(participants)) + 1
        if participants.threshold < least:
            raise TrainingError(
                f"The owner of this client requires a threshold of at least {least} of {len(participants)} clients, "
                f"got {participants.threshold}."
            )
        if not self.known:
            return
        owners = [participants.identity(index) for index in range(len(participants))]
        if len(set(owners)) != len(owners) or not self.known.issuperset(owners):
            raise TrainingError("An unknown client is listed for a round of secure aggregation.")
        for index, owner in enumerate(owners):
            try:
                text = _text(run, round, participants.keys(index))
                signatures.verify(owner, participants.signature(index), text)
            except (InvalidSignature, ValueError):
                raise TrainingError("The keys of a listed client do not have its signature for this round.") from None


NO_POLICY = ClientPolicy()


def require_secure(
    worker: BaseWorker,
    min_clients: int = MIN_CLIENTS,
    identity: Identity | None = None,
    known: Iterable[bytes] = (),
    min_threshold: float = TWO_THIRDS,
) -> None:
    """Let a worker take part in federated runs only with secure aggregation. The owner calls this at the worker.

    Training and evaluation with a `TrainConfig` are then refused too: `worker.fit` and `worker.evaluate` raise.

    Args:
        worker: the worker.
        min_clients: minimum number of clients in a round.
        identity: signs the keys of the worker.
        known: the public identities of all accepted clients, including its own; any client is accepted if empty.
        min_threshold: the threshold must be more than this share of the clients of a round; at least one half. With
            n clients of which c collude with the server, a threshold above (n + c) / 2 prevents it from unmasking
            another one: two thirds protect against any third.

    Example:
        >>> import syft as sy, torch
        >>> bob = sy.VirtualWorker(sy.TorchHook(torch), id="bob-guarded")
        >>> mine = sy.federated.Identity()
        >>> sy.federated.require_secure(bob, min_clients=10, identity=mine)
    """
    if type(min_clients) is not int or not MIN_CLIENTS <= min_clients <= MAX_CLIENTS:
        raise TrainingError(
            f"min_clients of secure aggregation must be an integer from {MIN_CLIENTS} to {MAX_CLIENTS}."
        )
    if identity is not None and type(identity) is not Identity:
        raise TrainingError("identity must be a sy.federated.Identity() or None.")
    listed = frozenset(known)
    if not all(type(one) is bytes and len(one) == IDENTITY_BYTES for one in listed):
        raise TrainingError(f"A known identity must be the `public` of an Identity, {IDENTITY_BYTES} bytes.")
    if listed and (identity is None or identity.public not in listed):
        raise TrainingError("known must include the identity of this client. Pass identity=... too.")
    if type(min_threshold) not in (int, float) or not HALF <= min_threshold < 1:
        raise TrainingError("min_threshold must be a share of the clients of a round, from 0.5 to below 1.")
    worker.__dict__[_ATTRIBUTE] = ClientPolicy(True, min_clients, identity, listed, float(min_threshold))


def _policy(worker: object) -> ClientPolicy:
    """Return the conditions of the owner of a worker; none for a simulated client."""
    found: ClientPolicy = NO_POLICY if worker is None else worker.__dict__.get(_ATTRIBUTE, NO_POLICY)
    return found


def check_hidden(client: ClientSession, name: str, modifiers: Any) -> None:
    """Raise if data of a client would leave it unmasked although its owner requires masks.

    Args:
        client: the client session.
        name: the call. Only "train" masks its result; other calls ignore modifiers.
        modifiers: the modifiers that the server requests.
    """
    if not (name == "train" and type(modifiers) is dict and "masking" in modifiers):
        _refuse(client.worker, client.name)


def check_unmasked(worker: BaseWorker) -> None:
    """Raise if the owner of a worker requires masks for all training and evaluation."""
    _refuse(worker, str(getattr(worker, "id", "")))


def _refuse(worker: object, name: str) -> None:
    if _policy(worker).required:
        raise TrainingError(
            f"The owner of {name!r} requires secure aggregation. Pass "
            "sy.federated.run(..., secure=sy.federated.SecureAggregation())."
        )
