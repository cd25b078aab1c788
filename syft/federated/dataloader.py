"""FederatedDataLoader: batches of a federated data set, each of one worker, and at that worker."""

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
    """Goes through a federated data set in batches that stay where they are.

    It gives a pair of pointers at a time: first all batches of the first worker, then those of the next. With
    `iter_per_worker`, or more than one iterator, it gives a dict of such pairs by worker, so that several workers can
    compute at once; a worker that has no more batches is left out.

    Args:
        federated_dataset: the data set.
        batch_size: how many samples are in a batch.
        shuffle: whether each pass takes the samples of each worker in another order.
        num_iterators: how many workers to take batches from at a time; at most all but one.
        drop_last: leave out the last batch of a worker if it is smaller than the others.
        collate_fn: makes a batch of a list of pairs of pointers to a sample and its target. The default stacks them,
            with one message for the samples of a batch and one for its targets.
        iter_per_worker: take a batch of every worker at a time.
        **kwargs: others of torch's DataLoader are not known here; they are noted in the log.

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
                f"FederatedDataLoader takes a FederatedDataset, not a {type(federated_dataset).__name__}: "
                "dataset.federate((bob, alice)) makes one."
            )
        if type(batch_size) is not int or batch_size < 1 or type(num_iterators) is not int or num_iterators < 1:
            raise ValueError("batch_size and num_iterators are whole numbers of at least 1.")
        if kwargs:
            logger.warning("FederatedDataLoader does not know these options, and ignores them: %s", ", ".join(kwargs))
        self.federated_dataset = federated_dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.iter_per_worker = iter_per_worker
        # As documented: one worker at least has a rest, unless every one is asked for.
        self.num_iterators = min(num_iterators, max(1, len(self.workers) - 1))
        self._current: Iterator[Any] | None = None

    @property
    def workers(self) -> list[Any]:
        """The ids of the workers that have a part of the data set."""
        return self.federated_dataset.workers

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; passes do not disturb each other."""
        self._current = made = _together(self) if self._gives_dicts() else iter(_DataLoaderIter(self, 0))
        return made

    def __next__(self) -> Any:
        """Go on with the pass that began last."""
        if self._current is None:
            iter(self)
        return next(self._current)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """How often a pass gives something."""
        counts = [self.batches_of(worker) for worker in self.workers]
        if self.iter_per_worker:
            return max(counts, default=0)
        if self.num_iterators == 1:
            return sum(counts)
        # Each iterator takes over the next worker when it is through with one: as long as the busiest one needs.
        busy = [0] * self.num_iterators
        for count in counts:
            if count:
                free = busy.index(min(busy))
                busy[free] += count
        return max(busy)

    def batches_of(self, worker: BaseWorker) -> int:
        """Return how many batches the part of a worker has."""
        share = len(self.federated_dataset[worker]) / self.batch_size
        return math.floor(share) if self.drop_last else math.ceil(share)

    def _gives_dicts(self) -> bool:
        return self.iter_per_worker or self.num_iterators > 1


class _DataLoaderOneWorkerIter:
    """The batches of one worker.

    Args:
        loader: the loader.
        worker_idx: the number of the worker.
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
        """End the iteration."""
        self._stopped = True


class _DataLoaderIter:
    """The batches of one worker after the other.

    Args:
        loader: the loader.
        worker_idx: the number of the worker to begin with.
        idle: the numbers of the workers to go on with, shared by iterators that run together.
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
        """End the iteration."""
        self._stopped = True


def _together(loader: FederatedDataLoader) -> Iterator[dict[Any, Batch]]:
    """Yield a batch of each of several workers, by worker, until none has any left."""
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
    """Return where a batch is."""
    for part in batch if isinstance(batch, tuple | list) else (batch,):
        place = getattr(part, "location", None)
        if place is not None:
            return place
    raise TypeError("A collate_fn returns batches that are still at their worker.")
