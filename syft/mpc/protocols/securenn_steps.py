"""The steps of SecureNN (Wagh, Gupta, Chandran, PoPETs 2019, eprint 2018/442), among two parties and a helper.

The two hold shares; the crypto provider is the helper P2. Algorithms have the paper's numbers. All
messages are uniform and fresh for each element, so a single party learns nothing, and the client receives nothing.
All vectors are flat, and the helper has None in place of shares.

Differences from the paper:

* digits sent to the helper get a fresh mask from the parties' common randomness, since the helper knows the shares
  of the bits that they are computed from, and could otherwise tell more from one party's message than from the sum;
* they are rotated by a uniform amount, not permuted: at most one of them is zero and the others are uniform, so the
  helper sees the same either way;
* Algorithm 4 compares x >= r, not x > r - 1, which is wrong for r = 0;
* in Algorithm 5 the helper knows both bits whose xor is wanted up to a public flip, and shares their xor: no product.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from syft.core.generator import Generator, local
from syft.mpc.protocols.three_party import (
    BITS,
    PRIME,
    ThreeParty,
    below,
    digits,
    odd,
    odd_add,
    odd_negate,
    odd_subtract,
    spread,
)

# Words of a block: their 64 digits stay in the cache.
BLOCK = 4096
# A vector; None at the helper.
Shares: TypeAlias = Any


def _blinded(
    first: bool, bits: torch.Tensor, threshold: torch.Tensor, full: bool, flip: torch.Tensor, common: Generator
) -> torch.Tensor:
    """Compute one party's shares of the digits of which one is zero if the comparison holds; see `compare`."""
    count = len(threshold)
    scale, mask = digits(common, count, nonzero=True).short(), digits(common, count).short()
    turn = common.words(count) & (BITS - 1)
    public = spread(torch.where(flip == 1, threshold, threshold - 1)).short()
    x = bits.short()
    differs = x * (1 - 2 * public)
    towards = x - public if first else x
    if first:
        differs += public
    c = differs.cumsum(1, dtype=torch.int16) - differs
    c += towards * (2 * flip - 1).short().unsqueeze(1)
    if first:
        c += 1
    special = (threshold == 0) & (flip == int(full))
    if special.any():
        c[special] = (torch.arange(BITS) > 0).short() * int(first)
    blind = (c % PRIME * scale + (mask if first else PRIME - mask)) % PRIME
    places = (torch.arange(BITS) + turn.unsqueeze(1)) & (BITS - 1)
    return blind.to(torch.uint8).gather(1, places)


async def compare(
    trio: ThreeParty, bits: Shares, threshold: Shares, flip: Shares, count: int, full: bool = False
) -> Shares:
    """Reveal to the helper flip xor (x >= t), for x in digits and t and flip known to both parties (Algorithm 3).

    1. If flip is 0, zero digits have to tell that x > s = t - 1: c_i = s_i - x_i + 1 + the sum of x_k xor s_k over
       the higher bits k. If all higher bits are the same and x_i > s_i, c_i is 0; all others are from 1 to 65.
    2. If flip is 1, they have to tell that x < t: c_i = x_i - t_i + 1 + the sum of x_k xor t_k.
    3. If t is 0 and flip is 0, or t is 2^64 (`full`) and flip is 1, the answer is yes: c = 0, 1, 1, ...
    4. The parties multiply each digit by a common random one that is not 0, rotate the digits by a common random
       amount, add common random shares of 0, and send them to the helper.
    5. The helper adds: a zero says yes.

    The helper sees: uniform digits, not zero, with one zero at a uniform place or none, as flip xor (x >= t) tells;
    with a uniform flip that says nothing. The parties see nothing. Rounds: 1. Bytes: 64 an element.
    """
    if trio.is_helper:
        messages = await trio.send_helper()
        total = messages[0][0].view(torch.uint8) + messages[1][0].view(torch.uint8)
        return ((total == 0) | (total == PRIME)).any(1).long()
    blinded = torch.empty(count, BITS, dtype=torch.uint8)
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        blinded[part] = _blinded(trio.first, bits[part], threshold[part], full, flip[part], trio.common)
    await trio.send_helper(blinded)
    return None


async def share_convert(trio: ThreeParty, a: Shares, count: int) -> Shares:
    """Turn shares modulo L into shares modulo L - 1, for a that is not L - 1 (Algorithm 4).

    1. The parties have in common: r, shares r_0 and r_1 of it, a bit f. k = 1 if r_0 + r_1 passes L.
    2. Each sends a_j + r_j to the helper, and keeps whether that sum passed L, as b_j.
    3. The helper adds: x = a + r. It shares the bits of x as digits, and d = 1 if its sum passed L.
    4. `compare`: the helper learns f xor (x >= r), and shares it modulo L - 1.
    5. The parties undo f: e = 1 if x >= r, that is, if a + r did not pass L.
    6. a_0 + a_1 passes L by t = b_0 + b_1 - k + d + e - 1 times, so a = a_0 + a_1 - t modulo L - 1.

    The helper sees: a_j + r_j, which are uniform; what `compare` shows. The parties see: uniform shares. Rounds: 4.
    Bytes an element: 72 from each party, 80 from the helper.
    """
    if trio.is_helper:
        (one,), (two,) = await trio.send_helper()
        x = one + two
        await trio.receive_shares(count, bits=("digits", spread(x)), passed=("odd", below(x, one).long()))
        larger = await compare(trio, None, None, None, count)
        await trio.receive_shares(count, larger=("odd", larger))
        return None
    r, r_0, f = trio.common.words(count), trio.common.words(count), trio.common.words(count) & 1
    masked = a + (r_0 if trio.first else r - r_0)
    await trio.send_helper(masked)
    received = await trio.receive_shares(count, bits=("digits", None), passed=("odd", None))
    await compare(trio, received["bits"], r, f, count)
    flipped = (await trio.receive_shares(count, larger=("odd", None)))["larger"]
    unflipped = odd_negate(flipped)
    if trio.first:
        unflipped = odd_add(unflipped, torch.ones_like(a))
    times = odd_add(received["passed"], torch.where(f == 1, unflipped, flipped))
    times = odd_add(times, below(masked, a).long())
    if trio.first:
        times = odd_subtract(times, 1 + below(r, r_0).long())
    return odd_subtract(odd(a), times)


async def _mask(trio: ThreeParty, count: int) -> tuple[Shares, dict[str, torch.Tensor]]:
    """Have the helper pick a uniform x modulo L - 1 and share it, and its bits as digits. One round."""
    x = odd(local().words(count)) if trio.is_helper else None
    bits = None if x is None else spread(x)
    return x, await trio.receive_shares(count, x=("odd", x), bits=("digits", bits))


async def msb(
    trio: ThreeParty, a: Shares, count: int, mask: tuple[Shares, dict[str, torch.Tensor]] | None = None
) -> Shares:
    """Find the highest bit of a, shared modulo L - 1, as shares modulo L (Algorithm 5).

    1. The helper picks a uniform x modulo L - 1, and shares it, and its bits as digits.
    2. The parties open r = 2a + x modulo L - 1 to each other. L - 1 is odd, so the highest bit of a is the lowest
       bit of 2a = r - x, which is r_0 xor x_0 xor (x > r): if x > r, L - 1 was added.
    3. `compare`: the helper learns f xor (x > r), where the bit f is common to the parties.
    4. The helper shares that xor x_0 modulo L; the parties undo f xor r_0, which they know.

    The helper sees: what `compare` shows. The parties see: r, which is uniform, and uniform shares. Rounds: 3, and 1
    for the mask. Bytes an element: 72 from each party, 80 from the helper.
    """
    x, received = mask or await _mask(trio, count)
    if trio.is_helper:
        await trio.swap()
        larger = await compare(trio, None, None, None, count)
        await trio.receive_shares(count, bit=("words", larger ^ (x & 1)))
        return None
    own = odd_add(odd_add(a, a), received["x"])
    (theirs,) = await trio.swap(own)
    r = odd_add(own, theirs)
    f = trio.common.words(count) & 1
    # The helper learns f xor (x >= r + 1); r + 1 is L - 1 at most.
    await compare(trio, received["bits"], r + 1, f, count)
    bit = (await trio.receive_shares(count, bit=("words", None)))["bit"]
    undo = f ^ (r & 1)
    result = bit * (1 - 2 * undo)
    return result + undo if trio.first else result


async def relu_deriv(trio: ThreeParty, a: Shares, count: int) -> Shares:
    """Compute which elements are not negative, as 1 or 0 (Algorithm 6), for a in [-2^62, 2^62).

    1. c = 2a has the same sign, and is even, so it is not L - 1. `share_convert` makes it shares modulo L - 1.
    2. `msb` gives its sign, with a mask that the helper has shared meanwhile.
    3. The result is 1 less the sign.

    Sees: the same as in `share_convert` and `msb`. Rounds: 7. Bytes an element: 144 from each party, 160 from the
    helper.
    """
    doubled = None if a is None else 2 * a
    converted, mask = await trio.party.together(share_convert(trio, doubled, count), _mask(trio, count))
    sign = await msb(trio, converted, count, mask)
    if sign is None:
        return None
    return 1 - sign if trio.first else -sign


async def multiply(trio: ThreeParty, x: Shares, y: Shares, count: int) -> Shares:
    """Multiply with a dealt triple, which the helper makes; it must not see what the parties open to each other.

    Sees: the parties see x - a and y - b, which are uniform. Rounds: 1. Bytes: 16 an element.
    """
    dealt = await trio.party.deal("triple", "mul", (count,), (count,), ())
    if trio.is_helper:
        await trio.swap()
        return None
    a, b, c = dealt
    own = x - a, y - b
    e, d = (mine + theirs for mine, theirs in zip(own, await trio.swap(*own), strict=True))
    return torch.addcmul(torch.addcmul(c, x, d), e, b)


async def one_hot(trio: ThreeParty, place: Shares, size: int, count: int) -> Shares:
    """Turn indices from 0 to size - 1 into rows with a 1 there (Algorithm 10), with `size` a power of two.

    1. The parties have a uniform r in common, and fresh shares of it; they send the helper shares of place + r.
    2. The helper shares the row with a 1 at (place + r) modulo size.
    3. The parties rotate the row back by r.

    The helper sees: place + r, which is uniform. Rounds: 2. Bytes an element: 8 from each party, 8 size from the
    helper.
    """
    if trio.is_helper:
        (one,), (two,) = await trio.send_helper()
        rows = torch.nn.functional.one_hot((one + two) % size, size)
        await trio.receive_shares(count * size, rows=("words", rows.reshape(-1)))
        return None
    r, r_0 = trio.common.words(count), trio.common.words(count)
    await trio.send_helper(place + (r_0 if trio.first else r - r_0))
    rows = (await trio.receive_shares(count * size, rows=("words", None)))["rows"].view(count, size)
    return rows.gather(1, (torch.arange(size) + r.unsqueeze(1)) % size)


async def digits_of_bits(trio: ThreeParty, words: Shares, count: int) -> Shares:
    """Turn words shared by xor into digits of their bits, highest first, with the helper.

    1. The parties have uniform words u and v in common; party 0 sends its share xor u xor v, party 1 its own xor v.
    2. The helper learns x xor u and shares its bits as digits.
    3. Where u has a 1 the parties turn a bit b into 1 - b.

    The helper sees: uniform words, whose xor is x xor u. Rounds: 2. Bytes an element: 8 from each party, 64 from the
    helper.
    """
    if trio.is_helper:
        (one,), (two,) = await trio.send_helper()
        await trio.receive_shares(count, bits=("digits", spread(one ^ two)))
        return None
    u, v = trio.common.words(count), trio.common.words(count)
    await trio.send_helper(words ^ u ^ v if trio.first else words ^ v)
    bits = (await trio.receive_shares(count, bits=("digits", None)))["bits"]
    turned = (int(trio.first) + PRIME - bits) % PRIME
    return torch.where(spread(u) == 1, turned, bits)
