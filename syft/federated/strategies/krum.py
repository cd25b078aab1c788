"""Krum: the update that is nearest to its neighbours (Blanchard et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.robust import Robust, by_column, median, pieces
from syft.federated.strategies.strategy import Round
from syft.federated.validation import whole


class Krum(Robust):
    """Krum and multi-Krum: takes the updates that lie closest to most others, and leaves out the rest.

    Of n clients, the score of each is the sum of the squared distances to its `n - byzantine - 2` nearest; the lowest
    scores win. Distances are those of the parameters. Buffers, whose counts would outweigh them, take the median of
    all clients. Each client counts the same, whatever number of samples it says it has.

    Args:
        byzantine: how many clients of a round may be malicious; at least `2 * byzantine + 3` have to answer.
        keep: how many updates to take the mean of; 1 is Krum, more is multi-Krum, at most `n - byzantine - 2`.
    """

    name: ClassVar[str] = "Krum"

    def __init__(self, byzantine: int = 1, keep: int = 1) -> None:
        super().__init__()
        self.byzantine = whole(self.name, "byzantine", byzantine, 0)
        self.keep = whole(self.name, "keep", keep, 1)

    def require(self, count: int) -> None:
        """Raise if so few answers prove nothing."""
        least = max(2 * self.byzantine + 3, self.keep + self.byzantine + 2)
        if count < least:
            raise FederatedError(
                f"{self!r} needs answers of at least {least} clients (2 * byzantine + 3, and keep + byzantine + 2), "
                f"and {count} answered. Ask more clients in a round, or set min_clients={least}."
            )

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the mean of the chosen updates."""
        chosen = [updates[number] for number in self.chosen(updates, round)]
        size, count = updates[0].numel(), round.layout.parameters
        found = torch.zeros(size, dtype=torch.float64)
        for update in chosen:
            found[:count] += update[:count]
        found /= len(chosen)
        found[count:] = by_column(updates, median, count)
        return found

    def chosen(self, updates: Sequence[torch.Tensor], round: Round) -> list[int]:
        """Return which updates are taken, by their numbers, the best one first."""
        scores = self.scores(updates, round)
        return torch.sort(scores, stable=True).indices[: self.keep].tolist()

    def scores(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the score of each update: the lower, the more others are near."""
        apart = _squared_distances(updates, round.layout.parameters)
        apart.fill_diagonal_(0)
        near = len(updates) - self.byzantine - 2
        # The nearest one to each is itself.
        return apart.sort(dim=1).values[:, 1 : near + 1].sum(dim=1)

    def settings(self) -> dict[str, Any]:
        """Return how many may be malicious, and how many are taken."""
        return {"byzantine": self.byzantine, "keep": self.keep}


def _squared_distances(updates: Sequence[torch.Tensor], end: int) -> torch.Tensor:
    """Return the squared distance of each update to each, in the first numbers."""
    products = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for piece in pieces(updates, 0, end):
        # From the middle, where products are small: what they have in common would leave few digits for differences.
        piece -= median(piece)
        products += piece @ piece.T
    squares = products.diagonal()
    apart = squares[:, None] + squares[None, :] - 2 * products
    # Infinity minus infinity is nothing that is near.
    return apart.clamp(min=0).nan_to_num(nan=torch.inf, posinf=torch.inf)
