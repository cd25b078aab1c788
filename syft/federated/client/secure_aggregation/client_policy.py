"""ClientPolicy: what the owner of a worker insists on, whatever the server of a run asks for.

Without one a client trusts the server to have listed real clients: one that lists keys of its own making, for clients
that do not exist, could unmask the few that do. With a list of known identities it can't: each client signs its keys.
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
from syft.federated.client.secure_aggregation.participants import LEAST, MOST, Participants

if TYPE_CHECKING:
    from syft.federated.client.session import ClientSession
    from syft.workers.base import BaseWorker

IDENTITY_BYTES = 32
# Of the clients of a round. Half of them must never be enough, or the server could ask each half for another secret.
HALF, TWO_THIRDS = 0.5, 2 / 3
_PLACE = "_secure_guard"


class Identity:
    """A long-lived key of a client, by which the others know it.

    Args:
        secret: its 32 secret bytes; drawn if None. Keep them where the data is.

    Attributes:
        public: what the others know it by: 32 bytes to give to their owners.
        secret: the secret bytes, to make the same identity again.
    """

    __slots__ = ("_key", "public", "secret")

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = draw(IDENTITY_BYTES) if secret is None else secret
        if type(self.secret) is not bytes or len(self.secret) != IDENTITY_BYTES:
            raise TrainingError(f"The secret of an identity has {IDENTITY_BYTES} bytes.")
        self._key = Ed25519PrivateKey.from_private_bytes(self.secret)
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, run: str, round: int, keys: bytes) -> bytes:
        """Return an entry of a roster: keys, who they belong to, and a signature."""
        return keys + self.public + self._key.sign(_text(run, round, keys))

    def __repr__(self) -> str:
        return f"<Identity {self.public.hex()[:16]}>"


def _text(run: str, round: int, keys: bytes) -> bytes:
    return joined(b"syft secure keys 1", run.encode(), round, keys)


@dataclasses.dataclass(frozen=True, slots=True)
class ClientPolicy:
    """What an owner insists on.

    Attributes:
        required: whether nothing is trained or evaluated for others without secure aggregation.
        min_clients: how many clients a round lists at least.
        identity: what the client signs its keys with; None: it does not.
        known: the public identities of those it takes part with; nobody else may be listed. Empty: anybody.
        min_threshold: more than this share of the clients has to be needed to unmask their sum.
    """

    required: bool = False
    min_clients: int = LEAST
    identity: Identity | None = None
    known: frozenset[bytes] = frozenset()
    min_threshold: float = HALF

    def check(self, roster: Participants, run: str, round: int) -> None:
        """Raise if a round lists too few clients, needs too few of them, or lists one that is not known."""
        if len(roster) < self.min_clients:
            raise TrainingError(
                f"The owner of this client wants {self.min_clients} clients in a round of secure aggregation, and "
                f"{len(roster)} are listed."
            )
        least = int(Fraction(self.min_threshold).limit_denominator(MOST) * len(roster)) + 1
        if roster.threshold < least:
            raise TrainingError(
                f"The owner of this client wants {least} of {len(roster)} clients to be needed to unmask their sum, "
                f"and the threshold is {roster.threshold}."
            )
        if not self.known:
            return
        owners = [roster.identity(place) for place in range(len(roster))]
        if len(set(owners)) != len(owners) or not self.known.issuperset(owners):
            raise TrainingError("A client is listed for a round of secure aggregation that this one does not know.")
        for place, owner in enumerate(owners):
            try:
                text = _text(run, round, roster.keys(place))
                signatures.verify(owner, roster.signature(place), text)
            except (InvalidSignature, ValueError):
                raise TrainingError("The keys of a listed client are not signed by it for this round.") from None


NO_GUARD = ClientPolicy()


def require_secure(
    worker: BaseWorker,
    min_clients: int = LEAST,
    identity: Identity | None = None,
    known: Iterable[bytes] = (),
    min_threshold: float = TWO_THIRDS,
) -> None:
    """Let a worker take part in federated runs only with secure aggregation. Its owner calls this, where it runs.

    Nobody else can train or evaluate with a `TrainConfig` there either: `worker.fit` and `worker.evaluate` are refused.

    Args:
        worker: the worker.
        min_clients: how many clients a round has to list at least.
        identity: what the worker signs its keys with.
        known: the public identities of all whom it may be listed with, its own among them; anybody if there are none.
        min_threshold: more than this share of the clients of a round has to be needed to unmask their sum; at least a
            half. With n clients of which c work together with the server, more than (n + c) / 2 keep it from unmasking
            one of the others: two thirds hold against any third.

    Example:
        >>> import syft as sy, torch
        >>> bob = sy.VirtualWorker(sy.TorchHook(torch), id="bob-guarded")
        >>> mine = sy.federated.Identity()
        >>> sy.federated.require_secure(bob, min_clients=10, identity=mine)
    """
    if type(min_clients) is not int or not LEAST <= min_clients <= MOST:
        raise TrainingError(f"min_clients of secure aggregation is a whole number from {LEAST} to {MOST}.")
    if identity is not None and type(identity) is not Identity:
        raise TrainingError("identity is a sy.federated.Identity(), or None.")
    listed = frozenset(known)
    if not all(type(one) is bytes and len(one) == IDENTITY_BYTES for one in listed):
        raise TrainingError(f"A known identity is the `public` of one: {IDENTITY_BYTES} bytes.")
    if listed and (identity is None or identity.public not in listed):
        raise TrainingError("Who only takes part with known identities has one itself, and is known by it.")
    if type(min_threshold) not in (int, float) or not HALF <= min_threshold < 1:
        raise TrainingError("min_threshold is a share of the clients of a round, from 0.5 to below 1.")
    worker.__dict__[_PLACE] = ClientPolicy(True, min_clients, identity, listed, float(min_threshold))


def guard_of(station: ClientSession) -> ClientPolicy:
    """Return what the owner of a client insists on."""
    return _guard(station.worker)


def _guard(worker: object) -> ClientPolicy:
    found: ClientPolicy = NO_GUARD if worker is None else worker.__dict__.get(_PLACE, NO_GUARD)
    return found


def check_hidden(station: ClientSession, name: str, terms: Any) -> None:
    """Raise if what derives from the data of a client would leave it unmasked, and its owner does not want that.

    Args:
        station: the client.
        name: the call. Only "train" masks what it answers; others do not look at the terms.
        terms: what the server adds to the training of the client.
    """
    if not (name == "train" and type(terms) is dict and "masking" in terms):
        _refuse(station.worker, station.name)


def check_unmasked(worker: BaseWorker) -> None:
    """Raise if the owner of a worker wants nothing to be trained or evaluated there without masks.

    Args:
        worker: the worker, which is asked for something that is never masked.
    """
    _refuse(worker, str(getattr(worker, "id", "")))


def _refuse(worker: object, name: str) -> None:
    if _guard(worker).required:
        raise TrainingError(
            f"The owner of {name!r} takes part with secure aggregation only: "
            "sy.federated.run(..., secure=sy.federated.SecureAggregation())."
        )
