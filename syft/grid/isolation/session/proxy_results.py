"""ProxyResults: the proxies of the results of one call in the vault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import ObjectMeta, SameAs, TensorMeta
from syft.exceptions import CommandNotAllowedError, IdNotUniqueError
from syft.grid.isolation.proxies.objects import PROXIES, AnyProxy, describe
from syft.messaging.message import Operation
from syft.pointers.remote_call import following_id, rebuild_container
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.grid.isolation.children.worker import SessionWorker


class ProxyResults:
    """Stores the proxies of results under the ids of the sender, and describes them.

    Args:
        worker: the worker of the session process.
        session: the client.
        operation: the call.
    """

    def __init__(self, worker: SessionWorker, session: Session, operation: Operation) -> None:
        self._worker = worker
        self._session = session
        self._name = operation.cmd_name
        self._next: ObjectId | None = operation.return_ids[0] if operation.return_ids else None
        self._stored: list[ObjectId] = []

    def register(self, result: object) -> Any:
        """Store all proxies of a result, or none, and return the result with their descriptions."""
        try:
            return self._register(result)
        except Exception:
            self.withdraw()
            raise

    def withdraw(self) -> None:
        """Release the proxies: the call did not reach the vault."""
        for obj_id in self._stored:
            self._session.release(obj_id)

    def _register(self, result: object) -> object:
        if isinstance(result, PROXIES):
            self._keep(result)
            return describe(result)
        if result is None or isinstance(result, SameAs | TensorMeta | ObjectMeta | torch.Size | torch.dtype):
            return result
        if type(result) is dict:
            return {key: self._register(item) for key, item in result.items()}
        if isinstance(result, tuple | list):
            return rebuild_container(type(result), [self._register(item) for item in result])
        return result  # metadata: dim(), size(), numel()

    def _keep(self, proxy: AnyProxy) -> None:
        if self._next is None:
            raise CommandNotAllowedError(f"{self._name} without an id for its result")
        if self._next in self._worker.object_store.objects:
            raise IdNotUniqueError(f"Worker {self._worker.id!r} already holds an object with id {self._next!r}.")
        proxy.why = f"it was computed from private data by {self._name}"
        self._session.keep(self._next, proxy)
        self._stored.append(self._next)
        self._next = following_id(self._next)
