"""Packing: a client's result of a round as one vector of integers, whose sum over the clients can't overflow.

Numbers are fixed point: multiplied by a power of two and rounded towards zero, so that no norm grows (clipping for
differential privacy still holds). The power is the largest one for which `clients` values of the largest allowed
size sum to less than 2^62. A larger value is an error, never clipped: a sum with a clipped part would be silently
wrong.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from syft.exceptions import TrainingError

# Upper bound of a sum over all clients.
SUM_LIMIT = 2**62
# The resolution of a sum is at least 2^-8.
LEAST_BITS, MOST_BITS = 8, 60
# After the vectors: loss times samples, samples with a loss, all samples, and 1 for the client.
NUMBERS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the clients of a round.

    Attributes:
        update: the sum of the updates, multiplied by samples if they are weighted.
        extras: the sums of the other vectors.
        loss: the mean loss over samples; None if no client reported one.
        samples: number of samples.
        count: number of clients.
    """

    update: torch.Tensor
    extras: list[torch.Tensor]
    loss: float | None
    samples: int
    count: int


class Packing:
    """Encodes vectors and numbers as one vector of int64, and decodes sums.

    Args:
        clients: maximum number of clients.
        size: the length of an update.
        extras: the lengths of the other vectors.
        weighted: whether updates are multiplied by the number of samples.
        max_update: the largest absolute value in an update or another vector.
        max_samples: the largest number of samples for an update of that size.
    """

    __slots__ = ("bits", "extra_bits", "extras", "limit", "loss_bits", "size", "weighted")

    def __init__(
        self, clients: int, size: int, extras: list[int], weighted: bool, max_update: float, max_samples: int
    ) -> None:
        self.size, self.extras, self.weighted = size, extras, weighted
        self.limit = SUM_LIMIT // clients
        product = max_update * max_samples
        self.extra_bits = _bits(self.limit, max_update)
        self.loss_bits = _bits(self.limit, product)
        self.bits = self.loss_bits if weighted else self.extra_bits
        if self.bits < LEAST_BITS or self.loss_bits < 0:
            raise TrainingError(
                f"Updates up to {max_update:g} of {max_samples} samples can't be summed over {clients} clients in "
                f"{SUM_LIMIT.bit_length() - 1} bits. Use a smaller max_update or max_samples in SecureAggregation."
            )

    @property
    def words(self) -> int:
        """The length of the packed vector."""
        return self.size + sum(self.extras) + NUMBERS

    def bound(self, count: int, weight: float) -> float:
        """Return the largest error by rounding of a mean over `count` clients with a sum of weights."""
        return float(count / 2**self.bits / weight)

    def pack(self, update: torch.Tensor, samples: int, loss: float | None, extras: list[torch.Tensor]) -> torch.Tensor:
        """Return a client's result as one vector of int64; raises if a value is too large."""
        if not 0 <= samples <= self.limit:
            raise TrainingError(f"Too many samples for secure aggregation: the maximum is {self.limit}.")
        if update.shape != (self.size,) or [vector.numel() for vector in extras] != self.extras:
            raise TrainingError("The update of this client does not have the size of the round's model.")
        packed = torch.empty(self.words, dtype=torch.int64)
        factor = float(samples) if self.weighted else 1.0
        packed[: self.size] = self._fixed(update, factor, self.bits, "update")
        start = self.size
        for vector in extras:
            packed[start : start + vector.numel()] = self._fixed(vector, 1.0, self.extra_bits, "extra vector")
            start += vector.numel()
        scaled = None if loss is None else round(loss * samples * 2.0**self.loss_bits)
        if scaled is None or abs(scaled) > self.limit:  # the loss is informative only: leave it out if it does not fit
            scaled = None
        packed[start:] = torch.tensor([scaled or 0, 0 if scaled is None else samples, samples, 1])
        return packed

    def _fixed(self, vector: torch.Tensor, factor: float, bits: int, what: str) -> torch.Tensor:
        scaled = vector.detach().double() * factor
        scaled.mul_(2.0**bits).trunc_()
        largest = float(scaled.abs().max()) if scaled.numel() else 0.0
        if not largest <= self.limit:  # true for NaN too
            if not math.isfinite(largest):
                raise TrainingError(f"The {what} of this client is not finite. Try a smaller learning rate.")
            times = " times its number of samples" if self.weighted and what == "update" else ""
            raise TrainingError(
                f"A number in the {what} of this client{times} is too large for secure aggregation. Use a larger "
                "max_update or max_samples in SecureAggregation, or a smaller learning rate."
            )
        return scaled.to(torch.int64)

    def unpack(self, total: torch.Tensor) -> Sums:
        """Return the sums over clients, decoded from the sum of their packed vectors."""
        parts = torch.split(total, [self.size, *self.extras, NUMBERS])
        scaled, seen, samples, count = parts[-1].tolist()
        loss = math.ldexp(scaled, -self.loss_bits) / seen if seen > 0 else None
        extras = [part.double() * 2.0**-self.extra_bits for part in parts[1:-1]]
        return Sums(parts[0].double() * 2.0**-self.bits, extras, loss, samples, count)


def _bits(limit: int, largest: float) -> int:
    """Return the number of fractional bits."""
    return min(MOST_BITS, math.frexp(limit / largest)[1] - 1)


def check_range(max_update: Any, max_samples: Any) -> None:
    """Raise if the bounds are invalid."""
    if type(max_update) not in (int, float) or not math.isfinite(max_update) or not 2.0**-40 <= max_update <= 2.0**40:
        raise TrainingError("max_update of secure aggregation must be a number from 2^-40 to 2^40.")
    if type(max_samples) is not int or not 1 <= max_samples <= 2**53:
        raise TrainingError("max_samples of secure aggregation must be an integer from 1 to 2^53.")
