"""FederatedDataLoader: batches of a federated data set, each held by one worker."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import default_collate as default_collate

from syft._suggestions import did_you_mean
from syft.display.facts import FactList, Shown, rows_of
from syft.federated.dataset import FederatedDataset
from syft.federated.loader_schedule import Route, Stay, lengths, routes

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.federated")
Batch = tuple[Any, Any]
_OPTIONS = ("batch_size", "shuffle", "num_iterators", "drop_last", "collate_fn", "iter_per_worker")


class FederatedDataLoader(Shown):
    """Iterates over a federated data set in batches that stay at their workers.

    It yields one pair of pointers at a time: first all batches of the first worker, then those of the next. With
    `iter_per_worker`, or more than one iterator, it yields a dict of such pairs by worker, so that several workers can
    compute concurrently; each dict has `num_iterators` entries.

    * `iter_per_worker`: a batch of every worker at each step; the pass ends with the first worker that has no more.
    * `num_iterators=k`: each of k iterators goes through the whole data set, and no two are at one worker at a time. A
      pass has as many steps as there are batches in all, so each batch is seen k times. If one worker has more than 1/k
      of all batches, a pass is shorter and leaves some of them out, with a warning in the log.

    Args:
        federated_dataset: the data set.
        batch_size: number of samples in a batch.
        shuffle: whether to draw a new order of each worker's samples for each pass.
        num_iterators: number of workers to take batches from at a time; at most all but one. With `iter_per_worker` it
            is the number of workers.
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
            hints = "".join(did_you_mean(name, _OPTIONS) for name in kwargs)
            logger.warning("FederatedDataLoader ignores unknown options: %s.%s", ", ".join(kwargs), hints)
        self.federated_dataset = federated_dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.iter_per_worker = iter_per_worker
        count = len(self.workers)
        self.num_iterators = count if iter_per_worker else min(num_iterators, max(1, count - 1))
        self._current: Iterator[Any] | None = None
        if not iter_per_worker and len(self) < sum(self._counts()):
            logger.warning(
                "One worker has more than 1/%d of all batches, so a pass of %d iterators leaves some of them out. "
                "Use fewer iterators, or distribute the data evenly.",
                self.num_iterators,
                self.num_iterators,
            )

    def _facts(self) -> FactList:
        data = self.federated_dataset.datasets
        samples = {name: rows_of(part.data) or 0 for name, part in data.items()}
        yield from (("samples", sum(samples.values())), ("batches", len(self)), ("batch size", self.batch_size))
        yield from (("shuffle", self.shuffle), ("drop last", self.drop_last), ("iterators", self.num_iterators))
        yield "workers", ", ".join(f"{name}: {count}" for name, count in samples.items())

    @property
    def workers(self) -> list[Any]:
        """The ids of the workers that hold a part of the data set."""
        return self.federated_dataset.workers

    def __iter__(self) -> Iterator[Any]:
        """Start a pass; passes are independent."""
        several = self.iter_per_worker or self.num_iterators > 1
        self._current = made = _together(self) if several else _DataLoaderIter(self, 0)
        return made

    def __next__(self) -> Any:
        """Continue the last pass."""
        if self._current is None:
            iter(self)
        return next(self._current)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Return the number of steps of a pass."""
        counts = self._counts()
        return min(counts, default=0) if self.iter_per_worker else sum(lengths(counts, self._width(counts)))

    def batches_of(self, worker: BaseWorker) -> int:
        """Return the number of batches of a worker."""
        share = len(self.federated_dataset[worker]) / self.batch_size
        return math.floor(share) if self.drop_last else math.ceil(share)

    def _counts(self) -> list[int]:
        return [self.batches_of(worker) for worker in self.workers]

    def _width(self, counts: list[int]) -> int:
        """Return the number of iterators of a pass; workers without batches do not count."""
        return min(self.num_iterators, len(counts) - counts.count(0))


class _DataLoaderIter:
    """The batches of one worker after the other, from the one with an index on; or those of a route."""

    def __init__(self, loader: FederatedDataLoader, worker_idx: int, route: Route | None = None) -> None:
        if route is None:
            counts = loader._counts()
            order = [number % len(counts) for number in range(worker_idx, worker_idx + len(counts))]
            route = [Stay(number, 0, counts[number]) for number in order]
        self._batches = _batches(loader, route)

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
        super().__init__(loader, worker_idx, [Stay(worker_idx, 0, loader._counts()[worker_idx])])


def _batches(loader: FederatedDataLoader, route: Route) -> Generator[Batch, None, None]:
    """Yield the batches of a route, in one order of samples for each worker."""
    size = loader.batch_size
    orders: dict[int, list[int]] = {}
    for worker, start, stop in route:
        dataset = loader.federated_dataset[loader.workers[worker]]
        count = len(dataset)
        if loader.shuffle and worker not in orders:
            orders[worker] = torch.randperm(count).tolist()
        batches = loader.batches_of(loader.workers[worker])
        for number in range(start, stop):
            first = number % batches * size
            last = min(first + size, count)
            order = orders.get(worker)
            if loader.collate_fn is not default_collate:
                rows = range(first, last) if order is None else order[first:last]
                yield loader.collate_fn([dataset[row] for row in rows])
            else:
                yield dataset[slice(first, last) if order is None else order[first:last]]


def _together(loader: FederatedDataLoader) -> Iterator[dict[Any, Batch]]:
    """Yield a batch of each of several workers, by worker, until the first iterator has no more."""
    running: list[Iterator[Batch]]
    if loader.iter_per_worker:
        running = [_DataLoaderOneWorkerIter(loader, number) for number in range(len(loader.workers))]
    else:
        counts = loader._counts()
        running = [_DataLoaderIter(loader, route[0].worker, route) for route in routes(counts, loader._width(counts))]
    for _ in range(len(loader)):
        batches = [next(iterator) for iterator in running]
        yield {_location(batch): batch for batch in batches}


def _location(batch: object) -> Any:
    """Return the worker that holds a batch."""
    for part in batch if isinstance(batch, tuple | list) else (batch,):
        place = getattr(part, "location", None)
        if place is not None:
            return place
    raise TypeError("A collate_fn must return batches that are still at their worker.")
