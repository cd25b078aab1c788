"""Budget: the privacy ledger of a node, by ids of data sets and names of users, with an audit log.

An account is identified by the owner and the id of a data set, not by its values: data published again under the same
id is about the same people, so it continues the same account.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId, is_id, short_id
from syft.dp.budgets.ledger import EACH, Ledger, Row, limit_of
from syft.dp.budgets.ledger_backend import LedgerBackend
from syft.exceptions import BudgetExceededError, NotPermittedError, ObjectNotFoundError, SyftError
from syft.federated.client.stored_dataset import DATASET
from syft.grid.identity.names import canonical
from syft.grid.rights.audit import AuditLog
from syft.grid.storage.interface import Item

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

_ANONYMOUS = "Anonymous users have no privacy budget at this node. Log in first."


def account_name(item: Item) -> str:
    """Return the name of the account of a published object, or refuse an object that can have none."""
    if item.facts.is_derived:
        raise NotPermittedError("This object was computed from data of others, so it has no privacy budget.")
    return json.dumps([item.facts.owner, item.id])


def _shown_in_errors(name: str) -> str:
    """Return the id of the data set of an account; of a random id its first digits, by which commands accept it."""
    return short_id(json.loads(name)[1])


def shown(name: str) -> str:
    """Return the id of the data set of an account, for display."""
    return str(json.loads(name)[1])


def user_key(user: object) -> str:
    """Return the key of a user's account."""
    if not isinstance(user, str | int):
        raise NotPermittedError(_ANONYMOUS)
    return str(canonical(user))


class Budget:
    """The privacy budgets of a node: limits set by the owner, and charges."""

    def __init__(self, audit: AuditLog, books: LedgerBackend, clock: Callable[[], float] = time.time) -> None:
        self._audit = audit
        self.ledger = Ledger(books, _shown_in_errors, clock)

    def charge(self, user: object, data: Collection[Item], event: Row, what: str) -> Row:
        """Charge a release from data sets to a user, or raise and change nothing (see `Ledger.charge`)."""
        first = min((str(item.id) for item in data), default=None)
        text = " ".join(f"{name}={value:g}" for name, value in event.items() if isinstance(value, int | float))
        try:
            entry = self.ledger.charge(user_key(user), map(account_name, data), event, what)
        except NotPermittedError as error:
            why = "budget" if isinstance(error, BudgetExceededError) else "no account"
            self._audit.write(user, "charge", first, what, False, f"{why}: {event.get('mechanism')} {text}")
            raise
        self._audit.write(user, "charge", first, what, True, f"{event['mechanism']} {text}")
        return entry

    # --- limits -----------------------------------------------------------------------------------------------

    def set(
        self,
        worker: BaseWorker,
        data: ObjectId | None,
        epsilon: float,
        delta: float = 0.0,
        user: str | None = None,
        by: object = "owner",
    ) -> list[Row]:
        """Set a limit.

        Args:
            worker: the worker that holds the data.
            data: the id of a published object, or "dataset:" and the key of a data set; None: all data together.
            epsilon: the maximum privacy loss.
            delta: the probability that the loss exceeds epsilon.
            user: a user, "*" for each user separately; None: all users together.
            by: the user who sets the limit.
        """
        names, about = self._accounts(worker, data), _about(user)
        limits = [limit_of(epsilon, delta, name, about) for name in names]
        text = f"epsilon={epsilon:g} delta={delta:g} user={'all' if about is None else about}"
        self._audit.write(by, "budget", data, "set", None, text)
        for limit in limits:
            self.ledger.put(limit)
        found = (row for row in self.ledger.standing() if row["data"] in names and row["user"] == about)
        return [{**row, **_named(row["data"])} for row in found]

    def remove(self, worker: BaseWorker, data: ObjectId | None, user: str | None = None, by: object = "owner") -> bool:
        """Remove a limit; returns whether it existed. Data without a limit can't be queried."""
        about = _about(user)
        found = [self.ledger.remove_limit(name, about) for name in self._accounts(worker, data)]
        text = f"user={'all' if about is None else about}"
        self._audit.write(by, "budget", data, "remove", None, text)
        return any(found)

    def _accounts(self, worker: BaseWorker, data: ObjectId | None) -> list[str | None]:
        """Return the names of the accounts of an id."""
        if data is None:
            return [None]
        if not is_id(data):
            raise SyftError(f"{data!r:.100} is not a data set. Pass the id of a published object, or dataset:KEY.")
        found = published(worker, data)
        if found is not None:
            return [account_name(found)]
        names = {
            limit.data for limit in self.ledger.limits() if limit.data is not None and shown(limit.data) == str(data)
        }
        if names:  # the data set was deleted, its budget remains
            return [*names]
        if isinstance(data, str) and data.startswith(DATASET):  # the data set may be added later
            return [json.dumps([None, data])]
        raise ObjectNotFoundError(data, worker.id, "budgets apply to published data; list it with node data list.")

    # --- reading ----------------------------------------------------------------------------------------------

    def rows(self, user: object = None) -> list[Row]:
        """Return the limits with the spent and remaining budget: all, or those that apply to a user."""
        rows = self.ledger.standing(None if user is None else user_key(user))
        return [{**row, **_named(row["data"])} for row in rows]

    def entries(self, user: object = None, after: int = 0, limit: int = 1000) -> list[Row]:
        """Return the charges: all, or those of a user."""
        rows = self.ledger.entries(None if user is None else user_key(user), after, limit)
        return [{**row, "data": [_named(name)["data"] for name in row["data"]]} for row in rows]


def published(worker: BaseWorker, obj_id: ObjectId) -> Item | None:
    """Return the description of a published object of a node; None if there is none."""
    object_manager = worker.object_store.object_manager
    if object_manager is None or obj_id not in worker.object_store.objects:
        return None
    found: Item | None = object_manager.item(obj_id)
    return found


def _named(name: str | None) -> Row:
    owner, data = (None, None) if name is None else json.loads(name)
    return {"data": None if data is None else str(data), "owner": None if owner is None else str(owner)}


def _about(user: str | None) -> str | None:
    return user if user is None or user == EACH else user_key(user)
