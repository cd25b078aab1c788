"""FedMedian: each number of the update is the median of the clients' (Yin et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from syft.federated.strategies.robust import Robust, by_column, median
from syft.federated.strategies.strategy import Round


class FedMedian(Robust):
    """The coordinate-wise median: fewer than half of the clients can't move it beyond what the others gave.

    Each client counts the same, whatever number of samples it says it has.
    """

    name: ClassVar[str] = "FedMedian"

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the median of each number."""
        return by_column(updates, median)
