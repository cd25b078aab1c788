"""What the supervisor does for session processes by running programs: DP queries, federated calls, DP training."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import TensorMeta
from syft.dp.queries.estimators import QUESTIONS
from syft.dp.queries.handler import PARTS as DATASET_PARTS
from syft.dp.queries.table_view import TableFormat
from syft.exceptions import NotPermittedError, ObjectNotFoundError, PrivacyError, TrainingError
from syft.federated.client.secure_aggregation.client_policy import _guard
from syft.federated.client.session import call_of
from syft.federated.client.stored_dataset import DATASET
from syft.grid.isolation.processes.channel import Frame
from syft.grid.isolation.programs.handle import IDLE_SECONDS, Charge, ProgramHandle, fresh_program
from syft.grid.isolation.records.items import PARTS, read_meta
from syft.grid.isolation.supervisor.access import READ, right_of
from syft.grid.isolation.supervisor.arguments import object_id, optional, settings, several, text
from syft.grid.isolation.supervisor.call_table import Principal, Reply, serves
from syft.grid.isolation.supervisor.object_calls import value_fd
from syft.grid.isolation.supervisor.supervisor import Supervisor
from syft.grid.storage.interface import Item

# Processes of federated runs that one user may have at a time.
MAX_RUNS = 16


def _data(supervisor: Supervisor, principal: Principal, obj_id: ObjectId) -> Item:
    """Return a data set that a user may at least compute with."""
    item: Item | None = supervisor.node.keeper.item(obj_id)
    if item is None or right_of(supervisor.node, principal, obj_id) is None:
        raise ObjectNotFoundError(obj_id, supervisor.node.worker.id, "")
    return item


def _charge(supervisor: Supervisor, principal: Principal, ids: tuple[ObjectId, ...]) -> Charge:
    """Return what charges a user for a program on some data sets: for those that the user may not read anyway."""

    def charge(event: dict[str, Any], what: str) -> None:
        due = [
            _data(supervisor, principal, obj_id)
            for obj_id in dict.fromkeys(ids)
            if right_of(supervisor.node, principal, obj_id) != READ
        ]
        if due:
            supervisor.node.policy.budget.charge(principal.user, due, event, what)

    return charge


# --- DP queries ---------------------------------------------------------------------------------------------------


@serves("dp_query", text, object_id, optional(text), settings)
def dp_query(
    supervisor: Supervisor, principal: Principal, frame: Frame, kind: Any, obj_id: Any, part: Any, settings: Any
) -> Any:
    """Answer a question with noise: check it, charge the budget, then compute it in a fresh process."""
    asked = QUESTIONS.get(kind) if type(kind) is str else None
    if asked is None or type(settings) is not dict or settings.keys() != asked.names:
        raise PrivacyError(f"One can ask for: {', '.join(QUESTIONS)}; each has arguments of its own.")
    item = _data(supervisor, principal, obj_id)
    question = asked(_form(item, part), **settings)
    if item.facts.is_derived and principal.role != "owner":
        supervisor.node.audit.write(principal.user, "charge", obj_id, f"dp.{kind}", False, "derived data")
        raise NotPermittedError(
            "Differential privacy protects the rows of published data as they are. This was computed from other data, "
            "so the rows it protects are not known. Use the published data itself."
        )
    _charge(supervisor, principal, (obj_id,))(question.event, f"dp.{kind}")
    with fresh_program(supervisor, principal.user, [(obj_id, value_fd(supervisor, item))]) as program:
        return Reply(None, program.run("dp_query", (kind, obj_id, part, settings)))


def _form(item: Item, part: Any) -> TableFormat:
    """Return the form of the tensor that a question is about."""
    meta: Any = item.meta
    if part is not None:
        parts = item.facts.notes.get(PARTS, ())
        if part not in DATASET_PARTS or len(parts) != 2:
            raise PrivacyError("Questions are about data sets that are made of tensors.")
        meta = read_meta(_tuples(parts[DATASET_PARTS[part]]))
    if not isinstance(meta, TensorMeta):
        raise PrivacyError("Questions are about tensors.")
    return TableFormat.of(torch.empty(meta.shape, dtype=meta.dtype, device="meta"))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


# --- federated runs -----------------------------------------------------------------------------------------------


@serves("station", text, text, several(object_id))
def federated_call(supervisor: Supervisor, principal: Principal, frame: Frame, name: Any, run: Any, data: Any) -> Any:
    """Answer a call of a federated run, in the process of that run."""
    if type(name) is not str or type(run) is not str or type(data) is not tuple or not 1 <= len(data) <= 2:
        raise TrainingError("A federated run has a name and data.")
    ids = (f"{DATASET}{data[0]}",) if len(data) == 1 else data
    items = [_data(supervisor, principal, obj_id) for obj_id in ids]
    readable = tuple(i for i in ids if right_of(supervisor.node, principal, i) == READ)
    program = _run_process(supervisor, principal, run, items)
    charge = _charge(supervisor, principal, tuple(ids))
    private = len(readable) < len(set(ids)) and call_of(name).derives
    job = (name[:100], run[:200], data, readable)
    return Reply(None, program.run("station", job, frame.body, charge, must_pay=private))


def _run_process(supervisor: Supervisor, principal: Principal, run: str, items: list[Item]) -> ProgramHandle:
    """Return the process of a user's federated run on some data; its memory lasts from round to round."""
    programs: dict[Any, ProgramHandle] = supervisor.runs
    key = (principal.user, run, *((item.id, item.stamp) for item in items))
    with supervisor.run_lock:
        for old in [k for k, p in programs.items() if p.is_over or time.monotonic() - p.used > IDLE_SECONDS]:
            programs.pop(old).end()
        found = programs.get(key)
        if found is None:
            mine = [k for k in programs if k[0] == principal.user]
            while len(mine) >= MAX_RUNS:
                programs.pop(mine.pop(0)).end()
            found = programs[key] = ProgramHandle(supervisor, principal.user, guard_settings(supervisor.node.worker))
            for item in items:
                fd = value_fd(supervisor, item)
                try:
                    found.load([(item.id, fd)])
                finally:
                    os.close(fd)
    return found


def guard_settings(worker: Any) -> Any:
    """Return what the owner insists on in federated runs, as plain values."""
    guard = _guard(worker)
    if not guard.required:
        return None
    secret = None if guard.identity is None else guard.identity.secret.hex()
    return (guard.min_clients, secret, [one.hex() for one in sorted(guard.known)], guard.min_threshold)


@serves("fit", object_id, text)
def fit(supervisor: Supervisor, principal: Principal, frame: Frame, key: Any, device: Any) -> Any:
    """Train with differential privacy on a data set, in a fresh process."""
    obj_id = f"{DATASET}{key}"
    item = _data(supervisor, principal, obj_id)
    readable = (obj_id,) if right_of(supervisor.node, principal, obj_id) == READ else ()
    data = [(obj_id, value_fd(supervisor, item))]
    with fresh_program(supervisor, principal.user, data, guard_settings(supervisor.node.worker)) as program:
        charge = _charge(supervisor, principal, (obj_id,))
        job = (str(key), str(device), readable)
        return Reply(None, program.run("fit", job, frame.body, charge, must_pay=not readable))
