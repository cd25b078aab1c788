"""Strategies that see each update, and tolerate wrong or malicious ones: FedMedian, TrimmedMean, Krum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch

from syft.exceptions import FederatedError
from syft.federated.strategies.strategy import Answer, Round, Strategy, Total
from syft.federated.validation import real, whole

# Number of columns to process at a time, as sorting copies them.
CHUNK = 1 << 22


class Robust(Strategy):
    """A strategy that uses the updates of all clients, including buffers.

    All clients have the same weight: the number of samples is self-declared, and a malicious client would inflate it.
    The server must see each update, so secure aggregation is not possible.
    """

    is_linear: ClassVar[bool] = False
    setting_names: ClassVar[tuple[str, ...]] = ()

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


class FedMedian(Robust):
    """The coordinate-wise median (Yin et al. 2018).

    Fewer than half of the clients can't move it outside the range of the others.

    All clients have the same weight, as their numbers of samples are self-declared.
    """

    name: ClassVar[str] = "FedMedian"

    def center(self, updates: Sequence[torch.Tensor], round: Round) -> torch.Tensor:
        """Return the median of each coordinate."""
        return by_column(updates, median)


class TrimmedMean(Robust):
    """The coordinate-wise trimmed mean (Yin et al. 2018).

    Of n clients, `share * n` (rounded down, but at least one) are ignored at either end of each coordinate. This number
    of malicious clients can't move it outside the range of the others. All clients have the same weight, as their
    numbers of samples are self-declared.

    Args:
        share: the share of clients to ignore at either end, from 0 to below 0.5; 0 is the plain mean.
    """

    name: ClassVar[str] = "TrimmedMean"
    setting_names: ClassVar[tuple[str, ...]] = ("share",)

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


class Krum(Robust):
    """Krum and multi-Krum: uses the updates closest to most others (Blanchard et al. 2017).

    Of n clients, the score of each is the sum of the squared distances to its `n - byzantine - 2` nearest; the lowest
    scores win. Distances use the parameters. Buffers, whose counts would dominate them, are the median over all
    clients. All clients have the same weight, as their numbers of samples are self-declared.

    Args:
        byzantine: maximum number of malicious clients in a round; at least `2 * byzantine + 3` must answer.
        keep: number of updates to average; 1 is Krum, more is multi-Krum, at most `n - byzantine - 2`.
    """

    name: ClassVar[str] = "Krum"
    setting_names: ClassVar[tuple[str, ...]] = ("byzantine", "keep")

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
