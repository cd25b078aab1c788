"""ByLabel: each client has samples of a few labels only."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft.exceptions import TrainingError
from syft.federated.partition.partition import Partition, Rows, rows_by_label
from syft.federated.validation import whole


class ByLabel(Partition):
    """Each client has samples of a fixed number of labels.

    The more samples a label has, the more clients share it, so clients have similar numbers of samples.

    Args:
        labels_per_client: number of labels of each client.
    """

    def __init__(self, labels_per_client: int = 2) -> None:
        self.labels_per_client = whole("ByLabel", "labels_per_client", labels_per_client, 1)

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

    def settings(self) -> dict[str, Any]:
        """Return the number of labels of each client."""
        return {"labels_per_client": self.labels_per_client}
