"""Common words: what the dealer computes once and sends to every party of a group, such as words of FSS keys."""

from __future__ import annotations

import threading

import torch

from syft.mpc.dealer.deals import Compute

# Bytes of common words that wait for the party that they were not computed for; beyond it they are computed again.
COMMON_BYTES = 128 * 2**20
# The generation of the group, the label of the deal, and the index of the words in it.
Place = tuple[int, bytes, int]


class Broadcasts:
    """Words that every party of a group gets, computed for the first that needs them and kept for the others."""

    def __init__(self) -> None:
        # The words, and how many parties still need them.
        self._kept: dict[Place, tuple[torch.Tensor, int]] = {}
        self._bytes = 0
        self._computing: set[Place] = set()
        self._changed = threading.Condition()

    def get(self, key: Place, others: int, compute: Compute) -> torch.Tensor:
        """Return words that were computed for another party, or compute them and keep them for the other parties."""
        with self._changed:
            while key in self._computing:
                self._changed.wait()
            if key in self._kept:
                return self._take(key)
            self._computing.add(key)
        words = None
        try:
            words = compute()
        finally:
            with self._changed:
                self._computing.remove(key)
                if words is not None:
                    self._keep(key, words, others)
                self._changed.notify_all()
        return words

    def _keep(self, key: Place, words: torch.Tensor, others: int) -> None:
        self._kept[key] = (words, others)
        self._bytes += words.nbytes
        while self._bytes > COMMON_BYTES:
            self._drop(next(iter(self._kept)))

    def _take(self, key: Place) -> torch.Tensor:
        words, others = self._kept[key]
        if others > 1:
            self._kept[key] = (words, others - 1)
        else:
            self._drop(key)
        return words

    def _drop(self, key: Place) -> None:
        self._bytes -= self._kept.pop(key)[0].nbytes

    def forget(self, generation: int) -> None:
        """Drop all words of a group."""
        with self._changed:
            for key in [key for key in self._kept if key[0] == generation]:
                self._drop(key)
