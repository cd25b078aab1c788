"""CRTPrecisionTensor: fixed-point numbers stored as residues modulo several small numbers.

A value v is stored as round(v * base ** precision_fractional), a whole number modulo the product of the moduli; numbers
above half of the product are negative. Sums are computed residue by residue. A product of two tensors is rescaled, for
which the number is rebuilt from its residues by the Chinese remainder theorem.

A value that does not fit is refused when it is encoded. A result that does not fit wraps around, as the definition
modulo the product says; choose a larger field type for larger results.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> c = torch.tensor([3, -4]).fix_precision(storage="crt", field_type="int100", precision_fractional=2)
    >>> (c * c + 1).float_precision()
    tensor([10., 17.])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from syft._suggestions import did_you_mean
from syft.core.dispatch import function_name, give_methods, run
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, below
from syft.display.facts import FactList
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.tensors import big_integers as big
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syft.tensors.big_integers import Integers
    from syft.workers.base import BaseWorker

# Field type -> moduli. Their products are about 21, 3.18e19, 6.62e30 and 4.03e38.
FIELD_TYPES: dict[object, tuple[int, ...]] = {
    21: (3, 7),
    "int64": (257, 263, 269, 271, 277, 281, 283, 293),
    "int100": (1171, 1181, 1187, 1193, 1213, 1217, 1223, 1229, 1231, 1237),
    "int128": (883, 887, 907, 911, 919, 929, 937, 941, 947, 953, 967, 971, 977),
}
MAX_MODULI, MAX_MODULUS = 64, 2**20
# Shared residues are not reduced; this number of them can be added modulo 2^64.
MAX_TERMS = 2**62 // MAX_MODULUS
Content = torch.Tensor | AdditiveSharingTensor


def moduli_of(field_type: object) -> tuple[int, ...]:
    """Return the moduli of a field type."""
    known = isinstance(field_type, str | int) and not isinstance(field_type, bool)
    if not known or field_type not in FIELD_TYPES:
        names = ", ".join(map(repr, FIELD_TYPES))
        hint = did_you_mean(field_type, FIELD_TYPES)
        raise SyftError(f"field_type must be one of {names}; got {str(field_type)[:40]!r}.{hint}")
    return FIELD_TYPES[field_type]


class CRTPrecisionTensor(AbstractTensor):
    """A link that reads residues as fixed-point numbers modulo the product of their moduli.

    Args:
        residues: modulus -> fixed-precision tensor of that field.
        base: the base of the digits; that of the residues by default.
        precision_fractional: the number of fractional digits; that of the residues by default.
        reconstruction_coeffs: ignored, for compatibility; they follow from the moduli.
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        terms: a bound of shared residues, in multiples of their moduli.
    """

    priority: ClassVar[int] = 6
    carries_labels: ClassVar[bool] = True
    # The keys of the child, for people.
    child_keys: ClassVar[str] = "moduli"

    def __init__(
        self,
        residues: dict[int, Any] | None = None,
        base: int | None = None,
        precision_fractional: int | None = None,
        reconstruction_coeffs: object = None,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        terms: int = 1,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.base = base
        self.precision_fractional = precision_fractional
        self.terms = terms
        if residues is not None:
            links = _checked(residues, base, precision_fractional)
            model = next(iter(links.values()))
            self.base, self.precision_fractional = model.base, model.precision_fractional
            self.child = {modulus: link.wrap() for modulus, link in links.items()}

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {"base": self.base, "precision_fractional": self.precision_fractional}

    @property
    def moduli(self) -> tuple[int, ...]:
        """The moduli."""
        return tuple(self.residues)

    @property
    def residues(self) -> dict[int, FixedPrecisionTensor]:
        """Modulus -> link to the residues."""
        if "child" not in self.__dict__:
            raise SyftError("This CRT tensor has no residues yet. Make one: x.fix_precision(storage='crt').")
        return {modulus: wrapper.child for modulus, wrapper in self.child.items()}

    @property
    def field(self) -> int:
        """The product of the moduli."""
        return math.prod(self.moduli)

    @property
    def scale(self) -> int:
        """The factor between a value and its integer."""
        return next(iter(self.residues.values())).scale

    @property
    def is_shared(self) -> bool:
        """Whether the residues are shared among workers."""
        return next(iter(self.residues.values())).is_shared

    def tensor_meta(self) -> TensorMeta:
        """Return the shape of a residue, and the dtype that values are decoded to."""
        return next(iter(self.residues.values())).tensor_meta()

    @property
    def grad(self) -> None:
        """None: there are no gradients of these numbers."""
        return None

    # --- encoding and decoding ------------------------------------------------------------------------------------

    @classmethod
    def encode(
        cls, tensor: torch.Tensor, field_type: object = "int100", base: int = 10, precision_fractional: int = 3
    ) -> CRTPrecisionTensor:
        """Encode a plain tensor, rounding to the nearest; options as for `tensor.fix_precision`."""
        moduli = moduli_of(field_type)
        dtype = torch.float64 if tensor.dtype is torch.float64 else torch.float32
        model = FixedPrecisionTensor(base=base, precision_fractional=precision_fractional, dtype=dtype)
        numbers = big.to_units(tensor, model.scale, nearest=True)
        if not big.fits(numbers, math.prod(moduli)):
            raise SyftError(
                f"A value of this tensor does not fit: with {model.scale} units to one, values of field_type="
                f"{field_type!r} lie between {-_limit(moduli, model):.4g} and {_limit(moduli, model):.4g}. "
                "Use field_type='int128', or fewer digits (precision_fractional)."
            )
        return _of_numbers(numbers, moduli, model)

    def reconstruct(self) -> Integers:
        """Rebuild the encoded integers, as a numpy array of Python integers."""
        if self.is_shared:
            raise SyftError(
                "These numbers are shared among workers. Fetch the shares first: x.get().float_precision()."
            )
        product = self.field
        total = np.zeros(tuple(self.shape), dtype=object)
        for modulus, link in self.residues.items():
            rest = product // modulus
            residue = big.to_units(link.child, 1)
            total = total + residue * (rest * pow(rest, -1, modulus))
        return big.centred(big.integers(total, tuple(self.shape)), product)

    def float_precision(self) -> torch.Tensor:
        """Decode to the nearest float32, or float64 if that was encoded; shared numbers must be fetched first."""
        return big.to_floats(self.reconstruct(), self.scale, self.tensor_meta().dtype)

    float_prec = float_precision

    def like(self, numbers: Integers) -> CRTPrecisionTensor:
        """Return a link of the same format around other integers, modulo the product of the moduli."""
        made = _of_numbers(numbers, self.moduli, next(iter(self.residues.values())))
        made._owner = self._owner
        return made

    def each(self, function: Callable[[int, Any], Any], terms: int = 1) -> CRTPrecisionTensor:
        """Return a link of the same format around other residues.

        Args:
            function: returns new residues from a modulus and the old ones.
            terms: a bound of shared residues, in multiples of their moduli.
        """
        if terms > MAX_TERMS:
            raise SyftError(
                f"The shared residues grew to {terms} times their moduli; there is room for {MAX_TERMS}. "
                "Fetch the tensor and share it again: x.get().share(...)."
            )
        made = {}
        for modulus, link in self.residues.items():
            content = function(modulus, link.child)
            local = isinstance(content, torch.Tensor)
            made[modulus] = _residue(link, modulus, content % modulus if local else content)
        return CRTPrecisionTensor(made, owner=self._owner, terms=terms)

    # --- sharing --------------------------------------------------------------------------------------------------

    def share(
        self,
        *owners: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId],
        field: int | None = None,
        **kwargs: object,
    ) -> CRTPrecisionTensor:
        """Return a link around shares of each residue; sums, and products with integers, run on it.

        Args:
            *owners: the parties, two workers or more.
            field: ignored, for compatibility; shares are modulo 2**64.
            **kwargs: `crypto_provider`, `protocol` and `insecure`, as for `tensor.share`.
        """
        if self.is_shared:
            raise SyftError("This tensor is shared already. Fetch it with .get() to share it again.")
        return self.each(lambda modulus, content: providers.codec.share(content, owners, **kwargs))

    def get(self) -> CRTPrecisionTensor:
        """Fetch the shares; returns a link of the same format around local residues.

        The residues of a sum are not reduced, so the parties add random multiples of the moduli first.
        """
        if not self.is_shared:
            return self
        if self.terms == 1:
            return self.each(lambda modulus, content: content.get())
        masked = {m: providers.sharing.hide_multiples(link.child, m) for m, link in self.residues.items()}
        return self.each(lambda modulus, content: masked[modulus].get())

    def virtual_get(self) -> CRTPrecisionTensor:
        """Return the values without fetching the shares (in-process workers only, for debugging)."""
        return self.each(lambda modulus, content: content.virtual_get()) if self.is_shared else self

    # --- the rest -------------------------------------------------------------------------------------------------

    def eq(self, other: object) -> Any:
        """Return a CRT tensor of ones and zeros."""
        return run(torch.Tensor.eq, (self, other))

    def div(self, other: object) -> Any:
        """Refuse: residues can't be divided."""
        return run(torch.Tensor.div, (self, other))

    def clone(self, *, memory_format: torch.memory_format | None = None) -> CRTPrecisionTensor:
        """Return a copy of this link and of its residues."""
        return self.each(lambda modulus, content: content.clone(), self.terms)

    def _facts(self) -> FactList:
        """Yield what a table shows of this link."""
        yield "precision", f"{self.precision_fractional} digits of base {self.base}"
        yield "moduli", len(self.moduli)

    def __repr__(self) -> str:
        if "child" not in self.__dict__:
            return "CRTPrecisionTensor"
        digits = {2: "bits", 10: "decimals"}.get(self.base or 0, f"digits of base {self.base}")
        rows = "".join(f"\n\t{modulus} -> {link!r}" for modulus, link in self.residues.items())
        return f"CRTPrecisionTensor({self.precision_fractional} {digits}, {len(self.moduli)} moduli){rows}"

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call by its rule, or refuse it and say how to get a kind of tensor that has more rules."""
        try:
            return super().handle(function, args, kwargs)
        except UnsupportedOperationError as error:
            if error.operation != function_name(function) or error.link != cls.__name__:
                raise
            hint = "It adds, subtracts, multiplies and tests for equality. Decode it first: x.float_precision()."
            raise UnsupportedOperationError(error.operation, cls.__name__, hint) from None

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description, the links to residues by modulus, and their bound."""
        link: Any = tensor
        return (link.id, link.tags, link.description, dict(link.residues), link.terms)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> CRTPrecisionTensor:
        """Rebuild an untrusted link."""
        obj_id, tags, description, residues, terms = payload
        check_labels(obj_id, tags, description)
        if type(residues) is not dict or not 1 <= len(residues) <= MAX_MODULI:
            raise TypeError(f"a CRT tensor has 1 to {MAX_MODULI} residues by modulus")
        if not all(isinstance(link, FixedPrecisionTensor) for link in residues.values()):
            raise TypeError("a residue is a fixed-precision tensor")
        if type(terms) is not int or not 1 <= terms <= MAX_TERMS:
            raise TypeError("a CRT tensor has a bound of its residues")
        return cls(residues, owner=worker, id=obj_id, tags=tags, description=description, terms=terms)


def _limit(moduli: tuple[int, ...], model: FixedPrecisionTensor) -> float:
    return math.prod(moduli) // 2 / model.scale


def _residue(model: FixedPrecisionTensor, modulus: int, content: Content) -> FixedPrecisionTensor:
    """Return a link to residues, in the format of another one."""
    attributes = {**model.get_class_attributes(), "field": modulus}
    return FixedPrecisionTensor(**attributes, child=content)


def _of_numbers(numbers: Integers, moduli: tuple[int, ...], model: FixedPrecisionTensor) -> CRTPrecisionTensor:
    """Return the residues of integers."""
    made = {}
    for modulus in moduli:
        residue = big.integers(numbers % modulus, numbers.shape).astype(np.int64)
        made[modulus] = _residue(model, modulus, torch.from_numpy(residue))
    return CRTPrecisionTensor(made)


def _checked(residues: object, base: object, precision_fractional: object) -> dict[int, FixedPrecisionTensor]:
    """Return the links of residues, local ones reduced; raise unless they belong together."""
    if not isinstance(residues, dict) or not 1 <= len(residues) <= MAX_MODULI:
        raise SyftError(f"residues must be a dict of 1 to {MAX_MODULI} tensors by modulus.")
    for modulus in residues:
        if type(modulus) is not int or not 2 <= modulus <= MAX_MODULUS:
            raise SyftError(f"A modulus must be an integer from 2 to {MAX_MODULUS}, got {str(modulus)[:40]}.")
    for one, other in itertools.combinations(residues, 2):
        if math.gcd(one, other) != 1:
            raise SyftError(f"The moduli must be pairwise coprime, and {one} and {other} have a common divisor.")
    links = {modulus: _as_residue(modulus, given) for modulus, given in residues.items()}
    formats = {(link.base, link.precision_fractional, tuple(link.shape), link.is_shared) for link in links.values()}
    if len(formats) > 1:
        raise SyftError("The residues must have one base, one precision_fractional and one shape.")
    model = next(iter(links.values()))
    if base not in (None, model.base) or precision_fractional not in (None, model.precision_fractional):
        raise SyftError(
            f"The residues have {model.precision_fractional} digits of base {model.base}, not "
            f"{precision_fractional} of base {base}. Encode them alike: x.fix_precision(field=modulus, ...)."
        )
    return links


def _as_residue(modulus: int, given: object) -> FixedPrecisionTensor:
    link = below(given) if isinstance(given, providers.wrapper) else given
    if not isinstance(link, FixedPrecisionTensor) or "child" not in link.__dict__:
        raise SyftError(
            f"The residues modulo {modulus} must be a fixed-precision tensor, got a {type(given).__name__}. "
            f"Encode them: x.fix_precision(field={modulus})."
        )
    if link.field != modulus and link.field < 2**62:
        raise SyftError(f"The residues modulo {modulus} have the field {link.field}. Encode with field={modulus}.")
    if isinstance(link.child, AdditiveSharingTensor):
        return link
    if not isinstance(link.child, torch.Tensor) or link.child.is_floating_point():
        raise SyftError(f"The residues modulo {modulus} are not encoded yet. Use x.fix_precision(field={modulus}).")
    reduced = link.child % modulus
    if link.field == modulus and torch.equal(reduced, link.child):
        return link
    return _residue(link, modulus, reduced)


give_methods(CRTPrecisionTensor, "add sub mul")
