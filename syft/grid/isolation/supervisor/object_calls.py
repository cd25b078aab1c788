"""Calls of session processes about stored objects, search, and the vault.

Each call comes from a process that its user may have taken over, so each is checked as if the user had sent it. Values
pass through as bytes.
"""

from __future__ import annotations

import functools
from pathlib import PurePath
from typing import Any

from syft.core.id_provider import SEALED_PREFIX, ObjectId, check_user_id
from syft.core.labels import description_of, tags_of
from syft.core.references import TensorMeta
from syft.exceptions import IdNotUniqueError, ObjectNotFoundError, SerdeError
from syft.federated.client.fit_service import FIT
from syft.federated.client.stored_dataset import DATASET
from syft.grid.isolation.records.items import matches, read_item, write_item, write_meta, write_private_item
from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.records import CallRecord, LoadRecord
from syft.grid.isolation.records.slicer import made_by
from syft.grid.isolation.supervisor.access import COMPUTE, READ, may_change, right_of
from syft.grid.isolation.supervisor.arguments import object_id, optional, row, text
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.vault_handle import VaultHandle
from syft.grid.storage.interface import Item
from syft.grid.storage.object_manager import HIDDEN_KIND

# Sealed copies are stored under this prefix and the id of their request; users can't name them.
SEALED = SEALED_PREFIX
# Maximum number of objects per process whose logged reads are remembered.
_MAX_NOTED = 100_000


# --- the store ----------------------------------------------------------------------------------------------------


@serves("items")
def own_items(caller: SessionHandle, body: bytearray) -> list[tuple[Any, ...]]:
    """Return the descriptions of the user's own stored objects."""
    node = caller.node
    return [write_item(item) for item in node.object_manager.items() if may_change(node, caller, item.id)]


@serves("open", object_id, optional(text))
def open_object(caller: SessionHandle, body: bytearray, obj_id: ObjectId, stamp: str | None) -> Any:
    """Return the user's right to a published object, its description, and its value if the user may read it."""
    right = right_of(caller.node, caller, obj_id)
    if right is None:
        return None
    item = _stored(caller, obj_id)
    if right == COMPUTE:
        return (COMPUTE, write_private_item(item))
    _note_read(caller, item)
    fds = [] if stamp == item.stamp else [caller.supervisor.value_fd(item)]
    return Reply((READ, write_item(item)), fds=fds)


@serves("read", object_id, optional(text))
def read_object(caller: SessionHandle, body: bytearray, obj_id: ObjectId, stamp: str | None) -> Reply:
    """Return the value of a stored object that the user may read."""
    if right_of(caller.node, caller, obj_id) != READ:
        raise ObjectNotFoundError(obj_id, caller.node.worker.id, "")
    item = _stored(caller, obj_id)
    _note_read(caller, item)
    return Reply(None, fds=[caller.supervisor.value_fd(item)])


def _note_read(caller: SessionHandle, item: Item) -> None:
    """Log that a user reads another user's object, once for each process and version."""
    noted = caller.noted_reads
    if item.facts.owner == caller.user or noted.get(item.id) == item.stamp:
        return
    caller.node.audit.write(caller.user, "release", item.id, "read", True)
    if len(noted) >= _MAX_NOTED:
        noted.clear()
    noted[item.id] = item.stamp


@serves("put", row)
def put_object(caller: SessionHandle, body: bytearray, row: tuple[object, ...]) -> tuple[Any, ...]:
    """Store an object of the user; it is on disk before the answer is sent."""
    item, node = read_item(row), caller.node
    if item.kind == HIDDEN_KIND:
        raise SerdeError("Only the supervisor stores sealed copies.")
    owner = caller.user
    if type(item.id) is str and item.id.startswith(DATASET) and caller.role == "owner":
        owner = None
    else:
        check_user_id(item.id)
    # A replaced object keeps its owner and readers, so a user must not replace the object of another user.
    before = node.object_manager.item(item.id)
    if before is not None and (before.facts.owner != owner or before.kind == HIDDEN_KIND):
        raise IdNotUniqueError(f"Worker {node.worker.id!r} already holds an object with id {item.id!r}.")
    return write_item(node.object_manager.adopt(item, body, owner, payer_of(caller)))


@serves("amend", row)
def amend_object(caller: SessionHandle, body: bytearray, row: tuple[object, ...]) -> tuple[Any, ...]:
    """Update the labels of a stored object of the user."""
    item, node = read_item(row), caller.node
    if not may_change(node, caller, item.id):
        raise ObjectNotFoundError(item.id, node.worker.id, "")
    return write_item(node.object_manager.relabel(item))


@serves("remove", object_id, optional(text))
def remove_object(caller: SessionHandle, body: bytearray, obj_id: ObjectId, stamp: str | None) -> bool:
    """Remove a stored object of the user, or only the version with a stamp."""
    node = caller.node
    item = node.object_manager.item(obj_id)
    if item is None or not may_change(node, caller, obj_id) or (stamp is not None and stamp != item.stamp):
        return False
    node.worker.object_store.remove(obj_id)
    return True


@serves("search", object_id)
def search(caller: SessionHandle, body: bytearray, *words: ObjectId) -> list[tuple[Any, ...]]:
    """Describe the published objects that match every word."""
    node, found = caller.node, []
    for obj_id, outline in node.worker.object_store.outlines().items():
        if right_of(node, caller, obj_id) is None:
            continue
        tags, text = tags_of(outline), description_of(outline) or ""
        if matches(words, obj_id, tags, text):
            found.append((obj_id, write_meta(_stored(caller, obj_id).meta), tuple(sorted(tags)), text or None))
    return found


@serves("datasets")
def list_datasets(caller: SessionHandle, body: bytearray) -> list[str]:
    """Return the keys of the node's data sets."""
    ids = caller.node.worker.object_store.outlines()
    return sorted(i.removeprefix(DATASET) for i in ids if type(i) is str and i.startswith(DATASET))


def payer_of(caller: SessionHandle) -> object:
    """Return the user whose quota an object counts in; None: only the quota of the node applies."""
    return None if caller.role == "owner" else caller.user


def _stored(caller: SessionHandle, obj_id: ObjectId) -> Item:
    item = caller.node.object_manager.item(obj_id)
    if item is None:
        raise ObjectNotFoundError(obj_id, caller.node.worker.id, "")
    return item


def accessible(caller: SessionHandle, obj_id: ObjectId) -> Item:
    """Return a published object that a user may at least compute with."""
    if right_of(caller.node, caller, obj_id) is None:
        raise ObjectNotFoundError(obj_id, caller.node.worker.id, "")
    return _stored(caller, obj_id)


# --- the vault ----------------------------------------------------------------------------------------------------


@serves("vault")
def run_in_vault(caller: SessionHandle, body: bytearray) -> None:
    """Send a record to the user's vault, after the data sets that it names."""
    record = read_record(memoryview(body))
    if isinstance(record, LoadRecord):
        raise SerdeError("Only the supervisor loads data sets.")
    for obj_id in made_by(record):
        if caller.node.object_manager.item(obj_id) is not None:
            raise IdNotUniqueError(f"An object with id {obj_id!r} is published at this node. Choose another id.")
    vault = vault_of(caller)
    if isinstance(record, CallRecord):
        for ref in record.refs():
            load_data(caller, vault, ref.id)
        if record.name == FIT and record.args and type(record.args[0]) is str:
            load_data(caller, vault, f"{DATASET}{record.args[0]}")
    vault.run(record, body)


def vault_of(caller: SessionHandle) -> VaultHandle:
    """Return the user's vault, started on first use. One that ended is not replaced: that may depend on values."""
    if caller.vault is None:
        caller.vault = VaultHandle(caller.supervisor, caller.user)
    return caller.vault


def load_data(caller: SessionHandle, vault: VaultHandle, obj_id: ObjectId) -> None:
    """Load a published object into a vault, unless it is loaded or the user has no right to it."""
    item = caller.node.object_manager.item(obj_id)
    if item is None or vault.has_loaded(obj_id, item.stamp) or right_of(caller.node, caller, obj_id) is None:
        return
    vault.load(load_record(item), item.stamp, functools.partial(caller.supervisor.value_fd, item))


def load_record(item: Item) -> LoadRecord:
    """Return the record of a data set for the history of a vault."""
    name = _name_of(item)
    if isinstance(item.meta, TensorMeta):
        spec = f"{str(item.meta.dtype).removeprefix('torch.')} {tuple(item.meta.shape)}"
        return LoadRecord(item.id, name, spec, item.meta.shape[0] if item.meta.shape else None)
    return LoadRecord(item.id, name, item.kind, None)


def _name_of(item: Item) -> str:
    """Return the display name of a data set: that of its file, its tags, or its id."""
    if item.origin.startswith("file:"):
        _, file, *_, part = item.origin.split(":", 3)
        return f"{PurePath(file).stem} {part}".rstrip()
    return " ".join(sorted(item.tags)) or str(item.id)
