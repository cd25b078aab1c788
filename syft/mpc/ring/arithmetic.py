"""Arithmetic in the ring Z_2^64, on torch.int64: sums, products, exact products of matrices, and convolutions.

Torch multiplies int64 matrices exactly, modulo 2^64, but on many processors with a slow loop. The other way is
through float64, which every processor multiplies fast: each word is cut into limbs small enough that no sum of
products of limbs passes 2^53, so that nothing is ever rounded. Both ways give the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

WORD = 64
# An option of a convolution: for all dimensions, or for each.
PerDimension = int | Sequence[int]
Bilinear = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
# Products of this many terms have room in 53 bits, with limbs of 22 bits and one addition before the product.
DEPTH = 512
LIMB = 22
# The limbs for longer sums of products: room for 2^21 terms.
NARROW_LIMB = 16
NARROW_DEPTH = 1 << 21
# The bits of 2^52 as a float64: what is written behind them counts ones.
_EXPONENT = 0x4330000000000000
# Splitting a word costs about as much as this many products; below that numpy's loop is faster.
CUT_COST = 20
SMALL = 1 << 19
# Words of columns that a convolution makes at once.
COLUMNS = 1 << 21
# Below this many products torch's loop is faster than numpy's, which takes longer to start.
TINY = 1 << 12
# From this many elements on numpy's loops are worth two conversions.
LARGE = 1 << 11


def add(x: torch.Tensor, y: torch.Tensor | int) -> torch.Tensor:
    """Add modulo 2^64. Numpy's loop is twice as fast as torch's, which multiplies by a factor of one first."""
    if x.numel() < LARGE:
        return torch.add(x, y)
    return torch.from_numpy(np.add(x.numpy(), y if isinstance(y, int) else y.numpy()))


def add_into(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add to a tensor in place, and return it."""
    if x.numel() < LARGE:
        return x.add_(y)
    np.add(x.numpy(), y.numpy(), out=x.numpy())
    return x


def sub(x: torch.Tensor, y: torch.Tensor | int) -> torch.Tensor:
    """Subtract modulo 2^64."""
    if x.numel() < LARGE:
        return torch.sub(x, y)
    return torch.from_numpy(np.subtract(x.numpy(), y if isinstance(y, int) else y.numpy()))


def mul(x: torch.Tensor, y: torch.Tensor | int) -> torch.Tensor:
    """Multiply element by element modulo 2^64."""
    if x.numel() < LARGE:
        return torch.mul(x, y)
    return torch.from_numpy(np.multiply(x.numpy(), y if isinstance(y, int) else y.numpy()))


def shift_down(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift to the right, filling with zeros: x is read as a number from 0 to 2^64 - 1."""
    return torch.from_numpy(np.right_shift(_unsigned(x), np.uint64(bits)).view(np.int64)).view(x.shape)


def floor_divide(x: torch.Tensor, divisor: int) -> torch.Tensor:
    """Divide by a positive number, rounding down: x is read as a number from 0 to 2^64 - 1."""
    if divisor & (divisor - 1) == 0:
        return shift_down(x, divisor.bit_length() - 1)
    return torch.from_numpy(np.floor_divide(_unsigned(x), np.uint64(divisor)).view(np.int64)).view(x.shape)


def floor_divide_signed(x: torch.Tensor, divisor: int) -> torch.Tensor:
    """Divide by a positive number, rounding down."""
    if divisor & (divisor - 1) == 0:
        return x >> (divisor.bit_length() - 1)
    return torch.from_numpy(np.floor_divide(np.atleast_1d(x.numpy()), divisor)).view(x.shape)


def _unsigned(x: torch.Tensor) -> np.ndarray[Any, Any]:
    # A view of no dimensions would become a scalar, which warns where an array wraps around.
    return np.atleast_1d(x.contiguous().numpy()).view(np.uint64)


def broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> torch.Size:
    """Return the shape that two shapes broadcast to; torch's own function is slow."""
    try:
        return torch.Size(x if x == y else np.broadcast_shapes(x, y))
    except ValueError:
        raise RuntimeError(f"Tensors of shapes {tuple(x)} and {tuple(y)} can't be broadcast to one shape.") from None


def cut(x: torch.Tensor, width: int) -> list[torch.Tensor]:
    """Split words into signed limbs, least significant first, as float64: x = sum of limb_i * 2^(i * width).

    Half of a limb's range is added to every limb but the last, so that all of them are unsigned, and subtracted
    again at the end. A limb becomes a float64 by its bits: written behind those of 2^52, it is 2^52 more.
    """
    half = 1 << (width - 1)
    starts = range(0, WORD - width, width)
    rest = np.add(x.numpy(), sum(half << start for start in starts))
    limbs = []
    for _ in starts:
        low = np.bitwise_and(rest, (1 << width) - 1)
        np.bitwise_or(low, _EXPONENT, out=low)
        limb = low.view(np.float64)
        limb -= float(2**52 + half)
        limbs.append(torch.from_numpy(limb))
        np.right_shift(rest, width, out=rest)
    return [*limbs, torch.from_numpy(rest.astype(np.float64))]


def _wide(op: Bilinear, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply with three limbs of 22, 22 and 20 bits: five products, the middle one after Karatsuba."""
    x0, x1, x2 = cut(x, LIMB)
    y0, y1, y2 = cut(y, LIMB)
    low, high = op(x0, y0), op(x1, y1)
    middle = op(x0 + x1, y0 + y1)
    middle -= low
    middle -= high
    top = op(x0, y2)
    top += op(x2, y0)
    top += high
    result = top.long()
    result <<= LIMB
    add_into(result, middle.long())
    result <<= LIMB
    return add_into(result, low.long())


def _narrow(op: Bilinear, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply with four limbs of 16 bits, for long sums: ten products."""
    xs, ys = cut(x, NARROW_LIMB), cut(y, NARROW_LIMB)
    result = op(xs[0], ys[0]).long()
    for level in range(1, WORD // NARROW_LIMB):
        for i in range(level + 1):
            result += op(xs[i], ys[level - i]).long() << (level * NARROW_LIMB)
    return result


def by_limbs(op: Bilinear, x: torch.Tensor, y: torch.Tensor, depth: int) -> torch.Tensor:
    """Run a bilinear product on int64 through float64, exactly; `depth` products are added up in one entry."""
    if depth <= DEPTH:
        return _wide(op, x, y)
    if depth <= NARROW_DEPTH:
        return _narrow(op, x, y)
    return op(x, y)


def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply matrices modulo 2^64; batches and vectors as in torch.matmul."""
    depth, columns = x.shape[-1], y.shape[-1] if y.dim() > 1 else 1
    products = x.numel() * columns
    if products < TINY or not limbs_are_quicker():
        return torch.matmul(x, y)
    if y.dim() == 1:
        return matmul(x, y.unsqueeze(-1)).squeeze(-1)
    if x.dim() == 1:
        return matmul(x.unsqueeze(0), y).squeeze(-2)
    if products < SMALL + CUT_COST * (x.numel() + y.numel() + products // depth):
        return torch.from_numpy(np.einsum("...ij,...jk->...ik", x.numpy(), y.numpy()))
    result = _wide(torch.matmul, x[..., :DEPTH], y[..., :DEPTH, :])
    for start in range(DEPTH, depth, DEPTH):
        result += _wide(torch.matmul, x[..., start : start + DEPTH], y[..., start : start + DEPTH, :])
    return result


_CONVOLUTIONS: dict[tuple[int, bool], Any] = {
    (3, False): F.conv1d, (4, False): F.conv2d, (5, False): F.conv3d,
    (3, True): F.conv_transpose1d, (4, True): F.conv_transpose2d, (5, True): F.conv_transpose3d,
}  # fmt: skip


def conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: PerDimension = 1,
    padding: PerDimension = 0,
    dilation: PerDimension = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: PerDimension = 0,
) -> torch.Tensor:
    """Convolve (or, transposed, spread) modulo 2^64; arguments as those of torch's convolutions, without a bias."""
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        options["output_padding"] = output_padding
    op = functools.partial(_CONVOLUTIONS[x.dim(), transposed], **options)
    # A transposed convolution adds up over the input's channels, an ordinary one over those of the weight.
    channels = x.shape[1] // groups if transposed else weight.shape[1]
    window = weight[0, 0].numel() if weight.numel() else 0
    if x.is_floating_point() or x.numel() == 0 or channels * window == 0 or not limbs_are_quicker():
        return op(x, weight)  # type: ignore[no-any-return]
    if groups > 1:
        return by_limbs(op, x, weight, channels * window)
    if not transposed and (weight.shape[0] <= CUT_COST or window > DEPTH):
        return _by_columns(x, weight, stride, padding, dilation)
    if window > DEPTH:
        return by_limbs(op, x, weight, channels * window)
    return _by_channels(op, x, weight, max(1, DEPTH // window), transposed)


def _by_channels(op: Bilinear, x: torch.Tensor, weight: torch.Tensor, step: int, transposed: bool) -> torch.Tensor:
    """Convolve `step` channels at a time, so that sums of products have room, and add up."""

    def part(start: int) -> torch.Tensor:
        here = slice(start, start + step)
        return _wide(op, x[:, here], weight[here] if transposed else weight[:, here])

    return functools.reduce(add_into, map(part, range(0, x.shape[1], step)))


def _for_each(option: PerDimension, spatial: int) -> tuple[int, ...]:
    """Return an option for every dimension of the images; a single number counts for all."""
    sizes = (option,) if isinstance(option, int) else tuple(option)
    return sizes * spatial if len(sizes) == 1 else sizes


def _by_columns(
    x: torch.Tensor, weight: torch.Tensor, stride: PerDimension, padding: PerDimension, dilation: PerDimension
) -> torch.Tensor:
    """Convolve as a product of matrices: every window of an image becomes a column, some images at a time."""
    spatial = x.dim() - 2
    strides, margins, steps = (_for_each(option, spatial) for option in (stride, padding, dilation))
    x = F.pad(x, [margin for size in reversed(margins) for margin in (size, size)]) if any(margins) else x
    for axis, (size, step, stretch) in enumerate(zip(weight.shape[2:], strides, steps, strict=True), 2):
        x = x.unfold(axis, stretch * (size - 1) + 1, step)[..., ::stretch]
    places = tuple(x.shape[2 : 2 + spatial])
    rows = weight.reshape(weight.shape[0], -1)
    order = (1, *range(2 + spatial, 2 + 2 * spatial), 0, *range(2, 2 + spatial))
    images = max(1, COLUMNS // max(1, x[0].numel()))
    pieces = [x[start : start + images] for start in range(0, len(x), images)]
    parts = [matmul(rows, piece.permute(order).reshape(rows.shape[1], -1)) for piece in pieces]
    joined = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
    return joined.view(weight.shape[0], x.shape[0], *places).transpose(0, 1).contiguous()


@functools.cache
def limbs_are_quicker() -> bool:
    """Return whether limbs are faster on this processor: torch's loop needs AVX-512.

    Measured for 1024x1024 on one core: with AVX-512 0.11 s by the loop and 0.20 s by limbs, without it 3.4 and 0.35 s.
    """
    return "AVX512" not in torch.backends.cpu.get_cpu_capability()
