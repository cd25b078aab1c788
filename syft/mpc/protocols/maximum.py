"""The largest element and its index, by a tournament: half of the candidates remain after each level."""

from __future__ import annotations

from typing import Any

import torch

from syft.mpc.protocols.arithmetic import multiply
from syft.mpc.protocols.comparison import sign_of
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import protocol


def _level(candidates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pair neighbours; a candidate without a neighbour remains without a comparison."""
    pairs = candidates.shape[0] // 2 * 2
    return candidates[0:pairs:2], candidates[1:pairs:2], candidates[pairs:]


async def tournament(
    party: Party, x: torch.Tensor, largest: bool, rows: torch.Tensor | None = None,
    path: list[torch.Tensor] | None = None,
) -> tuple[torch.Tensor, Any]:  # fmt: skip
    """Find the largest (or smallest) of each column; of equal ones the first.

    1. Neighbours a, b are compared: max(a, b) = b + relu(a - b).
    2. The winners, and a candidate without a neighbour, remain for the next level, until one is left.

    Rounds: 7 a level, log2 of the number of candidates levels. Bytes: under 20 for each of the candidates.

    `rows` are other values of the candidates; those of the winners are returned too, chosen with the same bits. `path`
    gets for each level where a >= b, as 1 or 0.
    """
    values = x if largest else -x
    while values.shape[0] > 1:
        a, b, rest = _level(values)
        difference = (a - b).reshape(-1)
        if rows is None:
            found = await sign_of(party, difference, 1)
        else:
            row_a, row_b, row_rest = _level(rows)
            step = (row_a - row_b).reshape(-1)
            found = await sign_of(party, difference, 2, step)
            rows = _remaining(row_b + found.kept(step, 1).view(b.shape), row_rest)
        values = _remaining(b + found.kept(difference, 0).view(b.shape), rest)
        if path is not None:
            path.append(found.number(party, True, 1).view(b.shape))
    return values[0] if largest else -values[0], None if rows is None else rows[0].clone()


def _remaining(winners: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    return torch.cat([winners, rest]) if rest.shape[0] else winners


def _reduced(x: torch.Tensor, dim: int | None = None, keepdim: bool = False, **options: object) -> torch.Size:
    if x.numel() == 0 and (dim is None or x.shape[dim] == 0):
        raise ValueError("An empty tensor has no largest or smallest element.")
    if dim is None or x.dim() == 0:
        return torch.Size([1] * x.dim()) if keepdim else torch.Size(())
    sizes: list[int] = list(x.shape)
    if keepdim:
        sizes[dim] = 1
    else:
        del sizes[dim]
    return torch.Size(sizes)


def _columns(x: torch.Tensor, dim: int | None) -> torch.Tensor:
    """Move the reduced dimension to the front; without one, flatten the tensor."""
    if dim is None:
        return x.reshape(-1)
    if x.dim() == 0:
        return x.reshape(1)
    return x.movedim(dim, 0)


def _shaped(reduced: torch.Tensor, x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    return reduced.reshape(_reduced(x, dim, keepdim))


@protocol("extreme", shape=_reduced, rounds="7 log2(k)", bytes="20 k", error="exact")
async def extreme(
    party: Party, x: torch.Tensor, dim: int | None = None, keepdim: bool = False, largest: bool = True
) -> torch.Tensor:
    """Find the largest (or smallest) element along a dimension, or of all."""
    found, _ = await tournament(party, _columns(x, dim), largest)
    return _shaped(found, x, dim, keepdim)


@protocol("extreme_at", shape=lambda x, **options: [_reduced(x, **options)] * 2, rounds="7 log2(k)", bytes="28 k",
          error="exact; of equal elements the first")  # fmt: skip
async def extreme_at(
    party: Party, x: torch.Tensor, dim: int | None = None, keepdim: bool = False, largest: bool = True, scale: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the largest (or smallest) element along a dimension, or of all, and its index."""
    columns = _columns(x, dim)
    rows = torch.arange(columns.shape[0]).view(-1, *[1] * (columns.dim() - 1)).expand(columns.shape)
    value, row = await tournament(party, columns, largest, rows if party.first else torch.zeros_like(rows))
    return _shaped(value, x, dim, keepdim), _shaped(row if scale == 1 else row * scale, x, dim, keepdim)


def _with_path(x: torch.Tensor, dim: int) -> list[torch.Size]:
    rest = _reduced(x, dim)
    return [rest, torch.Size([x.shape[dim] - 1, *rest])]


@protocol("extreme_path", shape=_with_path, rounds="7 log2(k)", bytes="20 k", error="exact")
async def extreme_path(party: Party, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the largest element along a dimension, and the winner of each comparison, for `path_back`."""
    path: list[torch.Tensor] = []
    columns = _columns(x, dim)
    found, _ = await tournament(party, columns, True, path=path)
    return found.clone(), torch.cat(path) if path else columns[:0].clone()


def _on_path(grad: torch.Tensor, path: torch.Tensor, count: int) -> torch.Size:
    return torch.Size([count, *grad.shape])


@protocol("path_back", shape=_on_path, rounds="log2(k)", bytes="16 k", error="exact")
async def path_back(party: Party, grad: torch.Tensor, path: torch.Tensor, count: int) -> torch.Tensor:
    """Return each value at the one of `count` candidates that won the tournament of its column, and 0 at the others.

    From the last comparison back to the first ones: the winner gets the value g of the comparison. That is a product
    with its bit: a gets bit g, b gets g - bit g.
    """
    sizes = [count]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    given, end = grad.unsqueeze(0), path.shape[0]
    for size in reversed(sizes[:-1]):
        pairs = size // 2
        to_match = given[:pairs]
        to_first = await multiply(party, path[end - pairs : end], to_match)
        both = torch.stack([to_first, to_match - to_first], 1).reshape(2 * pairs, *grad.shape)
        given = torch.cat([both, given[pairs:]])
        end -= pairs
    return given.clone()
