"""The privacy budgets of a worker, as users and owners see them from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError
from syft.workers.execution.execute import WORKER_COMMANDS

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.execution.session import Session

BUDGET = "syft.budget"
Row = dict[str, Any]


class BudgetClient:
    """The privacy budgets of one worker. Called, it says what is left to whoever asks.

    Args:
        worker: the worker, of any kind, that has an owner's policy.

    Example:
        >>> node.budget()                                              # what is left to me  # doctest: +SKIP
        >>> node.budget.set("patients", epsilon=1.0, delta=1e-6)       # for owners  # doctest: +SKIP
    """

    def __init__(self, worker: BaseWorker) -> None:
        self._worker = worker

    def __repr__(self) -> str:
        return f"<privacy budgets of {self._worker.id!r}, replace-one row; call it for what is left to you>"

    def __call__(self) -> list[Row]:
        """Return each limit that bounds you, with what is spent and left of it.

        `neighbours` of a row names the data sets that an epsilon compares: of the same size, with one row replaced.
        """
        return list(self._ask("left"))

    def limits(self, user: str | None = None) -> list[Row]:
        """Return all limits, or those that bound a user, with what is spent and left. For owners."""
        return list(self._ask("limits", user=user))

    def set(
        self, data: object = None, epsilon: float | None = None, delta: float = 0.0, user: str | None = None
    ) -> list[Row]:
        """Say how much may be learnt from a data set. For owners of the node, and of the data.

        Args:
            data: the id of a published object, a pointer to it, or "dataset:" and the key of a data set; None: all data
                together. Only data sets that a limit names are open at all.
            epsilon: the privacy loss; 0 stops everything.
            delta: the probability with which it may be more; 0 allows no Gaussian noise.
            user: a user, "*" for each user by itself; None: all users together.
        """
        return list(self._ask("set", data=_id_of(data), epsilon=epsilon, delta=delta, user=user))

    def remove(self, data: object = None, user: str | None = None) -> bool:
        """Take a limit away, and say whether there was one. For owners."""
        found: bool = self._ask("remove", data=_id_of(data), user=user)
        return found

    def entries(self, user: str | None = None, after: int = 0, limit: int = 1000) -> list[Row]:
        """Return what was charged, the oldest first: to you; for owners to everybody, or to one user.

        Args:
            user: whose entries, for owners.
            after: leave out the entries up to this number.
            limit: at most so many.
        """
        return list(self._ask("entries", user=user, after=after, limit=limit))

    def _ask(self, action: str, **settings: object) -> Any:
        stream = local_worker().stream_to(self._worker)
        return stream.run(BUDGET, (action,), settings, None)


def _id_of(data: Any) -> ObjectId | None:
    """Return the id that a pointer points at; ids stay what they are."""
    found: ObjectId | None = getattr(data, "id_at_location", data)
    return found


def _nobody(worker: BaseWorker, session: Session, *args: object, **settings: object) -> Any:
    raise SyftError(f"Worker {worker.id!r} has no owner who could set budgets: its policy decides by itself.")


# What answers at a node takes its place (syft.grid.rights).
WORKER_COMMANDS.setdefault(BUDGET, _nobody)
