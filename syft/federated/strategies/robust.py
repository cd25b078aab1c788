"""Robust: strategies that see each update, and bear that some of them are wrong or malicious."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total

# How many numbers are worked on at a time: what is sorted is copied, and a large model of many clients is large.
CHUNK = 1 << 22


class Robust(Strategy):
    """A strategy that looks at the updates of all clients, buffers among them.

    Each client counts the same: how many samples it has is what it says, and a malicious one would say many.
    The server has to see each update, so there is no secure aggregation with it.
    """

    is_linear: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(weighted=False)

    def combine(self, answers: Sequence[Answer], round: Round) -> Total:
        """Return what is taken for the update of all."""
        self.require(len(answers))
        update = self.center([answer.update for answer in answers], round)
        return Total(update, float(len(answers)), len(answers))

    def require(self, count: int) -> None:
        """Raise if so many answers are too few."""
        if count < 1:
            raise FederatedError(f"{self.name}: no client answered, so there is nothing to take.")

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return one update, in float64, from one of each client."""
        raise NotImplementedError(f"{type(self).__name__}: a robust strategy must say which update it takes")

    def settings(self) -> dict[str, Any]:
        """Return nothing: there are no weights to set."""
        return {}


def pieces(updates: Sequence[torch.Tensor], start: int = 0, end: int | None = None) -> Iterator[torch.Tensor]:
    """Yield the updates side by side in float64, one row a client, in pieces of some columns."""
    end = updates[0].numel() if end is None else end
    width = max(1, CHUNK // len(updates))
    for left in range(start, end, width):
        yield torch.stack([update[left : min(left + width, end)].to(torch.float64) for update in updates])


def by_column(
    updates: Sequence[torch.Tensor], function: Callable[[torch.Tensor], torch.Tensor], start: int = 0
) -> torch.Tensor:
    """Return what a function makes of each column of the updates, one row a client, from a column on."""
    found = [function(piece) for piece in pieces(updates, start)]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def median(rows: torch.Tensor) -> torch.Tensor:
    """Return the median of each column; the mean of the two in the middle if the rows are even in number."""
    ranked, count = rows.sort(dim=0).values, len(rows)
    return ranked[(count - 1) // 2] / 2 + ranked[count // 2] / 2
