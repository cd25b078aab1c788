"""What a node does when it is asked about privacy budgets: a closed table. Who asks is what the connection says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syft.exceptions import NotPermittedError, SyftError
from syft.grid.rights.budget import published, user_key
from syft.grid.rights.handlers import owners_policy, policy_of
from syft.grid.rights.policy import OWNER
from syft.workers.budget_client import BUDGET
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

MAX_NUMBER = 2**62


def _left(worker: Any, session: Session) -> Any:
    return policy_of(worker).budget.rows(user_key(session.client_id))


def _limits(worker: Any, session: Session, user: Any = None) -> Any:
    return owners_policy(worker, session).budget.rows(_text(user))


def _set(
    worker: Any, session: Session, data: Any = None, epsilon: Any = None, delta: Any = 0.0, user: Any = None
) -> Any:
    budget = _policy(worker, session, data).budget
    try:
        return budget.set(worker, data, epsilon, delta, _text(user), by=session.client_id)
    except ValueError as error:
        raise SyftError(str(error)) from None


def _remove(worker: Any, session: Session, data: Any = None, user: Any = None) -> Any:
    return _policy(worker, session, data).budget.remove(worker, data, _text(user), by=session.client_id)


def _entries(worker: Any, session: Session, user: Any = None, after: Any = 0, limit: Any = 1000) -> Any:
    if any(type(number) is not int or not 0 <= number < MAX_NUMBER for number in (after, limit)):
        raise SyftError("Entries are asked for after a number, and at most so many.")
    if session.role == OWNER:
        return policy_of(worker).budget.entries(_text(user), after, limit)
    own = user_key(session.client_id)
    if user is not None and _text(user) != own:
        raise NotPermittedError("What others were charged is told to owners alone; leave out user= for your own.")
    return policy_of(worker).budget.entries(own, after, limit)


def _policy(worker: Any, session: Session, data: Any) -> Any:
    """Return the policy for somebody who may set limits: an owner of the node, or of the data."""
    policy = policy_of(worker)
    if session.role != OWNER and session.client_id is not None and isinstance(data, str | int):
        item = published(worker, data)
        if item is not None and item.facts.owner == session.client_id:
            return policy
    return owners_policy(worker, session)


def _text(user: Any) -> str | None:
    if user is not None and type(user) is not str:
        raise SyftError("A user is named by a text.")
    return user


# By the name of the question: what answers it, and the arguments that it has.
CALLS: dict[str, tuple[Callable[..., Any], frozenset[str]]] = {
    "left": (_left, frozenset()),
    "limits": (_limits, frozenset({"user"})),
    "set": (_set, frozenset({"data", "epsilon", "delta", "user"})),
    "remove": (_remove, frozenset({"data", "user"})),
    "entries": (_entries, frozenset({"user", "after", "limit"})),
}


def answer(worker: Any, session: Session, action: Any = None, *rest: Any, **settings: Any) -> Any:
    """Answer a question about privacy budgets."""
    function, names = CALLS.get(action, (None, frozenset())) if type(action) is str else (None, frozenset())
    if function is None or rest or not settings.keys() <= names:
        raise SyftError(f"Of budgets one can ask: {', '.join(CALLS)}; each has arguments of its own.")
    return function(worker, session, **settings)


WORKER_COMMANDS[BUDGET] = answer
