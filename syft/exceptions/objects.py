"""Errors of objects, workers and permissions: the codes SY1xx to SY3xx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from syft._suggestions import did_you_mean
from syft.exceptions.base import SyftError


class UnsupportedOperationError(SyftError, NotImplementedError, code="SY101"):
    """A call has no rule for this kind of tensor, so it is refused instead of guessed."""

    # The position in a model of the call, if known.
    place: str | None = None

    def __init__(self, operation: str, link: str, hint: str = "") -> None:
        self.operation = operation
        self.link = link
        self.hint = hint
        super().__init__(f"{operation} is not supported on {link}." + (f" {hint}" if hint else ""))

    def note_place(self, place: str | None) -> None:
        """Add the position in a model of the call to the text, unless it has one."""
        if self.place is None and place is not None and self.args:
            self.place = place
            self.args = (f"{self.args[0]} It is called in {place}.",)


class CommandNotAllowedError(UnsupportedOperationError, code="SY102"):
    """A worker never runs this call for a peer."""

    def __init__(self, operation: str, reason: str = "") -> None:
        SyftError.__init__(self, f"{operation} can't be run on a worker" + (f": {reason}" if reason else "."))
        self.operation = operation
        self.link = "a remote tensor"
        self.hint = reason


class RemoteNameError(CommandNotAllowedError, AttributeError, code="SY112"):
    """`worker.remote` has no such name; an AttributeError, so that `hasattr` is False."""


class TensorsNotCollocatedError(SyftError, code="SY103"):
    """The operands of one call are at different workers."""

    def __init__(self, operation: str, places: list[str] | tuple[str, ...] = (), hint: str = "") -> None:
        self.operation = operation
        self.places = tuple(places)
        where = "; ".join(self.places)
        super().__init__(
            f"{operation} needs all its tensors in one place, but {where}. "
            + (hint or "Bring them together first with .move(worker), .send(worker) or .get().")
        )


class PureFrameworkTensorFoundError(TensorsNotCollocatedError, code="SY104"):
    """A plain tensor was passed where a pointer or another syft tensor is needed."""

    def __init__(self, operation: str = "This call", places: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(operation, places or ("one operand is a plain local tensor",), hint)


class RemoteObjectFoundError(SyftError, code="SY105"):
    """A pointer was passed where a local tensor is needed."""

    def __init__(self, pointer: object = None) -> None:
        self.pointer = pointer
        super().__init__(f"{pointer!r} is remote; call .get() on it first, or send the other operands to it.")


class InvalidTensorForRemoteGetError(SyftError, code="SY106"):
    """`remote_get` or `mid_get` was called on an object that is not a pointer."""

    def __init__(self, tensor: object = None) -> None:
        super().__init__(
            f"The object of type {type(tensor).__name__} is not a pointer, so there is nothing to fetch. "
            "remote_get() needs a pointer to a pointer: x.send(bob).send(alice).remote_get()."
        )


class CannotRequestObjectAttributeError(SyftError, code="SY107"):
    """`.get()` was called on an attribute of a remote object, such as `ptr.grad`."""

    def __init__(self, attribute: str = "grad") -> None:
        super().__init__(
            f".get() would remove {attribute!r} from the remote object it belongs to. "
            f"Fetch a copy of it instead: ptr.{attribute}.copy().get()"
        )


class ObjectNotFoundError(SyftError, code="SY108"):
    """A worker does not hold the requested object."""

    def __init__(self, obj_id: object = None, worker: object = None, cause: str = "") -> None:
        self.obj_id = obj_id
        self.worker_id = getattr(worker, "id", worker)
        super().__init__(
            f"Worker {self.worker_id!r} holds no object with id {obj_id!r}: "
            + (cause or "it was never there, or it was deleted, fetched with .get() or moved away.")
        )


class SpentPointerError(ObjectNotFoundError, code="SY109"):
    """The object behind this pointer was already fetched, moved or deleted."""

    def __init__(self, obj_id: object, worker: object, cause: str) -> None:
        super().__init__(
            obj_id,
            worker,
            f"{cause}. Use the result of that call, or next time fetch a copy with ptr.copy().get().",
        )


class IdNotUniqueError(SyftError, code="SY110"):
    """A preset id is already in use."""


class ResponseSignatureError(SyftError, code="SY111"):
    """The number of results differs from the number of ids given for them."""

    def __init__(self, ids_generated: object = None) -> None:
        self.ids_generated = ids_generated
        super().__init__("The number of results differs from the number of ids given for them.")


def route_method_exception(
    exception: BaseException, self: object, args: Iterable[object], kwargs: Mapping[str, object] | None
) -> BaseException:
    """Return TensorsNotCollocatedError if the operands of a failed call are at different workers, else the error."""
    places = []
    for value in (self, *args, *(kwargs or {}).values()):
        location = getattr(value, "location", None)
        if location is not None:
            places.append(f"one operand is on {location.id!r}")
        elif hasattr(value, "shape"):
            places.append("one operand is local")
    if len(set(places)) > 1:
        return TensorsNotCollocatedError(type(exception).__name__, sorted(set(places)))
    return exception


class WorkerNotFoundError(SyftError, code="SY201"):
    """The id names no known worker."""

    def __init__(self, worker_id: object = None, known: tuple[object, ...] = ()) -> None:
        names = ", ".join(repr(name) for name in known) or "none"
        super().__init__(
            f"No worker {worker_id!r} is known here (known: {names}).{did_you_mean(worker_id, known)} "
            "Create it, or introduce it with add_worker(worker)."
        )


class WorkerLostError(SyftError, code="SY202"):
    """The process of a worker ended or can't be reached; the objects it held are gone."""

    text: ClassVar[str] = (
        "Worker {worker_id!r} is lost with its objects{why} Make a worker of this id again and send the data again; "
        "other workers go on."
    )

    def __init__(self, worker_id: object = None, why: str = "") -> None:
        self.worker_id = worker_id
        super().__init__(self.text.format(worker_id=worker_id, why=f": {why}" if why else "."))


class NodeLostError(WorkerLostError, code="SY203"):
    """A session at a node is over: published objects stay there, the session's other objects are gone."""

    text = (
        "The session at node {worker_id!r} is over{why} Published objects stay there; the session's other objects are "
        "gone. Find them with node.search(...), which connects again."
    )


class NodeUnreachableError(NodeLostError, ConnectionError, code="SY204"):
    """The connection to a node failed; there is no session."""

    text = "Could not reach {worker_id}{why}"


class NodeRefusedError(NodeUnreachableError, ConnectionRefusedError, code="SY208"):
    """The connection to a node was refused: nothing listens there, or not yet."""


class NodeStartError(SyftError, code="SY209"):
    """A node that this program launched did not start.

    Args:
        node: the id of the node.
        why: the reason, from its log.
    """

    def __init__(self, node: object = "", why: str = "") -> None:
        self.node = node
        super().__init__(f"The node {node!r} did not start: {why}")


class ClientLostError(WorkerLostError, code="SY205"):
    """The process of a simulated client of a federated run ended."""

    text = "Client {worker_id!r} was lost{why}"


class SessionEndedError(SyftError, code="SY206"):
    """The process that served a session at a node ended: it exceeded a limit, or a call crashed it."""


class NotDoneError(SyftError, code="SY207"):
    """A worker did not run a call, because an earlier call failed whose error the client has not received yet.

    Streams repeat the call, or raise the error of the failed one, so users never see this error.
    """


class NotPermittedError(SyftError, code="SY301"):
    """A release was refused by the policy of the worker that holds the data."""


class GetNotPermittedError(NotPermittedError, code="SY302"):
    """The worker that holds a value does not release it."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "The worker that holds this value does not release it to you.")


class SendNotPermittedError(NotPermittedError, code="SY303"):
    """This object may not be sent."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "This object may not be sent on your behalf.")


class BudgetExceededError(NotPermittedError, code="SY304"):
    """A release would pass the limit of privacy loss that the owner of the data has set."""


class PrivacyError(SyftError, ValueError, code="SY305"):
    """A query can't be answered with differential privacy, because of its arguments."""


# The names of 0.2.
CannotRequestObjectAttribute = CannotRequestObjectAttributeError
CommandNotAllowed = CommandNotAllowedError
InvalidTensorForRemoteGet = InvalidTensorForRemoteGetError
TensorsNotCollocatedException = TensorsNotCollocatedError
UnsupportedOperation = UnsupportedOperationError
WorkerNotFoundException = WorkerNotFoundError
