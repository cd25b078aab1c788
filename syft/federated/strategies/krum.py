"""Krum: selects the updates nearest to their neighbours (Blanchard et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.robust import Robust, by_column, median, pieces
from syft.federated.strategies.strategy import Round
from syft.federated.validation import whole


class Krum(Robust):
    """Krum and multi-Krum: uses the updates that are closest to most others, and ignores the rest.

    Of n clients, the score of each is the sum of the squared distances to its `n - byzantine - 2` nearest; the lowest
    scores win. Distances use the parameters. Buffers, whose counts would dominate them, are the median over all
    clients. All clients have the same weight, as their numbers of samples are self-declared.

    Args:
        byzantine: maximum number of malicious clients in a round; at least `2 * byzantine + 3` must answer.
        keep: number of updates to average; 1 is Krum, more is multi-Krum, at most `n - byzantine - 2`.
    """

    name: ClassVar[str] = "Krum"

    def __init__(self, byzantine: int = 1, keep: int = 1) -> None:
        super().__init__()
        self.byzantine = whole(self.name, "byzantine", byzantine, 0)
        self.keep = whole(self.name, "keep", keep, 1)

    def require(self, count: int) -> None:
        """Raise if there are too few results."""
        least = max(2 * self.byzantine + 3, self.keep + self.byzantine + 2)
        if count < least:
            raise FederatedError(
                f"{self!r} needs results of at least {least} clients (2 * byzantine + 3, and keep + byzantine + 2), "
                f"got {count}. Use more clients in a round, or set min_clients={least}."
            )

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the mean of the selected updates."""
        chosen = [updates[number] for number in self.chosen(updates, round)]
        size, count = updates[0].numel(), round.layout.parameters
        found = torch.zeros(size, dtype=torch.float64)
        for update in chosen:
            found[:count] += update[:count]
        found /= len(chosen)
        found[count:] = by_column(updates, median, count)
        return found

    def chosen(self, updates: Sequence[torch.Tensor], round: Round) -> list[int]:
        """Return the indices of the selected updates, the best one first."""
        scores = self.scores(updates, round)
        return torch.sort(scores, stable=True).indices[: self.keep].tolist()

    def scores(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the score of each update; lower is closer to the others."""
        apart = _squared_distances(updates, round.layout.parameters)
        apart.fill_diagonal_(0)
        near = len(updates) - self.byzantine - 2
        # The nearest neighbour of each update is itself.
        return apart.sort(dim=1).values[:, 1 : near + 1].sum(dim=1)

    def settings(self) -> dict[str, Any]:
        """Return the settings of Krum."""
        return {"byzantine": self.byzantine, "keep": self.keep}


def _squared_distances(updates: Sequence[torch.Tensor], end: int) -> torch.Tensor:
    """Return the squared distances of all pairs of updates, over the first coordinates."""
    products = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for piece in pieces(updates, 0, end):
        # Centered first: a large common part would cancel digits of the differences.
        piece -= median(piece)
        products += piece @ piece.T
    squares = products.diagonal()
    apart = squares[:, None] + squares[None, :] - 2 * products
    # Infinity minus infinity is NaN, which must not count as near.
    return apart.clamp(min=0).nan_to_num(nan=torch.inf, posinf=torch.inf)
