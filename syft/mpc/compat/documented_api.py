"""Helpers of the documented functions on shared tensors, which take links or wrapped tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import torch

from syft.core.tensor import Level, below
from syft.core.wide_int import WideInt
from syft.exceptions import ProtocolError, UnsupportedOperationError
from syft.mpc.runtime import client
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# A shared tensor, as a wrapper or as its link.
SharedTensor: TypeAlias = torch.Tensor | AdditiveSharingTensor
# A value that all parties know: it is sent to them, or they hold copies.
PublicValue: TypeAlias = torch.Tensor | MultiPointerTensor | int
WorkerOrId: TypeAlias = "BaseWorker | int | str"


def link_of(value: object) -> AdditiveSharingTensor:
    """Return the link of a shared tensor, which may be wrapped."""
    link = value if isinstance(value, AdditiveSharingTensor) else below(value)
    if isinstance(link, OddSharingTensor):
        raise UnsupportedOperationError("This", "shares modulo 2**64 - 1", "Only securenn.msb takes them.")
    if not isinstance(link, AdditiveSharingTensor):
        raise ProtocolError(f"This function takes shared tensors of integers, not a {type(value).__name__}.")
    return link


def call(name: str, *given: SharedTensor, **options: object) -> Any:
    """Run a protocol on shared tensors; results are wrapped if one of the tensors is."""
    result = client.run(name, *map(link_of, given), **options)
    if not any(isinstance(value, torch.Tensor) for value in given):
        return result
    return tuple(link.wrap() for link in result) if isinstance(result, tuple) else result.wrap()


def known_to_all(value: PublicValue, model: AdditiveSharingTensor) -> AdditiveSharingTensor:
    """Return references to a value that every party has, and a helper does not; a plain one is sent to them."""
    pointers: Any = value if isinstance(value, MultiPointerTensor) else below(value)
    if not isinstance(pointers, MultiPointerTensor):
        plain: Any = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        pointers = plain.send(*model.locations).child
    return AdditiveSharingTensor(dict(pointers.child))


class OddSharingTensor(AdditiveSharingTensor):
    """Shares modulo 2^64 - 1, between two steps of SecureNN. They can only be fetched, and passed to `msb`.

    Args are those of `AdditiveSharingTensor`.
    """

    level: ClassVar[Level] = Level.API  # every call comes to `handle`, before any rule of shared tensors

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.field = WideInt(2**64 - 1)

    @classmethod
    def handle(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Refuse to compute: the rules of shared tensors are those of shares modulo 2^64."""
        name = getattr(function, "__name__", str(function))
        raise UnsupportedOperationError(name, "shares modulo 2**64 - 1", "Only securenn.msb takes them.")

    def get(self) -> torch.Tensor:
        """Fetch all shares and add them up."""
        for pointer in self.pointers():
            pointer.lease.check()
        return _odd_total([pointer.get() for pointer in self.pointers()])

    def virtual_get(self) -> torch.Tensor:
        """Add up the shares where they are (in-process workers only, for debugging)."""
        return _odd_total([pointer.location._objects[pointer.id_at_location] for pointer in self.pointers()])


def _odd_total(shares: list[torch.Tensor]) -> torch.Tensor:
    total = shares[0]
    for share in shares[1:]:
        summed = total + share
        summed = summed + ((summed ^ -(2**63)) < (total ^ -(2**63))).long()
        total = torch.where(summed == -1, 0, summed)
    return total
