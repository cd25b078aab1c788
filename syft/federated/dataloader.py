"""FederatedDataLoader: batches of a federated data set, each held by one worker."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import default_collate as default_collate

from syft.federated.dataset import BaseDataset, FederatedDataset

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.federated")
Batch = tuple[Any, Any]


class FederatedDataLoader:
    """Iterates over a federated data set in batches that stay at their workers.

    It yields one pair of pointers at a time: first all batches of the first worker, then those of the next. With
    `iter_per_worker`, or more than one iterator, it yields a dict of such pairs by worker, so that several workers can
    compute concurrently; a worker without remaining batches is left out.

    Args:
        federated_dataset: the data set.
        batch_size: number of samples in a batch.
        shuffle: whether to draw a new order of each worker's samples for each pass.
        num_iterators: number of workers to take batches from at a time; at most all but one.
        drop_last: skip the last batch of a worker if it is smaller than the others.
        collate_fn: makes a batch from a list of pairs of pointers to a sample and its target. The default stacks them,
            with one message for the samples of a batch and one for its targets.
        iter_per_worker: take a batch of every worker at a time.
        **kwargs: other options of torch's DataLoader are ignored, with a warning in the log.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> bob, alice = (sy.VirtualWorker(hook, id=f"loader-{name}") for name in ("bob", "alice"))
        >>> federated = sy.BaseDataset(torch.rand(5, 2), torch.zeros(5)).federate((bob, alice))
        >>> loader = sy.FederatedDataLoader(federated, batch_size=2)
        >>> [(data.location.id, len(data)) for data, target in loader]
        [('loader-bob', 2), ('loader-bob', 1), ('loader-alice', 2)]
    """

    def __init__(
        self,
        federated_dataset: FederatedDataset,
        batch_size: int = 8,
        shuffle: bool = False,
        num_iterators: int = 1,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
        iter_per_worker: bool = False,
        **kwargs: object,
    ) -> None:
        if not isinstance(federated_dataset, FederatedDataset):
            raise TypeError(
                f"FederatedDataLoader needs a FederatedDataset, got a {type(federated_dataset).__name__}. Make one "
                "with dataset.federate((bob, alice))."
            )
        if type(batch_size) is not int or batch_size < 1 or type(num_iterators) is not int or num_iterators < 1:
            raise ValueError("batch_size and num_iterators must be integers of at least 1.")
        if kwargs:
            logger.warning("FederatedDataLoader ignores unknown options: %s", ", ".join(kwargs))
        self.federated_dataset = federated_dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.iter_per_worker = iter_per_worker
        # As documented: at most all workers but one, unless `iter_per_worker` is set.
        self.num_iterators = min(num_iterators, max(1, len(self.workers) - 1))
        self._current: Iterator[Any] | None = None

    @property
    def workers(self) -> list[Any]:
        """The ids of the workers that hold a part of the data set."""
        return self.federated_dataset.workers

    def __iter__(self) -> Iterator[Any]:
        """Start a pass; passes are independent."""
        self._current = made = _together(self) if self._gives_dicts() else iter(_DataLoaderIter(self, 0))
        return made

    def __next__(self) -> Any:
        """Continue the last pass."""
        if self._current is None:
            iter(self)
        return next(self._current)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Return the number of items of a pass."""
        counts = [self.batches_of(worker) for worker in self.workers]
        if self.iter_per_worker:
            return max(counts, default=0)
        if self.num_iterators == 1:
            return sum(counts)
        # An iterator continues with the next worker when it finishes one: the result is the maximum over the iterators.
        busy = [0] * self.num_iterators
        for count in counts:
            if count:
                free = busy.index(min(busy))
                busy[free] += count
        return max(busy)

    def batches_of(self, worker: BaseWorker) -> int:
        """Return the number of batches of a worker."""
        share = len(self.federated_dataset[worker]) / self.batch_size
        return math.floor(share) if self.drop_last else math.ceil(share)

    def _gives_dicts(self) -> bool:
        return self.iter_per_worker or self.num_iterators > 1


class _DataLoaderOneWorkerIter:
    """The batches of one worker.

    Args:
        loader: the loader.
        worker_idx: the index of the worker.
    """

    def __init__(self, loader: FederatedDataLoader, worker_idx: int) -> None:
        self.loader = loader
        self.dataset: BaseDataset = loader.federated_dataset[loader.workers[worker_idx]]
        count = len(self.dataset)
        self._order = torch.randperm(count).tolist() if loader.shuffle else None
        self._count = count
        self._at = 0
        self._stopped = False

    def __iter__(self) -> _DataLoaderOneWorkerIter:
        return self

    def __next__(self) -> Batch:
        start, size = self._at, self.loader.batch_size
        end = min(start + size, self._count)
        if self._stopped or start >= end or (self.loader.drop_last and end - start < size):
            raise StopIteration
        self._at = end
        if self.loader.collate_fn is not default_collate:
            rows = range(start, end) if self._order is None else self._order[start:end]
            return self.loader.collate_fn([self.dataset[row] for row in rows])  # type: ignore[no-any-return]
        return self.dataset[slice(start, end) if self._order is None else self._order[start:end]]

    def stop(self) -> None:
        """Stop the iteration."""
        self._stopped = True


class _DataLoaderIter:
    """The batches of one worker after the other.

    Args:
        loader: the loader.
        worker_idx: the index of the first worker.
        idle: the indices of the workers to continue with, shared by concurrent iterators.
    """

    def __init__(self, loader: FederatedDataLoader, worker_idx: int, idle: Iterator[int] | None = None) -> None:
        self.loader = loader
        count = len(loader.workers)
        others = (number % count for number in range(worker_idx + 1, worker_idx + count)) if count else ()
        self._idle = iter(others) if idle is None else idle
        self._worker = _DataLoaderOneWorkerIter(loader, worker_idx) if count else None
        self._stopped = False

    def __iter__(self) -> _DataLoaderIter:
        return self

    def __next__(self) -> Batch:
        while self._worker is not None and not self._stopped:
            try:
                return next(self._worker)
            except StopIteration:
                following = next(self._idle, None)
                self._worker = None if following is None else _DataLoaderOneWorkerIter(self.loader, following)
        raise StopIteration

    def stop(self) -> None:
        """Stop the iteration."""
        self._stopped = True


def _together(loader: FederatedDataLoader) -> Iterator[dict[Any, Batch]]:
    """Yield a batch of each of several workers, by worker, until all are exhausted."""
    count = len(loader.workers)
    running: list[Iterator[Batch]]
    if loader.iter_per_worker:
        running = [_DataLoaderOneWorkerIter(loader, number) for number in range(count)]
    else:
        idle = iter(range(loader.num_iterators, count))
        running = [_DataLoaderIter(loader, number, idle) for number in range(loader.num_iterators)]
    while True:
        batches = [batch for iterator in running if (batch := next(iterator, None)) is not None]
        if not batches:
            return
        yield {_location(batch): batch for batch in batches}


def _location(batch: object) -> Any:
    """Return the worker that holds a batch."""
    for part in batch if isinstance(batch, tuple | list) else (batch,):
        place = getattr(part, "location", None)
        if place is not None:
            return place
    raise TypeError("A collate_fn must return batches that are still at their worker.")
