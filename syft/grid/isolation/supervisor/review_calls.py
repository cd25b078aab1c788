"""Reviews of requests: a program process looks for what a result reveals, for the owner who decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import SEALED_PREFIX, SLICE_PREFIX
from syft.exceptions import SyftError
from syft.grid.isolation.programs.handle import fresh_program
from syft.grid.rights.row_store import Row
from syft.grid.storage.interface import Item

if TYPE_CHECKING:
    from syft.grid.isolation.supervisor.supervisor import Supervisor
    from syft.grid.node.node import Node

# Maximum number of earlier releases that a result is compared with, the newest.
MAX_EARLIER = 20
# Time that repeated runs of one computation may take.
SECONDS = 20.0


def review(supervisor: Supervisor, request_id: str, by: str | None, seconds: float = SECONDS) -> Row:
    """Review a request, and store the outcome with it.

    The computation is run again, with rows replaced, and compared with earlier releases of the same data.

    Returns:
        The request, with the outcome.

    Raises:
        SyftError: there is no such request, or its sealed copy is gone.
    """
    node = supervisor.node
    row = node.policy.requests.find(request_id)
    value = _value(node, f"{SEALED_PREFIX}{request_id}")
    if row["sealed"] is None or not value:
        why = row["failure"] or "its sealed copy is gone"
        raise SyftError(f"Request {request_id} can't be reviewed: {why}.")
    rows = _comparable(node, row)
    slices = [(one["id"], tuple(one["ids"]), _value(node, f"{SLICE_PREFIX}{one['id']}")) for one in rows]
    job = (
        row["reason"], node.settings.min_rows, seconds, len(value),
        tuple((name, ids, len(part)) for name, ids, part in slices),
    )  # fmt: skip
    body = b"".join((value, *(part for _, _, part in slices)))
    try:
        with fresh_program(supervisor, None, _items(node, rows)) as program:
            found = msgpack.unpackb(program.run("review", job, body))
    except SyftError as error:
        found = {"verified": None, "warnings": [], "notes": [f"The review failed: {str(error)[:300]}"], "preview": []}
        found["warnings"].append(("not reviewed", "The result could not be checked."))
    warnings = [[kind, _with_names(text, row)] for kind, text in found["warnings"]]
    found["warnings"] = [*_facts(node, row, found["verified"]), *warnings]
    found["compared"] = [one["id"] for one in rows[1:]]
    node.audit.write(by, "review", row["object"], "", not found["warnings"], _summary(found["warnings"]), request_id)
    return node.policy.requests.note_review(request_id, found)


def _comparable(node: Node, row: Row) -> list[Row]:
    """Return the request, then earlier releases computed from unchanged data sets that it reads too.

    The list is empty if the code of the request does not give its result.
    """
    if not _is_reproducible(node, row):
        return []
    used = {obj_id for obj_id, _ in row["stamps"]}
    earlier = [
        one
        for one in reversed(node.policy.requests.list())
        if one["id"] != row["id"]
        and one["decided_by"] is not None
        and one["scope"] is not None  # it was approved, even if the approval is over
        and not used.isdisjoint(obj_id for obj_id, _ in one["stamps"])
        and _is_reproducible(node, one)
    ]
    return [row, *earlier[:MAX_EARLIER]]


def _is_reproducible(node: Node, row: Row) -> bool:
    kept = node.object_manager.item(f"{SLICE_PREFIX}{row['id']}")
    return not row["problem"] and kept is not None and not _changed(node, row)


def _changed(node: Node, row: Row) -> list[str]:
    """Return the names of data sets of a request that were changed or deleted since."""
    names = {one["id"]: one["name"] for one in row["data"]}
    changed = []
    for obj_id, stamp in row["stamps"]:
        item = node.object_manager.item(obj_id)
        if item is None or item.stamp != stamp:
            changed.append(str(names.get(str(obj_id)) or obj_id))
    return changed


def _with_names(text: str, row: Row) -> str:
    """Return a warning with the names of data sets in place of their ids."""
    for used in row["data"]:
        for obj_id, _ in row["stamps"]:
            if str(obj_id) == used["id"] and used["name"]:
                text = text.replace(f"data set {obj_id!r}", f"data set {used['name']!r}")
    return text


def _items(node: Node, rows: list[Row]) -> list[Item]:
    """Return the data sets that requests read."""
    ids = dict.fromkeys(obj_id for row in rows for obj_id, _ in row["stamps"])
    return [item for obj_id in ids if (item := node.object_manager.item(obj_id)) is not None]


def _value(node: Node, obj_id: str) -> bytes:
    item = node.object_manager.item(obj_id)
    return b"" if item is None else bytes(node.object_manager.value(item))


def _facts(node: Node, row: Row, verified: bool | None) -> list[list[str]]:
    """Return the warnings that the supervisor knows of."""
    found = []
    if changed := _changed(node, row):
        found.append(["stale", f"Changed or deleted since the request: {', '.join(changed[:5])}."])
    if row["problem"]:
        found.append(["not verified", f"The code can't be verified: {row['problem']}."])
    elif verified is False:
        found.append(["not verified", "Running the code again gives another value."])
    elif verified is None and not changed:
        found.append(["not verified", "The code could not be run again."])
    return found


def _summary(warnings: list[Any]) -> str:
    return "; ".join(text for _, text in warnings)
