"""Beaver triples for products by hand: shares of a, b and their product."""

from __future__ import annotations

import torch

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import Shape
from syft.mpc.protocols.arithmetic import product_shape
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

OPERATIONS = ("mul", "matmul")


def triple_shape(operation: str, a: torch.Size | tuple[int, ...], b: torch.Size | tuple[int, ...]) -> torch.Size:
    """Return the shape of a product."""
    if operation not in OPERATIONS:
        raise ProtocolError(f"There are triples for {' and '.join(OPERATIONS)}, not for {str(operation)[:40]!r}.")
    return product_shape(operation, tuple(a), tuple(b), {})


def _shapes(anchor: torch.Tensor, operation: str, a_size: Shape, b_size: Shape) -> list[torch.Size]:
    return [torch.Size(a_size), torch.Size(b_size), triple_shape(operation, a_size, b_size)]


@protocol("triple", shape=_shapes)
async def triple(
    party: Party, anchor: torch.Tensor, operation: str, a_size: Shape, b_size: Shape
) -> tuple[torch.Tensor, ...]:
    """Return shares of uniform a and b and of their product, dealt by the crypto provider.

    1. The dealer deals. Nothing is opened. Rounds: 0.

    Args:
        party: this party.
        anchor: any shared tensor: the triple is dealt to its parties.
        operation: "mul" or "matmul".
        a_size: the shape of a.
        b_size: the shape of b.
    """
    triple_shape(operation, a_size, b_size)
    dealt = await party.deal("triple", operation, tuple(a_size), tuple(b_size), ())
    return tuple(share.clone() for share in dealt)
