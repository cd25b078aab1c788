"""Robust: strategies that see each update, and tolerate wrong or malicious ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total

# Number of columns to process at a time, as sorting copies them.
CHUNK = 1 << 22


class Robust(Strategy):
    """A strategy that uses the updates of all clients, including buffers.

    All clients have the same weight: the number of samples is self-declared, and a malicious client would inflate it.
    The server must see each update, so secure aggregation is not possible.
    """

    is_linear: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(weighted=False)

    def combine(self, answers: Sequence[Answer], round: Round) -> Total:
        """Return the robust estimate of the update."""
        self.require(len(answers))
        update = self.center([answer.update for answer in answers], round)
        return Total(update, float(len(answers)), len(answers))

    def require(self, count: int) -> None:
        """Raise if there are too few results."""
        if count < 1:
            raise FederatedError(f"{self.name}: no client answered.")

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return one update, in float64, from one of each client."""
        raise NotImplementedError(f"{type(self).__name__}: a robust strategy must implement center")

    def settings(self) -> dict[str, Any]:
        """Return no settings: there are no weights."""
        return {}


def pieces(updates: Sequence[torch.Tensor], start: int = 0, end: int | None = None) -> Iterator[torch.Tensor]:
    """Yield the updates as rows of a matrix in float64, in chunks of columns."""
    end = updates[0].numel() if end is None else end
    width = max(1, CHUNK // len(updates))
    for left in range(start, end, width):
        yield torch.stack([update[left : min(left + width, end)].to(torch.float64) for update in updates])


def by_column(
    updates: Sequence[torch.Tensor], function: Callable[[torch.Tensor], torch.Tensor], start: int = 0
) -> torch.Tensor:
    """Apply a function to each column of the updates, from a column on."""
    found = [function(piece) for piece in pieces(updates, start)]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def median(rows: torch.Tensor) -> torch.Tensor:
    """Return the median of each column; the mean of the middle two if the number of rows is even."""
    ranked, count = rows.sort(dim=0).values, len(rows)
    return ranked[(count - 1) // 2] / 2 + ranked[count // 2] / 2
