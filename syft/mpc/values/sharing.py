"""Split secrets into shares at workers, and reconstruct them."""

from __future__ import annotations

import sys
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.generator import local
from syft.core.id_provider import ID_PROVIDER
from syft.core.providers import providers
from syft.exceptions import SyftError
from syft.mpc.runtime import client
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import LIMIT

# Only these can hold values out of range; narrower whole numbers always fit.
_WIDE = (torch.int64, torch.uint64)


class OutOfRangeError(SyftError):
    """A whole number is outside the range that can be computed on."""

    def __init__(self, index: tuple[int, ...]) -> None:
        super().__init__(_refusal(f"the one at index {index} is outside" if index else "this one is outside"))

    @staticmethod
    def without_index() -> SyftError:
        """Return the error for a client that must not learn anything about the values."""
        return SyftError(_refusal("a value of this tensor is outside"))


def _refusal(found: str) -> str:
    return (
        f"share() takes whole numbers in [-2**62, 2**62), and {found}. Comparisons of larger values would be wrong. "
        "Scale the values down before sharing them."
    )


def generate_shares(secret: torch.Tensor | int, count: int) -> list[torch.Tensor]:
    """Split whole numbers into shares that add up to them modulo 2^64; all but the last are uniformly random."""
    return _shares_of(whole_numbers(secret), count)


def _shares_of(whole: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Split integers that have passed the range check."""
    if count < 2:
        raise SyftError(f"A secret is split into at least two shares, got {count}.")
    generator = local()
    shares = [generator.words(*whole.shape).clone() for _ in range(count - 1)]
    last = whole.clone()
    for share in shares:
        last -= share
    return [*shares, last]


def whole_numbers(secret: torch.Tensor | int) -> torch.Tensor:
    """Return a tensor of whole numbers as int64.

    Raises:
        SyftError: the tensor holds floats.
        OutOfRangeError: a value is outside [-2**62, 2**62), where comparison and truncation would be wrong.
    """
    tensor = secret if isinstance(secret, torch.Tensor) else torch.tensor(secret)
    if tensor.is_floating_point() or tensor.is_complex():
        raise SyftError(
            f"Only whole numbers can be shared, and this is a {tensor.dtype} tensor. "
            "Encode it first: x.fix_precision().share(...)."
        )
    whole = tensor.detach().to(torch.int64)
    if tensor.dtype in _WIDE:
        _check_range(whole, tensor.dtype is torch.uint64)
    return whole


def _check_range(whole: torch.Tensor, unsigned: bool) -> None:
    """Raise if a value is out of range; values of 2^63 and more of an unsigned tensor read as negative ones."""
    if not whole.numel():
        return
    low, high = (int(end) for end in whole.aminmax())
    if (0 if unsigned else -LIMIT) <= low and high < LIMIT:
        return
    if unsigned:  # flipping the highest bit orders unsigned integers
        worst = (whole ^ -(2**63)).argmax()
    else:
        worst = whole.argmax() if high > -low else whole.argmin()
    raise OutOfRangeError(tuple(int(i) for i in torch.unravel_index(worst, whole.shape)))


def check_parties(owners: tuple[Any, ...], crypto_provider: Any, insecure: bool) -> tuple[list[Any], Any]:
    """Check the parties and the provider; returns them as workers."""
    me = local_worker()
    flat = [owner for entry in owners for owner in (entry if isinstance(entry, list | tuple) else (entry,))]
    workers = [me.get_worker(owner, fail_hard=True) for owner in flat]
    names = [worker.id for worker in workers]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SyftError(f"Worker {twice!r} is named twice; each party gets one share. Name different workers.")
    if len(workers) < 2:
        raise SyftError(
            f"Sharing needs two parties or more, and this names {len(workers)}: one alone would hold the secret. "
            "Use x.share(alice, bob, crypto_provider=carol)."
        )
    if crypto_provider is None:
        return workers, None
    provider = me.get_worker(crypto_provider, fail_hard=True)
    if provider.id in names and not insecure:
        raise SyftError(
            f"Worker {provider.id!r} holds a share, so it can't be the crypto provider too: it would learn secrets. "
            "Name another worker, or say insecure=True where nothing is at stake."
        )
    return workers, provider


def split(
    secret: torch.Tensor | int,
    owners: tuple[Any, ...],
    crypto_provider: Any = None,
    protocol: str | None = None,
    insecure: bool = False,
    field: int | None = None,
) -> AdditiveSharingTensor:
    """Split whole numbers and send one share to each owner; the field is ignored, shares are modulo 2**64."""
    whole = whole_numbers(secret)
    workers, provider = check_parties(owners, crypto_provider, insecure)
    link = AdditiveSharingTensor(crypto_provider=provider, protocol=protocol, insecure=insecure)
    link.child = send_shares(_shares_of(whole, len(workers)), workers)
    return link


def send_shares(shares: list[torch.Tensor], workers: list[Any]) -> dict[Any, Any]:
    """Send one share to each worker; returns the pointers by worker id."""
    me = local_worker()
    return {
        worker.id: me.send_object(share, worker, ID_PROVIDER.pop(), published=False)
        for share, worker in zip(shares, workers, strict=True)
    }


def zero(link: AdditiveSharingTensor) -> AdditiveSharingTensor:
    """Share zeros of the shape of another shared tensor, at its parties."""
    nothing = torch.zeros(link.shape, dtype=torch.int64)
    return link.like(send_shares(generate_shares(nothing, len(link.child)), link.locations))


def refreshed(link: AdditiveSharingTensor) -> AdditiveSharingTensor:
    """Split the same values again, with shares of zero from the dealer, or from this process without a dealer."""
    if link.crypto_provider is not None:
        made: AdditiveSharingTensor = client.run("refresh", link)
        return made
    summed: AdditiveSharingTensor = client.run("add", link, zero(link))
    return summed


def hide_multiples(link: AdditiveSharingTensor, modulus: int) -> AdditiveSharingTensor:
    """Add random multiples of a modulus to shared values, before they are opened."""
    made: AdditiveSharingTensor = client.run("hide_multiples", link, modulus=modulus)
    return made


def hide_carries(link: AdditiveSharingTensor, width: int, field: list[int]) -> AdditiveSharingTensor:
    """Move random carries between shared limbs and add random multiples of a field, before they are opened."""
    made: AdditiveSharingTensor = client.run("hide_carries", link, width=width, field=field)
    return made


def reconstruct(link: AdditiveSharingTensor) -> MultiPointerTensor:
    """Let every party learn the values; returns pointers to them, one at each party."""
    opened = client.run("open", link)
    return MultiPointerTensor(children=opened.pointers())


providers.sharing = sys.modules[__name__]
