"""Programs: plans that users may run on private data, with outputs that leave."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from syft.core.context import local_worker
from syft.core.id_provider import create_random_id
from syft.exceptions import SyftError
from syft.grid.isolation.programs.rules import load_plan
from syft.grid.owner.api import NodeApi, quoted
from syft.grid.owner.data import PublishedData
from syft.grid.owner.requests import checked_seconds
from syft.grid.owner.rows import PermittedProgram, ProgramListing
from syft.grid.owner.tables import Columns, Listing, RowTable
from syft.grid.owner.texts import moment
from syft.messaging.plan.plan import Plan

_HASH_DIGITS = 16
_SEVERAL = (list, tuple)
_PROGRAMS: Columns = {
    "id": lambda row: row.id,
    "name": lambda row: row.name,
    "hash": lambda row: row.hash[:_HASH_DIGITS],
    "users": lambda row: "everybody" if row.users is None else row.users,
    "runs": lambda row: f"{row.taken} of {'any' if row.runs is None else row.runs}",
    "numbers": lambda row: row.max_outputs,
    "expires": lambda row: moment(row.expires),
    "revoked": lambda row: moment(row.revoked_at),
}


class ProgramList(Listing[PermittedProgram]):
    """The programs that are allowed at a node, and those that were."""

    def __init__(self, api: NodeApi) -> None:
        super().__init__(api)
        self._data = PublishedData(api)

    def list(self, limit: int = 100) -> RowTable[PermittedProgram]:
        """Return the newest programs."""
        rows = [PermittedProgram.of(row) for row in self._api.ask("GET", "programs", limit=limit)]
        return RowTable("allowed programs", _PROGRAMS, rows, "No program is allowed here.")

    _rows = list

    def show(self, plan: str | Path | Plan | PermittedProgram) -> ProgramListing:
        """Return the code and the hash of a plan, or of an allowed program.

        Args:
            plan: a plan, a file of `save_plan`, the id or tag of a published plan, or an allowed program.
        """
        if isinstance(plan, PermittedProgram):
            return ProgramListing.of(self._api.ask("GET", f"programs/{quoted(plan.id)}/code"))
        with published_plan(self._api, plan) as object_id:
            return ProgramListing.of(self._api.ask("GET", "programs/code", object=object_id))

    def allow(
        self,
        plan: str | Path | Plan,
        data: object,
        max_outputs: int,
        users: Sequence[str] | str = (),
        everybody: bool = False,
        runs: int | None = 1,
        expires: str | float | None = None,
        name: str = "",
        hash: str | None = None,
    ) -> PermittedProgram:
        """Allow a plan to run on data sets. Read its code first: `show(plan)`.

        Args:
            plan: a plan, a file of `save_plan`, or the id or tag of a published plan.
            data: the data set that it may read, or a list of them.
            max_outputs: the maximum number of numbers in the outputs of one run.
            users: the users who may run it.
            everybody: every user may run it.
            runs: how often all users together may run it; None: without a limit.
            expires: how long it is allowed: "7d", "12h", or seconds; None: until it is revoked.
            name: a name for lists.
            hash: the hash that `show` returned; a plan with another one is refused.
        """
        who = [users] if isinstance(users, str) else [*users]
        if bool(who) is everybody:
            raise SyftError("allow() needs either users=[...] or everybody=True.")
        sets = [self._data.id_of(one) for one in (data if isinstance(data, _SEVERAL) else (data,))]
        body: dict[str, Any] = {"data": sets, "users": who, "name": name}
        body.update(everybody=everybody, max_outputs=max_outputs, runs=runs)
        if expires is not None:
            body["seconds"] = checked_seconds(expires)
        if hash is not None:
            body["hash"] = hash
        with published_plan(self._api, plan) as object_id:
            return PermittedProgram.of(self._api.ask("POST", "programs", {**body, "object": object_id}))

    def revoke(self, program: str | PermittedProgram) -> None:
        """End a program. Outputs that have left can't be recalled."""
        program_id = program.id if isinstance(program, PermittedProgram) else program
        self._api.ask("DELETE", f"programs/{quoted(program_id)}")


@contextlib.contextmanager
def published_plan(api: NodeApi, plan: str | Path | Plan) -> Iterator[str]:
    """Yield the id or tag of a plan; a plan of this program, or in a file, is published for the duration."""
    if not isinstance(plan, Plan):
        if not Path(plan).is_file():
            yield str(plan)
            return
        plan = load_plan(plan)
    client = api.client()
    try:
        pointer = local_worker().send_object(plan, client, create_random_id(), published=True)
        client.synchronize()
        object_id = str(pointer.id_at_location)
        try:
            yield object_id
        finally:
            api.ask("DELETE", f"objects/{quoted(object_id)}")
    finally:
        client.close()
