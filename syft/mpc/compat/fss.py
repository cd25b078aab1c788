"""Function secret sharing: keys of the two functions, and comparisons of shared tensors in one round.

The keys are made and evaluated in `syft.mpc.ring.fss_keys`; the parties' part is `syft.mpc.protocols.fss`.

Example:
    >>> import torch
    >>> from syft.mpc.compat.fss import DPF
    >>> ours, theirs = DPF.gen(torch.tensor([5, 6]))
    >>> x = torch.tensor([5, 5])
    >>> DPF.evaluate(0, ours, x) + DPF.evaluate(1, theirs, x)
    tensor([1, 0])
"""

from __future__ import annotations

from typing import Any

import torch

from syft.core.generator import Generator, local
from syft.mpc.compat.documented_api import SharedTensor, call
from syft.mpc.protocols import fss as _protocols  # noqa: F401  (registers the protocols)
from syft.mpc.ring import fss_keys
from syft.mpc.ring.fss_keys import Key

__all__ = ["DIF", "DPF", "Key", "eq", "le"]

_LOWEST = -(2**63)


class DPF:
    """The function that is 1 at a point and 0 elsewhere, as two keys that reveal nothing about the point."""

    @staticmethod
    def gen(alpha: torch.Tensor, generator: Generator | None = None) -> tuple[Key, Key]:
        """Make two keys of [x == alpha], for each element of an int64 tensor."""
        return fss_keys.equal_keys(alpha, generator or local())

    @staticmethod
    def evaluate(party: int, key: Key, x: torch.Tensor) -> torch.Tensor:
        """Return the share of [x == alpha] that party 0 or 1 computes with its key."""
        return fss_keys.evaluate(party, key, x)


class DIF:
    """The function that is 1 up to a point and 0 above it, as two keys that reveal nothing about the point."""

    @staticmethod
    def gen(alpha: torch.Tensor, generator: Generator | None = None) -> tuple[Key, Key]:
        """Make two keys of [x <= alpha], for each element of an int64 tensor.

        x <= alpha unless alpha < x, that is, unless ~x < ~alpha; flipping the highest bit makes signed numbers
        unsigned. So the keys are those of -[~x < ~alpha], and party 0 adds 1.
        """
        return fss_keys.compare_keys(~alpha ^ _LOWEST, generator or local(), -torch.ones_like(alpha))

    @staticmethod
    def evaluate(party: int, key: Key, x: torch.Tensor) -> torch.Tensor:
        """Return the share of [x <= alpha] that party 0 or 1 computes with its key."""
        share = fss_keys.evaluate(party, key, ~x ^ _LOWEST)
        return share + 1 if party == 0 else share


def eq(x1: SharedTensor, x2: SharedTensor) -> Any:
    """Compute where two shared tensors are the same: 1 there, 0 elsewhere, shared."""
    return call("fss_eq", x1, x2)


def le(x1: SharedTensor, x2: SharedTensor) -> Any:
    """Compute where x1 <= x2 for shared tensors: 1 there, 0 elsewhere, shared."""
    return call("fss_le", x1, x2)
