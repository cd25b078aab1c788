"""Descriptions of stored objects as plain values, for the channel between the supervisor and its child processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

import torch

from syft.core.id_provider import MAX_ID_CHARS, ObjectId, is_id, names_id
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import SerdeError
from syft.grid.storage.interface import Facts, Item

MAX_DIMENSIONS = 64
MAX_TAGS = 1000
MAX_TEXT = 1 << 16
# In the notes of a data set: the specs of its samples and targets.
PARTS = "parts"
_DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def write_meta(meta: TensorMeta | ObjectMeta) -> tuple[Any, ...]:
    """Return the spec of an object as plain values."""
    if isinstance(meta, TensorMeta):
        return ("tensor", tuple(meta.shape), str(meta.dtype).removeprefix("torch."), bool(meta.requires_grad))
    return ("object", meta.kind)


def read_meta(row: object) -> TensorMeta | ObjectMeta:
    """Return the spec that plain values describe. Raises SerdeError if they describe none."""
    match row:
        case ("object", str() as kind) if len(kind) <= 40:
            return ObjectMeta(kind)
        case ("tensor", tuple() as shape, str() as dtype, bool() as requires_grad) if dtype in _DTYPES:
            sizes = all(type(size) is int and 0 <= size < 2**62 for size in shape)
            if sizes and len(shape) <= MAX_DIMENSIONS:
                return TensorMeta(torch.Size(shape), _DTYPES[dtype], requires_grad)
    raise SerdeError("These values do not describe an object.")


def write_item(item: Item) -> tuple[Any, ...]:
    """Return the description of a stored object as plain values."""
    owner = item.facts.owner if isinstance(item.facts.owner, str | int) else None
    parts = tuples(item.facts.notes.get(PARTS, ()))
    facts = (item.size, item.checksum, item.created, item.stamp, item.origin, owner, parts)
    return (item.id, write_meta(item.meta), tuple(sorted(item.tags)), item.description, item.memory, *facts)


def write_private_item(item: Item) -> tuple[Any, ...]:
    """Return the description of an object that the user may not read, without fields that depend on values.

    The checksum would confirm guesses, and the written size shows how well the values compress.
    """
    return write_item(dataclasses.replace(item, memory=0, size=0, checksum="", origin=""))


def read_item(row: object) -> Item:
    """Return the stored object that plain values describe, without its rights."""
    if type(row) is not tuple or len(row) != 12:
        raise SerdeError("These values do not describe a stored object.")
    obj_id, meta, tags, description, memory, size, checksum, created, stamp, origin, owner, parts = row
    if not is_id(obj_id) or not _is_count(memory) or not _is_count(size):
        raise SerdeError("A stored object has an id and sizes.")
    if type(tags) is not tuple or len(tags) > MAX_TAGS or not all(_is_text(tag) for tag in tags):
        raise SerdeError("The tags of a stored object are strings of bounded number and length.")
    if not (description is None or _is_text(description)) or not all(map(_is_text, (checksum, stamp, origin))):
        raise SerdeError("The description of a stored object is a string of bounded length.")
    if type(parts) is not tuple or len(parts) > 2:
        raise SerdeError("A stored object has at most two parts.")
    notes = {PARTS: [write_meta(read_meta(part)) for part in parts]} if parts else {}
    named = isinstance(owner, str | int) and len(str(owner)) <= MAX_ID_CHARS
    facts = Facts(owner if named else None, notes=notes)
    when = float(created) if isinstance(created, int | float) else 0.0
    labels = frozenset(tags), description
    return Item(obj_id, read_meta(meta), *labels, facts, memory, size, checksum, when, stamp, origin)


def matches(words: Iterable[object], obj_id: ObjectId, tags: Collection[str], text: str) -> bool:
    """Return whether every word of a search is the id of an object, one of its tags, or part of its description."""
    return all(names_id(word, obj_id) or word in tags or (isinstance(word, str) and word in text) for word in words)


def tuples(value: Any) -> Any:
    """Return plain values with tuples in place of lists."""
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


def plain_lists(value: object) -> Any:
    """Return plain values with lists in place of the channel's tuples, as messages hold them."""
    if type(value) is tuple:
        return [plain_lists(item) for item in value]
    return {key: plain_lists(item) for key, item in value.items()} if type(value) is dict else value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT
