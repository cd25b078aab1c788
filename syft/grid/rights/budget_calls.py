"""Handlers of calls about privacy budgets. The user is the one authenticated by the connection."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syft.exceptions import NotPermittedError, SyftError
from syft.grid.rights.budget import published, user_key
from syft.grid.rights.handlers import owners_policy, policy_of
from syft.grid.rights.policy import OWNER
from syft.workers.budget_client import BUDGET
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

MAX_NUMBER = 2**62


def _left(worker: BaseWorker, session: Session) -> Any:
    return policy_of(worker).budget.rows(user_key(session.client_id))


def _limits(worker: BaseWorker, session: Session, user: object = None) -> Any:
    return owners_policy(worker, session).budget.rows(_text(user))


def _set(
    worker: BaseWorker,
    session: Session,
    data: object = None,
    epsilon: object = None,
    delta: object = 0.0,
    user: object = None,
) -> Any:
    budget = _policy(worker, session, data).budget
    try:
        return budget.set(worker, data, epsilon, delta, _text(user), by=session.client_id)
    except ValueError as error:
        raise SyftError(str(error)) from None


def _remove(worker: BaseWorker, session: Session, data: object = None, user: object = None) -> Any:
    return _policy(worker, session, data).budget.remove(worker, data, _text(user), by=session.client_id)


def _entries(worker: BaseWorker, session: Session, user: object = None, after: object = 0, limit: object = 1000) -> Any:
    after, limit = _number("after", after), _number("limit", limit)
    if session.role == OWNER:
        return policy_of(worker).budget.entries(_text(user), after, limit)
    own = user_key(session.client_id)
    if user is not None and _text(user) != own:
        raise NotPermittedError("Only owners see the charges of other users. Leave out user= to list your own.")
    return policy_of(worker).budget.entries(own, after, limit)


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise SyftError(f"{name} must be a whole number from 0 to {MAX_NUMBER - 1}.")
    return value


def _policy(worker: BaseWorker, session: Session, data: object) -> Any:
    """Return the policy if the session may set limits: as an owner of the node, or of the data."""
    policy = policy_of(worker)
    if session.role != OWNER and session.client_id is not None and isinstance(data, str | int):
        item = published(worker, data)
        if item is not None and item.facts.owner == session.client_id:
            return policy
    return owners_policy(worker, session)


def _text(user: object) -> str | None:
    if user is not None and type(user) is not str:
        raise SyftError(f"user must be a text, got {type(user).__name__}.")
    return user


# Handlers, by action. Their parameters are the arguments that a client may pass.
CALLS: dict[str, Callable[..., Any]] = {
    "left": _left, "limits": _limits, "set": _set, "remove": _remove, "entries": _entries
}  # fmt: skip


def handle_budget_call(
    worker: BaseWorker, session: Session, action: object = None, *rest: object, **settings: object
) -> Any:
    """Handle a call about privacy budgets."""
    function = CALLS.get(action) if type(action) is str else None
    if function is None or rest or not settings.keys() <= set(list(inspect.signature(function).parameters)[2:]):
        raise SyftError(f"Unknown budget call, or unknown arguments. The calls are: {', '.join(CALLS)}.")
    return function(worker, session, **settings)


WORKER_COMMANDS[BUDGET] = handle_budget_call
