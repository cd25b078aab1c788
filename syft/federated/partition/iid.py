"""IID: samples are assigned uniformly at random, the same number to each client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft.federated.partition.partition import Partition, Rows, require_samples
from syft.federated.validation import whole


class IID(Partition):
    """Each client gets the same number of samples, or one more, drawn at random. Targets may be of any kind.

    Args:
        min_samples: minimum number of samples of each client; 0 allows clients without any.
    """

    def __init__(self, min_samples: int = 1) -> None:
        self.min_samples = whole("IID", "min_samples", min_samples, 0)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("IID", len(targets), count, self.min_samples)
        return np.array_split(chance.permutation(len(targets)), count)

    def settings(self) -> dict[str, Any]:
        """Return the minimum number of samples, if it is not the default."""
        return {} if self.min_samples == 1 else {"min_samples": self.min_samples}
