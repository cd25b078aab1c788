"""AbstractGrid: search many workers, host models at some of them, and query the models."""

from __future__ import annotations

import abc
from typing import Any

from syft.grid.parallel import PATIENCE


class AbstractGrid(abc.ABC):
    """A grid of workers.

    An encrypted model takes SMPC_HOST_CHUNK workers, or three if there are no more: the last is the dealer, the others
    hold shares. Four workers are a dealer and three parties, any two of which together learn nothing.

    An unreachable worker is skipped with a warning, after at most `patience` seconds.
    """

    SMPC_HOST_CHUNK = 4

    def __init__(self) -> None:
        self.patience = PATIENCE

    @abc.abstractmethod
    def search(self, *query: str) -> dict[Any, list[Any]]:
        """Return the matching objects of all workers: {worker id: pointers}, without workers that have none."""

    @abc.abstractmethod
    def serve_model(
        self,
        model: object,
        id: str,
        mpc: bool = False,
        allow_remote_inference: bool = False,
        allow_download: bool = False,
        n_replica: int = 1,
    ) -> None:
        """Host a model at some of the workers."""

    @abc.abstractmethod
    def query_model_hosts(self, id: str, mpc: bool = False) -> Any:
        """Return the worker that hosts a model, or a tuple of several."""

    @abc.abstractmethod
    def run_remote_inference(self, id: str, data: object, mpc: bool = False) -> Any:
        """Run a hosted model, and return its result."""
