"""The tables of a store, and objects as their rows.

Texts from users are stored as ASCII JSON, which every database accepts unchanged. A row ends with a seal, a hash of all
its other columns, so that a changed owner is detected as reliably as a changed value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa

from syft.core.id_provider import ObjectId, is_id
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import SyftError
from syft.grid.storage.interface import DERIVED, Facts, Item
from syft.serde import deserialize, serialize

# The version of this layout; stores with other versions are not opened.
LAYOUT = 1

metadata = sa.MetaData()

about = sa.Table(
    "about",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
objects = sa.Table(
    "objects",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),  # a hash of the id, which may be too long for an index
    *[
        sa.Column(name, sa.Text, nullable=False)
        for name in "id owner kind tags description sources allowed_users notes meta".split()
    ],
    sa.Column("memory", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("checksum", sa.String(64), nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("stamp", sa.String(32), nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("blob", sa.String(32), nullable=True),  # the name of a large value
    sa.Column("value", sa.LargeBinary, nullable=True),  # a small value
    sa.Column("seal", sa.String(64), nullable=False),
)
damaged = sa.Table(
    "damaged",
    metadata,
    sa.Column("stamp", sa.String(32), primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=True),
)
chunks = sa.Table(
    "chunks",
    metadata,
    sa.Column("blob", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
records = sa.Table(
    "records",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("area", sa.String(64), nullable=False, index=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
)
log = sa.Table(
    "log",
    metadata,
    sa.Column("area", sa.String(64), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)
heads = sa.Table(
    "heads",
    metadata,
    sa.Column("area", sa.String(64), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
)

# The columns read at startup: all but the values.
DESCRIPTION = [column for column in objects.columns if column.name != "value"]
_SEALED = [column.name for column in DESCRIPTION if column.name != "seal"]


def digest(*texts: str) -> str:
    """Return a hash of texts, in hex."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def key_of(obj_id: ObjectId) -> str:
    """Return the key of an object's row: 1 and "1" are different ids."""
    return digest(json.dumps(obj_id if isinstance(obj_id, str) else int(obj_id)))


def row_of(item: Item, blob: str | None) -> dict[str, Any]:
    """Return the row of an object, without its value."""
    obj_id = item.id if isinstance(item.id, str) else int(item.id)
    facts = item.facts
    row: dict[str, Any] = {
        "key": key_of(obj_id),
        "id": json.dumps(obj_id),
        "owner": json.dumps(facts.owner),
        "kind": item.kind,
        "tags": json.dumps(sorted(item.tags)),
        "description": json.dumps(item.description),
        "sources": "[]",  # a column of earlier versions
        "allowed_users": json.dumps(None if facts.allowed_users is None else list(facts.allowed_users)),
        "notes": json.dumps(dict(facts.notes), sort_keys=True),
        "meta": serialize(item.meta).hex(),
        "memory": item.memory,
        "size": item.size,
        "checksum": item.checksum,
        "created": repr(item.created),
        "stamp": item.stamp,
        "origin": json.dumps(item.origin),
        "blob": blob,
    }
    row["seal"] = _seal(row)
    return row


def _seal(row: dict[str, Any]) -> str:
    return digest(*[str(row[name]) for name in _SEALED])


def item_of(row: Any) -> Item:
    """Return the description in a row, a mapping.

    Raises:
        ValueError: the row was changed.
    """
    fields: dict[str, Any] = dict(row)
    if _seal(fields) != fields["seal"]:
        raise ValueError("its description was changed by another program")
    obj_id = json.loads(fields["id"])
    if not is_id(obj_id):
        raise ValueError("its id is invalid")
    return Item(
        obj_id,
        _meta_of(fields["meta"]),
        frozenset(json.loads(fields["tags"])),
        json.loads(fields["description"]),
        _facts_of(obj_id, fields),
        fields["memory"],
        fields["size"],
        fields["checksum"],
        float(fields["created"]),
        fields["stamp"],
        json.loads(fields["origin"]),
    )


def _facts_of(obj_id: ObjectId, fields: dict[str, Any]) -> Facts:
    """Return the owner and the readers of an object.

    Earlier versions wrote a note "rights" with the data sets that an object was computed from, each with its readers.
    Only the row of the object itself names its readers; an object computed from data of others has none.
    """
    owner, allowed, notes = (json.loads(fields[name]) for name in ("owner", "allowed_users", "notes"))
    facts = Facts(owner, None if allowed is None else tuple(allowed), notes)
    former = notes.pop("rights", None)
    if former is None:
        return facts
    facts = Facts(former["owner"], None, notes)
    sources = former["sources"]
    if any("failed" in source or source["owner"] != facts.owner for source in sources):
        return Facts(facts.owner, None, {**notes, DERIVED: True})
    own = [source for source in sources if source["id"] == obj_id]
    return facts.opened_to(own[0]["allowed_users"], bool(own[0]["public"])) if own else facts


def _meta_of(text: str) -> TensorMeta | ObjectMeta:
    try:
        meta = deserialize(bytes.fromhex(text))
    except SyftError as error:
        raise ValueError("its metadata can't be read") from error
    if not isinstance(meta, TensorMeta | ObjectMeta):
        raise ValueError("its metadata is invalid")
    return meta
