"""Allowed programs, which run on private data by an owner's rule, and verification by replaying recorded calls."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import SLICE_PREFIX, ObjectId, is_id
from syft.core.references import ObjectMeta
from syft.exceptions import NotPermittedError, ObjectNotFoundError, SerdeError, SyftError
from syft.grid.isolation.processes.channel import Frame
from syft.grid.isolation.programs.handle import fresh_program
from syft.grid.isolation.records.records import Blob, Record
from syft.grid.isolation.records.slices import write_slice
from syft.grid.isolation.supervisor.access import right_of
from syft.grid.isolation.supervisor.arguments import object_id, several, text
from syft.grid.isolation.supervisor.call_table import Principal, Reply, serves
from syft.grid.isolation.supervisor.object_calls import value_fd
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.storage.interface import Item

SLICE = SLICE_PREFIX
_LENGTH = struct.Struct(">Q")
# Bytes of an output beside its numbers, and of one number: names, shapes, headers.
_OVERHEAD, _NUMBER = 1 << 14, 16
# How many plans of one request are shown to the owner.
MAX_PLANS = 16


# --- allowed programs ---------------------------------------------------------------------------------------------


@serves("programs")
def list_hashes(supervisor: Supervisor, principal: Principal, frame: Frame) -> Any:
    """Return the hashes of the programs that the user may run now."""
    now = time.time()
    return sorted({rule.hash for rule in supervisor.node.programs.list() if not rule.refusal(principal.user, (), now)})


@serves("run_program", text, several(object_id))
def run_program(supervisor: Supervisor, principal: Principal, frame: Frame, digest: Any, ids: Any) -> Any:
    """Run an allowed program, the owner's copy of it, on data sets and on values that the user sent along."""
    if type(digest) is not str or type(ids) is not tuple or not ids or not all(map(is_id, ids)):
        raise SerdeError("A program is named by its hash, and runs on data sets.")
    items = [_data(supervisor, principal, obj_id) for obj_id in ids]
    rule = supervisor.node.programs.take(principal.user, digest, ids)
    plan = supervisor.node.programs.plan_bytes(rule)
    data = [(item.id, value_fd(supervisor, item)) for item in items]
    with fresh_program(supervisor, principal.user, data) as program:
        body = _LENGTH.pack(len(plan)) + plan + frame.body
        output = program.run("plan", (rule.max_outputs,), body)
    if len(output) > _OVERHEAD + _NUMBER * rule.max_outputs:
        raise NotPermittedError(f"The output of the program takes {len(output)} bytes, more than its rule allows.")
    return Reply(None, output)


def _data(supervisor: Supervisor, principal: Principal, obj_id: ObjectId) -> Item:
    item: Item | None = supervisor.node.keeper.item(obj_id)
    if item is None or right_of(supervisor.node, principal, obj_id) is None:
        raise ObjectNotFoundError(obj_id, supervisor.node.worker.id, "")
    return item


def describe_stored_plan(supervisor: Supervisor, value: Any, user: Any = None) -> dict[str, Any]:
    """Return hash and code of a plan, worked out in a process that holds nothing else."""
    with fresh_program(supervisor, user) as program:
        found: dict[str, Any] = msgpack.unpackb(program.run("describe_plan", (), value))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class DescribedPlans:
    """What plans do, found out in a process that holds nothing else.

    Attributes:
        code: their code, by the hash of their bytes.
        non_mutating: the hashes of the plans that change neither their arguments nor their state.
    """

    code: dict[str, str]
    non_mutating: set[str]


def describe_plans(supervisor: Supervisor, user: Any, plans: Mapping[str, Blob]) -> DescribedPlans:
    """Describe plans as they were sent, by hash; at most `MAX_PLANS` of them."""
    found = DescribedPlans({}, set())
    for digest, blob in list(plans.items())[:MAX_PLANS]:
        if not blob.dropped:
            with contextlib.suppress(SyftError):
                facts = describe_stored_plan(supervisor, blob.data, user)
                found.code[digest] = str(facts["code"])
                if facts["alters"] is False:
                    found.non_mutating.add(digest)
    return found


def hidden_plans(plans: Mapping[str, Blob], described: DescribedPlans) -> tuple[str, ...]:
    """Return which plans an owner does not see, as reasons why code can't be verified."""
    hidden = [f"plan_{digest[:8]}" for digest in plans if digest not in described.code]
    return (f"the code of {', '.join(hidden[:8])} can't be shown",) if hidden else ()


def describe_copy(supervisor: Supervisor, user: Any, value: Any) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Return what a sealed copy is: the shape of one tensor, or None, and a short text for each object.

    Raises:
        SyftError: it can't be read.
    """
    with fresh_program(supervisor, user) as program:
        shape, specs = msgpack.unpackb(program.run("describe_copy", (), value))
    return None if shape is None else tuple(shape), tuple(map(str, specs))


# --- verification -------------------------------------------------------------------------------------------------


def keep_slice(supervisor: Supervisor, request_id: str, records: Iterable[Record], user: Any, payer: Any) -> None:
    """Keep the records of a request, for `verify`."""
    value = write_slice(records)
    item = Item(f"{SLICE}{request_id}", ObjectMeta("sealed"), memory=len(value))
    supervisor.node.keeper.adopt(item, value, user, payer, hidden=True)


def verify(supervisor: Supervisor, request_id: str, sealed: str) -> dict[str, Any]:
    """Replay the code of a request in a fresh process, and compare the result with the sealed copy bit for bit.

    Args:
        supervisor: the supervisor.
        request_id: the request.
        sealed: the id of its sealed copy.

    Returns:
        The request, with the outcome.
    """
    node = supervisor.node
    row = node.policy.requests.find(request_id)
    kept, copy = node.keeper.item(f"{SLICE}{request_id}"), node.keeper.item(sealed)
    if row["problem"] or kept is None or copy is None:
        raise SyftError(f"Request {request_id} can't be verified: {row['problem'] or 'its sealed copy is gone'}.")
    items = []
    for used, stamp in row["stamps"]:
        item = node.keeper.item(used)
        if item is None or item.stamp != stamp:
            raise SyftError(f"Request {request_id} can't be verified: the data set {used!r} was changed or deleted.")
        items.append(item)
    # Opened after all checks: an error in between would leave files open.
    data = [(item.id, value_fd(supervisor, item)) for item in items]
    why = ""
    try:
        with fresh_program(supervisor, None, data) as program:
            found = program.run("replay", tuple(row["ids"]), bytes(node.keeper.value(kept)))
        same = bytes(found) == bytes(node.keeper.value(copy))
    except SyftError as error:
        same, why = False, str(error)[:500]
    node.audit.write("owner", "verify", row["object"], "replay", same, why, request_id)
    result: dict[str, Any] = node.policy.requests.note_verified(request_id, same)
    return result
