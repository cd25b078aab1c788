"""Data sets stored by a node: two tensors as a published object with the id `dataset:` plus its key.

They count in the quota of the node, are on disk before the request returns, are listed, shared and deleted by their
id, and survive a restart.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import TensorDataset

from syft.core.id_provider import DATASET_PREFIX, is_id
from syft.core.object import AbstractObject
from syft.exceptions import IdNotUniqueError, SerdeError, TrainingError
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import pointer_kinds
from syft.serde import register
from syft.workers.execution.copies import is_plain

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The prefix of the id of a data set, followed by its key.
DATASET = DATASET_PREFIX
_adding = threading.Lock()


class StoredDataset(AbstractObject):
    """A stored data set of two tensors."""

    pointer_kind = "dataset"

    def __init__(self, data: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        self.data = data
        self.targets = targets
        self.description = f"data set: samples {_size(data)}, targets {_size(targets)}"

    @property
    def dataset(self) -> TensorDataset:
        """The data set to train on."""
        return TensorDataset(self.data, self.targets)

    def contents(self) -> list[Any]:
        """Return the tensors that use memory."""
        return [self.data, self.targets]

    def __repr__(self) -> str:
        return f"<StoredDataset {_size(self.data)}>"

    @staticmethod
    def simplify(worker: BaseWorker, kept: StoredDataset) -> tuple[Any, ...]:
        """Return samples and targets."""
        return (kept.data, kept.targets)

    @staticmethod
    def detail(worker: BaseWorker, parts: tuple[Any, ...]) -> StoredDataset:
        """Rebuild a data set from untrusted parts."""
        data, targets = parts
        if not (is_plain(data) and is_plain(targets) and data.ndim and targets.ndim and len(data) == len(targets)):
            raise SerdeError("A data set must be a tensor of samples and a tensor of as many targets.")
        return StoredDataset(data, targets)


def _size(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape))


def store_dataset(worker: BaseWorker, key: str, pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Store a data set of the worker's owner; it is written before this returns.

    Raises:
        IdNotUniqueError: another object has this id.
        TrainingError: the key is too long.
    """
    objects, name = worker.object_store.objects, f"{DATASET}{key}"
    if not is_id(name):
        raise TrainingError("The key of a data set is too long.")
    kept = StoredDataset(*(tensor.detach() for tensor in pair))
    kept.id = name
    with _adding:
        if name in objects:
            raise IdNotUniqueError(
                f"Worker {worker.id!r} already holds an object with id {name!r:.60}. Delete it first."
            )
        objects[name] = kept


def stored_keys(worker: BaseWorker) -> list[str]:
    """Return the keys of the data sets stored by a worker."""
    return [
        name.removeprefix(DATASET)
        for name in worker.object_store.outlines()
        if type(name) is str and name.startswith(DATASET) and _is_owners(worker, name)
    ]


def find_stored(worker: BaseWorker, key: str) -> StoredDataset | None:
    """Return a data set stored by a worker; None for objects that a user sent under such an id."""
    name = f"{DATASET}{key}"
    if worker.object_store.object_manager is None or name not in worker.object_store.objects:
        return None
    found = worker.object_store.get(name)
    return found if isinstance(found, StoredDataset) and _is_owners(worker, name) else None


def _is_owners(worker: BaseWorker, name: str) -> bool:
    object_manager = worker.object_store.object_manager
    item = None if object_manager is None else object_manager.item(name)
    return item is not None and item.facts.owner is None


register(StoredDataset, code=172)
pointer_kinds["dataset"] = ObjectPointer
