"""HTTP routes of programs: plans that may run on private data and whose outputs are released."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastapi import APIRouter, HTTPException, Query

from syft.core.id_provider import MAX_ID_CHARS, all_named, parse_id
from syft.core.labels import printable, tags_of
from syft.exceptions import SyftError
from syft.grid.identity.names import user_name
from syft.grid.identity.roles import Capability
from syft.grid.isolation.programs.rules import Rule
from syft.grid.isolation.supervisor.plan_calls import describe_stored_plan
from syft.grid.node.api.access import make_router, needs, refusals
from syft.grid.node.api.models import AllowedProgram, NewProgram, PlanCode, ProgramCode, ProgramRow, RowId
from syft.grid.node.api.objects import find_id
from syft.grid.server.auth import Principal
from syft.grid.storage.interface import Item

if TYPE_CHECKING:
    from syft.grid.node.node import Node

# Maximum number of objects in an error message.
_MAX_LISTED = 10


def make_programs(node: Node) -> APIRouter:
    """Return the routes of programs."""
    router = make_router("programs")
    owner = needs(node, Capability.DECIDE)

    @router.get("/programs", responses=refusals())
    def list_programs(
        limit: int = Query(default=100, ge=1, le=1000, description="the newest ones, at most this many"),
        principal: Principal = owner,
    ) -> list[ProgramRow]:
        """List allowed and revoked programs."""
        return [ProgramRow(**dataclasses.asdict(rule)) for rule in node.programs.list()[-limit:]]

    @router.post("/programs", responses=refusals(404, 409))
    def allow_program(given: NewProgram, principal: Principal = owner) -> AllowedProgram:
        """Allow a published plan to run on data sets."""
        objects = node.worker.object_store.objects
        item = _find_plan(node, given.object)
        plan = bytes(node.object_manager.value(item))
        data = [find_id(objects, text) for text in given.data]
        users = None if given.everybody else [user_name(user) for user in given.users]
        until = None if given.seconds is None else time.time() + given.seconds
        with _conflict():
            found = describe_stored_plan(node.supervisor, plan)
            digest = found["hash"]
            if given.hash not in (None, digest):
                raise SyftError(
                    f"The plan {item.id} has the hash {digest}, not {given.hash}: it changed after its code was read. "
                    "Read its code again."
                )
            rule = node.programs.allow(
                plan, digest, given.name, data, users, given.runs, given.max_outputs, until, by=principal.user
            )
        row = dataclasses.asdict(rule)
        return AllowedProgram(**row, code=found["code"], object=str(item.id), publisher=_publisher(item))

    @router.get("/programs/code", responses=refusals(404, 409))
    def read_plan(
        object: str = Query(
            min_length=1, max_length=MAX_ID_CHARS, description="the id of the plan, or one of its tags"
        ),
        principal: Principal = owner,
    ) -> PlanCode:
        """Return the code of a published plan, to be read before it is allowed."""
        item = _find_plan(node, object)
        with _conflict():
            found = describe_stored_plan(node.supervisor, bytes(node.object_manager.value(item)))
        return PlanCode(**found, object=str(item.id), publisher=_publisher(item))

    @router.get("/programs/{program_id}/code", responses=refusals(404, 409))
    def read_program(program_id: RowId, principal: Principal = owner) -> ProgramCode:
        """Return the code of an allowed program."""
        rule = _find(node, program_id)
        with _conflict():
            found = describe_stored_plan(node.supervisor, node.programs.plan_bytes(rule))
        return ProgramCode(**found)

    @router.delete("/programs/{program_id}", status_code=204, responses=refusals(404))
    def revoke_program(program_id: RowId, principal: Principal = owner) -> None:
        """Revoke a program; released outputs can't be withdrawn."""
        node.programs.revoke(_find(node, program_id).id, by=principal.user)

    return router


@contextlib.contextmanager
def _conflict() -> Iterator[None]:
    """Respond to an error of the library with status 409."""
    try:
        yield
    except SyftError as error:
        raise HTTPException(409, str(error)) from None


def _find(node: Node, program_id: str) -> Rule:
    try:
        rule: Rule = node.programs.get(program_id)
    except SyftError:
        raise HTTPException(
            404, f"There is no program {program_id!r}. List them: python -m syft node programs list"
        ) from None
    return rule


def _find_plan(node: Node, text: str) -> Item:
    """Return a published plan by its id or a tag; an ambiguous text is refused."""
    named = all_named(parse_id(text), node.worker.object_store.outlines())
    items = [
        node.object_manager.item(obj_id)
        for obj_id, obj in node.worker.object_store.outlines().items()
        if obj_id in named or text in tags_of(obj)
    ]
    found: list[Item] = [item for item in items if item is not None and (item.id in named or item.kind == "plan")]
    if not found:
        raise HTTPException(404, f"No published plan has the id or the tag {printable(text)!r}.")
    if len(found) > 1:
        listed = ", ".join(f"{item.id!r} of {_publisher(item) or 'the owner'}" for item in found[:_MAX_LISTED])
        more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        raise HTTPException(
            409,
            f"{len(found)} objects have the id or the tag {printable(text)!r}: {listed}{more}. Use the id of one. If "
            "that id is the tag of another object, delete that object first.",
        )
    if found[0].kind != "plan":
        raise HTTPException(409, f"The object {found[0].id} is not a plan, so it can't be allowed as a program.")
    return found[0]


def _publisher(item: Item) -> str | None:
    """Return the publisher of an object; None for the owner of the node."""
    owner = item.facts.owner
    return None if owner is None else printable(str(owner))
