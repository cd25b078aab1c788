"""Sums and products of shares: local where one side is public, Beaver's one round where both are private."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import ProtocolError
from syft.mpc.dealer.deals import DealerContext, deals
from syft.mpc.protocols.beaver_triples import Options, product, product_shape
from syft.mpc.protocols.truncation import truncate
from syft.mpc.ring import arithmetic
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import broadcast, protocol

Pair = tuple[torch.Tensor, torch.Tensor]


def _of_private(x: torch.Tensor, y: torch.Tensor, divisor: int = 1, operation: str = "mul", **options: Any) -> Any:
    return product_shape(operation, x.shape, y.shape, options)


def _of_public(
    x: torch.Tensor,
    y: torch.Tensor | int,
    divisor: int = 1,
    operation: str = "mul",
    swapped: bool = False,
    **options: Any,
) -> torch.Size:
    if not isinstance(y, torch.Tensor):
        return x.shape
    left, right = (y, x) if swapped else (x, y)
    return product_shape(operation, left.shape, right.shape, options)


def sum_of_products(operation: str, left: Pair, right: Pair, options: Options) -> torch.Tensor:
    """Add two products of the same shapes; convolutions with few channels are joined to one of twice the depth."""
    if operation == "conv" and 2 * right[0][0].numel() <= arithmetic.DEPTH:
        plain = dict(options)
        if plain.get("groups", 1) == 1 and not plain.get("transposed"):
            return arithmetic.conv(torch.cat(left, 1), torch.cat(right, 1), **plain)
    (x, e), (d, b) = left, right
    return arithmetic.add_into(product(operation, x, d, options), product(operation, e, b, options))


@protocol("product", shape=_of_private, rounds="1, and 1 to rescale", bytes="16, and 8 to rescale",
          error="exact on whole numbers; 1 unit in the last place after rescaling")  # fmt: skip
async def multiply(
    party: Party, x: torch.Tensor, y: torch.Tensor, divisor: int = 1, operation: str = "mul", **options: Any
) -> torch.Tensor:
    """Multiply two private tensors: element by element, as matrices, or as a convolution (Beaver 1991).

    1. The dealer deals uniform a, b and c = ab.
    2. The parties open e = x - a and d = y - b, in one round.
    3. xy = xd + eb + c, which is linear in the private values.
    4. If the operands are fixed-precision numbers, the product is divided by their scale (see `truncate`).

    Sees: e and d, which are uniform. Rounds: 1, and 1 for step 4. Bytes: 8 for each element of both operands, and
    8 for each element of the product in step 4.
    """
    frozen = tuple(sorted(options.items()))
    a, b, c = await party.deal("triple", operation, tuple(x.shape), tuple(y.shape), frozen)
    e, d = await party.open(arithmetic.sub(x, a), arithmetic.sub(y, b))
    z = arithmetic.add_into(sum_of_products(operation, (x, e), (d, b), frozen), c)
    return await truncate(party, z, divisor)


@protocol("square", rounds="1, and 1 to rescale", bytes="8, and 8 to rescale",
          error="exact on whole numbers; 1 unit in the last place after rescaling")  # fmt: skip
async def square(party: Party, x: torch.Tensor, divisor: int = 1) -> torch.Tensor:
    """Square a private tensor.

    1. The dealer deals uniform a and its square.
    2. The parties open e = x - a.
    3. x^2 = a^2 + 2ae + e^2.

    Sees: e, which is uniform. Rounds: 1. Bytes: 8 an element.
    """
    a, aa = await party.deal("square", tuple(x.shape))
    (e,) = await party.open(arithmetic.sub(x, a))
    z = arithmetic.add(aa, arithmetic.mul(a, 2 * e))
    known = party.public(arithmetic.mul, e, e)
    if party.first:
        z = arithmetic.add(z, known)
    return await truncate(party, z, divisor)


@protocol("product_public", shape=_of_public, rounds="0, and 1 to rescale", bytes="0, and 8 to rescale",
          error="exact on whole numbers; 1 unit in the last place after rescaling",
          deals=lambda divisor=1, **options: divisor != 1)  # fmt: skip
async def multiply_public(
    party: Party,
    x: torch.Tensor,
    y: torch.Tensor | int,
    divisor: int = 1,
    operation: str = "mul",
    swapped: bool = False,
    **options: Any,
) -> torch.Tensor:
    """Multiply a private tensor by a public one; `swapped` when the public one stands on the left."""
    if not isinstance(y, torch.Tensor):
        return await truncate(party, x * y, divisor)
    left, right = (y, x) if swapped else (x, y)
    return await truncate(party, product(operation, left, right, tuple(options.items())), divisor)


@protocol("add", shape=broadcast, deals=False)
async def add(party: Party, x: torch.Tensor, y: torch.Tensor, alpha: int = 1) -> torch.Tensor:
    """Add two private tensors, the second one times a public integer: each party adds its shares."""
    return torch.add(x, y, alpha=_whole(alpha))


def _whole(alpha: object) -> int:
    if type(alpha) is not int:
        raise ProtocolError(f"The factor alpha of shares must be an integer, got a {type(alpha).__name__}.")
    return alpha


def _with_public(x: torch.Tensor, y: torch.Tensor | int, alpha: int = 1) -> torch.Size:
    return arithmetic.broadcast(x.shape, y.shape) if isinstance(y, torch.Tensor) else x.shape


@protocol("add_public", shape=_with_public, deals=False)
async def add_public(party: Party, x: torch.Tensor, y: torch.Tensor | int, alpha: int = 1) -> torch.Tensor:
    """Add a public tensor or integer to alpha times a private tensor: only the first party adds it."""
    scaled = x if alpha == 1 else x * _whole(alpha)
    if party.first:
        return torch.add(scaled, y)
    shape = arithmetic.broadcast(x.shape, y.shape) if isinstance(y, torch.Tensor) else x.shape
    return scaled.expand(shape).clone()


@protocol("open", rounds="1", bytes="8", deals=False)
async def reveal(party: Party, x: torch.Tensor) -> Any:
    """Open a value to every party."""
    (opened,) = await party.open(x)
    return opened.clone()


@protocol("refresh")
async def refresh(party: Party, x: torch.Tensor) -> torch.Tensor:
    """Replace the shares by fresh ones of the same value: add dealt shares of zero."""
    (zero,) = await party.deal("zero", tuple(x.shape))
    return arithmetic.add(x, zero)


@deals("zero")
def deal_zero(context: DealerContext, shape: tuple[int, ...]) -> Any:
    """Deal shares of zero."""
    return (context.fixed(shape, lambda: torch.zeros(shape, dtype=torch.int64)),)


@deals("random")
def deal_random(context: DealerContext, shape: tuple[int, ...]) -> Any:
    """Deal shares of a uniform value."""
    return (context.random(shape),)
