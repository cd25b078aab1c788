"""Owners of rows: checked before anything is shared; only secret shares of sums leave them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syft.core.context import local_worker
from syft.exceptions import SyftError
from syft.hook.syft_tensor import SyftTensor
from syft.mpc.runtime.party import MAX_PARTIES
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import AdditiveSharingTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

    WorkerOrId: TypeAlias = BaseWorker | int | str

# The exponent of a column of zeros.
NOTHING = -500.0


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """A worker that owns rows.

    Attributes:
        worker: the worker.
        rows: the number of rows.
        data: a pointer to all columns in float64; the last one is the dependent variable.
    """

    worker: BaseWorker
    rows: int
    data: Any

    def send(self, tensor: torch.Tensor) -> Any:
        """Send public numbers to this owner."""
        return tensor.send(self.worker)  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, slots=True)
class Owners:
    """All owners, the helper and the crypto provider. The parties are the owners and the helper.

    The rows of an owner stay private as long as the owner keeps its own shares secret, and the crypto provider, which
    has no shares, keeps the dealt randomness secret.

    Attributes:
        each: the owners.
        helper: the honest-but-curious worker.
        provider: the crypto provider.
        widths: the number of columns of each list.
    """

    each: tuple[Owner, ...]
    helper: BaseWorker
    provider: BaseWorker
    widths: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The total number of rows."""
        return sum(owner.rows for owner in self.each)

    def share(self, pointer: Any, bits: int) -> Any:
        """Let the worker that holds a tensor split it among all parties; only shares leave it."""
        parties = [*(owner.worker for owner in self.each), self.helper]
        encoded = pointer.fix_precision(base=2, precision_fractional=bits)
        return encoded.share(*parties, crypto_provider=self.provider).get()

    def shared_sum(self, pointers: Sequence[torch.Tensor], bits: int) -> Any:
        """Return the shared sum of one tensor per owner."""
        first, *others = [self.share(pointer, bits) for pointer in pointers]
        for other in others:
            first = first + other
        return first

    def exponents(self) -> torch.Tensor:
        """Return for each column the exponent of the power of two above the largest root mean square of an owner.

        The maximum is computed on shares and becomes public, so that all columns can be scaled to size one.
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
    shares: AdditiveSharingTensor = shared.__dict__["child"].child
    return shares


def revealed(link: AdditiveSharingTensor, bits: int) -> torch.Tensor:
    """Fetch and decode shares of numbers with a number of bits behind the point."""
    whole: Any = link.get()
    values: torch.Tensor = whole.double() / 2.0**bits
    return values


def gather(lists: dict[str, Sequence[torch.Tensor]], crypto_provider: WorkerOrId, hbc_worker: WorkerOrId) -> Owners:
    """Check all arguments before anything is shared, and concatenate the columns of each owner.

    `lists` are argument name -> one pointer per owner; the last list is the dependent variable, one column.
    """
    provider, helper = _third("crypto_provider", crypto_provider), _third("hbc_worker", hbc_worker)
    if provider.id == helper.id:
        raise SyftError(f"crypto_provider and hbc_worker are the same worker, {helper.id!r}. Pass two workers.")
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
        raise SyftError(f"{name} is missing. Pass a worker that holds none of the data.")
    found: BaseWorker = local_worker().get_worker(worker, fail_hard=True)
    return found


def _pointers(name: str, items: object) -> list[Any]:
    """Check a list of pointers and return it."""
    if not isinstance(items, list | tuple) or not items:
        raise SyftError(f"{name} must be a list of pointers, one for each owner: [x.send(bob), z.send(alice)].")
    for number, item in enumerate(items):
        link = item.__dict__.get("child") if isinstance(item, SyftTensor) else None
        if not isinstance(link, PointerTensor):
            kind = type(link or item).__name__
            raise SyftError(f"{name}[{number}] must be a pointer to an owner's tensor, got {kind}. Send it first.")
    return list(items)


def _common(numbers: dict[str, int], message: str) -> int:
    """Return the number that all names have."""
    if len(set(numbers.values())) > 1:
        raise SyftError(message + ", ".join(f"{name} has {number}" for name, number in numbers.items()) + ".")
    return next(iter(numbers.values()))


def _same_length(pointers: dict[str, list[Any]]) -> int:
    lengths = {name: len(items) for name, items in pointers.items()}
    count = _common(lengths, "All lists must have one pointer for each owner, but ")
    if count < 2:
        raise SyftError(f"Encryption needs at least two owners, got {count}. Pass pointers to two owners or more.")
    return count


def _place(pointers: dict[str, list[Any]], number: int) -> BaseWorker:
    """Return the worker that holds the tensors of all lists at one index."""
    places = {items[number].location.id: items[number].location for items in pointers.values()}
    if len(places) > 1:
        details = ", ".join(f"{name}[{number}] is at {items[number].location.id!r}" for name, items in pointers.items())
        raise SyftError(f"Tensors with the same index must be at the same owner, but {details}.")
    found: BaseWorker = next(iter(places.values()))
    return found


def _check_workers(workers: list[BaseWorker], provider: BaseWorker, helper: BaseWorker) -> None:
    """Raise unless all workers are different, and can reach each other."""
    names = [worker.id for worker in workers]
    for name in names:
        if names.count(name) > 1:
            raise SyftError(f"Worker {name!r} has several of the pointers. Concatenate its rows first with torch.cat.")
    for role, worker in (("crypto_provider", provider), ("hbc_worker", helper)):
        if worker.id in names:
            raise SyftError(f"Worker {worker.id!r} owns rows, so it can't be the {role} too. Pass another worker.")
    if len(workers) >= MAX_PARTIES:
        raise SyftError(f"At most {MAX_PARTIES - 1} owners can compute together, got {len(workers)}.")
    everybody = (*workers, provider, helper)
    if len({bool(getattr(worker, "in_own_process", False)) for worker in everybody}) > 1:
        raise SyftError(
            "Some of the owners, the crypto_provider and the hbc_worker live in this process and some in other "
            "processes. All must be of one kind to compute together."
        )


def _matrix(name: str, number: int, pointer: torch.Tensor, single: bool) -> torch.Tensor:
    """Return a pointer to a matrix of real numbers; a vector is accepted for a single column."""
    if pointer.is_complex():
        raise SyftError(f"{name}[{number}] has complex numbers; a regression takes real numbers.")
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
    number = _common(rows, f"The tensors of worker {worker.id!r} have different numbers of rows: ")
    if not number:
        raise SyftError(f"Worker {worker.id!r} has no rows. Leave it out.")
    return number
