"""Broadcasts: tensors that the dealer computes once and sends to every party of a group, such as parts of FSS keys."""

from __future__ import annotations

import threading

import torch

from syft.mpc.dealer.deals import Compute

# Limits bytes that wait for the other parties; dropped tensors are computed again.
COMMON_BYTES = 128 * 2**20
# The generation of the group, the label of the deal, and the index of the tensor in it.
BroadcastKey = tuple[int, bytes, int]


class Broadcasts:
    """Tensors for every party of a group, computed for the first one and stored for the others."""

    def __init__(self) -> None:
        # The tensor, and the number of parties that still need it.
        self._stored: dict[BroadcastKey, tuple[torch.Tensor, int]] = {}
        self._bytes = 0
        self._computing: set[BroadcastKey] = set()
        self._changed = threading.Condition()

    def get(self, key: BroadcastKey, others: int, compute: Compute) -> torch.Tensor:
        """Return a tensor that was computed for another party, or compute it and store it for the other parties."""
        with self._changed:
            while key in self._computing:
                self._changed.wait()
            if key in self._stored:
                return self._pop(key)
            self._computing.add(key)
        words = None
        try:
            words = compute()
        finally:
            with self._changed:
                self._computing.remove(key)
                if words is not None:
                    self._store(key, words, others)
                self._changed.notify_all()
        return words

    def _store(self, key: BroadcastKey, words: torch.Tensor, others: int) -> None:
        self._stored[key] = (words, others)
        self._bytes += words.nbytes
        while self._bytes > COMMON_BYTES:
            self._drop(next(iter(self._stored)))

    def _pop(self, key: BroadcastKey) -> torch.Tensor:
        words, others = self._stored[key]
        if others > 1:
            self._stored[key] = (words, others - 1)
        else:
            self._drop(key)
        return words

    def _drop(self, key: BroadcastKey) -> None:
        self._bytes -= self._stored.pop(key)[0].nbytes

    def forget(self, generation: int) -> None:
        """Drop all tensors of a group."""
        with self._changed:
            for key in [key for key in self._stored if key[0] == generation]:
                self._drop(key)
