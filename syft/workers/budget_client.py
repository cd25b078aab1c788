"""The privacy budgets of a worker, for remote users and owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.display import Rows
from syft.display.facts import FactList, Shown
from syft.exceptions import SyftError
from syft.workers.execution.execute import WORKER_COMMANDS

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

BUDGET = "syft.budget"
Row = dict[str, Any]
# The columns that tables of budgets and charges show first.
_COLUMNS = ("data", "user", "epsilon", "delta", "spent", "left", "releases", "neighbours")
_CHARGE_COLUMNS = ("number", "at", "user", "data", "what", "event")


class BudgetClient(Shown):
    """The privacy budgets of one worker. Calling it returns the remaining budgets of the caller.

    Args:
        worker: a worker of any kind with an owner's policy.

    Example:
        >>> node.budget()                                              # what is left to me  # doctest: +SKIP
        >>> node.budget.set("patients", epsilon=1.0, delta=1e-6)       # for owners  # doctest: +SKIP
    """

    def __init__(self, worker: BaseWorker) -> None:
        self._worker = worker

    def __repr__(self) -> str:
        return f"<privacy budgets of {self._worker.id!r}, replace-one row; call it for what is left to you>"

    def _facts(self) -> FactList:
        yield from (("at", self._worker.id), ("neighbours", "replace-one row"))
        yield "show", "call it for what is left to you: node.budget()"

    def __call__(self) -> list[Row]:
        """Return each limit that applies to you, with the spent and the remaining amount.

        `neighbours` of a row names the data sets that an epsilon compares: of the same size, with one row replaced.
        """
        return _budgets(self._ask("left"))

    def limits(self, user: str | None = None) -> list[Row]:
        """Return all limits, or those of a user, with the spent and the remaining amounts. For owners."""
        return _budgets(self._ask("limits", user=user))

    def set(
        self, data: object = None, epsilon: float | None = None, delta: float = 0.0, user: str | None = None
    ) -> list[Row]:
        """Limit how much may be learnt from a data set. For owners of the node, and of the data.

        Args:
            data: the id of a published object, a pointer to it, or "dataset:" and the key of a data set; None: all data
                together. Only data sets that a limit names are open at all.
            epsilon: the privacy loss; 0 stops everything.
            delta: the probability with which it may be more; 0 allows no Gaussian noise.
            user: a user, "*" for each user by itself; None: all users together.
        """
        return _budgets(self._ask("set", data=_id_of(data), epsilon=epsilon, delta=delta, user=user))

    def remove(self, data: object = None, user: str | None = None) -> bool:
        """Remove a limit, and return whether there was one. For owners."""
        found: bool = self._ask("remove", data=_id_of(data), user=user)
        return found

    def entries(self, user: str | None = None, after: int = 0, limit: int = 1000) -> list[Row]:
        """Return the charges, oldest first: your own; for owners those of all users, or of one.

        Args:
            user: the user whose charges are returned, for owners.
            after: leave out entries up to this number.
            limit: the maximum number of entries.
        """
        rows = self._ask("entries", user=user, after=after, limit=limit)
        return Rows(rows, "charges of privacy budgets", _CHARGE_COLUMNS)

    def _ask(self, action: str, **settings: object) -> Any:
        stream = local_worker().stream_to(self._worker)
        return stream.run(BUDGET, (action,), settings, None)


def _budgets(rows: Any) -> Rows:
    return Rows(rows, "privacy budgets", _COLUMNS)


def _id_of(data: Any) -> ObjectId | None:
    """Return the id that a pointer points at; an id is returned unchanged."""
    found: ObjectId | None = getattr(data, "id_at_location", data)
    return found


def _nobody(worker: BaseWorker, session: Session, *args: object, **settings: object) -> Any:
    raise SyftError(f"Worker {worker.id!r} has no owner who could set budgets: its policy decides by itself.")


# Nodes register handlers of their own (syft.grid.rights).
WORKER_COMMANDS.setdefault(BUDGET, _nobody)
