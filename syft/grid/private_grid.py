"""PrivateGridNetwork: a grid of given workers: local ones, processes, websocket workers and nodes.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> workers = [sy.VirtualWorker(hook, id=f"private-grid-{name}") for name in ("a", "b")]
    >>> grid = sy.PrivateGridNetwork(*workers)
    >>> x = torch.tensor([1.0, 2.0]).tag("#rain").send(workers[0])
    >>> list(grid.search("#rain"))
    ['private-grid-a']
"""

from __future__ import annotations

from typing import Any

from syft.display.facts import FactList, Shown
from syft.exceptions import ModelError, SyftError
from syft.grid.abstract_grid import AbstractGrid
from syft.grid.parallel import ask_all
from syft.hosting import client
from syft.workers.base import BaseWorker


class PrivateGridNetwork(Shown, AbstractGrid):
    """A grid of given workers.

    Args:
        *workers: workers of any kind, with different ids.
    """

    def __init__(self, *workers: BaseWorker) -> None:
        super().__init__()
        for worker in workers:
            if not isinstance(worker, BaseWorker):
                raise SyftError(f"PrivateGridNetwork() needs workers, got {type(worker).__name__}.")
        if len({worker.id for worker in workers}) != len(workers):
            raise SyftError("The workers of a grid must have different ids.")
        self.workers = list(workers)

    def search(self, *query: str) -> dict[Any, list[Any]]:
        """Search all workers concurrently.

        Args:
            *query: tags, ids, or parts of descriptions, that must all match.

        Returns:
            {worker id: pointers}, without workers that have no match. An unreachable worker is skipped with a warning;
            if none is reachable, an error is raised.
        """
        return self._search(self.workers, query)

    def _candidates(self, id: str, count: int, mpc: bool) -> list[Any]:
        done, failed = ask_all(self.workers, client.facts_at, self.timeout)
        self._report(failed, done, "asked")
        return [worker for worker, _ in done]

    def _known_hosts(self, id: str, mpc: bool) -> list[Any]:
        return self.workers

    def _worker(self, worker_id: object) -> Any:
        for worker in self.workers:
            if worker.id == worker_id:
                return worker
        raise ModelError(f"Worker {worker_id!r} is needed for this model and is not in this grid.")

    def _facts(self) -> FactList:
        return (("workers", "\n".join(map(repr, self.workers)) or "none"),)

    def __repr__(self) -> str:
        return f"<PrivateGridNetwork of {', '.join(str(worker.id) for worker in self.workers) or 'no workers'}>"
