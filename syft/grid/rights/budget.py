"""Budget: the ledger of a node, with the names that people use, and a row in the log for each thing that happens.

An account goes by the owner and the id of a data set, not by its values: what is published anew under the same id is
about the same people, so it goes on with the same account.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from syft.core.id_provider import ObjectId, is_id
from syft.dp.budgets.ledger import EACH, Ledger, Row, limit_of
from syft.dp.budgets.ledger_backend import LedgerBackend
from syft.exceptions import BudgetExceededError, NotPermittedError, ObjectNotFoundError, SyftError
from syft.federated.client.stored_dataset import DATASET
from syft.grid.rights.audit import Audit
from syft.grid.rights.usernames import canonical
from syft.grid.storage.interface import Item

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

_STRANGER = "Nobody knows who you are here, so there is no privacy budget for you. Log in first."


def account_name(item: Item) -> str:
    """Return the name of the account of a published object, or refuse an object that can have none."""
    if item.facts.is_derived:
        raise NotPermittedError("This was computed from data of others, so it has no privacy budget of its own.")
    return json.dumps([item.facts.owner, item.id])


def shown(name: str) -> str:
    """Return the id in the name of an account, for people."""
    return str(json.loads(name)[1])


def user_key(user: object) -> str:
    """Return whose account a user's is."""
    if not isinstance(user, str | int):
        raise NotPermittedError(_STRANGER)
    return str(canonical(user))


class Budget:
    """What the owner allows to be learnt, and what was.

    Args:
        audit: where it is written down.
        books: where the ledger is kept; by default in memory.
        clock: gives seconds since 1970.
    """

    def __init__(
        self, audit: Audit, books: LedgerBackend | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._audit = audit
        self.ledger = Ledger(books, shown, clock)

    def charge(self, user: object, data: Collection[Item], event: Row, what: str) -> Row:
        """Pay for a release from data sets to a user, or raise and change nothing (see `Ledger.charge`)."""
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
        """Say how much may be learnt.

        Args:
            worker: the worker that holds the data.
            data: the id of a published object, or "dataset:" and the key of a data set; None: all data together.
            epsilon: the privacy loss.
            delta: the probability with which it may be more.
            user: a user, "*" for each user by itself; None: all users together.
            by: who decides.
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
        """Take a limit away; a data set that no limit names is closed. Says whether there was one."""
        about = _about(user)
        found = [self.ledger.remove_limit(name, about) for name in self._accounts(worker, data)]
        text = f"user={'all' if about is None else about}"
        self._audit.write(by, "budget", data, "remove", None, text)
        return any(found)

    def _accounts(self, worker: BaseWorker, data: ObjectId | None) -> list[str | None]:
        """Return the names of the accounts that an id stands for."""
        if data is None:
            return [None]
        if not is_id(data):
            raise SyftError("A data set is named by the id of a published object, or by dataset:KEY.")
        found = published(worker, data)
        if found is not None:
            return [account_name(found)]
        names = {
            limit.data for limit in self.ledger.limits() if limit.data is not None and shown(limit.data) == str(data)
        }
        if names:  # it was deleted, and its budget is still there
            return [*names]
        if isinstance(data, str) and data.startswith(DATASET):  # it may be added later
            return [json.dumps([None, data])]
        raise ObjectNotFoundError(data, worker.id, "a budget is for published data; list it with node data list.")

    # --- reading ----------------------------------------------------------------------------------------------

    def rows(self, user: object = None) -> list[Row]:
        """Return the limits with what is spent and left: all of them, or those that bound a user."""
        rows = self.ledger.standing(None if user is None else user_key(user))
        return [{**row, **_named(row["data"])} for row in rows]

    def entries(self, user: object = None, after: int = 0, limit: int = 1000) -> list[Row]:
        """Return what was charged: all entries, or those of a user."""
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
