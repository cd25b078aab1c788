"""The functions of SecureNN on shared tensors (links, or wrapped tensors).

Each runs one protocol of `syft.mpc.protocols.securenn` at the parties, with the crypto provider as their helper;
nothing is opened at the caller. Two parties run SecureNN; more parties run protocols with the same results.
Values lie in [-2^62, 2^62). Numbered steps, rounds and bytes are with the protocols and in
`syft.mpc.protocols.securenn_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.generator import local
from syft.core.tensor import below
from syft.mpc.compat.documented_api import (
    OddSharingTensor,
    PublicValue,
    SharedTensor,
    WorkerOrId,
    call,
    known_to_all,
    link_of,
)
from syft.mpc.protocols import securenn as _protocols  # noqa: F401  (registers the protocols)
from syft.mpc.runtime import client
from syft.mpc.values.sharing import split
from syft.tensors.additive_shared import AdditiveSharingTensor

Q_BITS = 64
L = 2**Q_BITS
p = 67


def decompose(tensor: torch.Tensor) -> torch.Tensor:
    """Return the 64 bits of integers in a new last dimension, lowest first."""
    return (tensor.long().unsqueeze(-1) >> torch.arange(Q_BITS, device=tensor.device)) & 1


def flip(x: SharedTensor, dim: int) -> Any:
    """Reverse a plain or shared tensor along a dimension."""
    return torch.flip(x, (dim,)) if isinstance(x, torch.Tensor) else x.flip((dim,))


def select_share(alpha_sh: SharedTensor, x_sh: SharedTensor, y_sh: SharedTensor) -> Any:
    """Choose x where the shared bit alpha is 0, and y where it is 1 (Algorithm 2).

    1. The parties multiply alpha by y - x with a dealt triple.
    2. They add x.
    """
    return call("snn_select", alpha_sh, x_sh, y_sh)


def private_compare(x_bit_sh: SharedTensor, r: PublicValue, beta: PublicValue) -> Any:
    """Compute beta xor (x > r), shared, for unsigned x given by shares of its bits (Algorithm 3).

    1. The helper turns the bits into digits modulo 67, without learning them.
    2. The parties compute digits of which one is zero if the answer is yes, blind them, and send them to the helper.
    3. The helper, which learns only beta xor (x > r), shares it.

    Args:
        x_bit_sh: The bits as `decompose` gives them, shared.
        r: Numbers that all parties know: a multi-pointer to them, or a tensor, which is sent to the parties.
        beta: Bits that all parties know, likewise; the helper learns the answer unless they are random.
    """
    bits = link_of(x_bit_sh)
    answer = client.run("snn_private_compare", bits, known_to_all(r, bits), known_to_all(beta, bits))
    return answer.wrap() if isinstance(x_bit_sh, torch.Tensor) else answer


def share_convert(a_sh: SharedTensor) -> Any:
    """Turn shares modulo L into shares modulo L - 1, for values other than -1 (Algorithm 4).

    1. Each party masks its share, and sends it to the helper, which adds.
    2. With private comparison they find, shared, how often the shares pass L.
    3. The parties subtract that.

    Shares among more than two parties stay modulo L, and are refreshed; `msb` takes either.
    """
    link = link_of(a_sh)
    made = client.run("snn_share_convert", link)
    if len(link.child) == 2:
        made = OddSharingTensor(made.child, owner=made.owner, **made.get_class_attributes())
    return made.wrap() if isinstance(a_sh, torch.Tensor) else made


def msb(a_sh: SharedTensor) -> Any:
    """Compute the highest bit (the sign) of shared numbers (Algorithm 5).

    1. The helper shares a random x and its bits; the parties open 2a + x to each other, modulo L - 1.
    2. With private comparison the helper learns, under a mask, whether that sum passed L - 1.
    3. It shares the bit, and the parties remove the mask.

    Takes results of `share_convert`; shares modulo L are converted first.
    """
    converted = a_sh if isinstance(a_sh, OddSharingTensor) else below(a_sh)
    link = converted if isinstance(converted, OddSharingTensor) else link_of(a_sh)
    if len(link.child) == 2 and link is not converted:
        link = share_convert(link)
    sign = client.run("snn_msb", link)
    return sign.wrap() if isinstance(a_sh, torch.Tensor) else sign


def relu_deriv(a_sh: SharedTensor) -> Any:
    """Compute which shared numbers are not negative, as 1 or 0 (Algorithm 6).

    1. 2a is converted to shares modulo L - 1 (`share_convert`).
    2. Its highest bit is taken from 1 (`msb`).
    """
    return call("snn_negative", a_sh, invert=True)


def relu(a_sh: SharedTensor) -> Any:
    """Compute max(x, 0) of shared numbers (Algorithm 7).

    1. `relu_deriv`.
    2. The parties multiply by it with a dealt triple.
    """
    return call("snn_relu", a_sh)


def division(x_sh: SharedTensor, y_sh: SharedTensor, bit_len_max: int = Q_BITS // 2) -> Any:
    """Divide shared integers, rounding down (Algorithm 8), for x from 0 and y from 1.

    For each bit i of the quotient, from the highest:

    1. `relu_deriv` computes whether 2^i y is at most the remainder of x.
    2. The parties multiply by the result, and subtract the product.

    Args:
        x_sh: The dividend.
        y_sh: The divisor; 2^(bit_len_max - 1) y must stay below 2^62.
        bit_len_max: The number of bits of the quotient.
    """
    return call("snn_division", x_sh, y_sh, bits=bit_len_max)


def maxpool(x_sh: SharedTensor) -> Any:
    """Find the largest of all elements and its index, both shared; of equal ones the first (Algorithm 9).

    1. Neighbours are compared (`relu_deriv`), and the larger one chosen, with its index.
    2. The chosen ones are compared, until one is left.

    Elements lie in [-2^61, 2^61), so that their differences can be compared.
    """
    return call("snn_maxpool", x_sh)


def maxpool_deriv(x_sh: SharedTensor) -> Any:
    """Mark the largest of all elements: a shared 1 there, 0 elsewhere (Algorithm 10).

    1. `maxpool` finds its index.
    2. The helper, which learns the masked index, shares a row with a 1 there; the parties rotate it back.
    """
    return call("snn_maxpool_deriv", x_sh)


def maxpool2d(a_sh: SharedTensor, kernel_size: int = 1, stride: int = 1, padding: int = 0) -> Any:
    """Find the largest element of each square window over the last two dimensions, for elements in [-2^61, 2^61).

    1. Each party lays out the windows of its share.
    2. `maxpool` on all windows side by side.
    """
    return call("snn_maxpool2d", a_sh, kernel_size=kernel_size, stride=stride, padding=padding)


def _shares_of_zero(
    size: int | Sequence[int], field: int, crypto_provider: WorkerOrId, *workers: WorkerOrId
) -> AdditiveSharingTensor:
    """Share zeros among workers; the caller knows the shares. The field is always 2**64."""
    zeros = torch.zeros(size if isinstance(size, tuple | list | torch.Size) else (size,), dtype=torch.int64)
    return split(zeros, workers, crypto_provider)


def _random_common_value(max_value: int, *workers: WorkerOrId) -> Any:
    """Send a uniform number from 0 to max_value - 1 to all workers; the caller knows it."""
    limit = L - L % max_value
    while (drawn := int.from_bytes(local().bytes(8), "little")) >= limit:
        pass
    number: Any = torch.tensor([(drawn % max_value + L // 2) % L - L // 2])
    return number.send(*[local_worker().get_worker(worker, fail_hard=True) for worker in workers]).child


def _random_common_bit(*workers: WorkerOrId) -> Any:
    """Send a uniform bit to all workers; the caller knows it."""
    return _random_common_value(2, *workers)
