"""Partitions: how a data set is split over simulated clients."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft._suggestions import one_of
from syft.exceptions import TrainingError
from syft.federated.validation import real, whole

Rows = np.ndarray[Any, np.dtype[np.int64]]


class Partition:
    """A way to split a data set: every sample is assigned to exactly one client.

    The same targets, number of clients and seed give the same parts. A subclass overrides `share_out`.
    """

    def split(self, targets: object, count: int, seed: int = 0) -> list[torch.Tensor]:
        """Return the row indices of each client, ascending.

        Args:
            targets: the targets of the data set, one for each sample.
            count: number of clients.
            seed: determines the assignment.
        """
        kind = type(self).__name__
        count, seed = whole(kind, "count", count, 1), whole(kind, "seed", seed, 0)
        if not isinstance(targets, torch.Tensor) or targets.dim() == 0:
            raise TrainingError(f"{kind} needs targets: a tensor with one for each sample.")
        parts = self.share_out(targets.detach(), count, np.random.default_rng(seed))
        # Copies: a view would be sent together with the rows of all clients.
        return [torch.from_numpy(np.sort(np.asarray(part, dtype=np.int64))) for part in parts]

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client, in any order."""
        raise NotImplementedError(f"{type(self).__name__}: a partition must implement share_out")


def rows_by_label(kind: str, targets: torch.Tensor, chance: np.random.Generator) -> list[Rows]:
    """Return the rows of each label, in the order of the labels; the rows of one label are shuffled."""
    numbers = math.prod(targets.shape[1:])
    if numbers != 1:
        raise TrainingError(
            f"{kind} needs one label for each sample, but each has {numbers} numbers. "
            "Use targets.argmax(1) if they are one-hot, or IID()."
        )
    labels = targets.reshape(len(targets))
    is_fraction = labels.dtype.is_floating_point and not bool((labels == labels.round()).all())
    if is_fraction or labels.dtype.is_complex:
        raise TrainingError(f"{kind} needs labels, which are integers. Use IID() for other targets.")
    values = labels.to(torch.float64 if labels.dtype.is_floating_point else torch.int64).cpu().numpy()
    _, ranks = np.unique(values, return_inverse=True)
    order = chance.permutation(len(values))
    order = order[np.argsort(ranks[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(ranks))[:-1]) if len(values) else []


def require_samples(kind: str, samples: int, count: int, each: int) -> None:
    """Raise if there are not enough samples for the minimum of each client."""
    if samples < count * each:
        raise TrainingError(
            f"{kind}: {samples} samples are not enough to give each of {count} clients at least {each}. "
            f"Use at most {samples // max(1, each)} clients, or more samples."
        )


@dataclasses.dataclass(eq=False)
class IID(Partition):
    """Each client gets the same number of samples, or one more, drawn at random. Targets may be of any kind.

    Args:
        min_samples: minimum number of samples of each client; 0 allows clients without any.
    """

    min_samples: int = 1

    def __post_init__(self) -> None:
        self.min_samples = whole("IID", "min_samples", self.min_samples, 0)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("IID", len(targets), count, self.min_samples)
        return np.array_split(chance.permutation(len(targets)), count)


@dataclasses.dataclass(eq=False)
class Shards(Partition):
    """Each client has a few shards of the sorted data set, so samples of few labels, and nearly the same number.

    Args:
        shards_per_client: number of shards of each client; 2 as published.
    """

    shards_per_client: int = 2

    def __post_init__(self) -> None:
        self.shards_per_client = whole("Shards", "shards_per_client", self.shards_per_client, 1)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("Shards", len(targets), count, self.shards_per_client)
        ordered = np.concatenate(rows_by_label("Shards", targets, chance))
        shards = np.array_split(ordered, count * self.shards_per_client)
        dealt = chance.permutation(len(shards)).reshape(count, self.shards_per_client)
        return [np.concatenate([shards[number] for number in numbers]) for numbers in dealt]


@dataclasses.dataclass(eq=False)
class Dirichlet(Partition):
    """Clients differ in labels and numbers of samples.

    For each label, the shares of the clients are drawn from a symmetric Dirichlet distribution. Clients with fewer than
    `min_samples` samples then get some of those with the most.

    Args:
        alpha: similarity of the clients: 100 is nearly IID, with 0.1 each has a few labels.
        min_samples: minimum number of samples of each client; 0 allows clients without any.
    """

    alpha: float = 0.5
    min_samples: int = 1

    def __post_init__(self) -> None:
        self.alpha = real("Dirichlet", "alpha", self.alpha, 0)
        self.min_samples = whole("Dirichlet", "min_samples", self.min_samples, 0)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("Dirichlet", len(targets), count, self.min_samples)
        parts: list[list[Rows]] = [[] for _ in range(count)]
        for rows in rows_by_label("Dirichlet", targets, chance):
            ends = np.rint(np.cumsum(self._shares(count, chance)) * len(rows)).astype(np.int64)
            for part, piece in zip(parts, np.split(rows, ends[:-1]), strict=True):
                if len(piece):
                    part.append(piece)
        empty = np.zeros(0, dtype=np.int64)
        return self._evened([np.concatenate(part) if part else empty for part in parts], chance)

    def _shares(self, count: int, chance: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
        shares = chance.dirichlet(np.full(count, self.alpha))
        if not np.isfinite(shares).all() or shares.sum() < 0.5:
            # With a very small alpha all draws are zero: one client gets everything.
            shares = np.eye(count)[chance.integers(count)]
        return shares

    def _evened(self, parts: list[Rows], chance: np.random.Generator) -> list[Rows]:
        """Return parts where each client has enough samples, moved at random from those with the most."""
        poor = [number for number, part in enumerate(parts) if len(part) < self.min_samples]
        if not poor:
            return parts
        kept = [list(chance.permutation(part)) for part in parts]
        rich = [(-len(part), number) for number, part in enumerate(kept) if len(part) > self.min_samples]
        heapq.heapify(rich)
        for number in poor:
            while len(kept[number]) < self.min_samples:
                size, giver = heapq.heappop(rich)
                kept[number].append(kept[giver].pop())
                if -size - 1 > self.min_samples:
                    heapq.heappush(rich, (size + 1, giver))
        return [np.asarray(part, dtype=np.int64) for part in kept]


@dataclasses.dataclass(eq=False)
class ByLabel(Partition):
    """Each client has samples of a fixed number of labels.

    The more samples a label has, the more clients share it, so clients have similar numbers of samples.

    Args:
        labels_per_client: number of labels of each client.
    """

    labels_per_client: int = 2

    def __post_init__(self) -> None:
        self.labels_per_client = whole("ByLabel", "labels_per_client", self.labels_per_client, 1)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        groups = rows_by_label("ByLabel", targets, chance)
        groups = [groups[number] for number in chance.permutation(len(groups))]
        holders = self._holders([len(rows) for rows in groups], count)
        pieces = [piece for rows, many in zip(groups, holders, strict=True) for piece in np.array_split(rows, many)]
        # No label has more holders than clients: assigned in turn, no client gets a label twice.
        parts = [np.concatenate(pieces[number::count]) for number in range(count)]
        return [parts[number] for number in chance.permutation(count)]

    def _holders(self, sizes: list[int], count: int) -> list[int]:
        """Return the number of clients that share each label, by its number of samples."""
        wanted = count * self.labels_per_client
        most = [min(count, size) for size in sizes]
        self._require(len(sizes), wanted, sum(most))
        found = [1] * len(sizes)
        # The next holder goes to the label with the most samples per holder (Webster's method).
        waiting = [(-size / 3, number) for number, size in enumerate(sizes) if most[number] > 1]
        heapq.heapify(waiting)
        for _ in range(wanted - len(sizes)):
            _, number = heapq.heappop(waiting)
            found[number] += 1
            if found[number] < most[number]:
                heapq.heappush(waiting, (-sizes[number] / (2 * found[number] + 1), number))
        return found

    def _require(self, labels: int, wanted: int, most: int) -> None:
        each = self.labels_per_client
        if each > labels:
            raise TrainingError(f"ByLabel: a client can't have {each} labels, as the data set has {labels}.")
        if wanted < labels:
            raise TrainingError(
                f"ByLabel: {wanted // each} clients with {each} labels each do not cover the {labels} labels. "
                f"Use labels_per_client={-(-labels * each // wanted)}, or {-(-labels // each)} clients or more."
            )
        if wanted > most:
            raise TrainingError(
                f"ByLabel: there are not enough samples to give {each} labels to each of {wanted // each} clients. "
                "Use fewer clients or fewer labels for each, or Dirichlet(alpha=0.1)."
            )


# Partitions by name.
PARTITIONS: dict[str, type[Partition]] = {
    "iid": IID,
    "dirichlet": Dirichlet,
    "by_label": ByLabel,
    "shards": Shards,
}


def partition_of(value: object) -> Any:
    """Return a partition: the one given, or a new one of a class or a name such as "iid"; None for IID."""
    if value is None:
        return IID()
    kind = PARTITIONS.get(value.lower()) if isinstance(value, str) else value
    if isinstance(kind, type) and issubclass(kind, Partition):
        return kind()
    if isinstance(kind, type) or not hasattr(kind, "split"):
        raise TrainingError(
            f"The partition {value!r:.50} is unknown. {one_of(value, PARTITIONS)} Or pass one with its "
            "settings: partition=sy.federated.Dirichlet(alpha=0.5)."
        )
    return kind
