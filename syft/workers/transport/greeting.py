"""Frames of a resumable stream besides requests and responses: WELCOME, BYE and NOTICE."""

from __future__ import annotations

from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import printable
from syft.exceptions import SerdeError, SyftError
from syft.serde import deserialize
from syft.workers.transport.framing import BYE, WELCOME

# Version of the stream protocol: both ends must use the same.
VERSION = 3
# Characters of a refusal that are shown.
MAX_REFUSAL = 1000


def read_refusal(contents: bytearray) -> str:
    """Read the reason in a BYE, a plain text that every version can read."""
    return printable(bytes(contents[:MAX_REFUSAL]).decode("utf-8", "replace"))


def read_notice(contents: bytearray) -> dict[ObjectId, str]:
    """Read a NOTICE: the ids of objects that moved into the vault of the node, with the reasons."""
    rows = deserialize(contents)
    return {
        row[0]: printable(row[1][:300])
        for row in (rows if type(rows) is tuple else ())
        if type(row) is tuple and len(row) == 2 and is_id(row[0]) and type(row[1]) is str
    }


def read_welcome(kind: int, contents: bytearray) -> tuple[str, bytes, ObjectId, int]:
    """Read the WELCOME of a worker: session id and secret, its name, and bytes of the largest message that it reads."""
    if kind == BYE and contents:
        raise SyftError(read_refusal(contents))
    parts = deserialize(contents) if kind == WELCOME else None
    if type(parts) is tuple and parts and type(parts[0]) is int and parts[0] != VERSION:
        raise SyftError(versions_differ(VERSION, parts[0]))
    if type(parts) is not tuple or list(map(type, parts[:3])) != [int, str, bytes] or len(parts) != 5:
        raise SerdeError("The worker sent no valid welcome.")
    _, session_id, secret, node_id, largest = parts
    if not is_id(node_id) or type(largest) is not int or largest < 0:
        raise SerdeError("The worker sent no valid welcome.")
    return session_id, secret, node_id, largest


def versions_differ(client: object, worker: object) -> str:
    """Return the error text for different protocol versions of client and worker, with the side to upgrade."""
    older = "here" if type(client) is int and type(worker) is int and client < worker else "at the worker"
    return (
        f"This client uses version {client!r} of the stream and the worker version {worker!r}; upgrade resyft {older}."
    )
