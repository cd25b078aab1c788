"""Beaver triples: random a and b with their product, and squares, dealt to the parties of a product of shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.exceptions import ProtocolError, UnsupportedOperationError
from syft.mpc.dealer.deals import DealerContext, Shape, deals
from syft.mpc.ring import arithmetic
from syft.mpc.runtime import result_shapes
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol

# The products of shares. Each takes two tensors and keyword options, and is linear in both.
PRODUCTS: dict[str, Callable[..., torch.Tensor]] = {
    "mul": arithmetic.mul,
    "matmul": arithmetic.matmul,
    "conv": arithmetic.conv,
}
_SHAPES: dict[str, Callable[..., torch.Size]] = {
    "mul": arithmetic.broadcast,
    "matmul": result_shapes.matmul,
    "conv": result_shapes.conv,
}
# The products there are triples for outside of a run.
TRIPLES = ("mul", "matmul")
Options = tuple[tuple[str, Any], ...]


def _check_product(operation: str) -> None:
    if operation not in PRODUCTS:
        raise UnsupportedOperationError(
            f"The product {str(operation)[:40]!r}", "shares", f"There is {', '.join(PRODUCTS)}."
        )


def product(operation: str, x: torch.Tensor, y: torch.Tensor, options: Options = ()) -> torch.Tensor:
    """Multiply two tensors in the ring by one of the products."""
    _check_product(operation)
    return PRODUCTS[operation](x, y, **dict(options))


def product_shape(operation: str, x: Shape, y: Shape, options: dict[str, Any]) -> torch.Size:
    """Return the shape of a product."""
    _check_product(operation)
    return _SHAPES[operation](tuple(x), tuple(y), **options)


@deals("triple")
def deal_triple(
    context: DealerContext, operation: str, x: tuple[int, ...], y: tuple[int, ...], options: Options = ()
) -> Any:
    """Deal a, b and their product."""
    a, b = context.random(x), context.random(y)
    shape = tuple(product_shape(operation, x, y, dict(options)))
    return a, b, context.fixed(shape, lambda: product(operation, a.value, b.value, options))


@deals("square")
def deal_square(context: DealerContext, shape: tuple[int, ...]) -> Any:
    """Deal a and its square."""
    a = context.random(shape)
    return a, context.fixed(shape, lambda: arithmetic.mul(a.value, a.value))


def triple_shape(operation: str, a: torch.Size | tuple[int, ...], b: torch.Size | tuple[int, ...]) -> torch.Size:
    """Return the shape of a product."""
    if operation not in TRIPLES:
        raise ProtocolError(f"There are triples for {' and '.join(TRIPLES)}, not for {str(operation)[:40]!r}.")
    return product_shape(operation, tuple(a), tuple(b), {})


def _triple_shapes(anchor: torch.Tensor, operation: str, a_size: Shape, b_size: Shape) -> list[torch.Size]:
    return [torch.Size(a_size), torch.Size(b_size), triple_shape(operation, a_size, b_size)]


@protocol("triple", shape=_triple_shapes)
async def triple(
    party: Party, anchor: torch.Tensor, operation: str, a_size: Shape, b_size: Shape
) -> tuple[torch.Tensor, ...]:
    """Return shares of uniform a and b and of their product, dealt to the parties of any shared tensor, the anchor.

    1. The dealer deals. Nothing is opened. Rounds: 0.
    """
    triple_shape(operation, a_size, b_size)
    dealt = await party.deal("triple", operation, tuple(a_size), tuple(b_size), ())
    return tuple(share.clone() for share in dealt)
