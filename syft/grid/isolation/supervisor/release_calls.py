"""Calls of session processes about releases: requests, decisions, sharing and budgets."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from syft.core.byte_budget import WAIT_SECONDS
from syft.core.id_provider import ObjectId
from syft.core.references import ObjectMeta
from syft.exceptions import NotPermittedError, QuotaExceededError, SerdeError, SyftError
from syft.grid.isolation.processes.channel import Bytes
from syft.grid.isolation.records.listing import code_of
from syft.grid.isolation.records.records import Record
from syft.grid.isolation.supervisor.access import may_change
from syft.grid.isolation.supervisor.arguments import (
    count,
    either,
    flag,
    number,
    object_id,
    optional,
    settings,
    several,
    text,
)
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.object_calls import SEALED as SEALED
from syft.grid.isolation.supervisor.object_calls import load_data, payer_of, vault_of
from syft.grid.isolation.supervisor.plan_calls import describe_copy, describe_plans, hidden_plans, keep_slice
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.isolation.supervisor.vault_handle import SealedCopy, VaultHandle
from syft.grid.rights import budget_calls
from syft.grid.rights.requests import Subject
from syft.grid.storage.interface import Item
from syft.workers.execution.session import Session

# Bytes that serialization adds to the values of an object: headers, names, a plan's operations.
_OVERHEAD = 1 << 20
_TENSOR_OVERHEAD = 1 << 14
_LARGEST_ELEMENT = 16
# Maximum rows of the audit log in one answer, and maximum objects of one request.
MAX_AUDIT_ROWS = 1000
MAX_OBJECTS = 10_000
# Maximum wait for a sealed copy, as a fraction of the time limit of a call: a busy vault must not end the session.
SEAL_SHARE = 0.5


def _require_owner(caller: SessionHandle) -> None:
    if caller.role != "owner":
        caller.node.audit.write(caller.user, "owner only", allowed=False)
        raise NotPermittedError(f"Only an owner of {caller.node.worker.id!r} may do this.")


# --- requests -----------------------------------------------------------------------------------------------------


@serves("request", either(object_id, several(object_id)), text, text, optional(several(count)), count, several(text))
def request(
    caller: SessionHandle,
    body: bytearray,
    named: ObjectId | tuple[ObjectId, ...],
    reason: str,
    kind: str,
    shape: tuple[int, ...] | None,
    size: int,
    tags: tuple[str, ...],
) -> Any:
    """Store a request of the user with a sealed copy of its objects. The answer depends on no value."""
    ids = named if isinstance(named, tuple) else (named,)
    if not 1 <= len(ids) <= MAX_OBJECTS:
        raise SerdeError(f"A request names 1 to {MAX_OBJECTS} objects, got {len(ids)}.")
    requests = caller.node.policy.requests
    text = requests.check(caller.user, reason)
    subject = Subject(ids[0], kind[:40], None if shape is None else shape[:64], tags, len(ids))
    vault = vault_of(caller)
    for obj_id in ids:
        load_data(caller, vault, obj_id)
    asked = dataclasses.replace(subject, ids=ids, version=str(vault.history.calls))
    if (known := requests.pending(caller.user, asked)) is not None:
        return known
    limit = _copy_limit(subject, size)
    room = caller.node.object_manager.ledger.room(payer_of(caller))
    if limit > room:
        raise QuotaExceededError(
            f"The sealed copy of this result takes up to {limit} bytes, and {room:.0f} are left of your quota. Delete "
            "published objects, or wait for decisions on earlier requests."
        )
    with caller.supervisor.budget_of(caller.user).holding(limit, WAIT_SECONDS):
        subject, copy, records = _sealed(caller, vault, asked, limit)
        sealed = None if copy.value is None else len(copy.value)
        row = requests.add(caller.user, subject, text, sealed, copy.failure, copy.specs)
        # The user's quota shows the charge, so it must not depend on the copy, or on whether there is one.
        item = Item(f"{SEALED}{row['id']}", ObjectMeta("sealed"), memory=limit)
        value = b"" if copy.value is None else copy.value
        try:
            caller.node.object_manager.adopt(item, value, caller.user, payer_of(caller), hidden=True)
        except Exception:
            requests.deny(row["id"], "its sealed copy could not be stored", by="the node")
            raise
    if not subject.problem:
        keep_slice(caller, row["id"], records)
    return row


def _sealed(
    caller: SessionHandle, vault: VaultHandle, subject: Subject, limit: int
) -> tuple[Subject, SealedCopy, tuple[Record, ...]]:
    """Return the subject of a request with its code, the sealed copy, and the records.

    The history is the supervisor's own. Plans and the sealed copy are described in processes that hold nothing else.
    """
    sealing = vault.begin_seal(subject.ids, limit)
    found = sealing.history.slice(*subject.ids)
    plans = describe_plans(caller, found.plan_blobs())
    non_mutating = {digest for digest, facts in plans.items() if facts["alters"] is False}
    if non_mutating:  # they make the slice smaller
        vault.history.non_mutating_plans |= non_mutating
        found = sealing.history.slice(*subject.ids)
    copy = vault.finish_seal(sealing, SEAL_SHARE * caller.supervisor.limits.wall_seconds)
    if not copy.failed.isdisjoint(found.numbers):
        number = min(copy.failed & found.numbers) - sealing.history.dropped
        name = getattr(sealing.history.records[number], "name", "a copy of an object") or "a call"
        copy = SealedCopy(failure=f"{name} failed in the vault, so the code does not describe the result")
    if copy.value is not None:
        copy = _checked(caller, subject, copy, copy.value)
    rows = tuple({"id": str(r.obj_id), "name": r.name, "spec": r.spec, "rows": r.rows} for r in found.datasets)
    subject = dataclasses.replace(
        subject,
        stamps=tuple((r.obj_id, sealing.stamps.get(r.obj_id, "")) for r in found.datasets),
        data=rows,
        code=code_of(found, {digest: str(facts["code"]) for digest, facts in plans.items()}),
        calls=len(found.calls),
        other_calls=found.others,
        problem="; ".join((*found.reasons, *hidden_plans(found.plan_blobs(), plans))),
        version=str(sealing.history.calls),
    )
    return subject, copy, found.records


def _checked(caller: SessionHandle, subject: Subject, copy: SealedCopy, value: Bytes) -> SealedCopy:
    """Return a copy with its specs, or without its value if it differs from the request. Only the owner sees this."""
    try:
        shape, specs = describe_copy(caller, value)
    except SyftError as error:
        return SealedCopy(failure=f"the sealed copy can't be read: {error}")
    if subject.objects == 1 and (shape is not None or subject.kind == "tensor") and shape != subject.shape:
        stated = f"a {subject.kind}" if subject.shape is None else f"a {subject.kind} of shape {subject.shape}"
        return SealedCopy(failure=f"the sealed copy is a {specs[0]}, and the request says {stated}")
    return dataclasses.replace(copy, specs=specs)


def _copy_limit(subject: Subject, size: int) -> int:
    """Return the maximum size of the sealed copy of a request, from the spec that the owner sees."""
    if subject.kind == "tensor" and subject.objects == 1 and subject.shape is not None:
        size = min(size, _LARGEST_ELEMENT * math.prod(subject.shape))
        return 2 * size + _TENSOR_OVERHEAD
    return 2 * size + _OVERHEAD


@serves("request_status", text)
def request_status(caller: SessionHandle, body: bytearray, request_id: str) -> Any:
    """Return the status of a request."""
    return caller.node.policy.requests.status(caller.user, caller.role == "owner", request_id)


@serves("fetch", optional(object_id), optional(text))
def fetch(
    caller: SessionHandle, body: bytearray, obj_id: ObjectId | None, request_id: str | None = None
) -> str | Reply:
    """Return the sealed copy of an approved request of the user, or the reason why there is none."""
    found = caller.node.policy.requests.released(caller.user, obj_id, request_id)
    if isinstance(found, str):
        return found
    item = caller.node.object_manager.item(f"{SEALED}{found['id']}")
    if item is None:
        return "It was approved, but its sealed copy was deleted."
    caller.node.audit.write(caller.user, "release", found["object"], "get", True, "", found["id"])
    several = request_id is None and len(found["ids"]) > 1
    return Reply(found["ids"].index(obj_id) if several else None, fds=[caller.supervisor.value_fd(item)])


# --- owners -------------------------------------------------------------------------------------------------------


@serves("list_rights", text, optional(text))
def list_rights(caller: SessionHandle, body: bytearray, name: str, status: str | None) -> Any:
    """List requests, grants, or the latest rows of the audit log."""
    _require_owner(caller)
    policy = caller.node.policy
    if name == "requests":
        return policy.requests.list(status)
    if name == "grants":
        return policy.requests.grants()
    if name == "audit":
        return policy.audit.rows()[-MAX_AUDIT_ROWS:]
    raise SyftError('There are lists of "requests", "grants" and "audit".')


@serves("decide", text, flag, optional(number), text, text)
def decide(
    caller: SessionHandle,
    body: bytearray,
    request_id: str,
    approved: bool,
    expires: float | None,
    scope: str,
    answer: str,
) -> Any:
    """Approve or deny a request."""
    _require_owner(caller)
    requests = caller.node.policy.requests
    if not approved:
        return requests.deny(request_id, answer, by=caller.user)
    return requests.approve(request_id, expires, scope, by=caller.user, answer=answer)


@serves("revoke", text)
def revoke(caller: SessionHandle, body: bytearray, request_id: str) -> Any:
    """Revoke an approval."""
    _require_owner(caller)
    return caller.node.policy.requests.revoke(request_id, by=caller.user)


@serves("share", object_id, optional(either(text, several(text))), flag)
def share(
    caller: SessionHandle, body: bytearray, obj_id: ObjectId, users: str | tuple[str, ...] | None, public: bool
) -> None:
    """Set the users who may read an object: for owners of the node, and for the owner of the object."""
    node = caller.node
    if not may_change(node, caller, obj_id):
        _require_owner(caller)
    node.policy.share(node.worker, obj_id, users, public, by=caller.user)


@serves("budget", text, settings)
def budget(caller: SessionHandle, body: bytearray, action: str, settings: dict[str, Any]) -> Any:
    """Answer a call about privacy budgets."""
    session = Session(caller.node.worker, caller.user)
    session.role = caller.role
    return budget_calls.handle_budget_call(caller.node.worker, session, action, **settings)
