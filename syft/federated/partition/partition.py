"""Partition: the assignment of a data set's samples to clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft.exceptions import TrainingError
from syft.federated.validation import whole

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

    def settings(self) -> dict[str, Any]:
        """Return the settings of this partition."""
        return {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings().items())})"


def rows_by_label(kind: str, targets: torch.Tensor, chance: np.random.Generator) -> list[Rows]:
    """Return the rows of each label, in the order of the labels; the rows of one label are shuffled.

    Args:
        kind: the name of the partition, for errors.
        targets: the targets.
        chance: the random generator.
    """
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
