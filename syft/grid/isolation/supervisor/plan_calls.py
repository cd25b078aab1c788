"""Calls about allowed programs, which run on private data by an owner's rule, and verification by replay."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]

from syft.core.id_provider import SLICE_PREFIX, ObjectId
from syft.core.references import ObjectMeta
from syft.exceptions import NotPermittedError, SerdeError, SyftError
from syft.grid.isolation.processes.channel import Bytes
from syft.grid.isolation.programs.handle import fresh_program
from syft.grid.isolation.records.records import Blob, Record, write_slice
from syft.grid.isolation.supervisor.arguments import object_id, several, text
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.object_calls import accessible, payer_of
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.storage.interface import Item

SLICE = SLICE_PREFIX
# Bytes of an output beside its numbers, and of one number: names, shapes, headers.
_OVERHEAD, _NUMBER = 1 << 14, 16
# Maximum number of plans of one request that are shown to the owner.
MAX_PLANS = 16


# --- allowed programs ---------------------------------------------------------------------------------------------


@serves("programs")
def list_hashes(caller: SessionHandle, body: bytearray) -> list[str]:
    """Return the hashes of the programs that the user may run now."""
    now = time.time()
    return sorted({rule.hash for rule in caller.node.programs.list() if not rule.refusal(caller.user, (), now)})


@serves("run_program", text, several(object_id))
def run_program(caller: SessionHandle, body: bytearray, digest: str, ids: tuple[ObjectId, ...]) -> Reply:
    """Run the owner's copy of an allowed program, on data sets and on values of the user."""
    if not ids:
        raise SerdeError("A program needs at least one data set.")
    items = [accessible(caller, obj_id) for obj_id in ids]
    rule = caller.node.programs.count_run(caller.user, digest, ids)
    plan = caller.node.programs.plan_bytes(rule)
    with fresh_program(caller.supervisor, caller.user, items) as program:
        output = program.run("plan", (rule.max_outputs, len(plan)), plan + body)
    if len(output) > _OVERHEAD + _NUMBER * rule.max_outputs:
        raise NotPermittedError(f"The output of the program takes {len(output)} bytes, more than its rule allows.")
    return Reply(None, output)


def describe_stored_plan(supervisor: Supervisor, value: Bytes, user: str | None = None) -> dict[str, Any]:
    """Return hash and code of a plan, from a process that holds nothing else."""
    with fresh_program(supervisor, user) as program:
        found: dict[str, Any] = msgpack.unpackb(program.run("describe_plan", (), value))
    return found


def describe_plans(caller: SessionHandle, plans: Mapping[str, Blob]) -> dict[str, dict[str, Any]]:
    """Describe plans by the hash of their bytes; at most `MAX_PLANS` of them."""
    found = {}
    for digest, blob in list(plans.items())[:MAX_PLANS]:
        if not blob.dropped:
            with contextlib.suppress(SyftError):
                found[digest] = describe_stored_plan(caller.supervisor, blob.data, caller.user)
    return found


def hidden_plans(plans: Iterable[str], described: Collection[str]) -> tuple[str, ...]:
    """Return the reason why code can't be verified if the code of a plan is missing."""
    hidden = [f"plan_{digest[:8]}" for digest in plans if digest not in described]
    return (f"the code of {', '.join(hidden[:8])} can't be shown",) if hidden else ()


def describe_copy(caller: SessionHandle, value: Bytes) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Return the shape of a sealed tensor, or None, and a description of each object in a sealed copy.

    Raises:
        SyftError: it can't be read.
    """
    with fresh_program(caller.supervisor, caller.user) as program:
        shape, specs = msgpack.unpackb(program.run("describe_copy", (), value))
    return None if shape is None else tuple(shape), tuple(map(str, specs))


# --- verification -------------------------------------------------------------------------------------------------


def keep_slice(caller: SessionHandle, request_id: str, records: Iterable[Record]) -> None:
    """Store the records of a request, for `verify`."""
    value = write_slice(records)
    item = Item(f"{SLICE}{request_id}", ObjectMeta("sealed"), memory=len(value))
    caller.node.object_manager.adopt(item, value, caller.user, payer_of(caller), hidden=True)


def verify(supervisor: Supervisor, request_id: str, sealed: str) -> dict[str, Any]:
    """Replay the code of a request in a fresh process, and compare the result with the sealed copy bit for bit.

    Returns:
        The request, with the outcome.
    """
    node = supervisor.node
    row = node.policy.requests.find(request_id)
    kept, copy = node.object_manager.item(f"{SLICE}{request_id}"), node.object_manager.item(sealed)
    if row["problem"] or kept is None or copy is None:
        raise SyftError(f"Request {request_id} can't be verified: {row['problem'] or 'its sealed copy is gone'}.")
    items = []
    for used, stamp in row["stamps"]:
        item = node.object_manager.item(used)
        if item is None or item.stamp != stamp:
            raise SyftError(f"Request {request_id} can't be verified: the data set {used!r} was changed or deleted.")
        items.append(item)
    why = ""
    try:
        with fresh_program(supervisor, None, items) as program:
            found = program.run("replay", tuple(row["ids"]), bytes(node.object_manager.value(kept)))
        same = bytes(found) == bytes(node.object_manager.value(copy))
    except SyftError as error:
        same, why = False, str(error)[:500]
    node.audit.write("owner", "verify", row["object"], "replay", same, why, request_id)
    return node.policy.requests.note_verified(request_id, same)
