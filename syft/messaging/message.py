"""Messages between workers: one frozen dataclass each; the type selects the handler at the worker."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import torch

from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import id_of
from syft.core.object import AbstractObject, Bufferizable
from syft.core.references import Ref
from syft.messaging.operands import owner_first, reference_of, unwrapped
from syft.pointers.object_pointer import ObjectPointer

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

_ID = (int, str)


@dataclasses.dataclass(frozen=True, slots=True)
class Message(Bufferizable):
    """A message with contents only. The annotations of the fields are checked on every received message."""

    contents: Any = None

    @staticmethod
    def simplify(worker: BaseWorker | None, message: Any) -> tuple[Any, ...]:
        """Return the fields, in order."""
        return tuple([getattr(message, name) for name, _, _ in _fields(type(message))])  # type: ignore[arg-type]

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> Any:
        """Rebuild a message of this type, and check its fields."""
        fields = _fields(cls)  # type: ignore[arg-type]
        if len(payload) != len(fields):
            raise TypeError(f"{cls.__name__} has {len(fields)} fields, got {len(payload)}")
        for (name, fits, is_bounded), value in zip(fields, payload, strict=True):
            if not fits(value):
                raise TypeError(f"{cls.__name__}.{name} can't be a {_kind_of(value)}")
            if is_bounded and isinstance(value, _ID) and not is_id(value):
                raise TypeError(f"{cls.__name__}.{name} is too long")
        return cls(*payload)


@functools.cache
def _fields(cls: type[Message]) -> list[tuple[str, Callable[[Any], bool], bool]]:
    """Return the name of each field, the check of its type, and whether texts and integers in it are bounded."""
    found = typing.get_type_hints(cls, include_extras=True)
    return [(f.name, _check_of(found[f.name]), found[f.name] is not Any) for f in dataclasses.fields(cls)]


def _check_of(annotation: Any) -> Callable[[Any], bool]:
    """Return a check that a value has the type of its field, and its items that of the first type parameter."""
    if annotation is Any:
        return lambda value: True
    options = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        return _check_of(options[1])
    if isinstance(annotation, types.GenericAlias):
        kind: Any = annotation.__origin__
        check_item = _check_of(options[0])
        return lambda value: isinstance(value, kind) and all(map(check_item, value))
    if any(isinstance(option, types.GenericAlias) for option in options):
        checks = [_check_of(option) for option in options]
        return lambda value: any(check(value) for check in checks)
    kinds = options or annotation
    return lambda value: isinstance(value, kinds)


def _kind_of(value: object) -> str:
    """Return the type of a value for an error text, with the types of its first items."""
    kind = type(value).__name__
    if not isinstance(value, tuple | list) or not value:
        return kind
    return f"{kind} of {', '.join(type(item).__name__ for item in value[:5])}"


_ATOMS = frozenset({int, float, bool, str, type(None)})


def _is_wide(obj_id: object) -> bool:
    return type(obj_id) is int and 0 <= obj_id < 2**128


def _flat_arguments(args: tuple[Any, ...]) -> list[Any] | None:
    """Return arguments with each reference as the 16 bytes of its id; None if one is of another type."""
    flat: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is Ref and arg.attribute is None and _is_wide(arg.id):
            flat.append(arg.id.to_bytes(16, "big"))
        elif kind in _ATOMS:
            flat.append(arg)
        else:
            return None
    return flat


def _unflat(value: bytes) -> Ref:
    if len(value) != 16:
        raise TypeError("a reference has 16 bytes")
    return Ref(int.from_bytes(value, "big"))


@dataclasses.dataclass(frozen=True, slots=True)
class Operation(Message):
    """Run one call of the table of allowed functions."""

    contents: Any = dataclasses.field(init=False, repr=False, compare=False)  # the property `command`
    cmd_name: str = ""  # the wire name of the call
    # A pointer or an id, for messages made by hand; on the wire it is the first argument.
    cmd_owner: Any = None
    cmd_args: tuple[Any, ...] = ()  # arguments; a `Ref` stands for an object that the receiver holds
    cmd_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Ids for the results, chosen by the sender; further results get the following ids.
    return_ids: tuple[ObjectId, ...] = ()
    grad_enabled: bool = True  # whether autograd records the call

    @property
    def command(self) -> tuple[Any, ...]:
        """The documented form: ((name, owner, args, kwargs), return_ids)."""
        return ((self.cmd_name, self.cmd_owner, self.cmd_args, self.cmd_kwargs), self.return_ids)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.cmd_name, self.cmd_owner, self.cmd_args, self.cmd_kwargs, self.return_ids, self.grad_enabled)
        return type(self), fields

    def owner_first(self) -> Operation:
        """Return the same call with its owner as the first argument, as workers run it."""
        if self.cmd_owner is None:
            return self
        name, args = owner_first(self.cmd_name, self.cmd_owner, tuple(self.cmd_args))
        location = getattr(args[0], "location", None)
        # A pointer to the worker that runs the call becomes a reference; pointers to other workers stay.
        given = map(unwrapped, args)
        refs = [arg.ref() if isinstance(arg, ObjectPointer) and arg.location is location else arg for arg in given]
        return dataclasses.replace(self, cmd_name=name, cmd_owner=None, cmd_args=tuple(refs))

    @staticmethod
    def simplify(worker: BaseWorker | None, message: Any) -> tuple[Any, ...]:
        """Return the fields: flat for the common call with pointers and numbers only, one by one otherwise."""
        message = message.owner_first()
        flat = None if message.cmd_kwargs else _flat_arguments(message.cmd_args)
        ids = message.return_ids
        if flat is None or len(ids) != 1 or not _is_wide(ids[0]):
            return (message.cmd_name, message.cmd_args, message.cmd_kwargs, ids, message.grad_enabled)
        return (message.grad_enabled, message.cmd_name, ids[0].to_bytes(16, "big"), *flat)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> Operation:
        """Rebuild an operation, and check its fields."""
        if payload and type(payload[0]) is bool:
            return cls._detail_flat(payload)
        name, args, kwargs, return_ids, grad_enabled = payload
        if not isinstance(name, str) or not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise TypeError("Operation needs a name, arguments and keyword arguments")
        if not isinstance(return_ids, tuple) or not all(map(is_id, return_ids)):
            raise TypeError("Operation needs ids for its results")
        if not all(isinstance(key, str) for key in kwargs):
            raise TypeError("Operation needs named keyword arguments")
        return cls(name, None, args, kwargs, return_ids, bool(grad_enabled))

    @classmethod
    def _detail_flat(cls, payload: tuple[Any, ...]) -> Operation:
        grad_enabled, name, result, *arguments = payload
        if type(name) is not str or type(result) is not bytes or len(result) != 16:
            raise TypeError("Operation needs a name and an id for its result")
        args = [_unflat(value) if type(value) is bytes else value for value in arguments]
        return cls(name, None, tuple(args), {}, (int.from_bytes(result, "big"),), grad_enabled)


Operation.contents = Operation.command  # type: ignore[misc]  # a dataclass takes no property for a field


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectMessage(Message):
    """Store this object."""

    obj_id: ObjectId | None = None  # the id to store it under, chosen by the sender; its own if None
    published: bool = False  # whether it is kept after the sender's pointers and session are gone
    claimant: ObjectId | None = None  # the client that owns the claim on it, if not the sender

    @staticmethod
    def simplify(worker: BaseWorker | None, message: Any) -> tuple[Any, ...]:
        """Return the fields, in order."""
        obj_id = message.obj_id
        if obj_id is None and isinstance(message.contents, torch.Tensor | AbstractObject):
            obj_id = id_of(message.contents)
        return message.contents, obj_id, message.published, message.claimant


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectRequestMessage(Message):
    """Return this object and remove it: contents are (id, user, reason)."""

    contents: Annotated[Any, tuple[ObjectId | None, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class IsNoneMessage(Message):
    """Return whether this object, or this attribute of it, is None."""

    contents: Ref

    def __post_init__(self) -> None:
        """Take a pointer too."""
        if type(self.contents) is not Ref:
            object.__setattr__(self, "contents", reference_of(self.contents))


@dataclasses.dataclass(frozen=True, slots=True)
class GetShapeMessage(Message):
    """Return shape, dtype, requires_grad and device of this tensor; None if it is None."""

    contents: Ref

    def __post_init__(self) -> None:
        """Take a pointer too."""
        if type(self.contents) is not Ref:
            object.__setattr__(self, "contents", reference_of(self.contents))


@dataclasses.dataclass(frozen=True, slots=True)
class ForceObjectDeleteMessage(Message):
    """Delete this object now."""

    contents: ObjectId


@dataclasses.dataclass(frozen=True, slots=True)
class RetainMessage(Message):
    """Add a claim on this object, for a client that is about to receive a pointer to it."""

    contents: ObjectId


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimMessage(Message):
    """Take over the claim on this object that came with a pointer."""

    contents: ObjectId


@dataclasses.dataclass(frozen=True, slots=True)
class PublishMessage(Message):
    """Keep this object until it is deleted, independently of the sender's pointers and session."""

    contents: ObjectId


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseMessage(Message):
    """Release the sender's claims on these objects: contents are ids."""

    contents: tuple[ObjectId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HandOverMessage(Message):
    """Send this object on to another worker."""

    contents: ObjectId  # the id of the object
    destination: ObjectId = ""  # the id of the receiving worker
    new_id: ObjectId = 0  # its id there
    keep_pointer: bool = False  # whether to replace it by a pointer


@dataclasses.dataclass(frozen=True, slots=True)
class FetchThereMessage(Message):
    """Replace this pointer by the object that it points at."""

    contents: ObjectId


@dataclasses.dataclass(frozen=True, slots=True)
class SearchMessage(Message):
    """Return the objects that match all of these search terms."""

    contents: Annotated[Any, tuple[ObjectId, ...] | list[ObjectId]]


@dataclasses.dataclass(frozen=True, slots=True)
class BatchMessage(Message):
    """Several messages in one; the response is the tuple of their responses."""

    contents: tuple[Message, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlanCommandMessage(Message):
    """Fetch a plan or a protocol: contents are the arguments of the command; both may be passed in either order."""

    contents: tuple[Any, ...]
    command_name: str = ""

    def __post_init__(self) -> None:
        """Take the documented order too: the name first."""
        first: Any = self.contents
        second: Any = self.command_name
        if isinstance(first, str) and isinstance(second, tuple | list):
            object.__setattr__(self, "contents", tuple(second))
            object.__setattr__(self, "command_name", first)


@dataclasses.dataclass(frozen=True, slots=True)
class RunMessage(Message):
    """Take part in a protocol on shares, with the other parties: contents are its arguments."""

    contents: tuple[Any, ...]  # the arguments; a `Ref` stands for a share of this party, everything else is public
    run_id: ObjectId = 0  # the id of the run, the same for all parties
    name: str = ""  # the name of the protocol
    parties: tuple[ObjectId, ...] = ()  # the ids of the workers that hold shares, in order
    provider: ObjectId | None = None  # the id of the worker that deals
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # named public arguments
    return_id: ObjectId = 0  # the id of the first result; the others get the following ids


@dataclasses.dataclass(frozen=True, slots=True)
class RequestReleaseMessage(Message):
    """Request the release of an object, or of several together, from the owner of the worker."""

    contents: Annotated[Any, ObjectId | tuple[Any, ...]]  # the id of the object, or a tuple of ids
    reason: str = ""  # the purpose, for the owner


@dataclasses.dataclass(frozen=True, slots=True)
class RequestStatusMessage(Message):
    """Return the status of this request."""

    contents: str


@dataclasses.dataclass(frozen=True, slots=True)
class ListRightsMessage(Message):
    """List requests, grants or the audit log. For owners: contents are the name of the list."""

    contents: str  # `requests`, `grants` or `audit`
    status: str | None = None  # list only requests with this status


@dataclasses.dataclass(frozen=True, slots=True)
class DecideRequestMessage(Message):
    """Approve or deny this request. For owners."""

    contents: str  # the id of the request
    approved: bool = False
    scope: str = "result"  # the object released: `result`, the sealed copy of the request
    expires: int | float | None = None  # validity in seconds; None: until it is revoked
    answer: str = ""  # a text for the requester


@dataclasses.dataclass(frozen=True, slots=True)
class RevokeGrantMessage(Message):
    """Revoke a grant. For owners: contents are the id of the grant."""

    contents: str


@dataclasses.dataclass(frozen=True, slots=True)
class ShareSourceMessage(Message):
    """Set the users that may read this data set. For its owner, and for owners of the node."""

    contents: ObjectId  # the id of the object
    allowed_users: tuple[ObjectId, ...] = ()  # the users that may read it
    public: bool = False  # whether everybody may read it


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorMessage(Message):
    """An error at a worker: contents are (type name, text, traceback text)."""

    contents: tuple[str, ...]
