"""AbstractGrid: many workers as one: search them all, host models at some, ask the models wherever they are."""

from __future__ import annotations

import abc
from typing import Any

from syft.grid.parallel import PATIENCE


class AbstractGrid(abc.ABC):
    """A grid of workers.

    An encrypted model takes SMPC_HOST_CHUNK workers, or three where there are no more: the last of them deals random
    numbers, all others hold shares. So four are three holders, of which any two together learn nothing, and a dealer.

    A worker that is not there is left out, with a warning; nothing waits for it longer than `patience` seconds.
    """

    SMPC_HOST_CHUNK = 4

    def __init__(self) -> None:
        self.patience = PATIENCE

    @abc.abstractmethod
    def search(self, *query: str) -> dict[Any, list[Any]]:
        """Find what matches all words, everywhere: {worker id: pointers}; workers without a match are left out."""

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
        """Ask a model wherever it is hosted, and return its answer."""
