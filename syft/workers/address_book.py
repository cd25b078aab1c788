"""AddressBook: the workers that a worker knows, by id."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.exceptions import WorkerNotFoundError
from syft.workers.abstract import AbstractWorker
from syft.workers.execution.session import serving

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.delegation.grants import Delegation

logger = logging.getLogger("syft.workers")


class AddressBook:
    """The workers that a worker knows, and itself."""

    id: ObjectId
    # Whether the class returns the registered worker of an id again, so that a notebook cell can be run twice.
    returns_registered = False

    if not TYPE_CHECKING:  # type checkers read __init__; subclasses may have further arguments

        def __new__(cls, *args, **kwargs):
            """Return the registered worker of this id, if there is one that can be used again."""
            known = cls._registered(args, kwargs) if cls.returns_registered else None
            return known if known is not None and known._can_be_reused() else object.__new__(cls)

    def __init__(self) -> None:
        self._known_workers: dict[ObjectId, Any] = {self.id: self}

    @classmethod
    def _registered(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Self | None:
        """Return the registered worker of an id, if it is of this class; arguments of subclasses are ignored."""
        given = cls._given(args, kwargs)
        local = getattr(given.get("hook"), "local_worker", None)
        if local is None or not given.get("auto_add", True):
            return None
        known: Self | None = local._known_workers.get(given.get("id", 0))
        if known is not None and type(known) is not cls:
            raise RuntimeError(f"Worker {known.id!r} is already known, as a {type(known).__name__}. Choose another id.")
        return known

    @classmethod
    def _given(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a constructor by name."""
        # A subclass may pass its arguments on as *args.
        signatures = (vars(kind).get("__signature__") for kind in cls.__mro__)
        names = next(found.parameters for found in signatures if found is not None and "hook" in found.parameters)
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def _can_be_reused(self) -> bool:
        """Return whether a registered worker is returned again, instead of a new one."""
        return True

    def _join(self, local: Any) -> None:
        """Register this worker and those that the local worker knows with each other."""
        if local is None or local is self:
            return
        for other in {id(known): known for known in (*local._known_workers.values(), local)}.values():
            if other is not self:
                if other.id != self.id:  # else this worker replaces it
                    self.add_worker(other)
                other.add_worker(self)

    def get_worker(self, id_or_worker: object, fail_hard: bool = False) -> Any:
        """Return a worker, given its id or itself.

        Args:
            id_or_worker: an id or a worker.
            fail_hard: raise if the id is unknown, instead of returning it unchanged.
        """
        if isinstance(id_or_worker, AbstractWorker):
            return id_or_worker
        if id_or_worker == self.id:
            return self
        known = self.known(id_or_worker) if isinstance(id_or_worker, int | str) else None
        if known is not None:
            return known
        if fail_hard:
            raise WorkerNotFoundError(id_or_worker, tuple(name for name in self._known_workers if name != self.id))
        logger.warning("Worker %s does not know a worker %.80r.", self.id, id_or_worker)
        return id_or_worker

    def known(self, worker_id: ObjectId) -> Any:
        """Return another worker by its id, or None; those introduced by the current client come first."""
        delegation = self._current_delegation()
        peer = None if delegation is None else delegation.peers.get(worker_id)
        if peer is not None:
            return peer
        found = self._known_workers.get(worker_id)
        return None if found is self else found

    def _current_delegation(self) -> Delegation | None:
        """Return the delegation of the client whose request this thread serves, if it introduced other workers."""
        session = serving.get()
        return session.delegation if session is not None and session.worker is self else None

    def _stream_to_itself(self) -> Any:
        """Return the stream of this worker to itself, if it serves a client that introduced other workers."""
        delegation = self._current_delegation()
        return None if delegation is None else delegation.own_stream()

    def add_worker(self, worker: BaseWorker) -> Any:
        """Register another worker."""
        self._known_workers[worker.id] = worker
        self._introduce(worker)
        return self

    def _introduce(self, worker: BaseWorker) -> None:
        """Inform this worker, if it is in another process, how to reach another one."""

    def add_workers(self, workers: Iterable[Any]) -> Any:
        """Register several workers."""
        for worker in workers:
            self.add_worker(worker)
        return self

    def remove_worker_from_registry(self, worker_id: ObjectId) -> None:
        """Remove a worker from the register."""
        del self._known_workers[worker_id]

    def remove_worker_from_local_worker_registry(self) -> None:
        """Remove this worker from the register of the local worker."""
        local_worker().remove_worker_from_registry(self.id)
