"""Programs that an owner allows: plans that may run on private data, and whose outputs leave."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, HTTPException, Query

from syft.core.id_provider import ObjectId
from syft.core.labels import printable, tags_of
from syft.exceptions import SyftError
from syft.grid.identity.names import user_name
from syft.grid.identity.roles import Capability
from syft.grid.isolation.programs import Rule
from syft.grid.isolation.upcalls_plans import describe_stored_plan
from syft.grid.node.api.access import make_router, needs, refusals
from syft.grid.node.api.models import NewProgram, ProgramCode, ProgramRow, RowId
from syft.grid.node.api.objects import find_id
from syft.grid.node.doors import Guest


def make_programs(node: Any) -> APIRouter:
    """Return the part of the API that is about programs."""
    router = make_router("programs")
    owner = needs(node, Capability.DECIDE)

    @router.get("/programs", responses=refusals())
    def list_programs(
        limit: int = Query(default=100, ge=1, le=1000, description="the newest ones, at most this many"),
        guest: Guest = owner,
    ) -> list[ProgramRow]:
        """List the programs that are allowed, and those that were."""
        return [program_row(rule) for rule in node.programs.list()[-limit:]]

    @router.post("/programs", responses=refusals(404, 409))
    def allow_program(given: NewProgram, guest: Guest = owner) -> ProgramRow:
        """Allow a published plan to run on data sets."""
        objects = node.worker.object_store.objects
        plan = plan_bytes(node, _find_plan(node, given.object))
        data = [find_id(objects, text) for text in given.data]
        users = None if given.everybody else [user_name(user) for user in given.users]
        until = None if given.seconds is None else time.time() + given.seconds
        try:
            digest = describe_stored_plan(node.supervisor, plan)["hash"]
            rule = node.programs.allow(
                plan, digest, given.name, data, users, given.runs, given.max_outputs, until, by=guest.user
            )
        except SyftError as error:
            raise HTTPException(409, str(error)) from None
        return program_row(rule)

    @router.get("/programs/{program_id}/code", responses=refusals(404, 409))
    def read_program(program_id: RowId, guest: Guest = owner) -> ProgramCode:
        """Read what an allowed program does."""
        rule = _find(node, program_id)
        try:
            return ProgramCode(**describe_stored_plan(node.supervisor, node.programs.plan_bytes(rule)))
        except SyftError as error:
            raise HTTPException(409, str(error)) from None

    @router.delete("/programs/{program_id}", status_code=204, responses=refusals(404))
    def revoke_program(program_id: RowId, guest: Guest = owner) -> None:
        """Revoke a program; outputs that have left can't be called back."""
        node.programs.revoke(_find(node, program_id).id, by=guest.user)

    return router


def _find(node: Any, program_id: str) -> Rule:
    try:
        rule: Rule = node.programs.get(program_id)
    except SyftError:
        raise HTTPException(404, f"There is no program {program_id!r}. List them: GET /v1/programs") from None
    return rule


def _find_plan(node: Any, text: str) -> ObjectId:
    """Return the id of a published plan, given the id or a tag that only one plan has."""
    store = node.worker.object_store
    try:
        return find_id(store.objects, text)
    except HTTPException as error:
        if error.status_code != 404:
            raise
    tagged: list[ObjectId] = [
        obj_id for obj_id, obj in store.outlines().items() if text in tags_of(obj) and _is_plan(node, obj_id)
    ]
    if len(tagged) > 1:
        raise HTTPException(409, f"{len(tagged)} published plans have the tag {printable(text)!r}. Use the id of one.")
    if not tagged:
        raise HTTPException(404, f"No published plan has the id or the tag {printable(text)!r}.")
    return tagged[0]


def plan_bytes(node: Any, obj_id: ObjectId) -> bytes:
    """Return a plan that a node holds, serialized."""
    if not _is_plan(node, obj_id):
        raise HTTPException(409, f"The object {obj_id} is not a plan, so it can't be allowed as a program.")
    return bytes(node.keeper.value(node.keeper.item(obj_id)))


def _is_plan(node: Any, obj_id: ObjectId) -> bool:
    item = node.keeper.item(obj_id)
    return item is not None and item.kind == "plan"


def program_row(rule: Rule) -> ProgramRow:
    """Return a rule as the API shows it."""
    return ProgramRow(
        id=rule.id,
        hash=rule.hash,
        name=rule.name,
        data=[str(obj_id) for obj_id in rule.data],
        users=None if rule.users is None else list(rule.users),
        runs=rule.runs,
        taken=rule.taken,
        max_outputs=rule.max_outputs,
        allowed_at=rule.at,
        allowed_by=rule.by,
        expires=rule.until,
        revoked_at=rule.revoked_at,
    )
