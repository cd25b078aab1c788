"""The interface of a node's store, and the descriptions of stored objects."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.exceptions import StorageError

if TYPE_CHECKING:
    from syft.grid.storage.records import RecordStore

Bytes = bytes | bytearray | memoryview
# Larger values are stored in their own files or rows; small ones in the row of their description.
INLINE_BYTES = 64 * 1024
# Keys of notes: every user may read the object; it was computed from data of others (earlier versions only).
PUBLIC, DERIVED = "public", "derived"


def checksum_of(value: Bytes) -> str:
    """Return the checksum of a value."""
    return hashlib.sha256(value).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The owner of an object, and the users who may read it.

    Attributes:
        owner: the user who published it; None for the owner of the node.
        allowed_users: the users who may read it; None: no user was named.
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
        """Whether an earlier version stored it as computed from data of others; only owners of the node may read it."""
        return bool(self.notes.get(DERIVED))

    def opened_to(self, users: Iterable[Any], public: bool) -> Facts:
        """Return the facts of the same object with other readers."""
        notes = {name: value for name, value in self.notes.items() if name != PUBLIC}
        return Facts(self.owner, tuple(sorted(set(users), key=str)), {**notes, PUBLIC: True} if public else notes)


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A stored object without its value.

    Attributes:
        id: its id, an int or a str.
        meta: its TensorMeta, or an ObjectMeta with its kind.
        tags: the tags it can be found by.
        description: the text it can be found by.
        facts: its owner and its readers.
        memory: its size in memory, in bytes.
        size: the size of its serialized value, in bytes.
        checksum: SHA-256 of the serialized value, in hex.
        created: the time it was first stored, in seconds since 1970.
        stamp: a random version name, new each time the value is written.
        origin: its source, such as the checksum of a file; "" if unknown.
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
    """An object that was quarantined because its bytes differ from those written.

    Attributes:
        id: its id; None if it is unreadable.
        reason: the fault found.
        stamp: the name under which its bytes are quarantined.
    """

    id: ObjectId | None
    reason: str
    stamp: str


class Storage(contextlib.AbstractContextManager[Any]):
    """The durable part of a node: objects with their descriptions, and small records.

    Every method that changes something returns after the change is on disk. All methods are thread-safe. Only one
    process uses a store at a time.
    """

    records: RecordStore

    @abc.abstractmethod
    def put(self, item: Item, value: Bytes, checksum: str | None = None) -> Item:
        """Write an object, replacing one with the same id; returns it with size, stamp and checksum.

        Raises:
            StorageFullError: the store is full; the stored objects are unchanged.
        """

    @abc.abstractmethod
    def amend(self, item: Item) -> Item:
        """Write the description of a stored object again; its value is unchanged."""

    @abc.abstractmethod
    def read(self, item: Item) -> memoryview:
        """Return the value of an object in newly allocated memory, after verifying its checksum.

        Raises:
            StorageError: it is damaged and was quarantined, or it does not exist.
        """

    def open_value(self, item: Item) -> int | None:
        """Return a file descriptor of the file that holds the value of an object; None if it is not in a file."""
        return None

    @abc.abstractmethod
    def remove(self, obj_id: ObjectId, stamp: str | None = None) -> bool:
        """Remove an object, if a stamp is given only that version; returns whether it existed."""

    @abc.abstractmethod
    def items(self) -> list[Item]:
        """Return all stored objects without their values, the oldest first."""

    @abc.abstractmethod
    def damaged(self) -> list[Damaged]:
        """Return the quarantined objects."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the store."""

    def check(self) -> list[Damaged]:
        """Read every value and quarantine damaged objects; returns all quarantined objects."""
        for item in self.items():
            with contextlib.suppress(StorageError):  # damaged() lists it
                self.read(item)
        return self.damaged()

    def __exit__(self, *error: object) -> None:
        self.close()
