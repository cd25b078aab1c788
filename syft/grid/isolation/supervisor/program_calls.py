"""Calls of session processes that run programs: DP queries, federated calls, DP training."""

from __future__ import annotations

import time
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import TensorMeta
from syft.dp.queries.estimators import QUESTIONS
from syft.dp.queries.handler import PARTS as DATASET_PARTS
from syft.dp.queries.table_view import TableFormat
from syft.exceptions import NotPermittedError, PrivacyError, TrainingError
from syft.federated.client.secure_aggregation.client_policy import _policy
from syft.federated.client.session import call_of
from syft.federated.client.stored_dataset import DATASET
from syft.grid.isolation.programs.handle import IDLE_SECONDS, Charge, Guard, ProgramHandle, fresh_program
from syft.grid.isolation.records.items import PARTS, read_meta, tuples
from syft.grid.isolation.supervisor.access import READ, right_of
from syft.grid.isolation.supervisor.arguments import object_id, optional, settings, several, text
from syft.grid.isolation.supervisor.call_table import Reply, serves
from syft.grid.isolation.supervisor.object_calls import accessible
from syft.grid.isolation.supervisor.session_handle import SessionHandle
from syft.grid.storage.interface import Item
from syft.workers.base import BaseWorker

# Maximum number of processes of federated runs per user.
MAX_RUNS = 16


def _charge(caller: SessionHandle, ids: tuple[ObjectId, ...]) -> Charge:
    """Return a function that charges the budgets of the data sets that the user may not read."""

    def charge(event: dict[str, Any], what: str) -> None:
        due = [
            accessible(caller, obj_id) for obj_id in dict.fromkeys(ids) if right_of(caller.node, caller, obj_id) != READ
        ]
        if due:
            caller.node.policy.budget.charge(caller.user, due, event, what)

    return charge


# --- DP queries ---------------------------------------------------------------------------------------------------


@serves("dp_query", text, object_id, optional(text), settings)
def dp_query(
    caller: SessionHandle, body: bytearray, kind: str, obj_id: ObjectId, part: str | None, settings: dict[str, Any]
) -> Reply:
    """Answer a DP query: check it, charge the budget, then compute it in a fresh process."""
    asked = QUESTIONS.get(kind)
    if asked is None or settings.keys() != asked.names:
        raise PrivacyError(f"No DP query {kind[:40]!r} has these arguments. Use one of {', '.join(QUESTIONS)}.")
    item = accessible(caller, obj_id)
    question = asked(_table_format(item, part), **settings)
    if item.facts.is_derived and caller.role != "owner":
        caller.node.audit.write(caller.user, "charge", obj_id, f"dp.{kind}", False, "derived data")
        raise NotPermittedError(
            "Differential privacy protects the rows of published data. This object was computed from other data, so "
            "the rows to protect are unknown. Use the published data itself."
        )
    _charge(caller, (obj_id,))(question.event, f"dp.{kind}")
    with fresh_program(caller.supervisor, caller.user, [item]) as program:
        return Reply(None, program.run("dp_query", (kind, obj_id, part, settings)))


def _table_format(item: Item, part: str | None) -> TableFormat:
    """Return the format of the tensor of a DP query."""
    meta = item.meta
    if part is not None:
        parts = item.facts.notes.get(PARTS, ())
        if part not in DATASET_PARTS or len(parts) != 2:
            raise PrivacyError("DP queries need a data set that consists of tensors.")
        meta = read_meta(tuples(parts[DATASET_PARTS[part]]))
    if not isinstance(meta, TensorMeta):
        raise PrivacyError("DP queries need a tensor.")
    return TableFormat.of(torch.empty(meta.shape, dtype=meta.dtype, device="meta"))


# --- federated runs -----------------------------------------------------------------------------------------------


@serves("federated_call", text, text, several(object_id))
def federated_call(caller: SessionHandle, body: bytearray, name: str, run: str, data: tuple[ObjectId, ...]) -> Reply:
    """Answer a call of a federated run, in the process of that run."""
    if not 1 <= len(data) <= 2:
        raise TrainingError(f"A federated run takes a data set, or samples and targets, got {len(data)} ids.")
    ids: tuple[ObjectId, ...] = (f"{DATASET}{data[0]}",) if len(data) == 1 else data
    items = [accessible(caller, obj_id) for obj_id in ids]
    readable = tuple(i for i in ids if right_of(caller.node, caller, i) == READ)
    program = _run_process(caller, run, items)
    charge = _charge(caller, tuple(ids))
    private = len(readable) < len(set(ids)) and call_of(name).derives
    job = (name[:100], run[:200], data, readable)
    return Reply(None, program.run("federated_call", job, body, charge, must_pay=private))


def _run_process(caller: SessionHandle, run: str, items: list[Item]) -> ProgramHandle:
    """Return the process of a user's federated run on some data; it keeps state between rounds."""
    supervisor, programs = caller.supervisor, caller.supervisor.runs
    key = (caller.user, run, *((item.id, item.stamp) for item in items))
    with supervisor.run_lock:
        for old in [k for k, p in programs.items() if p.is_over or time.monotonic() - p.used > IDLE_SECONDS]:
            programs.pop(old).end()
        found = programs.get(key)
        if found is None:
            mine = [k for k in programs if k[0] == caller.user]
            while len(mine) >= MAX_RUNS:
                programs.pop(mine.pop(0)).end()
            found = programs[key] = ProgramHandle(supervisor, caller.user, guard_settings(caller.node.worker))
            found.load(items)
    return found


def guard_settings(worker: BaseWorker) -> Guard | None:
    """Return the owner's settings of secure aggregation as plain values; None if it is not required."""
    guard = _policy(worker)
    if not guard.required:
        return None
    secret = None if guard.identity is None else guard.identity.secret.hex()
    return (guard.min_clients, secret, [one.hex() for one in sorted(guard.known)], guard.min_threshold)


@serves("fit", object_id, text)
def fit(caller: SessionHandle, body: bytearray, key: ObjectId, device: str) -> Reply:
    """Train with differential privacy on a data set, in a fresh process."""
    obj_id = f"{DATASET}{key}"
    item = accessible(caller, obj_id)
    readable = (obj_id,) if right_of(caller.node, caller, obj_id) == READ else ()
    guard = guard_settings(caller.node.worker)
    with fresh_program(caller.supervisor, caller.user, [item], guard) as program:
        charge = _charge(caller, (obj_id,))
        job = (str(key), device, readable)
        return Reply(None, program.run("fit", job, body, charge, must_pay=not readable))
