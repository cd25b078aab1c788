"""ObjectAdmin: publish, list, delete, export and import the objects of a node."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO

import torch

from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.labels import DESCRIPTION, TAGS, check_description, check_labels, check_tags, set_id
from syft.core.object import AbstractObject
from syft.exceptions import IdNotUniqueError, ObjectNotFoundError, StorageError
from syft.grid.private_files import sync_folder
from syft.grid.storage import tables
from syft.grid.storage.error_mapping import translated
from syft.grid.storage.interface import Facts, Item, checksum_of
from syft.grid.storage.object_manager import ObjectManager
from syft.grid.storage.restore import revive

_MAGIC = b"resyft objects 1\n"
_LENGTH = struct.Struct(">Q")
_MAX_HEADER = 16 * 2**20


class ObjectAdmin:
    """The published objects of a node, for its owner.

    Args:
        manager: the object manager of the node's worker.
    """

    def __init__(self, manager: ObjectManager) -> None:
        self.manager = manager

    def publish(
        self,
        obj: torch.Tensor | AbstractObject,
        tags: Iterable[str] = (),
        description: str | None = None,
        allowed_users: Iterable[str] | None = None,
        owner: str | None = None,
        obj_id: ObjectId | None = None,
        origin: str = "",
        replace: bool = False,
    ) -> ObjectId:
        """Publish an object; it is on disk when this returns.

        Args:
            obj: a tensor or another sendable object; the node stores this object itself, not a copy.
            tags: the tags it can be found by.
            description: the text it can be found by.
            allowed_users: the users who may read it.
            owner: the user who owns it; None: the owner of the node.
            obj_id: its id; None: a new one.
            origin: its source.
            replace: whether to replace the object with this id.

        Returns:
            Its id.
        """
        labels = {tags} if isinstance(tags, str) else set(tags)
        obj_id = ID_PROVIDER.pop() if obj_id is None else obj_id
        check_labels(obj_id, labels, description)
        check_tags(*labels)
        check_description(description)
        if not replace and obj_id in self.manager.objects:
            raise IdNotUniqueError(f"Worker {self.manager.worker.id!r} already holds an object with id {obj_id!r}.")
        set_id(obj, obj_id)
        set_labels(obj, labels, description)
        allowed = None if allowed_users is None else tuple(sorted(set(allowed_users)))
        put = self.manager.replace if replace else self.manager.hold
        put(obj_id, obj, Facts(owner, allowed), origin)
        return obj_id

    def list(self) -> list[Item]:
        """Return the published objects without their values, the oldest first."""
        return self.manager.items()

    def room(self, instead: Iterable[ObjectId] = ()) -> float:
        """Return the number of bytes the owner may still publish, if some objects are replaced."""
        items = [self.manager.item(obj_id) for obj_id in instead]
        return self.manager.ledger.room(None) + sum(item.memory for item in items if item is not None)

    def find(self, obj_id: ObjectId) -> Item:
        """Return one published object without its value."""
        item = self.manager.item(obj_id)
        if item is None:
            raise ObjectNotFoundError(obj_id, self.manager.worker.id, "it is not published")
        return item

    def delete(self, obj_id: ObjectId) -> None:
        """Delete a published object, from disk too."""
        self.find(obj_id)
        store = self.manager.worker.object_store
        store.remove(obj_id)
        store.note_departure(obj_id, "it was deleted by the owner of the node")

    def export(self, path: str | Path, ids: Collection[ObjectId] | None = None) -> int:
        """Write published objects to a file with owners, rights and checksums; returns their number.

        Args:
            path: the new file; it must not exist, and is created with mode 0600.
            ids: the objects; None: all.
        """
        self.manager.flush()
        items = self.list() if ids is None else [self.find(obj_id) for obj_id in ids]
        target = Path(path)
        if target.exists():
            raise StorageError(f"{target} already exists. Choose another name, or remove the file first.")
        unfinished = target.with_name(f".{secrets.token_hex(8)}.new")
        with translated():
            try:
                handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC)
                    for item in items:
                        value = self.manager.value(item)
                        _write_item(
                            file, dataclasses.replace(item, size=len(value), checksum=checksum_of(value)), value
                        )
                    file.write(_LENGTH.pack(0))
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.rename(target)
                sync_folder(target.parent)
            finally:
                unfinished.unlink(missing_ok=True)
        return len(items)

    def load(self, path: str | Path) -> tuple[ObjectId, ...]:
        """Publish the objects of an exported file under their ids: all or none.

        Raises:
            StorageError: the file is damaged or is no export.
            IdNotUniqueError: an object of the file already exists.
        """
        with translated():
            for item, _ in _read_items(path):  # check the whole file before storing anything
                if item.id in self.manager.objects:
                    raise IdNotUniqueError(f"An object with id {item.id!r} already exists. Nothing was imported.")
            loaded = []
            try:
                for item, value in _read_items(path):
                    self._keep(item, value)
                    loaded.append(item.id)
            except Exception:
                for obj_id in loaded:
                    self.manager.worker.object_store.remove(obj_id)
                raise
        return tuple(loaded)

    def _keep(self, item: Item, value: bytes) -> None:
        worker = self.manager.worker
        obj = revive(worker, item, memoryview(bytearray(value)))
        self.manager.hold(item.id, obj, item.facts, item.origin)


def set_labels(obj: torch.Tensor | AbstractObject, tags: set[str], description: str | None) -> None:
    """Replace the tags and the description of an object."""
    if isinstance(obj, torch.Tensor):
        obj.__dict__[TAGS], obj.__dict__[DESCRIPTION] = tags, description
    else:
        obj.tags, obj.description = tags, description


def _write_item(file: IO[bytes], item: Item, value: bytes | memoryview) -> None:
    header = json.dumps(tables.row_of(item, None)).encode()
    file.write(_LENGTH.pack(len(header)) + header)
    file.write(value)


def _read_items(path: str | Path) -> Iterator[tuple[Item, bytes]]:
    """Yield the objects of a file with their values, after verifying their checksums."""
    wrong = StorageError(f"{path} is damaged or is not a file of exported objects. Nothing was imported.")
    with Path(path).open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise wrong
        while length := _length(file, wrong):
            try:
                item = tables.item_of(json.loads(file.read(length)))
            except (ValueError, TypeError, KeyError):
                raise wrong from None
            value = file.read(item.size)
            if checksum_of(value) != item.checksum:
                raise wrong
            yield item, value
        if file.read(1):
            raise wrong


def _length(file: IO[bytes], wrong: StorageError) -> int:
    raw = file.read(_LENGTH.size)
    if len(raw) != _LENGTH.size or (length := int(_LENGTH.unpack(raw)[0])) > _MAX_HEADER:
        raise wrong
    return length
