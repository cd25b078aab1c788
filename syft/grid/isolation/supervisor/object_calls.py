"""What the supervisor does for session processes: objects of the store, search, and the vault.

Each call comes from a process that may have been taken over by its user, so each is checked as if that user had sent
it. Values pass through as bytes.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from syft.core.id_provider import SEALED_PREFIX, ObjectId, check_user_id, is_id
from syft.core.labels import description_of, tags_of
from syft.core.references import TensorMeta
from syft.exceptions import IdNotUniqueError, ObjectNotFoundError, SerdeError
from syft.federated.client.fit_service import FIT
from syft.federated.client.stored_dataset import DATASET
from syft.grid.isolation.processes.channel import Frame
from syft.grid.isolation.records.items import read_item, write_item, write_meta, write_private_item
from syft.grid.isolation.records.record_reader import read_record
from syft.grid.isolation.records.records import CallRecord, LoadRecord
from syft.grid.isolation.records.slicer import made_by
from syft.grid.isolation.supervisor.access import COMPUTE, READ, may_change, right_of
from syft.grid.isolation.supervisor.arguments import object_id, optional, row, text
from syft.grid.isolation.supervisor.call_table import Principal, Reply, serves
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.isolation.supervisor.vault_handle import VaultHandle
from syft.grid.storage.interface import Item
from syft.grid.storage.object_manager import HIDDEN_KIND

# Sealed copies are stored under this prefix and the id of their request; no user can name them.
SEALED = SEALED_PREFIX
# Objects of which a process keeps in mind that their reading was logged.
_MAX_NOTED = 100_000


def _id(value: Any) -> ObjectId:
    if not is_id(value):
        raise SerdeError("An object is named by its id.")
    found: ObjectId = value
    return found


# --- the store ----------------------------------------------------------------------------------------------------


@serves("items")
def own_items(supervisor: Supervisor, principal: Principal, frame: Frame) -> Any:
    """Return the descriptions of the user's own stored objects."""
    keeper = supervisor.node.keeper
    return [write_item(item) for item in keeper.items() if may_change(supervisor.node, principal, item.id)]


@serves("open", object_id, optional(text))
def open_object(supervisor: Supervisor, principal: Principal, frame: Frame, obj_id: Any, stamp: Any) -> Any:
    """Return what a user may do with a published object, its description, and its value if it may be read."""
    right = right_of(supervisor.node, principal, _id(obj_id))
    if right is None:
        return None
    item = _stored(supervisor, obj_id)
    if right == COMPUTE:
        return (COMPUTE, write_private_item(item))
    _note_read(supervisor, principal, item)
    fds = [] if stamp == item.stamp else [value_fd(supervisor, item)]
    return Reply((READ, write_item(item)), fds=fds)


@serves("read", object_id, optional(text))
def read_object(supervisor: Supervisor, principal: Principal, frame: Frame, obj_id: Any, stamp: Any) -> Any:
    """Return the value of a stored object that the user may read."""
    if right_of(supervisor.node, principal, _id(obj_id)) != READ:
        raise ObjectNotFoundError(obj_id, supervisor.node.worker.id, "")
    item = _stored(supervisor, obj_id)
    _note_read(supervisor, principal, item)
    return Reply(None, fds=[value_fd(supervisor, item)])


def _note_read(supervisor: Supervisor, principal: Principal, item: Item) -> None:
    """Log that a user reads another user's object: once for each process and version, however often it looks."""
    noted = principal.process.noted_reads
    if item.facts.owner == principal.user or noted.get(item.id) == item.stamp:
        return
    supervisor.node.audit.write(principal.user, "release", item.id, "read", True)
    if len(noted) >= _MAX_NOTED:
        noted.clear()
    noted[item.id] = item.stamp


@serves("put", row)
def put_object(supervisor: Supervisor, principal: Principal, frame: Frame, row: Any) -> Any:
    """Store an object of the user; it is on disk when the call is answered."""
    item, node = read_item(row), supervisor.node
    if item.kind == HIDDEN_KIND:
        raise SerdeError("Only the supervisor stores sealed copies.")
    owner = principal.user
    if type(item.id) is str and item.id.startswith(DATASET) and principal.role == "owner":
        owner = None
    else:
        check_user_id(item.id)
    # An object keeps its owner and readers when it is replaced, so nobody replaces the object of another user.
    before = node.keeper.item(item.id)
    if before is not None and (before.facts.owner != owner or before.kind == HIDDEN_KIND):
        raise IdNotUniqueError(f"Worker {node.worker.id!r} already holds an object with id {item.id!r}.")
    return write_item(node.keeper.adopt(item, frame.body, owner, payer_of(principal)))


@serves("amend", row)
def amend_object(supervisor: Supervisor, principal: Principal, frame: Frame, row: Any) -> Any:
    """Write the labels of a stored object of the user again."""
    item, node = read_item(row), supervisor.node
    if not may_change(node, principal, item.id):
        raise ObjectNotFoundError(item.id, node.worker.id, "")
    return write_item(node.keeper.relabel(item))


@serves("remove", object_id, optional(text))
def remove_object(supervisor: Supervisor, principal: Principal, frame: Frame, obj_id: Any, stamp: Any) -> bool:
    """Remove a stored object of the user, or only the version with a stamp."""
    node = supervisor.node
    item = node.keeper.item(_id(obj_id))
    if item is None or not may_change(node, principal, obj_id) or (stamp is not None and stamp != item.stamp):
        return False
    node.worker.object_store.remove(obj_id)
    return True


@serves("search", object_id)
def search(supervisor: Supervisor, principal: Principal, frame: Frame, *words: Any) -> Any:
    """Describe the published objects that match every word."""
    node, found = supervisor.node, []
    for obj_id, outline in node.worker.object_store.outlines().items():
        if right_of(node, principal, obj_id) is None:
            continue
        tags, text = tags_of(outline), description_of(outline) or ""
        if all(word == obj_id or word in tags or (isinstance(word, str) and word in text) for word in words):
            found.append((obj_id, write_meta(_meta(supervisor, obj_id)), tuple(sorted(tags)), text or None))
    return found


@serves("datasets")
def list_datasets(supervisor: Supervisor, principal: Principal, frame: Frame) -> Any:
    """Return the keys of the node's data sets."""
    ids = supervisor.node.worker.object_store.outlines()
    return sorted(i.removeprefix(DATASET) for i in ids if type(i) is str and i.startswith(DATASET))


def payer_of(principal: Principal) -> Any:
    """Return whose quota an object counts in; None: only the bounds of the node apply."""
    return None if principal.role == "owner" else principal.user


def _stored(supervisor: Supervisor, obj_id: ObjectId) -> Item:
    item: Item | None = supervisor.node.keeper.item(obj_id)
    if item is None:
        raise ObjectNotFoundError(obj_id, supervisor.node.worker.id, "")
    return item


def _meta(supervisor: Supervisor, obj_id: ObjectId) -> Any:
    return _stored(supervisor, obj_id).meta


def value_fd(supervisor: Supervisor, item: Item) -> int:
    """Return a descriptor of the value of a stored object: its file where it has one, else a copy in memory."""
    fd = supervisor.node.storage.open_value(item)
    if fd is not None:
        return int(fd)
    value = supervisor.node.keeper.value(item)
    fd = os.memfd_create("syft-value", os.MFD_CLOEXEC)
    try:
        view = memoryview(value).cast("B") if len(value) else memoryview(b"")
        while view:
            view = view[os.write(fd, view[: 1 << 30]) :]
        return fd
    except OSError:
        os.close(fd)
        raise


# --- the vault ----------------------------------------------------------------------------------------------------


@serves("vault")
def run_in_vault(supervisor: Supervisor, principal: Principal, frame: Frame) -> None:
    """Pass a record on to the user's vault, after the data sets that it names."""
    record = read_record(memoryview(frame.body))
    if isinstance(record, LoadRecord):
        raise SerdeError("Data sets are loaded by the supervisor.")
    for obj_id in made_by(record):
        if supervisor.node.keeper.item(obj_id) is not None:
            raise IdNotUniqueError(f"An object with id {obj_id!r} is published at this node. Choose another id.")
    vault = vault_of(supervisor, principal)
    refs = getattr(record, "refs", None)
    for ref in refs() if refs is not None else ():
        load_data(supervisor, principal, vault, ref.id)
    if isinstance(record, CallRecord) and record.name == FIT and record.args and type(record.args[0]) is str:
        load_data(supervisor, principal, vault, f"{DATASET}{record.args[0]}")
    vault.run(record, frame.body)


def vault_of(supervisor: Supervisor, principal: Principal) -> VaultHandle:
    """Return the user's vault, started when it is first needed. One that ended stays: see `Vault.is_over`."""
    process = principal.process
    if process.vault is None:
        process.vault = VaultHandle(supervisor, principal.user)
        process.at_end.append(process.vault.end)
    vault: VaultHandle = process.vault
    return vault


def load_data(supervisor: Supervisor, principal: Principal, vault: VaultHandle, obj_id: ObjectId) -> None:
    """Make a published object available in a vault, if the user may compute with it and it is not there yet."""
    item = supervisor.node.keeper.item(obj_id)
    if item is None or vault.has_loaded(obj_id, item.stamp) or right_of(supervisor.node, principal, obj_id) is None:
        return
    vault.load(load_record(item), item.stamp, functools.partial(value_fd, supervisor, item))


def load_record(item: Item) -> LoadRecord:
    """Return the record of a data set for the history of a vault."""
    name = _name_of(item)
    if isinstance(item.meta, TensorMeta):
        spec = f"{str(item.meta.dtype).removeprefix('torch.')} {tuple(item.meta.shape)}"
        return LoadRecord(item.id, name, spec, item.meta.shape[0] if item.meta.shape else None)
    return LoadRecord(item.id, name, item.kind, None)


def _name_of(item: Item) -> str:
    """Return what an owner calls a data set: the name of its file, its tags, or its id."""
    if item.origin.startswith("file:"):
        return item.origin.split(":")[1]
    return " ".join(sorted(item.tags)) or str(item.id)
