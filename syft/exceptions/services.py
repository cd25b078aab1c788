"""Errors of plans, protocols, training, nodes and serialization: the codes SY4xx to SY8xx."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from syft._suggestions import one_of
from syft.exceptions.base import SyftError

if TYPE_CHECKING:
    from syft.federated.server.result import Result


class PlanCommandUnknownError(SyftError, code="SY401"):
    """An unknown plan command."""

    def __init__(self, command_name: object = None) -> None:
        super().__init__(f"Command {command_name!r} is not implemented.")


class PlanBuildError(SyftError, code="SY402"):
    """A function can't be recorded as a plan without losing one of its effects."""

    def __init__(self, what: str, line: str = "", hint: str = "") -> None:
        self.what = what
        self.line = line
        self.hint = hint
        super().__init__(f"{what} can't be recorded in a plan." + (f" {hint}" if hint else "") + (line and f"\n{line}"))


class PlanMismatchError(SyftError, code="SY403"):
    """A plan is called with arguments that it was not built for."""


class MalformedPlanError(SyftError, code="SY404"):
    """The parts of a plan are inconsistent; it is refused before any of it runs."""


class PlanTranslationError(SyftError, code="SY405"):
    """A plan can't be translated: an operation has no equivalent, or its results would differ."""


class ProtocolError(SyftError, code="SY501"):
    """A protocol on shares can't be run, or was interrupted."""


class RunAbortedError(ProtocolError, code="SY505"):
    """Another party aborted a run on shares; that party reports the reason."""


class PartyLostError(ProtocolError, code="SY502"):
    """A party of a run is unreachable, or did not answer in time.

    Args:
        party: the id of the party.
        why: the reason.
        advice: the effect on the shares, unless they are gone with the party.
    """

    def __init__(self, party: object = "", why: str = "it did not answer", advice: str = "") -> None:
        self.party = party
        gone = "Its shares are gone with it; share the values again with other parties."
        super().__init__(f"Party {party!r} was lost during a protocol: {why}. {advice or gone}")


class PinnedPartyError(ProtocolError, code="SY503"):
    """A party or the dealer of a run is not the node that was pinned when the model was hosted; nothing was computed.

    Args:
        party: the id of the party.
        key: the fingerprint of the key that it had to prove.
    """

    def __init__(self, party: object = "", key: str = "") -> None:
        super().__init__(
            f"The node {party!r} is not the node that this model was hosted with: it did not prove that it holds the "
            f"key {key}. Nothing was computed. Connect to the nodes of the model's owner, without a proxy that "
            "terminates TLS between them."
        )


class DriftError(SyftError, code="SY504"):
    """The result of an encrypted operation differs from its plaintext; raised by `sy.mpc.validate` alone."""


class TrainingError(SyftError, ValueError, code="SY601"):
    """A worker can't train: a config, a data set or a part of one is missing or does not fit."""


class StateLostError(TrainingError, code="SY602"):
    """A client no longer has its state of an earlier round of a federated run, for example after a restart."""


class ClientBusyError(TrainingError, code="SY603"):
    """A client still computes an earlier call of the same federated run."""


class FederatedError(SyftError, code="SY604"):
    """A federated run can't go on: too few clients answered, or a checkpoint is of another run.

    Attributes:
        result: the `Result` of the rounds that are complete, if the run failed after its first round; else None.
    """

    result: Result | None = None


class AuthenticationError(SyftError, code="SY701"):
    """A token or password is invalid or expired. The text never contains it."""


class InvalidUserError(AuthenticationError, RuntimeError, code="SY702"):
    """The user is unknown to the node, or the password is wrong."""


class TooManyAttemptsError(AuthenticationError, code="SY703"):
    """Too many logins failed for this user or from this address.

    Args:
        retry_after: seconds to wait before the next attempt.
    """

    retry_after: float = 1.0

    def __init__(self, retry_after: float = 1.0) -> None:
        self.retry_after = max(retry_after, 0.0)
        wait = max(1, math.ceil(self.retry_after))
        super().__init__(f"Too many logins failed. Wait {wait} s, then try again with the right user and password.")


class AccountError(SyftError, ValueError, code="SY704"):
    """A user can't be added, changed or renamed with these arguments."""


class ExposureError(SyftError, code="SY705"):
    """A node would serve other machines without TLS and tokens."""


class CertificateError(SyftError, code="SY706"):
    """A certificate, or its key, can't be made or used."""


class QuotaExceededError(SyftError, code="SY707"):
    """A user, or all users together, would hold more objects or bytes than the node allows; nothing was stored."""


class ByteBudgetError(SyftError, code="SY708"):
    """Bytes in flight on behalf of a user, or of all users, would pass their limit; nothing was allocated."""


class StorageError(SyftError, code="SY709"):
    """The store of a node can't be used, or something in it is damaged."""


class StorageFullError(StorageError, code="SY710"):
    """The disk or the database of a node is full; nothing was stored."""


class ModelError(SyftError, RuntimeError, code="SY711"):
    """A hosted model can't be stored, queried, downloaded or deleted. The text never contains its parameters."""


class ModelNotFoundError(ModelError, code="SY712"):
    """No model of this name is hosted for this user."""


class SerdeError(SyftError, code="SY801"):
    """Bytes are not a valid message, or an object can't be serialized."""


class CompressionNotFoundError(SerdeError, code="SY802"):
    """Unknown compression scheme."""

    def __init__(self, code: object = None, known: Iterable[str] = ()) -> None:
        text = f"Compression scheme not found for compression code: {code!s:.40}"
        super().__init__(f"{text}. {one_of(code, known)}" if known else text)


class InvalidProtocolFileError(SyftError, code="SY803"):
    """The table of wire codes could not be read."""


class UndefinedProtocolTypeError(SyftError, code="SY804"):
    """A type has no wire code."""


class UndefinedProtocolTypePropertyError(SyftError, code="SY805"):
    """A property of a wire code is not set."""


# The names of 0.2.
CompressionNotFoundException = CompressionNotFoundError
TranslationUnavailableError = PlanTranslationError
