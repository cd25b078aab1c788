"""Masks of sums before they are opened: multiples of a modulus, and carries between limbs.

The masks do not change the result that is read from the opened numbers. Each party draws its own, so they hide as long
as one party is honest. Shifting a uniform mask of b bits by d changes its distribution by at most d / 2^b.
"""

from __future__ import annotations

import torch

from syft.core.generator import local
from syft.exceptions import ProtocolError
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# Masked numbers stay below 2^62 in size with all masks of all parties, and numbers of at most 2^62 are masked.
ROOM_BITS = 61
_MIN_BITS, _MAX_WIDTH = 8, 48


def mask_bits(factor: int, parties: int) -> int:
    """Return the bits of a mask that is multiplied by a factor of at most this size."""
    return ROOM_BITS - (factor * parties - 1).bit_length()


def _masks(bits: int, *shape: int) -> torch.Tensor:
    """Draw uniform numbers of some bits."""
    return (local().words(*shape) >> (64 - bits)) & ((1 << bits) - 1)


def _checked_bits(factor: object, party: Party) -> int:
    bits = mask_bits(factor, party.count) if type(factor) is int and factor > 1 else 0
    if bits < _MIN_BITS:
        raise ProtocolError(f"A mask of multiples of {str(factor)[:40]} does not fit into the shares.")
    return bits


@protocol("hide_multiples", deals=False)
async def hide_multiples(party: Party, x: torch.Tensor, modulus: int) -> torch.Tensor:
    """Add a random multiple of a modulus: opened numbers then depend on x modulo it only, up to a statistical bound.

    Sees: nothing. Two numbers that differ by q multiples of the modulus give openings at a statistical distance of at
    most q / 2^b, with b = 61 - log2(modulus * parties), rounded down.
    """
    bits = _checked_bits(modulus, party)
    return x + _masks(bits, *x.shape) * modulus


@protocol("hide_carries", deals=False)
async def hide_carries(party: Party, x: torch.Tensor, width: int, field: list[int]) -> torch.Tensor:
    """Move random carries between limbs, and add a random multiple of a field.

    Opened limbs then depend on the number modulo the field only, up to a statistical bound.

    Args:
        party: this party.
        x: limbs, the most significant first, in the last dimension.
        width: the number of bits of a limb.
        field: the limbs of the field.

    Sees: nothing. Two sums whose carries and multiples of the field differ by d_1, d_2, ... give openings at a
    statistical distance of at most (d_1 + d_2 + ...) / 2^b, with b = 59 - width - log2(parties), rounded down.
    """
    if type(width) is not int or not 2 <= width <= _MAX_WIDTH:
        raise ProtocolError(f"The limbs of shared numbers have 2 to {_MAX_WIDTH} bits.")
    if not x.dim() or len(field) != x.shape[-1] or not all(type(f) is int and 0 <= f <= 2 << width for f in field):
        raise ProtocolError("A field has one limb for each limb of the shared numbers.")
    bits = _checked_bits(4 << width, party)
    carries = _masks(bits, *x.shape[:-1], x.shape[-1] - 1)
    masked = x + _masks(bits, *x.shape[:-1], 1) * torch.tensor(field)
    masked[..., 1:] += carries << width
    masked[..., :-1] -= carries
    return masked
