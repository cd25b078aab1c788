"""TrimmedMean: the mean of each coordinate, without the largest and the smallest values (Yin et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.robust import Robust, by_column
from syft.federated.strategies.strategy import Round
from syft.federated.validation import real


class TrimmedMean(Robust):
    """The coordinate-wise trimmed mean.

    Of n clients, `share * n` (rounded down, but at least one) are ignored at either end of each coordinate. This number
    of malicious clients can't move it outside the range of the others. All clients have the same weight, as their
    numbers of samples are self-declared.

    Args:
        share: the share of clients to ignore at either end, from 0 to below 0.5; 0 is the plain mean.
    """

    name: ClassVar[str] = "TrimmedMean"

    def __init__(self, share: float = 0.1) -> None:
        super().__init__()
        self.share = real(self.name, "share", share, 0, 0.5, "[)")

    def left_out(self, count: int) -> int:
        """Return the number of clients to ignore at either end."""
        # 0.29 * 100 is slightly less than 29 in floating point.
        return max(1, int(self.share * count + 1e-9)) if self.share else 0

    def require(self, count: int) -> None:
        """Raise if no client would be left."""
        super().require(count)
        if 2 * self.left_out(count) >= count:
            raise FederatedError(
                f"TrimmedMean ignores a client at either end of each coordinate, but only {count} answered: "
                "it needs at least 3. Use more clients in a round, or set min_clients=3."
            )

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the trimmed mean of each coordinate."""
        left_out = self.left_out(len(updates))
        kept = slice(left_out, len(updates) - left_out)
        return by_column(updates, lambda rows: rows.sort(dim=0).values[kept].mean(dim=0))

    def settings(self) -> dict[str, Any]:
        """Return the share."""
        return {"share": self.share}
