"""AdditiveSharingTensor: a tensor of integers, split among workers so that none of them learns its values.

Each party holds one share, an int64 tensor; the shares add up to the secret modulo 2^64, and any incomplete set of
shares is uniformly random. Computation on shares is in `syft.mpc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft._suggestions import one_of
from syft.core.dispatch import give_methods, run
from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, Level, keep_ids
from syft.core.wide_int import WideInt
from syft.display.facts import FactList
from syft.exceptions import SyftError
from syft.pointers.multi_pointer import PointerGroup
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.views import Viewable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker

FIELD = WideInt(2**64)
PROTOCOLS = ("beaver", "snn", "fss")


class AdditiveSharingTensor(PointerGroup, Viewable):
    """A link to the shares of a tensor of integers, one at each party.

    Args:
        shares: worker id -> pointer to the share that worker holds.
        owner: the worker it belongs to.
        id: its id.
        field: the number of values; always 2**64.
        n_bits: for compatibility; always 64.
        crypto_provider: the dealer of randomness for products and comparisons; not needed for sums.
        protocol: the protocol of comparisons: "beaver", "snn" or "fss".
        insecure: whether the crypto provider may be one of the parties.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: same as `shares`; or a plain tensor for `init_shares` to split.
    """

    level: ClassVar[Level] = Level.ATEN
    priority: ClassVar[int] = 4

    def __init__(
        self,
        shares: dict[Any, Any] | None = None,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        field: int | None = None,
        n_bits: int | None = None,
        crypto_provider: BaseWorker | ObjectId | None = None,
        protocol: str | None = None,
        insecure: bool = False,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: Any = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        if protocol is not None and protocol not in PROTOCOLS:
            raise SyftError(f"There is no protocol {str(protocol)[:40]!r}. {one_of(protocol, PROTOCOLS)}")
        self.field = FIELD
        self.n_bits = 64
        self.crypto_provider = crypto_provider
        self.protocol = protocol or PROTOCOLS[0]
        self.insecure = insecure
        shares = shares if shares is not None else child
        if shares is not None:
            self.child = shares

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {"crypto_provider": self.crypto_provider, "protocol": self.protocol, "insecure": self.insecure}

    def like(
        self, shares: dict[Any, Any], crypto_provider: BaseWorker | ObjectId | None = None
    ) -> AdditiveSharingTensor:
        """Return a link of the same parties to other shares; with another crypto provider, if one is passed."""
        attributes = self.get_class_attributes()
        if crypto_provider is not None:
            attributes["crypto_provider"] = crypto_provider
        return AdditiveSharingTensor(shares, owner=self._owner, **attributes)

    def pointers(self) -> list[Any]:
        """Return the pointers to the shares, in the order of the parties."""
        if type(self.child) is not dict:
            raise SyftError("These numbers are not shared yet. Call init_shares(*workers) first.")
        return list(self.child.values())

    @property
    def is_there(self) -> bool:
        """Whether the parties still hold the shares, as far as known locally."""
        held = [pointer for pointer in self.pointers() if isinstance(pointer, PointerTensor)]
        return all(pointer.lease.spent is None for pointer in held)

    @property
    def locations(self) -> list[Any]:
        """The workers that hold shares."""
        return [pointer.location for pointer in self.pointers()]

    def tensor_meta(self) -> TensorMeta:
        """Return the shape of any share; values are int64."""
        child = self.child
        shape = next(iter(child.values())).shape if type(child) is dict else child.shape
        return TensorMeta(torch.Size(shape), torch.int64)

    def get(self) -> torch.Tensor:
        """Fetch all shares and add them; they are removed from the parties (`x.copy().get()` leaves them there)."""
        for pointer in self.pointers():
            pointer.lease.check()  # all of them, before the first one is fetched
        fetched: list[torch.Tensor] = []
        try:
            for pointer in self.pointers():
                fetched.append(pointer.get())
        except Exception:
            for pointer, share in zip(self.pointers(), fetched, strict=False):
                pointer.put_back(share)
            raise
        return _total(fetched)

    def virtual_get(self) -> torch.Tensor:
        """Add the shares without fetching them (in-process workers only, for debugging)."""
        return _total(self.values_there())

    def init_shares(self, *owners: BaseWorker | ObjectId) -> AdditiveSharingTensor:
        """Split the plain child of this link, and send one share to each owner; returns this link."""
        self.child = providers.sharing.split(self.child, owners, **self.get_class_attributes()).child
        return self

    @staticmethod
    def generate_shares(
        secret: torch.Tensor | int, n_workers: int, field: int | None = None, random_type: object = None
    ) -> list[Any]:
        """Split a tensor of integers into random shares that add up to it.

        Args:
            secret: the tensor, or a number.
            n_workers: the number of shares.
            field: ignored, for compatibility; shares are modulo 2**64.
            random_type: ignored, for compatibility; shares are int64.
        """
        return list(providers.sharing.generate_shares(secret, n_workers))

    def reconstruct(self) -> Any:
        """Reveal the values to every party: returns a multi-pointer to them; the caller learns nothing."""
        return providers.sharing.reconstruct(self)

    def zero(self) -> AdditiveSharingTensor:
        """Return fresh shares of zeros of the same shape, at the same parties."""
        made: AdditiveSharingTensor = providers.sharing.zero(self)
        return made

    def refresh(self) -> AdditiveSharingTensor:
        """Split the same values again, in place, by adding shares of zero."""
        self.child = providers.sharing.refreshed(self).child
        return self

    def clone(self, *, memory_format: torch.memory_format | None = None) -> AdditiveSharingTensor:
        """Copy each share at its party; the ids stay the same."""
        made = self.like({party: pointer.clone() for party, pointer in self.child.items()})
        keep_ids(self, made)
        return made

    def positive(self) -> Any:
        """Return 1 for each value that is not negative, else 0; shared."""
        return self.ge(0)

    def eq(self, other: object) -> Any:
        """Return 1 for each pair of equal values, else 0; shared."""
        return self.__getattr__("eq")(other)

    def div(self, divisor: object) -> Any:
        """Divide by a public integer, or by shared ones, rounding down; shared."""
        return self.__getattr__("floor_divide")(divisor)

    def max(self, dim: int | None = None, return_idx: bool = False) -> Any:
        """Return the largest value; along a dimension, or with `return_idx`, also its index."""
        if dim is not None:
            return run(torch.Tensor.max, (self, dim))
        largest = run(torch.Tensor.max, (self,))
        return (largest, self.argmax()) if return_idx else largest

    def mod(self, modulus: int) -> Any:
        """Return the remainder of the division by a public integer."""
        return run(torch.Tensor.remainder, (self, modulus))

    @staticmethod
    def select_worker(args: tuple[Any, ...], worker: BaseWorker) -> Any:
        """Return arguments with every shared tensor replaced by its pointer at one worker."""
        worker_id = getattr(worker, "id", worker)
        return tuple(arg.child[worker_id] if isinstance(arg, AdditiveSharingTensor) else arg for arg in args)

    def get_garbage_collect_data(self) -> dict[Any, bool]:
        """Return for each party whether its share is deleted with its last pointer."""
        return {pointer.location.id: pointer.garbage_collect_data for pointer in self.pointers()}

    def __repr__(self) -> str:
        if type(self.__dict__.get("child")) is not dict:
            return "[AdditiveSharingTensor] not shared yet"
        provider = getattr(self.crypto_provider, "id", self.crypto_provider)
        rows = "".join(f"\n\t-> {pointer!r}" for pointer in self.child.values())
        meta = self.tensor_meta()
        what = f"shape: {tuple(meta.shape)}, protocol: {self.protocol}{', insecure' if self.insecure else ''}"
        return f"[AdditiveSharingTensor]{rows}\n\t*crypto provider: {provider}*\n\t*{what}*"

    def _facts(self) -> FactList:
        """Yield what a table shows of this link; never a share."""
        if type(self.__dict__.get("child")) is not dict:
            yield "state", "not shared yet"
            return
        yield from (("parties", ", ".join(map(str, self.child))), ("protocol", self.protocol))
        provider = getattr(self.crypto_provider, "id", self.crypto_provider)
        yield from (("crypto provider", provider), ("insecure", "a party may be the dealer" if self.insecure else None))

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description, the pointers, and inherited attributes; a provider is sent as its id."""
        link: Any = tensor
        provider = getattr(link.crypto_provider, "id", link.crypto_provider)
        pointers = list(link.pointers())
        return (link.id, link.tags, link.description, pointers, provider, link.protocol, link.insecure)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> AdditiveSharingTensor:
        """Rebuild a link to shares."""
        obj_id, tags, description, pointers, provider, protocol, insecure = payload
        check_labels(obj_id, tags, description)
        if any(isinstance(pointer, torch.Tensor) for pointer in pointers):
            raise SyftError("A shared tensor can't be sent to one of the workers that hold its shares.")
        if len(pointers) < 2 or not all(type(p) is PointerTensor and p.point_to_attr is None for p in pointers):
            raise TypeError("a shared tensor has pointers to shares, at two workers or more")
        shares = {pointer.location.id: pointer for pointer in pointers}
        metas = [pointer._meta for pointer in pointers]
        if len(shares) != len(pointers) or type(insecure) is not bool or type(protocol) is not str:
            raise TypeError("the shares of a tensor are at different workers, and have a protocol")
        if provider is not None and not is_id(provider):
            raise TypeError("a crypto provider is sent as an id")
        if any(meta is None or meta.dtype is not torch.int64 or meta.shape != metas[0].shape for meta in metas):
            raise TypeError("shares are integers of one shape")
        if provider in shares and not insecure:
            raise TypeError("a crypto provider is not one of the parties")
        # A provider that is not known here stays an id until it is used.
        resolved = (None if worker is None or provider is None else worker.known(provider)) or provider
        return cls(
            shares,
            owner=worker,
            id=obj_id,
            crypto_provider=resolved,
            protocol=protocol,
            insecure=insecure,
            tags=tags,
            description=description,
        )


give_methods(
    AdditiveSharingTensor, "add sub mul pow matmul mm chunk relu gt ge lt le ne argmax min argmin sum mean neg"
)


def _total(shares: list[torch.Tensor]) -> torch.Tensor:
    total = shares[0].clone()
    for share in shares[1:]:
        total += share
    return total


def refuse_own_parties(link: object, workers: list[Any]) -> None:
    """Raise if a shared tensor would be sent to a worker that holds one of its shares."""
    while isinstance(link, AbstractTensor) and not isinstance(link, AdditiveSharingTensor):
        link = link.__dict__.get("child")
    if isinstance(link, AdditiveSharingTensor) and any(getattr(w, "id", w) in link.child for w in workers):
        raise SyftError("A shared tensor can't be sent to one of the workers that hold its shares.")
