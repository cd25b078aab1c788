"""Every error of the library.

    SyftError
    ├── DependencyError                        an optional package is missing
    ├── UnsupportedOperation                   no rule for this call on this kind of tensor
    │   └── CommandNotAllowed                  a worker refuses to run this call for anyone
    ├── TensorsNotCollocatedException          operands live in different places
    │   └── PureFrameworkTensorFoundError      a plain tensor among syft tensors
    ├── RemoteObjectFoundError                 a pointer where a local tensor was needed
    ├── InvalidTensorForRemoteGet              remote_get on something that points nowhere
    ├── CannotRequestObjectAttribute           .get() on an attribute of a remote object
    ├── ObjectNotFoundError                    a worker does not hold this id
    │   └── SpentPointerError                  the pointer's object was already fetched or moved
    ├── WorkerNotFoundException                unknown worker id
    ├── WorkerLostError                        the process of a worker ended
    │   ├── NodeLostError                      a session at a node is over
    │   │   └── NodeUnreachableError           a node could not be connected to
    │   └── ClientLostError                    the process that answered for a simulated client ended
    ├── NotPermittedError
    │   ├── GetNotPermittedError               the holder does not release this value
    │   ├── SendNotPermittedError              this object may not be sent
    │   └── BudgetExceededError                a release would pass the limit that the owner set for privacy loss
    ├── IdNotUniqueError                       a preset id is already in use
    ├── ResponseSignatureError                 number of results differs from the ids given
    ├── PlanCommandUnknownError                unknown plan command
    ├── PlanBuildError                         a function can't be recorded as a plan
    ├── PlanMismatchError                      a plan was built for other arguments than it is called with
    ├── MalformedPlanError                     the parts of a plan do not fit together
    ├── PlanTranslationError                   a plan has no form in what it should be translated to
    ├── DriftError                             an encrypted operation is not what its plaintext is (sy.mpc.validate)
    ├── TrainingError                          a worker can't train: a config, a data set or a part of it does not fit
    │   ├── StateLostError                     a client no longer has what it kept from an earlier round
    │   └── ClientBusyError                    a client is still at work on an earlier call of a federated run
    ├── FederatedError                         a federated run can't go on: too few clients, or not the run it was
    ├── PrivacyError                           a question about private data can't be answered as asked
    ├── AuthenticationError                    a token or a password is not accepted
    │   └── TooManyAttemptsError               too many failed logins; wait
    ├── AccountError                           a user can't be added, changed or named like this
    ├── ExposureError                          a node would be open to others without TLS and tokens
    ├── CertificateError                       a certificate or its key can't be made or used
    ├── QuotaExceededError                     a user, or all of them, would hold more than the node allows
    ├── ByteBudgetError                        a message, or what it unfolds into, needs more memory than is allowed
    ├── StorageError                           the store of a node can't be used, or holds something damaged
    │   └── StorageFullError                   there is no room to keep an object durably
    ├── ModelError                             a hosted model can't be kept, asked or deleted (also a RuntimeError)
    │   └── ModelNotFoundError                 no model of this name is hosted for who asks
    ├── RemoteError                            an error of a worker whose own type is not known here
    ├── ProtocolError                          a protocol on shares can't be run, or did not come to its end
    │   ├── PartyLostError                     a party of a run is gone, or did not answer
    │   └── PinnedPartyError                   a party or the dealer is another node than when the model was hosted
    ├── SerdeError                             bytes that are not a valid message
    │   └── CompressionNotFoundException       unknown compression scheme
    ├── InvalidProtocolFileError
    ├── UndefinedProtocolTypeError             a type has no wire code
    └── UndefinedProtocolTypePropertyError     a wire code is not set

Texts say what happened, where, and what to type next. They never contain the values of a tensor.
"""

from __future__ import annotations

import math
from typing import Any


class SyftError(Exception):
    """Base of every error raised on purpose by this library."""


class DependencyError(SyftError):
    """An optional package is not installed."""

    def __init__(self, package: str, install: str | None = None) -> None:
        self.package = package
        self.install = install or package
        super().__init__(
            f"The package {package!r} is needed for this and is not installed. "
            f"Install it with: pip install '{self.install}'"
        )


class UnsupportedOperation(SyftError, NotImplementedError):
    """A call has no rule for this kind of tensor, so it is refused instead of guessed."""

    # Where in a model it was called, as far as is known.
    place: str | None = None

    def __init__(self, operation: str, link: str, hint: str = "") -> None:
        self.operation = operation
        self.link = link
        self.hint = hint
        super().__init__(f"{operation} is not supported on {link}." + (f" {hint}" if hint else ""))

    def note_place(self, place: str | None) -> None:
        """Say where in a model it was called, unless that was said already."""
        if self.place is None and place is not None and self.args:
            self.place = place
            self.args = (f"{self.args[0]} It is called in {place}.",)


class CommandNotAllowed(UnsupportedOperation):
    """A worker never runs this call for a peer."""

    def __init__(self, operation: str, reason: str = "") -> None:
        SyftError.__init__(self, f"{operation} can't be run on a worker" + (f": {reason}" if reason else "."))
        self.operation = operation
        self.link = "a remote tensor"
        self.hint = reason


class TensorsNotCollocatedException(SyftError):
    """The operands of one call live in different places."""

    def __init__(self, operation: str, places: list[str] | tuple[str, ...] = (), hint: str = "") -> None:
        self.operation = operation
        self.places = tuple(places)
        where = "; ".join(self.places)
        super().__init__(
            f"{operation} needs all its tensors in one place, but {where}. "
            + (hint or "Bring them together first with .move(worker), .send(worker) or .get().")
        )


class PureFrameworkTensorFoundError(TensorsNotCollocatedException):
    """A plain tensor was met where a syft tensor was needed."""

    def __init__(self, operation: str = "This call", places: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(operation, places or ("one operand is a plain local tensor",), hint)


class RemoteObjectFoundError(SyftError):
    """A pointer was met where a local tensor was needed."""

    def __init__(self, pointer: object = None) -> None:
        self.pointer = pointer
        super().__init__(f"{pointer!r} is remote; call .get() on it first, or send the other operands to it.")


class InvalidTensorForRemoteGet(SyftError):
    """`remote_get` or `mid_get` on something that does not point anywhere."""

    def __init__(self, tensor: object = None) -> None:
        super().__init__(
            f"The object {_kind(tensor)} is not a pointer, so there is nothing to fetch. "
            "remote_get() needs a pointer to a pointer: x.send(bob).send(alice).remote_get()."
        )


class CannotRequestObjectAttribute(SyftError):
    """`.get()` was called on an attribute of a remote object, such as `ptr.grad`."""

    def __init__(self, attribute: str = "grad") -> None:
        super().__init__(
            f".get() would tear {attribute!r} off the remote object it belongs to. "
            f"Fetch a copy of it instead: ptr.{attribute}.copy().get()"
        )


class ObjectNotFoundError(SyftError):
    """A worker does not hold the object asked for."""

    def __init__(self, obj_id: object = None, worker: object = None, cause: str = "") -> None:
        self.obj_id = obj_id
        self.worker_id = getattr(worker, "id", worker)
        super().__init__(
            f"Worker {self.worker_id!r} holds no object with id {obj_id!r}: "
            + (cause or "it was never there, or it was deleted, fetched with .get() or moved away.")
        )


class SpentPointerError(ObjectNotFoundError):
    """The object behind this pointer was already fetched, moved or deleted."""

    def __init__(self, obj_id: object, worker: object, cause: str) -> None:
        super().__init__(
            obj_id,
            worker,
            f"{cause}. Use what that call returned, or next time keep a copy with ptr.copy().get().",
        )


class WorkerNotFoundException(SyftError):
    """No worker of this id is known."""

    def __init__(self, worker_id: object = None, known: tuple[object, ...] = ()) -> None:
        names = ", ".join(repr(name) for name in known) or "none"
        super().__init__(
            f"No worker {worker_id!r} is known here (known: {names}). "
            "Create it, or tell this worker about it with add_worker(worker)."
        )


class WorkerLostError(SyftError):
    """The process of a worker ended, or can't be reached, and what it held is gone."""

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        self.worker_id = worker_id
        super().__init__(
            f"Worker {worker_id!r} is lost, and what it held with it" + (f": {why}" if why else ".") + " Make a worker "
            "of this id again and send the data anew; other workers go on."
        )


class NodeLostError(WorkerLostError):
    """A node can't be reached any more; what is published there stays, what only this session held is gone."""

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        SyftError.__init__(
            self,
            f"Node {worker_id!r} is lost to this session" + (f": {why}" if why else ".") + " What was published there "
            "stays there; what was not is gone with the session. Find it again with node.search(...), which connects "
            "anew.",
        )
        self.worker_id = worker_id


class SessionEndedError(SyftError):
    """The process that served a session at a node ended: it exceeded a limit, or a call crashed it."""


class NotDoneError(SyftError):
    """A worker has not done what it was asked: calls before that failed, and the asker has not heard of it yet.

    Streams ask again, or raise the error of the call that failed, so nobody else sees this one.
    """


class NodeUnreachableError(NodeLostError):
    """A node could not be connected to; nothing is known of a session there."""

    def __init__(self, url: object = None, why: str = "") -> None:
        SyftError.__init__(self, f"Could not reach {url}: {why}")
        self.worker_id = url


class ClientLostError(WorkerLostError):
    """The process that answered for a simulated client of a federated run ended."""

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        SyftError.__init__(self, f"Client {worker_id!r} was lost" + (f": {why}" if why else "."))
        self.worker_id = worker_id


class NotPermittedError(SyftError):
    """A release was refused by the policy of the worker that holds the data."""


class GetNotPermittedError(NotPermittedError):
    """The worker that holds a value does not release it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "The worker that holds this value does not release it to you.")


class SendNotPermittedError(NotPermittedError):
    """This object may not be sent."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "This object may not be sent on your behalf.")


class BudgetExceededError(NotPermittedError):
    """A release would pass the limit of privacy loss that the owner of the data has set."""


class IdNotUniqueError(SyftError):
    """A preset id is already in use."""


class ResponseSignatureError(SyftError):
    """The number of results differs from the number of ids given for them."""

    def __init__(self, ids_generated: object = None) -> None:
        self.ids_generated = ids_generated
        super().__init__("The number of results differs from the number of ids given for them.")


class PlanCommandUnknownError(SyftError):
    """An unknown plan command."""

    def __init__(self, command_name: object = None) -> None:
        super().__init__(f"Command {command_name!r} is not implemented.")


class PlanBuildError(SyftError):
    """A function does something that its recording would lose, so it can't become a plan."""

    def __init__(self, what: str, line: str = "", hint: str = "") -> None:
        self.what = what
        self.line = line
        self.hint = hint
        super().__init__(f"{what} can't be recorded in a plan." + (f" {hint}" if hint else "") + (line and f"\n{line}"))


class PlanMismatchError(SyftError):
    """A plan was built for other arguments than the ones it is called with."""


class MalformedPlanError(SyftError):
    """The parts of a plan do not fit together, so it is refused before anything of it runs."""


class PlanTranslationError(SyftError):
    """A plan can't be translated: what it does has no form in the other language, or would give other numbers."""


class ProtocolError(SyftError):
    """A protocol on shares can't be run, or did not come to its end."""


class PartyLostError(ProtocolError):
    """A party of a run is gone, or did not answer in time.

    Args:
        party: the id of the party.
        why: what is known of it.
        advice: what that means for the shares, unless they are gone with the party.
    """

    def __init__(self, party: object = "", why: str = "it did not answer", advice: str = "") -> None:
        self.party = party
        gone = "The shares it held are gone with it; share the values again with parties that are there."
        super().__init__(f"Party {party!r} was lost in the middle of a protocol: {why}. {advice or gone}")


class PinnedPartyError(ProtocolError):
    """A party or the dealer of a run is not the node that was pinned when the model was hosted; nothing was computed.

    Args:
        party: the id of the party.
        key: the fingerprint of the key that it had to prove.
    """

    def __init__(self, party: object = "", key: str = "") -> None:
        super().__init__(
            f"The node that was introduced as {party!r} is not the node that this model was hosted with: it did not "
            f"prove that it holds the key {key}. Nothing was computed. Connect to the nodes of the model's owner, "
            "without a proxy that terminates TLS between them."
        )


class DriftError(SyftError):
    """An encrypted operation gave something else than its plaintext; raised by `sy.mpc.validate` alone."""


class TrainingError(SyftError, ValueError):
    """A worker can't train as asked: a config, a data set or a part of one is missing or does not fit."""


class StateLostError(TrainingError):
    """A client no longer has what it kept from an earlier round of a federated run; it was restarted, perhaps."""


class ClientBusyError(TrainingError):
    """A client is still at work on an earlier call of the same federated run; it takes another one later."""


class FederatedError(SyftError):
    """A federated run can't go on: too few clients answered, or a checkpoint is of another run.

    Attributes:
        result: the `Result` of the rounds that are complete, if a run failed after it began; None otherwise.
    """

    result: Any = None


class PrivacyError(SyftError, ValueError):
    """A question about private data can't be answered with differential privacy as it was asked."""


class AuthenticationError(SyftError):
    """A token or a password is not accepted. Its text never holds one."""


class InvalidUserError(AuthenticationError, RuntimeError):
    """A node does not know this user, or not with this password."""


class TooManyAttemptsError(AuthenticationError):
    """Too many logins failed for this user or from this address.

    Args:
        retry_after: seconds to wait before the next try.
    """

    retry_after: float = 1.0

    def __init__(self, retry_after: float = 1.0) -> None:
        self.retry_after = max(retry_after, 0.0)
        wait = max(1, math.ceil(self.retry_after))
        super().__init__(f"Too many logins failed. Wait {wait} s, then try again with the right user and password.")


class AccountError(SyftError, ValueError):
    """A user can't be added, changed or named like this."""


class ExposureError(SyftError):
    """A node would be open to others without TLS and tokens."""


class CertificateError(SyftError):
    """A certificate, or its key, can't be made or used."""


class QuotaExceededError(SyftError):
    """A user, or all of them together, would hold more objects or bytes than the node allows; nothing was kept."""


class ByteBudgetError(SyftError):
    """Bytes in flight on behalf of a user, or of all users, would pass their limit; nothing was allocated."""


class StorageError(SyftError):
    """The store of a node can't be used, or something in it is damaged."""


class StorageFullError(StorageError):
    """There is no room on the disk or in the database of a node; nothing was kept."""


class ModelError(SyftError, RuntimeError):
    """A hosted model can't be kept, asked, downloaded or deleted. Its text never holds numbers of the model."""


class ModelNotFoundError(ModelError):
    """No model of this name is hosted, or not for who asks."""


class RemoteError(SyftError):
    """An error raised by a worker, of a type that is not known here."""


class SerdeError(SyftError):
    """Bytes that are not a valid message, or an object that has no wire form."""


class CompressionNotFoundException(SerdeError):
    """Unknown compression scheme."""

    def __init__(self, code: object = None) -> None:
        super().__init__(f"Compression scheme not found for compression code: {code}")


class InvalidProtocolFileError(SyftError):
    """The table of wire codes could not be read."""


class UndefinedProtocolTypeError(SyftError):
    """A type has no wire code."""


class UndefinedProtocolTypePropertyError(SyftError):
    """A property of a wire code is not set."""


def _kind(obj: object) -> str:
    """Say what an object is without showing what it holds."""
    return f"of type {type(obj).__name__}"


def route_method_exception(exception: BaseException, self: Any, args: Any, kwargs: Any) -> BaseException:
    """Turn an error into TensorsNotCollocatedException when scattered operands are its cause."""
    places = []
    for value in (self, *args, *(kwargs or {}).values()):
        location = getattr(value, "location", None)
        if location is not None:
            places.append(f"one operand is on {location.id!r}")
        elif hasattr(value, "shape"):
            places.append("one operand is local")
    if len(set(places)) > 1:
        return TensorsNotCollocatedException(type(exception).__name__, sorted(set(places)))
    return exception
