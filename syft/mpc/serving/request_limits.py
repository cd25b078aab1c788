"""Request limits: the number of requests of a user to a hosted encrypted model in a day, counted at every party.

Results reveal something about a model, so its owner limits them for each user. A day begins at 00:00 UTC. The count
starts again when the model is hosted again. A node with a store keeps the counts there, so a restart does not reset
them. All users that did not authenticate count as one user.
"""

from __future__ import annotations

import datetime
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from syft.exceptions import ModelError
from syft.hosting.server import MAX_MODELS, names_at

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Requests of one user in a day, unless the owner of a model says otherwise.
DEFAULT_REQUESTS = 1000
MAX_REQUESTS = 2**53
_AREA = "model requests"
_DAY = 86400
_ANONYMOUS = "anonymous-"

# model name -> version, day, number of requests
Row = dict[str, list[Any]]


def check_limit(limit: object) -> int | None:
    """Return a limit if it is valid: an integer of at least 1, or None for no limit."""
    if limit is None or (type(limit) is int and 0 < limit <= MAX_REQUESTS):
        return limit
    raise ModelError(f"max_requests_per_user must be an integer of at least 1, or None for no limit, got {limit!r}.")


# The rows of workers without a store, by user.
_rows: weakref.WeakKeyDictionary[BaseWorker, dict[str, Row]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def spend(worker: BaseWorker, user: object, name: str, version: str, limit: int | None) -> None:
    """Count a request of a user to a model. A request that fails later has been counted.

    Raises:
        ModelError: the user has used up the requests of this day; the request is not counted.
    """
    if limit is None:
        return
    supervisor = getattr(worker, "spend_request", None)
    if supervisor is not None:
        supervisor(name, version, limit)
        return
    today = int(time.time() // _DAY)

    def count(row: Row | None) -> Row:
        current = {model: entry for model, entry in (row or {}).items() if entry[1] == today}
        if len(current) >= MAX_MODELS:
            hosted = set(names_at(worker))
            current = {model: entry for model, entry in current.items() if model in hosted}
        counted = current.get(name)
        used = counted[2] if counted is not None and counted[0] == version else 0
        if used >= limit:
            raise ModelError(_refusal(worker, name, limit, today))
        return {**current, name: [version, today, used + 1]}

    key = _ANONYMOUS if str(user).startswith(_ANONYMOUS) else f"{type(user).__name__}:{user}"
    stored = getattr(worker, "request_counts", None)
    if stored is not None:
        stored.update(_AREA, key, count)
        return
    with _lock:
        rows = _rows.setdefault(worker, {})
        rows[key] = count(rows.get(key))


def _refusal(worker: BaseWorker, name: str, limit: int, today: int) -> str:
    again = datetime.datetime.fromtimestamp((today + 1) * _DAY, datetime.UTC)
    return (
        f"The model {name!r} at {worker.id!r} answers {limit} requests of a user in a day, and you have used all of "
        f"them. Retry after {again:%Y-%m-%d} 00:00 UTC, or ask the model's owner for a higher limit."
    )
