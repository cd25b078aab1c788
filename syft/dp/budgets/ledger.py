"""Ledger: the privacy budgets of data sets, by user and in total, and the charges so far.

A release is charged before it happens, to all accounts or to none, and the charge is on disk by then. After a crash in
between, a charge may have no release, but never a release no charge. Every epsilon here is for replacing one row.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from syft.display import Rows
from syft.display.facts import FactList, Shown
from syft.dp.accounting.neighbours import Neighbours
from syft.dp.accounting.privacy_loss import ROUNDING, LossAccount, event_of, number
from syft.dp.budgets.ledger_backend import LedgerBackend, LedgerTransaction, MemoryLedgerBackend
from syft.exceptions import BudgetExceededError

Row = dict[str, Any]
# Stands for each user separately.
EACH = "*"
_LIMITS, _ACCOUNTS = "budget limits", "budget accounts"
# The log of all charges; each user has one too.
LOG = "budget"
# The delta of a reported loss if no limit defines one.
DELTA = 1e-6
# The columns that a table of limits shows first.
_COLUMNS = ("data", "user", "epsilon", "delta", "spent", "left", "releases", "neighbours")
# Maximum number of limits that a ledger shows.
SHOWN_LIMITS = 10
# Maximum number of entries in one response.
MAX_ENTRIES = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Limit(Shown):
    """An upper bound of the privacy loss.

    Attributes:
        epsilon: the privacy loss.
        delta: the probability with which it may be exceeded; 0 allows only mechanisms that never exceed it.
        data: the data set; None for all data together.
        user: a user, "*" for each user separately, or None for all users together.
    """

    epsilon: float
    delta: float = 0.0
    data: str | None = None
    user: str | None = None

    def _facts(self) -> FactList:
        yield from (("epsilon", self.epsilon), ("delta", self.delta), ("neighbours", str(Neighbours.REPLACE_ROW)))
        yield from (("data", self.data or "all data together"), ("user", self.user or "all users together"))

    @property
    def key(self) -> str:
        """The key that identifies the limit."""
        return _key(self.data, self.user)

    def account(self, user: str) -> str:
        """Return the key of the account that the limit bounds, for a user."""
        return _key(self.data, None if self.user is None else user)

    def allows(self, account: LossAccount) -> bool:
        """Return whether an account is within the limit."""
        return account.epsilon(self.delta) <= self.epsilon * (1 + ROUNDING)


def limit_of(epsilon: object, delta: object = 0.0, data: str | None = None, user: str | None = None) -> Limit:
    """Return a validated limit; raises ValueError."""
    return Limit(number("epsilon", epsilon, closed=True), number("delta", delta, 0.5, closed=True), data, user)


def _key(data: str | None, user: str | None) -> str:
    return json.dumps([data, user])


def _log_of(user: str) -> str:
    """Return the name of the log with the entries of one user."""
    return f"{LOG} {hashlib.sha256(user.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


class Ledger(Shown):
    """Limits, accounts and entries.

    Args:
        books: the storage; in memory by default.
        shown: formats the name of a data set for error texts.
        clock: returns seconds since 1970.

    Example:
        >>> ledger = Ledger()
        >>> ledger.set_limit(1.0, data="patients")
        >>> entry = ledger.charge("alice", ["patients"], {"mechanism": "laplace", "epsilon": 0.4}, "sum")
        >>> round(ledger.standing()[0]["left"], 3)
        0.6
    """

    def __init__(
        self,
        books: LedgerBackend | None = None,
        shown: Callable[[str], str] = str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._books = books if books is not None else MemoryLedgerBackend()
        self._shown = shown
        self._clock = clock

    def _facts(self) -> FactList:
        rows = self.standing()
        yield from (("limits", len(rows)), ("neighbours", str(Neighbours.REPLACE_ROW)))
        for row in rows[:SHOWN_LIMITS]:
            about = "all data" if row["data"] is None else self._shown(row["data"])
            whose = "" if row["user"] is None else f" for {row['user']}"
            yield f"{about}{whose}", f"{row['left']:.4g} of epsilon {row['epsilon']:g} left"

    # --- limits -----------------------------------------------------------------------------------------------

    def set_limit(self, epsilon: float, delta: float = 0.0, data: str | None = None, user: str | None = None) -> None:
        """Set a limit, replacing the previous one; past charges still count.

        Args:
            epsilon: the privacy loss; 0 allows nothing.
            delta: the probability with which it may be exceeded.
            data: the data set; None for all data together. Data sets without a limit are closed.
            user: a user, "*" for each user separately, None for all together.
        """
        self.put(limit_of(epsilon, delta, data, user))

    def put(self, limit: Limit) -> None:
        """Store a limit."""
        with self._books.together() as page:
            page.put(_LIMITS, limit.key, dataclasses.asdict(limit))

    def remove_limit(self, data: str | None = None, user: str | None = None) -> bool:
        """Remove a limit, and return whether there was one. A data set without a limit is closed."""
        with self._books.together() as page:
            found = page.get(_LIMITS, _key(data, user)) is not None
            page.put(_LIMITS, _key(data, user), None)
        return found

    def limits(self) -> list[Limit]:
        """Return all limits."""
        with self._books.together() as page:
            return _sorted(page.list(_LIMITS))

    # --- charging ---------------------------------------------------------------------------------------------

    def charge(self, user: str, data: Iterable[str], event: Row, what: str = "") -> Row:
        """Charge one release, or raise and change nothing. The charge is durable when this returns.

        Args:
            user: the user who gets the result.
            data: the data sets that it is computed from.
            event: the mechanism (see `syft.dp.accounting.privacy_loss`).
            what: a label for the entry.

        Raises:
            BudgetExceededError: a limit would be exceeded, or a data set has none for this user.
        """
        names = sorted(set(data))
        if not names or not all(type(name) is str for name in (*names, user)):
            raise ValueError("A charge needs one user and at least one data set.")
        made, times = event_of(event)
        entry = {"at": self._clock(), "user": user, "data": names, "what": what, "event": dict(event)}
        with self._books.together() as page:
            limits = [limit for name in names for limit in self._open(page, name, user)]
            limits += _found(page, None, user)
            keys = {_key(name, who) for name in (*names, None) for who in (user, None)}
            before = {key: LossAccount.from_dict(page.get(_ACCOUNTS, key)) for key in keys}
            after = {key: account.after(made, times) for key, account in before.items()}
            for limit in limits:
                if not limit.allows(after[limit.account(user)]):
                    self._refuse(limit, before[limit.account(user)], after[limit.account(user)], user)
            for key, account in after.items():
                page.put(_ACCOUNTS, key, account.to_dict())
            page.append(LOG, entry)
            entry["number"] = page.append(_log_of(user), entry)
        return entry

    def _open(self, page: LedgerTransaction, name: str, user: str) -> list[Limit]:
        """Return the limits of a data set; raises if there is none for a user."""
        found = list(_found(page, name, user))
        if not found:
            data = self._shown(name)
            raise BudgetExceededError(
                f"The owner has set no privacy budget for the data set {data!r} and user {user!r}, so no result "
                "from it is released, with noise or without. Ask the owner to set one: "
                f"python -m syft node budget set --data {shlex.quote(data)} --user {shlex.quote(user)} --epsilon 1"
            )
        return found

    def _refuse(self, limit: Limit, before: LossAccount, after: LossAccount, user: str) -> None:
        spent, then = before.epsilon(limit.delta), after.epsilon(limit.delta)
        left = max(0.0, limit.epsilon - spent)
        takes = then - spent if math.isfinite(then) else then
        about = "all data" if limit.data is None else f"the data set {self._shown(limit.data)!r}"
        whose = "for everybody together" if limit.user is None else f"for user {user!r}"
        hint = "A limit with delta 0 has no room for Gaussian noise. " if limit.delta == 0 and math.isinf(then) else ""
        raise BudgetExceededError(
            f"This would exceed the privacy budget of {about} {whose}: epsilon {limit.epsilon:g} with delta "
            f"{limit.delta:g} ({Neighbours.REPLACE_ROW}). {left:.4g} is left, and this needs {takes:.4g}. "
            f"{hint}Nothing was charged or "
            "released. Use a smaller epsilon (more noise), or ask the owner for a larger budget: "
            "python -m syft node budget set --help"
        )

    # --- reading ----------------------------------------------------------------------------------------------

    def standing(self, user: str | None = None) -> list[Row]:
        """Return each limit with its spent and remaining epsilon.

        Args:
            user: only the limits of this user, with the user's own spending; None for all. For limits of each user,
                the largest spending of a user is then returned.
        """
        with self._books.together() as page:
            rows = page.list(_LIMITS)
            if user is not None:
                names = sorted({row["data"] for row in rows.values() if row["data"] is not None})
                found = [limit for name in (*names, None) for limit in _found(page, name, user)]
                return Rows((self._stand_for(page, limit, user) for limit in found), "privacy budgets", _COLUMNS)
            accounts = page.list(_ACCOUNTS)
        limits = _sorted(rows)
        named = {(limit.data, limit.user) for limit in limits}
        return Rows(
            (self._stand(limit, _worst(limit, accounts, named)) for limit in limits), "privacy budgets", _COLUMNS
        )

    def _stand_for(self, page: LedgerTransaction, limit: Limit, user: str) -> Row:
        """Return a limit as reported to one user, without the charges of others."""
        row = self._stand(limit, LossAccount.from_dict(page.get(_ACCOUNTS, limit.account(user))))
        own = LossAccount.from_dict(page.get(_ACCOUNTS, _key(limit.data, user)))
        return {**row, "spent": own.epsilon(limit.delta), "releases": own.releases}

    def _stand(self, limit: Limit, account: LossAccount) -> Row:
        spent = account.epsilon(limit.delta)
        return {
            **dataclasses.asdict(limit), "spent": spent, "left": max(0.0, limit.epsilon - spent),
            "releases": account.releases, "neighbours": Neighbours.REPLACE_ROW.value,
        }  # fmt: skip

    def spent(self, data: str | None = None, user: str | None = None, delta: float = DELTA) -> float:
        """Return the privacy loss so far, of a data set, a user, both or in total, at a delta."""
        with self._books.together() as page:
            return LossAccount.from_dict(page.get(_ACCOUNTS, _key(data, user))).epsilon(delta)

    def entries(self, user: str | None = None, after: int = 0, limit: int = MAX_ENTRIES) -> list[Row]:
        """Return the charges, oldest first: of one user, or all.

        Args:
            user: only the entries of this user, which have their own numbers.
            after: skip the entries up to this number.
            limit: maximum number of entries.
        """
        with self._books.together() as page:
            found = page.entries(LOG if user is None else _log_of(user), after, min(limit, MAX_ENTRIES))
        return [{**line.value, "number": line.number} for line in found]


def _sorted(rows: dict[str, Row]) -> list[Limit]:
    return sorted((Limit(**row) for row in rows.values()), key=lambda limit: (limit.data or "", limit.user or ""))


def _found(page: LedgerTransaction, name: str | None, user: str) -> Iterator[Limit]:
    """Yield the limits of a user, for a data set or all data: the joint one, and the user's own or that of each."""
    together = page.get(_LIMITS, _key(name, None))
    own = page.get(_LIMITS, _key(name, user)) or page.get(_LIMITS, _key(name, EACH))
    for row in (together, own):
        if row is not None:
            yield Limit(**row)


def _worst(limit: Limit, accounts: dict[str, Any], named: set[tuple[str | None, str | None]]) -> LossAccount:
    """Return the account that a limit bounds; of several, the one with the largest loss.

    A limit of one user replaces that of each user: `named` has the (data, user) pairs with limits.
    """
    if limit.user != EACH:
        return LossAccount.from_dict(accounts.get(limit.key))
    each = [
        LossAccount.from_dict(fields)
        for data, user, fields in ((*json.loads(key), fields) for key, fields in accounts.items())
        if data == limit.data and user is not None and (data, user) not in named
    ]
    return max(each, key=lambda account: account.epsilon(limit.delta), default=LossAccount())
