"""Data sets that can be sent: BaseDataset is at one worker, FederatedDataset is spread over workers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.utils.data import default_collate

from syft._suggestions import did_you_mean
from syft.display import grid_html
from syft.display.facts import FactList, Shown, place_of, rows_of
from syft.exceptions import SyftError, TrainingError
from syft.federated.client.training_loop import AS_TENSORS, tensors_of
from syft.hook import base
from syft.hook.syft_tensor import SyftTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class BaseDataset(Shown):
    """Samples and their targets, which are sent, fetched, encoded and shared together, in location.

    Args:
        data: a tensor of samples, or a pointer to one.
        targets: a tensor of as many targets.
        transform: a function of a numpy array, applied to each sample when it is read.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> bob = sy.VirtualWorker(hook, id="dataset-bob")
        >>> dataset = sy.BaseDataset(torch.rand(4, 2), torch.tensor([0, 1, 1, 0])).send(bob)
        >>> dataset.location.id
        'dataset-bob'
        >>> len(dataset.get())
        4
    """

    def __init__(
        self,
        data: object,
        targets: object,
        transform: Callable[[Any], Any] | None = None,
        owner: object = None,
        **kwargs: object,
    ) -> None:
        _check_lengths(data, targets)
        self.data: Any = data
        self.targets: Any = targets
        self.transform_ = transform
        self._owner = owner

    @property
    def owner(self) -> Any:
        """The owner of the samples, or of the pointers to them."""
        return self._owner if self._owner is not None else getattr(self.data, "owner", None)

    @property
    def location(self) -> Any:
        """The worker that holds the samples; None if they are local."""
        return getattr(self.data, "location", None)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        """Return a sample and its target, or several of them."""
        sample = self.data[index]
        if self.transform_ is not None:
            if isinstance(sample, SyftTensor):
                raise TypeError(
                    "A transform is local code, but these samples are remote. Apply it before they are "
                    "sent, with dataset.transform(function)."
                )
            sample = _as_tensor(self.transform_(sample.numpy()))
        return sample, self.targets[index]

    def transform(self, transform: Callable[[Any], Any]) -> None:
        """Apply a function of a numpy array to all samples, in location."""
        if not isinstance(self.data, torch.Tensor) or isinstance(self.data, SyftTensor):
            raise TypeError("Only local, plain samples can be transformed. Fetch them first with .get().")
        self.data = _as_tensor(transform(self.data.numpy()))

    def _each(self, method: str, *args: object, **kwargs: object) -> Self:
        """Replace samples and targets by the results of a method of them: both, or neither."""
        data = getattr(self.data, method)(*args, **kwargs)
        self.data, self.targets = data, getattr(self.targets, method)(*args, **kwargs)
        return self

    def send(self, worker: BaseWorker) -> Self:
        """Send samples and targets to a worker, and return this data set of pointers to them."""
        return self._each("send", worker)

    def get(self) -> Self:
        """Fetch samples and targets, and return this data set."""
        self.data = self.data.get()  # one by one: what has arrived is not lost if the other fails
        self.targets = self.targets.get()
        return self

    def fix_prec(self, **options: object) -> Self:
        """Encode samples and targets in fixed precision; the options are those of the tensor method."""
        return self._each("fix_prec", **options)

    fix_precision = fix_prec

    def float_prec(self) -> Self:
        """Decode samples and targets."""
        return self._each("float_prec")

    float_precision = float_prec

    def share(self, *workers: object, **options: object) -> Self:
        """Share samples and targets among workers; the options are those of the tensor method."""
        return self._each("share", *workers, **options)

    def tag(self, *tags: str) -> Self:
        """Add tags to samples and targets."""
        return self._each("tag", *tags)

    def describe(self, description: str) -> Self:
        """Set the description of samples and targets."""
        return self._each("describe", description)

    def federate(self, workers: object) -> FederatedDataset:
        """Split this data set over workers; see `dataset_federate`."""
        return dataset_federate(self, workers)

    def _facts(self) -> FactList:
        yield from (("samples", rows_of(self.data)), ("place", place_of(self.data)))
        for name, part in (("data", self.data), ("targets", self.targets)):
            if hasattr(part, "shape"):
                yield name, f"{tuple(part.shape)} {part.dtype}"

    def __repr__(self) -> str:
        return f"<BaseDataset of {_count(self)} {place_of(self.data)}>"


def _count(dataset: BaseDataset) -> str:
    count = rows_of(dataset.data)
    return "samples" if count is None else f"{count} sample{'s'[: count != 1]}"


def _total(dataset: FederatedDataset) -> int:
    return sum(rows_of(part.data) or 0 for part in dataset.datasets.values())


def _as_tensor(value: object) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _plain_pair(dataset: BaseDataset) -> tuple[Any, Any] | None:
    """Return the two tensors of a local data set without a transform."""
    pair = (dataset.data, dataset.targets)
    is_plain = all(isinstance(part, torch.Tensor) and not isinstance(part, SyftTensor) for part in pair)
    return pair if is_plain and dataset.transform_ is None else None


AS_TENSORS[BaseDataset] = _plain_pair


class FederatedDataset:
    """A data set whose parts are at workers.

    Args:
        datasets: the parts, data sets that were sent, one for each worker.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> bob, alice = (sy.VirtualWorker(hook, id=f"federated-{name}") for name in ("bob", "alice"))
        >>> federated = sy.BaseDataset(torch.rand(5, 2), torch.zeros(5)).federate((bob, alice))
        >>> federated.workers, len(federated), len(federated["federated-bob"])
        (['federated-bob', 'federated-alice'], 5, 3)
    """

    def __init__(self, datasets: Iterable[BaseDataset]) -> None:
        self.datasets: dict[Any, BaseDataset] = {}
        for dataset in datasets:
            location = dataset.location
            if location is None:
                raise ValueError(
                    "A part of a federated data set must be at a worker. Send it first: dataset.send(bob)."
                )
            if location.id in self.datasets:
                raise ValueError(
                    f"Two parts are at {location.id!r}, but each worker can have one. Concatenate them "
                    "there with torch.cat."
                )
            if len(dataset.data) != len(dataset.targets):
                raise ValueError(
                    f"The part at {location.id!r} has {len(dataset.data)} samples and {len(dataset.targets)} targets; "
                    "each sample needs one target."
                )
            self.datasets[location.id] = dataset

    @property
    def workers(self) -> list[Any]:
        """The ids of the workers that hold a part."""
        return list(self.datasets)

    def __getitem__(self, worker: BaseWorker) -> BaseDataset:
        """Return the part of a worker, given the worker or its id."""
        key = getattr(worker, "id", worker)
        if key not in self.datasets:
            hint = did_you_mean(key, self.workers)
            raise KeyError(f"No part of this data set is at {key!r}. There are parts at {self.workers}.{hint}")
        return self.datasets[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.datasets)

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets.values())

    def get_dataset(self, worker: BaseWorker) -> BaseDataset:
        """Fetch the part of a worker and remove it from this data set."""
        dataset = self[worker].get()
        del self.datasets[getattr(worker, "id", worker)]
        return dataset

    def __repr__(self) -> str:
        parts = ", ".join(f"{worker}: {rows_of(dataset.data)}" for worker, dataset in self.datasets.items())
        return f"<FederatedDataset of {_total(self)} samples ({parts})>"

    def _repr_html_(self) -> str:
        rows = [
            (str(worker), str(rows_of(part.data)), str(tuple(part.data.shape)), str(part.data.dtype))
            for worker, part in self.datasets.items()
        ]
        return grid_html(f"FederatedDataset of {_total(self)} samples", ("worker", "samples", "shape", "dtype"), rows)


def dataset_federate(dataset: Any, workers: Any) -> FederatedDataset:
    """Split a data set into contiguous parts of about the same size, and send one to each worker.

    Args:
        dataset: has a length and yields pairs of a sample and its target.
        workers: the workers, in the order of the parts.
    """
    locations = list(workers) if isinstance(workers, tuple | list) else [workers]
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"A {type(dataset).__name__} can't be split: it has no length.")
    count = len(dataset)
    if not 0 < len(locations) <= count:
        raise ValueError(f"{count} samples can't be split over {len(locations)} workers: each needs at least one.")
    if len({getattr(location, "id", location) for location in locations}) < len(locations):
        raise ValueError("A worker is listed twice, but a federated data set has one part for each.")
    ends = [math.ceil(count * number / len(locations)) for number in range(1, len(locations) + 1)]
    parts = []
    for location, (start, end) in zip(locations, itertools.pairwise([0, *ends]), strict=True):
        parts.append(BaseDataset(*_rows(dataset, start, end)).send(location))
    return FederatedDataset(parts)


def _rows(dataset: Any, start: int, end: int) -> tuple[Any, Any]:
    """Return a part of a data set as two tensors."""
    pair = tensors_of(dataset)
    if pair is not None:
        return pair[0][start:end].detach(), pair[1][start:end].detach()
    if isinstance(dataset, BaseDataset) and dataset.location is not None:
        raise SyftError(f"This data set is at {dataset.location.id!r}. Fetch it before splitting it: dataset.get().")
    batch = default_collate([dataset[number] for number in range(start, end)])
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(isinstance(p, torch.Tensor) for p in batch):
        raise TypeError("A data set to federate must yield pairs of a sample and its target, each a tensor.")
    return batch[0], batch[1]


class DatasetMethods:
    """Methods that are copied onto torch's Dataset."""

    def federate(self, workers: object) -> FederatedDataset:
        """Split this data set into one part for each worker, and send the parts.

        Args:
            workers: the workers, in the order of the parts.
        """
        return dataset_federate(self, workers)


base.dataset_methods[:] = [DatasetMethods]


def _check_lengths(data: Any, targets: Any) -> None:
    """Raise if the numbers of samples and targets differ, for plain local tensors."""
    if any(
        not isinstance(part, torch.Tensor) or isinstance(part, SyftTensor) or not part.dim() for part in (data, targets)
    ):
        return
    if len(data) != len(targets):
        raise TrainingError(
            f"A data set needs a target for each sample, got {len(data)} samples and {len(targets)} targets."
        )
