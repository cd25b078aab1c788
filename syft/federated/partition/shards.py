"""Shards: samples sorted by label are cut into shards, and each client gets some of them (McMahan et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft.federated.partition.partition import Partition, Rows, require_samples, rows_by_label
from syft.federated.validation import whole


class Shards(Partition):
    """Each client has a few shards of the sorted data set, so samples of few labels, and nearly the same number.

    Args:
        shards_per_client: number of shards of each client; 2 as published.
    """

    def __init__(self, shards_per_client: int = 2) -> None:
        self.shards_per_client = whole("Shards", "shards_per_client", shards_per_client, 1)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("Shards", len(targets), count, self.shards_per_client)
        ordered = np.concatenate(rows_by_label("Shards", targets, chance))
        shards = np.array_split(ordered, count * self.shards_per_client)
        dealt = chance.permutation(len(shards)).reshape(count, self.shards_per_client)
        return [np.concatenate([shards[number] for number in numbers]) for numbers in dealt]

    def settings(self) -> dict[str, Any]:
        """Return the number of shards of each client."""
        return {"shards_per_client": self.shards_per_client}
