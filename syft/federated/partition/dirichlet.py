"""Dirichlet: the clients' shares of each label are drawn from a Dirichlet distribution (Yurochkin et al. 2019)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from syft.federated.partition.partition import Partition, Rows, require_samples, rows_by_label
from syft.federated.validation import real, whole


class Dirichlet(Partition):
    """Clients differ in labels and numbers of samples.

    For each label, the shares of the clients are drawn from a symmetric Dirichlet distribution. Clients with fewer than
    `min_samples` samples then get some of those with the most.

    Args:
        alpha: similarity of the clients: 100 is nearly IID, with 0.1 each has a few labels.
        min_samples: minimum number of samples of each client; 0 allows clients without any.
    """

    def __init__(self, alpha: float = 0.5, min_samples: int = 1) -> None:
        self.alpha = real("Dirichlet", "alpha", alpha, 0)
        self.min_samples = whole("Dirichlet", "min_samples", min_samples, 0)

    def share_out(self, targets: torch.Tensor, count: int, chance: np.random.Generator) -> Sequence[Rows]:
        """Return the rows of each client."""
        require_samples("Dirichlet", len(targets), count, self.min_samples)
        parts: list[list[Rows]] = [[] for _ in range(count)]
        for rows in rows_by_label("Dirichlet", targets, chance):
            ends = np.rint(np.cumsum(self._shares(count, chance)) * len(rows)).astype(np.int64)
            for part, piece in zip(parts, np.split(rows, ends[:-1]), strict=True):
                if len(piece):
                    part.append(piece)
        empty = np.zeros(0, dtype=np.int64)
        return self._evened([np.concatenate(part) if part else empty for part in parts], chance)

    def _shares(self, count: int, chance: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
        shares = chance.dirichlet(np.full(count, self.alpha))
        if not np.isfinite(shares).all() or shares.sum() < 0.5:
            # With a very small alpha all draws are zero: one client gets everything.
            shares = np.eye(count)[chance.integers(count)]
        return shares

    def _evened(self, parts: list[Rows], chance: np.random.Generator) -> list[Rows]:
        """Return parts where each client has enough samples, moved at random from those with the most."""
        poor = [number for number, part in enumerate(parts) if len(part) < self.min_samples]
        if not poor:
            return parts
        kept = [list(chance.permutation(part)) for part in parts]
        rich = [(-len(part), number) for number, part in enumerate(kept) if len(part) > self.min_samples]
        heapq.heapify(rich)
        for number in poor:
            while len(kept[number]) < self.min_samples:
                size, giver = heapq.heappop(rich)
                kept[number].append(kept[giver].pop())
                if -size - 1 > self.min_samples:
                    heapq.heappush(rich, (size + 1, giver))
        return [np.asarray(part, dtype=np.int64) for part in kept]

    def settings(self) -> dict[str, Any]:
        """Return alpha and the minimum number of samples."""
        return {"alpha": self.alpha, "min_samples": self.min_samples}
