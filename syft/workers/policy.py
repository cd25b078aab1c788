"""What may leave a worker: one check for every path that a value can take.

`get`, `item`, `float()`, `bool()`, `tolist`, `numpy`, formatting, moving to another worker and the text of errors
all come through `check_release`. The default of an in-process worker lets everything out: it is a sandbox.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from syft.exceptions import GetNotPermittedError


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """A value that is about to leave a worker.

    Attributes:
        obj: the object, or what it is computed from.
        client: the id of who asks, as the connection knows it.
        how: the way out (`get`, `move`, `error text`, or the name of a call).
        reason: what the asker wrote.
    """

    obj: Any
    client: object
    how: str
    reason: str = ""


class ReleasePolicy(Protocol):
    """Decides what leaves a worker."""

    def allows(self, release: Release) -> bool:
        """Say whether this value may leave."""
        ...


class AllowAll:
    """Everything leaves: for sandboxes, lessons and tests."""

    def allows(self, release: Release) -> bool:
        """Say yes."""
        return True


class DenyAll:
    """Nothing leaves."""

    def allows(self, release: Release) -> bool:
        """Say no."""
        return False


ALLOW_ALL = AllowAll()


def check_release(worker: Any, session: Any, obj: Any, how: str, reason: str = "") -> None:
    """Raise unless the worker's policy lets this value leave."""
    policy = worker.policy
    if policy is ALLOW_ALL:
        return
    if not policy.allows(Release(obj, session.client_id, how, reason)):
        raise GetNotPermittedError(
            f"Worker {worker.id!r} does not release this value to {session.client_id!r} ({how}). "
            "Ask its owner, or compute something that may be released."
        )


def check_change(worker: Any, session: Any, obj_id: Any, how: str) -> None:
    """Raise unless a client may change or delete an object: its own it may, others' only if the policy says so."""
    if worker.policy is ALLOW_ALL or worker.object_store.claims.belongs_to(obj_id, session):
        return
    check_release(worker, session, worker.object_store.get(obj_id), how)
