"""FederatedDataLoader: batches of a federated data set, each held by one worker."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import default_collate as default_collate

from syft.federated.dataset import FederatedDataset

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
        self._current = made = (
            _together(self) if self.iter_per_worker or self.num_iterators > 1 else _DataLoaderIter(self, 0)
        )
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


class _DataLoaderIter:
    """The batches of one worker after the other, from the one with an index on.

    Concurrent iterators share `idle`, the indices of the workers to continue with.
    """

    def __init__(self, loader: FederatedDataLoader, worker_idx: int, idle: Iterator[int] | None = None) -> None:
        count = len(loader.workers)
        others = (
            iter([number % count for number in range(worker_idx + 1, worker_idx + count)]) if idle is None else idle
        )
        self._batches = _batches(loader, itertools.chain([worker_idx], others) if count else [])

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def stop(self) -> None:
        """Stop the iteration."""
        self._batches.close()


class _DataLoaderOneWorkerIter(_DataLoaderIter):
    """The batches of one worker."""

    def __init__(self, loader: FederatedDataLoader, worker_idx: int) -> None:
        super().__init__(loader, worker_idx, iter(()))


def _batches(loader: FederatedDataLoader, workers: Iterable[int]) -> Generator[Batch, None, None]:
    """Yield the batches of some workers, given by their indices."""
    size = loader.batch_size
    for worker_idx in workers:
        dataset = loader.federated_dataset[loader.workers[worker_idx]]
        count = len(dataset)
        order = torch.randperm(count).tolist() if loader.shuffle else None
        for start in range(0, count, size):
            end = min(start + size, count)
            if loader.drop_last and end - start < size:
                break
            if loader.collate_fn is not default_collate:
                rows = range(start, end) if order is None else order[start:end]
                yield loader.collate_fn([dataset[row] for row in rows])
            else:
                yield dataset[slice(start, end) if order is None else order[start:end]]


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
