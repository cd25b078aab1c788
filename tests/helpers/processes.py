"""Workers in child processes, for tests."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import syft as sy

_number = itertools.count()


def start(name: str) -> Any:
    """Start a worker in a process of its own."""
    return sy.ProcessWorker(sy.TorchHook(torch), id=f"{name}-process-{next(_number)}")


def end(*workers: Any) -> None:
    """Stop workers, and make everybody forget them."""
    for worker in workers:
        worker.stop()
        for other in (sy.local_worker, *list(sy.local_worker._known_workers.values())):
            other._known_workers.pop(worker.id, None)
