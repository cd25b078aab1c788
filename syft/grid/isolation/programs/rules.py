"""Programs that an owner allows: a plan by its hash, on named data sets, for users, with bounded runs and outputs."""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import NotPermittedError, SyftError
from syft.grid.rights.row_store import Row, RowStore
from syft.grid.rights.sanitize import bounded

if TYPE_CHECKING:
    from syft.grid.rights.audit import AuditLog
    from syft.messaging.plan.plan import Plan

MAX_PLAN_BYTES = 32 * 2**20
_HEX = frozenset("0123456789abcdef")


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A program that is allowed, or was.

    Attributes:
        id: the id of the rule.
        hash: the hash of what the plan does (`plan_hash`).
        name: a name for people.
        data: the data sets that it may read.
        users: the users who may run it; None: everybody.
        runs: the maximum number of runs; None: without a limit.
        taken: the number of runs so far.
        max_outputs: the maximum number of numbers in the outputs of one run.
        until: the end of the rule, in seconds since 1970; None: until it is revoked.
        at: the time when it was allowed.
        by: the user who allowed it.
        revoked_at: the time when it was revoked, or None.
        plan: the id of the row that holds the bytes of the plan.
    """

    id: str
    hash: str
    name: str
    data: tuple[ObjectId, ...]
    users: tuple[str, ...] | None
    runs: int | None
    taken: int
    max_outputs: int
    until: float | None
    at: float
    by: str | None
    revoked_at: float | None
    plan: str

    @classmethod
    def of(cls, row: Row) -> Rule:
        """Read a row."""
        fields = {field.name: row[field.name] for field in dataclasses.fields(cls)}
        users = fields["users"]
        return cls(**{**fields, "data": tuple(fields["data"]), "users": None if users is None else tuple(users)})

    def refusal(self, user: object, data: Collection[ObjectId], now: float) -> str:
        """Return the reason why a user may not run the program on data sets now, or ""."""
        if self.revoked_at is not None:
            return "was revoked"
        if self.until is not None and now >= self.until:
            return "has expired"
        if self.users is not None and user not in self.users:
            return f"is not allowed for {bounded(user, 100)!r}"
        # By type too: the string of a number is a different id than the number.
        known = {(type(obj_id), obj_id) for obj_id in self.data}
        other = [obj_id for obj_id in data if (type(obj_id), obj_id) not in known]
        if other:
            return f"is not allowed on {bounded(other[0], 100)!r}"
        if self.runs is not None and self.taken >= self.runs:
            return f"was run {self.taken} times, the maximum of its rule"
        return ""


class ProgramRules:
    """The programs that are allowed at a node."""

    def __init__(
        self, records: RowStore, plans: RowStore, audit: AuditLog, clock: Callable[[], float] = time.time
    ) -> None:
        self._records = records
        self._plans = plans
        self._audit = audit
        self._clock = clock

    def allow(
        self,
        plan: bytes,
        hash: str,
        name: str,
        data: Sequence[ObjectId],
        users: Sequence[str] | None,
        runs: int | None,
        max_outputs: int,
        until: float | None = None,
        by: object = "owner",
    ) -> Rule:
        """Allow a program, with the limits of its `Rule`. This copy of the serialized plan will run."""
        _check(plan, hash, data, users, runs, max_outputs)
        now = self._clock()
        row: Row = {
            "at": now, "hash": hash, "name": bounded(name, 100), "data": list(data),
            "users": None if users is None else list(users), "runs": runs, "taken": 0, "max_outputs": max_outputs,
            "until": until, "by": None if by is None else bounded(by, 100), "revoked_at": None,
            "plan": self._plans.append({"at": now, "plan": base64.b64encode(plan).decode()}),
        }  # fmt: skip
        row["id"] = self._records.append(row)
        names = "everybody" if users is None else ", ".join(users)
        text = f"{name}: for {names}, on {', '.join(map(str, data))}, runs {runs}, at most {max_outputs} numbers"
        self._audit.write(by, "allow program", hash, "program", True, text, row["id"])
        return Rule.of(row)

    def list(self) -> list[Rule]:
        """Return all rules, also expired and revoked ones, the oldest first."""
        return [Rule.of(row) for row in self._records.list()]

    def get(self, rule_id: str) -> Rule:
        """Return a rule."""
        row = self._records.get(str(rule_id))
        if row is None:
            raise _unknown(rule_id)
        return Rule.of(row)

    def revoke(self, rule_id: str, by: object = "owner") -> Rule:
        """Revoke a rule. Outputs that have left the node can't be revoked."""
        now = self._clock()
        row = self._records.change(
            str(rule_id), lambda row: row if row["revoked_at"] is not None else {**row, "revoked_at": now}
        )
        if row is None:
            raise _unknown(rule_id)
        self._audit.write(by, "revoke program", row["hash"], "program", None, row["name"], row["id"])
        return Rule.of(row)

    def plan_bytes(self, rule: Rule) -> bytes:
        """Return the serialized plan of a rule."""
        row = self._plans.get(rule.plan)
        if row is None:
            raise SyftError(f"The plan of the program {rule.id} is missing in the store. Allow it again.")
        return base64.b64decode(row["plan"])

    def count_run(self, user: object, hash: str, data: Collection[ObjectId], now: float | None = None) -> Rule:
        """Count one run of a program, and return the rule that allows it.

        The run counts even if it fails later.

        Args:
            user: the user who runs it.
            hash: the hash of the plan.
            data: the data sets that it reads.
            now: the time, in seconds since 1970.

        Raises:
            NotPermittedError: no rule allows it; the text gives the reason.
        """
        moment = self._clock() if now is None else now
        reasons: list[str] = []
        for row in reversed(self._records.list()):  # the newest first
            if row["hash"] != hash:
                continue
            reason = Rule.of(row).refusal(user, data, moment) or self._count(row["id"], user, data, moment)
            if not reason:
                rule = self.get(row["id"])
                self._audit.write(user, "run program", hash, "program", True, _on(data), rule.id)
                return rule
            reasons.append(reason)
        self._audit.write(user, "run program", hash, "program", False, (reasons or ["not allowed"])[0])
        if not reasons:
            raise NotPermittedError(
                f"The program {hash[:16]} is not allowed at this node. Publish the plan and ask the owner to allow it: "
                "python -m syft node programs allow"
            )
        raise NotPermittedError(f"The program {hash[:16]} {reasons[0]}. Ask the owner of the node.")

    def _count(self, rule_id: str, user: object, data: Collection[ObjectId], now: float) -> str:
        """Count a run unless the rule has changed meanwhile; return the reason why not, or ""."""
        reasons: list[str] = []

        def count(row: Row) -> Row:
            reasons[:] = [Rule.of(row).refusal(user, data, now)]
            return row if reasons[0] else {**row, "taken": row["taken"] + 1}

        return reasons[0] if self._records.change(rule_id, count) is not None else "was removed"


def _on(data: Collection[ObjectId]) -> str:
    return f"on {', '.join(map(str, data))}"


def _unknown(rule_id: object) -> SyftError:
    return SyftError(f"There is no program {bounded(rule_id, 40)!r}. List them: python -m syft node programs list")


def _check(
    plan: bytes,
    hash: str,
    data: Sequence[ObjectId],
    users: Sequence[str] | None,
    runs: int | None,
    max_outputs: int,
) -> None:
    if len(plan) > MAX_PLAN_BYTES:
        raise SyftError(f"A plan of {len(plan)} bytes is too large to be allowed; the limit is {MAX_PLAN_BYTES}.")
    if len(hash) != 64 or not _HEX.issuperset(hash):
        raise SyftError("The hash of a plan has 64 hexadecimal digits; see syft.messaging.plan.plan_hash.plan_hash.")
    if not data or not all(map(is_id, data)):
        raise SyftError("A program needs at least one data set: pass its id.")
    if users is not None and not users:
        raise SyftError("A program needs at least one user: name one, or pass None for everybody.")
    if max_outputs < 1 or (runs is not None and runs < 1):
        raise SyftError(f"A program needs at least one run and one output, got runs {runs}, max_outputs {max_outputs}.")


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a built plan to a file, for `python -m syft node programs allow FILE`."""
    from syft.messaging.plan.plan_hash import plan_hash
    from syft.serde.serde import serialize

    plan_hash(plan)  # raises if it is not built or its state is remote
    Path(path).write_bytes(serialize(plan))


def load_plan(path: str | Path) -> Plan:
    """Read a plan that `save_plan` wrote."""
    from syft.messaging.plan.plan import Plan
    from syft.serde.serde import deserialize

    data = Path(path).read_bytes()
    plan = deserialize(data, max_message_bytes=MAX_PLAN_BYTES)
    if not isinstance(plan, Plan) or not plan.is_built:
        raise SyftError(f"{Path(path).name} does not hold a built plan. Write it with save_plan(plan, path).")
    return plan
