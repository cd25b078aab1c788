"""What a store of a node does, whatever it is made of."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Bytes = bytes | bytearray | memoryview
# Larger values go to files of their own, or to rows of their own; small ones stay beside their description.
INLINE_BYTES = 64 * 1024
# Notes of objects: every user may read it; it was computed from data of others (written by earlier versions only).
PUBLIC, DERIVED = "public", "derived"


def checksum_of(value: Bytes) -> str:
    """Return the checksum of a value."""
    return hashlib.sha256(value).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The owner of an object, and the users who may read it.

    Attributes:
        owner: the user who published it; None for the owner of the node.
        allowed_users: the users who may read it; None where nobody was named.
        notes: further JSON values by name, such as PUBLIC and DERIVED.
    """

    owner: object = None
    allowed_users: tuple[Any, ...] | None = None
    notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_public(self) -> bool:
        """Whether every user may read the object."""
        return bool(self.notes.get(PUBLIC))

    @property
    def is_derived(self) -> bool:
        """Whether an earlier version stored it as computed from data of others: only owners of the node may read it."""
        return bool(self.notes.get(DERIVED))

    def opened_to(self, users: Iterable[Any], public: bool) -> Facts:
        """Return the facts of the same object with other readers."""
        notes = {name: value for name, value in self.notes.items() if name != PUBLIC}
        return Facts(self.owner, tuple(sorted(set(users), key=str)), {**notes, PUBLIC: True} if public else notes)


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A stored object without its value.

    Attributes:
        id: its id, an int or a str, as it was.
        meta: its form (a TensorMeta, or an ObjectMeta with its kind).
        tags: the words it can be found by.
        description: the text it can be found by.
        facts: whose it is.
        memory: how many bytes it takes in memory.
        size: how many bytes its value has as written.
        checksum: SHA-256 of these bytes, in hex.
        created: when it was first stored, in seconds since 1970.
        stamp: a random name that is new each time the value is written.
        origin: what it was made of, such as the checksum of a file; "" where nobody said.
    """

    id: ObjectId
    meta: Any
    tags: frozenset[str] = frozenset()
    description: str | None = None
    facts: Facts = dataclasses.field(default_factory=Facts)
    memory: int = 0
    size: int = 0
    checksum: str = ""
    created: float = 0.0
    stamp: str = ""
    origin: str = ""

    @property
    def kind(self) -> str:
        """The kind of object: "tensor", "plan" ..."""
        return str(getattr(self.meta, "kind", "tensor"))


@dataclasses.dataclass(frozen=True, slots=True)
class Damaged:
    """An object that was set aside because its bytes are not what was written.

    Attributes:
        id: its id; None if that can't be read any more.
        reason: what is wrong with it.
        stamp: the name under which its bytes were set aside.
    """

    id: ObjectId | None
    reason: str
    stamp: str


class Storage(abc.ABC):
    """The durable part of a node: objects with their descriptions, and small records.

    Every method that changes something returns after the change is on disk. All methods may be called by several
    threads at once. Only one process uses a store at a time.
    """

    records: RecordStore

    @abc.abstractmethod
    def put(self, item: Item, value: Bytes, checksum: str | None = None) -> Item:
        """Write an object, in place of one with the same id; returns it with size, stamp and checksum.

        Args:
            item: its description.
            value: its value.
            checksum: the checksum of the value, from whoever has worked it out already.

        Raises:
            StorageFullError: there is no room; what was stored before is unchanged.
        """

    @abc.abstractmethod
    def amend(self, item: Item) -> Item:
        """Write the description of a stored object anew, and leave its value."""

    @abc.abstractmethod
    def read(self, item: Item) -> memoryview:
        """Return the value of an object in memory of its own, after comparing its checksum.

        Raises:
            StorageError: it is damaged, and was set aside; or it is not there.
        """

    def open_value(self, item: Item) -> int | None:
        """Return a descriptor of the file that holds the value of an object; None if it is in no file."""
        return None

    @abc.abstractmethod
    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object, or only the one with a stamp; returns whether it was there."""

    @abc.abstractmethod
    def items(self) -> list[Item]:
        """Return all stored objects without their values, the oldest first."""

    @abc.abstractmethod
    def damaged(self) -> list[Damaged]:
        """Return what was set aside."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of the store."""

    def check(self) -> list[Damaged]:
        """Read every value and set aside what is damaged; returns all that was set aside."""
        from syft.exceptions import StorageError

        for item in self.items():
            try:
                self.read(item)
            except StorageError:
                continue  # it is listed below
        return self.damaged()

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
