"""AbstractObject: the base of objects with an id, an owner, tags and a description, which can be sent and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft._suggestions import missing_attribute
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.labels import check_description, check_tags, tag_set
from syft.core.providers import providers
from syft.core.trees import register_leaf
from syft.exceptions import InvalidTensorForRemoteGetError, UnsupportedOperationError

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker


class Bufferizable:
    """Base of classes whose objects have a protobuf message. The class needs a wire code, and nothing else."""

    __slots__ = ()

    @staticmethod
    def bufferize(worker: AbstractWorker, obj: object) -> Any:
        """Return the protobuf message of an object, which a worker sends."""
        return providers.bufferize(worker, obj)

    @classmethod
    def unbufferize(cls, worker: AbstractWorker, message: object) -> Any:
        """Rebuild an object of this class from its protobuf message, which a worker received."""
        return providers.unbufferize(cls, worker, message)


class AbstractObject(Bufferizable):
    """Base of every object that workers hold, send and search.

    Args:
        id: its id; a fresh one is drawn when first needed.
        owner: the worker it belongs to; the local worker by default.
        tags: tags it can be found by; a text is one tag.
        description: a text it can be found by.
        child: the next link below it, if it is one of a chain.
    """

    child: Any
    # Whether it stays at a worker when the pointers of its sender are gone.
    is_lasting = False

    def __init__(
        self,
        id: ObjectId | None = None,
        owner: Any = None,
        tags: Any = None,
        description: str | None = None,
        child: Any = None,
    ) -> None:
        self._id = id
        self._owner = owner
        self.tags: set[str] = tag_set(tags)
        self.description = description
        if child is not None:
            self.child = child

    @property
    def id(self) -> ObjectId:
        """The id of this object, drawn at its first use."""
        if self._id is None:
            self._id = ID_PROVIDER.pop()
        return self._id

    @id.setter
    def id(self, value: ObjectId) -> None:
        self._id = value

    @property
    def owner(self) -> Any:
        """The worker this object belongs to."""
        return self._owner if self._owner is not None else local_worker(required=False)

    @owner.setter
    def owner(self, worker: object) -> None:
        self._owner = worker

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name):
            return missing_attribute(self, name)

    def describe(self, description: str) -> AbstractObject:
        """Set the text this object can be found by, and return it."""
        check_description(description)
        self.description = description
        return self

    def tag(self, *tags: str) -> AbstractObject:
        """Add tags this object can be found by, and return it."""
        check_tags(*tags)
        self.tags.update(tags)
        return self

    def has_child(self) -> bool:
        """Return whether there is a link or tensor below this link."""
        return hasattr(self, "child")

    def serialize(self, *args: object, **kwargs: object) -> bytes:
        """Return this object as bytes."""
        return bytes(providers.serialize(self, *args, **kwargs))

    ser = serialize

    def get(self) -> Any:
        """Fetch the object below this link and return this link around it."""
        if not hasattr(self, "child") or not hasattr(self.child, "get"):
            raise InvalidTensorForRemoteGetError(self)
        self.child = self.child.get()
        return self

    def mid_get(self) -> Any:
        """Fetch the object below this link, in place, at the worker that owns it."""
        return self.get()

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the constructor arguments that results must inherit."""
        return {}

    @classmethod
    def on_function_call(cls, *args: tuple[Any, ...]) -> None:
        """Called for each torch function that reaches this kind of link (to override)."""

    @classmethod
    def handle_func_command(cls, command: tuple[Any, ...]) -> Any:
        """Run a command `(name, self, args, kwargs)` on this kind of object (to override)."""
        raise UnsupportedOperationError(str(command[0]), cls.__name__)

    @classmethod
    def rgetattr(cls, obj: object, attr: str, *args: object) -> Any:
        """Walk a dotted attribute path; names that begin with an underscore are refused."""
        for name in attr.split("."):
            if name.startswith("_"):
                raise AttributeError(f"{name!r} is private")
            obj = getattr(obj, name, *args)
        return obj


# Names of later 0.2 releases.
AbstractSendable = AbstractObject
SyftSerializable = Bufferizable
register_leaf(AbstractObject)


def initialize_object(
    hook: Any,
    obj: Any,
    owner: object = None,
    reinitialize: bool = True,
    id: ObjectId | None = None,
    init_args: tuple[Any, ...] = (),
    init_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Give an object an owner and an id, after running its constructor again if `reinitialize`."""
    if reinitialize:
        type(obj).__init__(obj, *init_args, **(init_kwargs or {}))
    obj.owner = owner if owner is not None else getattr(hook, "local_worker", None)
    obj.id = id if id is not None else ID_PROVIDER.pop()
    return obj
