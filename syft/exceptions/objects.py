"""Errors of objects, pointers and calls on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from syft.exceptions.base import SyftError


class UnsupportedOperationError(SyftError, NotImplementedError):
    """A call has no rule for this kind of tensor, so it is refused instead of guessed."""

    code = "SY101"

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


class CommandNotAllowedError(UnsupportedOperationError):
    """A worker never runs this call for a peer."""

    code = "SY102"

    def __init__(self, operation: str, reason: str = "") -> None:
        SyftError.__init__(self, f"{operation} can't be run on a worker" + (f": {reason}" if reason else "."))
        self.operation = operation
        self.link = "a remote tensor"
        self.hint = reason


class TensorsNotCollocatedError(SyftError):
    """The operands of one call are at different workers."""

    code = "SY103"

    def __init__(self, operation: str, places: list[str] | tuple[str, ...] = (), hint: str = "") -> None:
        self.operation = operation
        self.places = tuple(places)
        where = "; ".join(self.places)
        super().__init__(
            f"{operation} needs all its tensors in one place, but {where}. "
            + (hint or "Bring them together first with .move(worker), .send(worker) or .get().")
        )


class PureFrameworkTensorFoundError(TensorsNotCollocatedError):
    """A plain tensor was passed where a pointer or another syft tensor is needed."""

    code = "SY104"

    def __init__(self, operation: str = "This call", places: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(operation, places or ("one operand is a plain local tensor",), hint)


class RemoteObjectFoundError(SyftError):
    """A pointer was passed where a local tensor is needed."""

    code = "SY105"

    def __init__(self, pointer: object = None) -> None:
        self.pointer = pointer
        super().__init__(f"{pointer!r} is remote; call .get() on it first, or send the other operands to it.")


class InvalidTensorForRemoteGetError(SyftError):
    """`remote_get` or `mid_get` was called on an object that is not a pointer."""

    code = "SY106"

    def __init__(self, tensor: object = None) -> None:
        super().__init__(
            f"The object {_kind(tensor)} is not a pointer, so there is nothing to fetch. "
            "remote_get() needs a pointer to a pointer: x.send(bob).send(alice).remote_get()."
        )


class CannotRequestObjectAttributeError(SyftError):
    """`.get()` was called on an attribute of a remote object, such as `ptr.grad`."""

    code = "SY107"

    def __init__(self, attribute: str = "grad") -> None:
        super().__init__(
            f".get() would remove {attribute!r} from the remote object it belongs to. "
            f"Fetch a copy of it instead: ptr.{attribute}.copy().get()"
        )


class ObjectNotFoundError(SyftError):
    """A worker does not hold the requested object."""

    code = "SY108"

    def __init__(self, obj_id: object = None, worker: object = None, cause: str = "") -> None:
        self.obj_id = obj_id
        self.worker_id = getattr(worker, "id", worker)
        super().__init__(
            f"Worker {self.worker_id!r} holds no object with id {obj_id!r}: "
            + (cause or "it was never there, or it was deleted, fetched with .get() or moved away.")
        )


class SpentPointerError(ObjectNotFoundError):
    """The object behind this pointer was already fetched, moved or deleted."""

    code = "SY109"

    def __init__(self, obj_id: object, worker: object, cause: str) -> None:
        super().__init__(
            obj_id,
            worker,
            f"{cause}. Use the result of that call, or next time fetch a copy with ptr.copy().get().",
        )


class IdNotUniqueError(SyftError):
    """A preset id is already in use."""

    code = "SY110"


class ResponseSignatureError(SyftError):
    """The number of results differs from the number of ids given for them."""

    code = "SY111"

    def __init__(self, ids_generated: object = None) -> None:
        self.ids_generated = ids_generated
        super().__init__("The number of results differs from the number of ids given for them.")


def _kind(obj: object) -> str:
    """Name the type of an object, without its values."""
    return f"of type {type(obj).__name__}"


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
