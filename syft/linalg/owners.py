"""Owners of rows: checked before anything is shared, and asked for sums that only leave them as secret shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syft.core.context import local_worker
from syft.exceptions import SyftError
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.runtime.worker import MAX_PARTIES
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

    WorkerOrId: TypeAlias = BaseWorker | int | str

# The exponent of a column of zeros.
NOTHING = -500.0


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Who holds some rows.

    Attributes:
        worker: the worker.
        rows: how many.
        data: a pointer to all columns side by side, float64; the last one is what to explain.
    """

    worker: BaseWorker
    rows: int
    data: Any

    def send(self, tensor: torch.Tensor) -> Any:
        """Send public numbers to this owner."""
        return tensor.send(self.worker)  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, slots=True)
class Owners:
    """All owners, and with whom they compute: each of them is a party, and the helper is one more.

    So nobody learns anything of an owner's rows as long as that owner keeps its own shares to itself, and as long as
    the crypto provider, who holds none, keeps what it deals to itself.

    Attributes:
        each: the owners.
        helper: the honest-but-curious worker.
        provider: the crypto provider.
        widths: how many columns came from each of the lists.
    """

    each: tuple[Owner, ...]
    helper: BaseWorker
    provider: BaseWorker
    widths: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(owner.rows for owner in self.each)

    def share(self, pointer: Any, bits: int) -> Any:
        """Have the holder of a tensor split it among all parties; only shares leave it."""
        parties = [*(owner.worker for owner in self.each), self.helper]
        encoded = pointer.fix_precision(base=2, precision_fractional=bits)
        return encoded.share(*parties, crypto_provider=self.provider).get()

    def shared_sum(self, pointers: Sequence[torch.Tensor], bits: int) -> Any:
        """Share what each owner holds, and add up."""
        first, *others = [self.share(pointer, bits) for pointer in pointers]
        for other in others:
            first = first + other
        return first

    def exponents(self) -> torch.Tensor:
        """Return for each column the power of two next above the largest root mean square of an owner.

        The largest is found among shares; it becomes public, so that all columns can be brought to size one.
        """
        found = []
        for owner in self.each:
            size = owner.data.pow(2).mean(0).sqrt().log2().ceil().clamp(min=NOTHING)
            found.append(self.share(size, 0))
        largest: Any = torch.stack(found).amax(0)
        exponents: torch.Tensor = largest.get().float_precision().double()
        return exponents

    def scaled(self, exponents: torch.Tensor) -> Owners:
        """Return the owners with columns divided by powers of two."""
        factor = torch.pow(2.0, -exponents)
        each = tuple(dataclasses.replace(owner, data=owner.data * owner.send(factor)) for owner in self.each)
        return dataclasses.replace(self, each=each)


def link_of(shared: Any) -> AdditiveSharingTensor:
    """Return the shares below an encoded tensor."""
    shares: AdditiveSharingTensor = shared.child.child
    return shares


def revealed(link: AdditiveSharingTensor, bits: int) -> torch.Tensor:
    """Bring shares together, of numbers with some bits behind the point."""
    whole: Any = link.get()
    values: torch.Tensor = whole.double() / 2.0**bits
    return values


def gather(lists: dict[str, Sequence[torch.Tensor]], crypto_provider: WorkerOrId, hbc_worker: WorkerOrId) -> Owners:
    """Check everything that can be checked before anything is shared, and put the columns of each owner together.

    Args:
        lists: pointers of each owner, by the name of the argument; the last list is what to explain, one column.
        crypto_provider: the worker that deals randomness.
        hbc_worker: the worker that holds shares of all, and no rows.
    """
    provider, helper = _third("crypto_provider", crypto_provider), _third("hbc_worker", hbc_worker)
    if provider.id == helper.id:
        raise SyftError(f"crypto_provider and hbc_worker are the same worker, {helper.id!r}: name two different ones.")
    pointers = {name: _pointers(name, items) for name, items in lists.items()}
    count = _same_length(pointers)
    workers = [_place(pointers, number) for number in range(count)]
    _check_workers(workers, provider, helper)
    columns = {name: [_matrix(name, number, item, name == list(lists)[-1]) for number, item in enumerate(items)]
               for name, items in pointers.items()}  # fmt: skip
    widths = tuple(_same_width(name, items) for name, items in columns.items())
    each = []
    for number, worker in enumerate(workers):
        rows = _same_rows({name: items[number] for name, items in columns.items()}, worker)
        parts = [items[number].detach().double() for items in columns.values()]
        each.append(Owner(worker, rows, torch.cat(parts, 1)))
    return Owners(tuple(each), helper, provider, widths)


def _third(name: str, worker: WorkerOrId | None) -> BaseWorker:
    if worker is None:
        raise SyftError(f"{name} is missing: name a worker that holds none of the data.")
    found: BaseWorker = local_worker().get_worker(worker, fail_hard=True)
    return found


def _pointers(name: str, items: object) -> list[Any]:
    """Return a list of pointers, or say what is wrong with it."""
    if not isinstance(items, list | tuple) or not items:
        raise SyftError(f"{name} is a list of pointers, one for each owner: [x.send(bob), z.send(alice)].")
    for number, item in enumerate(items):
        link = item.__dict__.get("child") if isinstance(item, SyftTensor) else None
        if not isinstance(link, PointerTensor):
            kind = type(link or item).__name__
            raise SyftError(f"{name}[{number}] is a {kind}, not a pointer to an owner's tensor: send it first.")
    return list(items)


def _same_length(pointers: dict[str, list[Any]]) -> int:
    lengths = {name: len(items) for name, items in pointers.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise SyftError(f"All lists have one pointer for each owner, but {told}.")
    (count,) = set(lengths.values())
    if count < 2:
        raise SyftError("There is one owner only, who needs no encryption: give pointers to two owners or more.")
    return count


def _place(pointers: dict[str, list[Any]], number: int) -> BaseWorker:
    """Return the worker that holds what all lists have at one place."""
    places = {items[number].child.location.id: items[number].child.location for items in pointers.values()}
    if len(places) > 1:
        told = ", ".join(
            f"{name}[{number}] is at {items[number].child.location.id!r}" for name, items in pointers.items()
        )
        raise SyftError(f"What belongs together must be at the same owner, but {told}.")
    found: BaseWorker = next(iter(places.values()))
    return found


def _check_workers(workers: list[BaseWorker], provider: BaseWorker, helper: BaseWorker) -> None:
    """Raise unless all who take part are different, and live where they can reach each other."""
    names = [worker.id for worker in workers]
    for name in names:
        if names.count(name) > 1:
            raise SyftError(f"Worker {name!r} has several of the pointers: put its rows together first (torch.cat).")
    for role, worker in (("crypto_provider", provider), ("hbc_worker", helper)):
        if worker.id in names:
            raise SyftError(f"Worker {worker.id!r} owns rows, so it can't be the {role} too: name another worker.")
    if len(workers) >= MAX_PARTIES:
        raise SyftError(f"There are {len(workers)} owners; up to {MAX_PARTIES - 1} can compute together.")
    everybody = (*workers, provider, helper)
    if len({bool(getattr(worker, "in_own_process", False)) for worker in everybody}) > 1:
        raise SyftError(
            "Some of the owners, the crypto_provider and the hbc_worker live in this process and some in processes of "
            "their own. All must be of one kind to compute together."
        )


def _matrix(name: str, number: int, pointer: torch.Tensor, single: bool) -> torch.Tensor:
    """Return a pointer to a matrix of real numbers; where one column is meant, a vector will do."""
    if pointer.is_complex():
        raise SyftError(f"{name}[{number}] has complex numbers; a regression takes real ones.")
    if single and pointer.dim() == 1:
        return pointer.view(-1, 1)
    if pointer.dim() != 2:
        raise SyftError(f"{name}[{number}] has {pointer.dim()} dimensions; a matrix is needed: use .view(-1, columns).")
    if single and pointer.shape[1] != 1:
        raise SyftError(f"{name}[{number}] has {pointer.shape[1]} columns; it must have one.")
    return pointer


def _same_width(name: str, items: list[torch.Tensor]) -> int:
    widths = [item.shape[1] for item in items]
    if len(set(widths)) > 1:
        raise SyftError(f"The tensors of {name} have different numbers of columns: {', '.join(map(str, widths))}.")
    if not widths[0]:
        raise SyftError(f"The tensors of {name} have no columns.")
    return int(widths[0])


def _same_rows(parts: dict[str, torch.Tensor], worker: BaseWorker) -> int:
    rows = {name: part.shape[0] for name, part in parts.items()}
    if len(set(rows.values())) > 1:
        told = ", ".join(f"{name} has {number}" for name, number in rows.items())
        raise SyftError(f"The tensors of worker {worker.id!r} have different numbers of rows: {told}.")
    (number,) = set(rows.values())
    if not number:
        raise SyftError(f"Worker {worker.id!r} has no rows: leave it out.")
    return int(number)
