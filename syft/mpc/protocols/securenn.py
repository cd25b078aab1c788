"""SecureNN protocols: comparison, choice, division and maxima of two parties, with the crypto provider as helper.

The steps are in `securenn_steps`. With another number of parties there is no helper, and the same functions are
computed with the protocols of `comparison`: the results are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import torch

from syft.exceptions import ProtocolError
from syft.mpc.protocols import arithmetic, comparison, maximum
from syft.mpc.protocols import securenn_steps as steps
from syft.mpc.protocols.three_party import BITS, ThreeParty
from syft.mpc.runtime.party import Party
from syft.mpc.runtime.protocol_registry import broadcast, protocol

# Elements compared at a time, so that memory stays bounded.
CHUNK = 1 << 17
Step = Callable[[ThreeParty, torch.Tensor | None, int], Awaitable[torch.Tensor | None]]


class AnyParties:
    """The operations of the protocols below, for any number of parties: the default protocols."""

    def __init__(self, party: Party) -> None:
        self.party = party

    async def not_negative(self, x: torch.Tensor) -> torch.Tensor:
        """Compute which elements are not negative, as 1 or 0."""
        return await comparison.negative(self.party, x, invert=True)

    async def multiply(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Multiply element by element."""
        return await arithmetic.multiply(self.party, x, y)


class WithHelper(AnyParties):
    """The same for two parties and a helper. At the helper shares are zeros, for their shapes."""

    def __init__(self, trio: ThreeParty) -> None:
        super().__init__(trio.party)
        self.trio = trio

    def flat(self, x: torch.Tensor) -> torch.Tensor | None:
        """Return a share as a vector, and None at the helper."""
        return None if self.trio.is_helper else x.reshape(-1)

    def shaped(self, share: torch.Tensor | None, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a vector in its shape."""
        return _blank(shape) if share is None else share.view(shape)

    async def step(self, step: Step, x: torch.Tensor) -> torch.Tensor:
        """Run one step on all elements."""
        return self.shaped(await step(self.trio, self.flat(x), x.numel()), x.shape) if x.numel() else x

    async def not_negative(self, x: torch.Tensor) -> torch.Tensor:
        """Compute which elements are not negative, as 1 or 0."""
        flat, count = self.flat(x), x.numel()
        parts = []
        for start in range(0, count, CHUNK):
            part = None if flat is None else flat[start : start + CHUNK]
            parts.append(await steps.relu_deriv(self.trio, part, min(CHUNK, count - start)))
        return x.clone() if not parts else self.shaped(_join(parts), x.shape)

    async def multiply(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Multiply element by element."""
        x, y = torch.broadcast_tensors(x, y)  # type: ignore[no-untyped-call]
        if not x.numel():
            return x.clone()
        return self.shaped(await steps.multiply(self.trio, self.flat(x), self.flat(y), x.numel()), x.shape)


def _blank(shape: tuple[int, ...]) -> torch.Tensor:
    """Return zeros of a shape, without their memory."""
    return torch.zeros((), dtype=torch.int64).expand(shape)


def _join(parts: list[torch.Tensor | None]) -> torch.Tensor | None:
    shares = [part for part in parts if part is not None]
    return torch.cat(shares) if shares else None


def _with_group(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Make a protocol of a function of the operations for this number of parties, and of shares.

    A helper gets shapes in place of shares, and has no result.
    """

    @functools.wraps(function)
    async def run(party: Party, *shares: Any, **options: Any) -> Any:
        if party.count != 2:
            if any(isinstance(share, tuple) for share in shares):
                raise ProtocolError("Only a helper gets shapes in place of shares.")
            return await function(AnyParties(party), *shares, **options)
        group = WithHelper(await ThreeParty.meet(party))
        given = [_blank(share) if isinstance(share, tuple) else share for share in shares]
        result = await function(group, *given, **options)
        return None if group.trio.is_helper else result

    return run


def _oriented(group: AnyParties, found: torch.Tensor, invert: bool, scale: int) -> torch.Tensor:
    """Return shares of bits, inverted on request, times a public scale."""
    if invert:
        found = 1 - found if group.party.first else -found
    return found if scale == 1 else found * scale


@protocol("snn_negative", rounds="8", bytes="144, and 160 from the helper", helper=True)
@_with_group
async def negative(group: AnyParties, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are negative (or, inverted, which are not), as 1 or 0 times a public scale.

    1. The parties and the helper agree on keys of common randomness (one round).
    2. `relu_deriv`, for 131,072 elements at a time.

    Sees, rounds, bytes: see `securenn_steps.relu_deriv`. Values must lie in [-2^62, 2^62).
    """
    return _oriented(group, await group.not_negative(x), not invert, scale)


@protocol("snn_zero", rounds="9", bytes="304, and 320 from the helper", helper=True)
@_with_group
async def zero(group: AnyParties, x: torch.Tensor, invert: bool = False, scale: int = 1) -> torch.Tensor:
    """Compute which elements are zero (or, inverted, which are not), as 1 or 0 times a public scale.

    1. `relu_deriv` of x and of -x, side by side.
    2. Their product is 1 where both are.

    Sees: the same as in `relu_deriv` and `multiply`. Values must lie in [-2^62, 2^62).
    """
    one, other = (await group.not_negative(torch.stack([x, -x]))).unbind()
    return _oriented(group, await group.multiply(one, other), invert, scale)


@protocol("snn_relu", rounds="9", bytes="160, and 160 from the helper", helper=True)
@_with_group
async def relu(group: AnyParties, x: torch.Tensor) -> torch.Tensor:
    """Compute max(x, 0) (Algorithm 7): `relu_deriv`, and a product with x.

    Sees: the same as in `relu_deriv` and `multiply`. Values must lie in [-2^62, 2^62).
    """
    return await group.multiply(x, await group.not_negative(x))


@protocol("snn_select", shape=broadcast, rounds="2", bytes="16", helper=True)
@_with_group
async def select_share(group: AnyParties, alpha: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Choose x where alpha is 0 and y where it is 1 (Algorithm 2): x + alpha (y - x).

    Sees: the same as in `multiply`. Rounds: 1, and 1 to meet.
    """
    return x + await group.multiply(alpha, y - x)


@protocol("snn_share_convert", rounds="5", bytes="72, and 80 from the helper", helper=True)
@_with_group
async def share_convert(group: AnyParties, a: torch.Tensor) -> torch.Tensor:
    """Turn shares modulo L = 2^64 into shares modulo L - 1 (Algorithm 4), for values from 0 to L - 2.

    For two parties; shares of more parties stay modulo L, and are only refreshed.
    """
    if isinstance(group, WithHelper):
        return await group.step(steps.share_convert, a)
    return await arithmetic.refresh(group.party, a)


@protocol("snn_msb", rounds="5", bytes="72, and 80 from the helper", helper=True)
@_with_group
async def msb(group: AnyParties, a: torch.Tensor) -> torch.Tensor:
    """Compute the highest bit of results of `share_convert` (Algorithm 5), as shares modulo L."""
    if isinstance(group, WithHelper):
        return await group.step(steps.msb, a)
    return await comparison.negative(group.party, a)


def _compared_shape(bits: torch.Tensor | tuple[int, ...], *known: object) -> torch.Size:
    """Return the shape of a comparison, from bits or their shape."""
    shape = torch.Size(bits if isinstance(bits, tuple) else bits.shape)
    if shape[-1:] != (BITS,):
        raise ProtocolError(f"private_compare() needs {BITS} bits in the last dimension, got shape {tuple(shape)}.")
    return shape[:-1]


@protocol("snn_private_compare", shape=_compared_shape, rounds="5",
          bytes="72, and 72 from the helper", helper=True)  # fmt: skip
async def private_compare(party: Party, bits: Any, r: Any, beta: Any) -> torch.Tensor | None:
    """Compute beta xor (x > r), for x given by shares of its bits, lowest first, and r and beta that both parties know.

    1. The lowest bits of the shares of a bit xor to the bit: words shared by xor. `digits_of_bits`.
    2. `compare`, with r + 1: the helper learns beta xor (x > r) (Algorithm 3), and shares it.

    Numbers are unsigned. The parties learn nothing. The helper learns beta xor (x > r), so beta should be random.
    """
    shape = _compared_shape(bits)
    if party.count != 2:
        return await _compare_any(party, bits, r, beta)
    trio = await ThreeParty.meet(party)
    count = shape.numel()
    if trio.is_helper:
        words = threshold = flip = None
    else:
        words = ((bits.reshape(count, BITS) & 1) << torch.arange(BITS)).sum(1)
        threshold, flip = (r + 1).expand(shape).reshape(-1), beta.expand(shape).reshape(-1)
    shared = await steps.digits_of_bits(trio, words, count)
    # A threshold of 0 stands for 2^64: nothing is above the largest r.
    learned = await steps.compare(trio, shared, threshold, flip, count, full=True)
    answer = (await trio.receive_shares(count, bit=("words", learned))).get("bit")
    return None if answer is None else answer.view(shape)


async def _compare_any(party: Party, bits: torch.Tensor, r: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """The same among any number of parties: x > r if its upper half is larger, or the same with a larger lower half."""
    weights = 1 << torch.arange(BITS // 2)
    low, high = (bits[..., :32] * weights).sum(-1), (bits[..., 32:] * weights).sum(-1)
    if party.first:
        low, high = low - (r & 0xFFFFFFFF), high - ((r >> 32) & 0xFFFFFFFF)
    above, same = await party.together(
        comparison.negative(party, torch.stack([-high, -low])), comparison.zero(party, high)
    )
    larger = above[0] + await arithmetic.multiply(party, same, above[1])
    result: torch.Tensor = larger * (1 - 2 * beta)
    return result + beta if party.first else result


@protocol("snn_division", shape=broadcast, rounds="1 + 8 for each bit", bytes="160 for each bit", helper=True)
@_with_group
async def division(group: AnyParties, x: torch.Tensor, y: torch.Tensor, bits: int = 32) -> torch.Tensor:
    """Divide integers bit by bit, rounding down (Algorithm 8): x from 0, y from 1, x / y < 2^bits.

    For i from bits - 1 down to 0:

    1. b_i = 1 if the remainder of x is at least 2^i y (`relu_deriv`).
    2. b_i 2^i y is subtracted (`multiply`), and b_i 2^i added to the quotient.

    2^(bits - 1) y must stay below 2^62. Sees: the same as in `relu_deriv` and `multiply`.
    """
    if type(bits) is not int or not 1 <= bits <= 62:
        raise ProtocolError("bits of a quotient must be an integer from 1 to 62.")
    rest, divisor = torch.broadcast_tensors(x, y)  # type: ignore[no-untyped-call]
    quotient = torch.zeros_like(rest)
    for i in reversed(range(bits)):
        piece = divisor << i
        fits = await group.not_negative(rest - piece)
        rest = rest - await group.multiply(fits, piece)
        quotient = quotient + (fits << i)
    return quotient


async def _largest(group: AnyParties, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the largest of each column and its row, of equal ones the first, by a tournament (Algorithm 9).

    The paper compares one after the other; here neighbours are, and half of them go on to the next level. A level
    is a comparison, and one product for values and rows together: 8 rounds, log2 of the number of rows times. Values
    must lie in [-2^61, 2^61), so that their differences can be compared.
    """
    rows = torch.arange(len(values)).view(-1, *[1] * (values.dim() - 1))
    rows = rows.expand_as(values) if group.party.first else torch.zeros_like(values)
    both = torch.stack([values, rows])
    while both.shape[1] > 1:
        pairs = both.shape[1] // 2 * 2
        a, b, rest = both[:, 0:pairs:2], both[:, 1:pairs:2], both[:, pairs:]
        keep = await group.not_negative(a[0] - b[0])
        both = torch.cat([b + await group.multiply(keep, a - b), rest], dim=1)
    return both[0, 0], both[1, 0]


async def _maximum(group: AnyParties, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(group, WithHelper):
        return await _largest(group, values)
    found: tuple[torch.Tensor, torch.Tensor] = await maximum.extreme_at(group.party, values, dim=0)
    return found


def _nonempty(x: torch.Tensor) -> torch.Tensor:
    """Return all elements in one dimension, if there are any."""
    if not x.numel():
        raise ProtocolError("An empty tensor has no largest element.")
    return x.reshape(-1)


@protocol("snn_maxpool", shape=lambda x: [_nonempty(x).shape[1:]] * 2, rounds="1 + 8 log2(k)", bytes="176 k",
          error="exact; of equal elements the first", helper=True)  # fmt: skip
@_with_group
async def maxpool(group: AnyParties, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the largest of all elements, and its index (Algorithm 9); see `_largest`."""
    return await _maximum(group, _nonempty(x))


@protocol("snn_maxpool_deriv", shape=lambda x: _nonempty(x).view(x.shape).shape, rounds="3 + 8 log2(k)", bytes="176 k",
          error="exact; of equal elements the first", helper=True)  # fmt: skip
@_with_group
async def maxpool_deriv(group: AnyParties, x: torch.Tensor) -> torch.Tensor | None:
    """Mark the largest of all elements: 1 there, 0 elsewhere (Algorithms 9 and 10).

    1. `maxpool` gives the index.
    2. `one_hot` makes it a row; the row is as long as the next power of two, which divides L, and is cut.
    """
    flat = _nonempty(x)
    _, place = await _maximum(group, flat)
    if not isinstance(group, WithHelper):
        here = torch.arange(len(flat)) if group.party.first else torch.zeros_like(flat)
        marks: torch.Tensor = await comparison.zero(group.party, place - here)
        return marks.view(x.shape)
    size = 1 << (len(flat) - 1).bit_length()
    rows = await steps.one_hot(group.trio, group.flat(place), size, 1)
    return None if rows is None else rows[0, : len(flat)].reshape(x.shape)


def _pooled(x: torch.Tensor, kernel_size: int = 1, stride: int = 1, padding: int = 0) -> torch.Size:
    sizes = (kernel_size, stride, padding)
    if (
        any(type(size) is not int for size in sizes)
        or kernel_size < 1
        or stride < 1
        or not 0 <= 2 * padding <= kernel_size
    ):
        raise ProtocolError("A window has a size and a stride of at least 1, and a padding of at most half its size.")
    if x.dim() < 2 or min(x.shape[-2:]) + 2 * padding < kernel_size:
        raise ProtocolError(
            f"A window of size {kernel_size} is larger than the last two dimensions of {tuple(x.shape)}."
        )
    return torch.Size((*x.shape[:-2], *((size + 2 * padding - kernel_size) // stride + 1 for size in x.shape[-2:])))


@protocol("snn_maxpool2d", shape=_pooled, rounds="1 + 8 log2(k)", bytes="176 k", helper=True)
@_with_group
async def maxpool2d(
    group: AnyParties, x: torch.Tensor, kernel_size: int = 1, stride: int = 1, padding: int = 0
) -> torch.Tensor:
    """Find the largest element of each square window over the last two dimensions.

    A position outside of the tensor stands for the nearest one inside, which is in the same window, so that the largest
    stays the same. Sees: the same as in `relu_deriv` and `multiply`.
    """
    height, width = _pooled(x, kernel_size, stride, padding)[-2:]
    window = torch.arange(kernel_size) - padding
    rows = (torch.arange(height).unsqueeze(1) * stride + window).clamp(0, x.shape[-2] - 1)
    columns = (torch.arange(width).unsqueeze(1) * stride + window).clamp(0, x.shape[-1] - 1)
    windows = x[..., rows[:, None, :, None], columns[None, :, None, :]]
    value, _ = await _maximum(group, windows.flatten(-2).movedim(-1, 0))
    return value
