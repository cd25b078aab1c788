"""FedMedian: each coordinate of the update is the median over the clients (Yin et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from syft.federated.strategies.robust import Robust, by_column, median
from syft.federated.strategies.strategy import Round


class FedMedian(Robust):
    """The coordinate-wise median: fewer than half of the clients can't move it outside the range of the others.

    All clients have the same weight, as their numbers of samples are self-declared.
    """

    name: ClassVar[str] = "FedMedian"

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the median of each coordinate."""
        return by_column(updates, median)
