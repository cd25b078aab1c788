"""LargePrecisionTensor: fixed-point numbers of any size, stored as limbs.

A value v is stored as floor(v * base ** precision_fractional), a whole number modulo `field`; numbers above field / 2
are negative. The child is a tensor of `internal_type` whose last dimension holds the limbs of each number, the most
significant first. A limb has one bit less than its type; all limbs of a negative number are negative.

A value that does not fit is refused when it is encoded. A result that does not fit wraps around, as the definition
modulo `field` says; choose a field with room for your results.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = torch.tensor([1.5, -9e16]).fix_precision(precision_fractional=128, internal_type=torch.int16)
    >>> (x + x).float_precision()
    tensor([ 3.0000e+00, -1.8000e+17])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft._suggestions import did_you_mean
from syft.core.dispatch import function_name, give_methods, run
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor
from syft.display.facts import FactList
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.tensors import big_integers as big
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import MAX_BASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from syft.tensors.big_integers import Integers
    from syft.workers.base import BaseWorker

DEFAULT_FIELD = 2**512
MAX_FIELD_BITS = 4096
# The dtype of limbs -> their number of bits.
LIMB_BITS = {torch.uint8: 7, torch.int8: 7, torch.int16: 15, torch.int32: 31, torch.int64: 63}
# Shared limbs have 16 bits whatever the dtype: there is room for sums of 2^31 of them, and for the masks of carries.
SHARED_BITS = 16
MAX_TERMS = 2**31


def room_for(base: int, precision_fractional: int) -> int:
    """Return the default field of a format: 2**512, or the next power of it that leaves 64 bits to the whole part."""
    needed = (base**precision_fractional).bit_length() + 64
    return int(DEFAULT_FIELD ** -(-needed // 512))


class LargePrecisionTensor(AbstractTensor):
    """A link that reads limbs as fixed-point numbers modulo a field.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        field: the modulus; results beyond half of it on either side wrap around.
        base: the base of its digits, usually 2 or 10.
        precision_fractional: the number of fractional digits.
        internal_type: the dtype of limbs: uint8 (no negative numbers), int8, int16, int32 or int64.
        verbose: ignored, for compatibility.
        child: limbs, local or shared; or a plain tensor for `fix_large_precision` to encode.
        dtype: the dtype that values are decoded to, float32 or float64.
        is_encoded: whether the child holds limbs.
        terms: the number of shared tensors that this shared one is a sum of.
    """

    priority: ClassVar[int] = 6
    carries_labels: ClassVar[bool] = True

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        field: int = DEFAULT_FIELD,
        base: int = 10,
        precision_fractional: int = 0,
        internal_type: torch.dtype = torch.int32,
        verbose: bool = False,
        child: object = None,
        dtype: torch.dtype = torch.float32,
        is_encoded: bool = False,
        terms: int = 1,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)
        _check_format(field, base, precision_fractional, internal_type)
        if dtype not in (torch.float32, torch.float64):
            raise SyftError(f"A large-precision tensor is decoded to float32 or float64, got {dtype}.")
        self.field = field
        self.base = base
        self.precision_fractional = precision_fractional
        self.internal_type = internal_type
        self.verbose = bool(verbose)
        self.decodes_to = dtype
        self.is_encoded = is_encoded
        self.terms = terms

    @property
    def internal_precision(self) -> int:
        """The number of bits of a limb."""
        return LIMB_BITS[self.internal_type]

    @property
    def scale(self) -> int:
        """The factor between a value and its integer."""
        return int(self.base**self.precision_fractional)

    @property
    def is_shared(self) -> bool:
        """Whether the limbs are shared among workers."""
        return isinstance(self.__dict__.get("child"), AdditiveSharingTensor)

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit, without the default dtype float32."""
        dtype = {} if self.decodes_to is torch.float32 else {"dtype": self.decodes_to}
        return {
            "field": self.field,
            "base": self.base,
            "precision_fractional": self.precision_fractional,
            "internal_type": self.internal_type,
        } | dtype

    def tensor_meta(self) -> TensorMeta:
        """Return the shape without the dimension of limbs, and the dtype that values are decoded to."""
        meta = super().tensor_meta()
        return TensorMeta(torch.Size(meta.shape[:-1]), self.decodes_to) if self.is_encoded else meta

    @property
    def grad(self) -> None:
        """None: there are no gradients of these numbers."""
        return None

    # --- encoding and decoding ------------------------------------------------------------------------------------

    def fix_large_precision(self) -> LargePrecisionTensor:
        """Encode the child, a plain tensor, rounding down; returns this link."""
        plain = self.child
        if self.is_encoded or not isinstance(plain, torch.Tensor) or isinstance(plain, providers.wrapper):
            raise SyftError("fix_large_precision() needs a plain tensor below this link, which is not encoded yet.")
        numbers = big.to_units(plain, self.scale)
        if not big.fits(numbers, self.field):
            raise SyftError(
                f"A value of this tensor does not fit: with {self.precision_fractional} digits in base {self.base}, "
                f"the field of {self.field.bit_length() - 1} bits is too small. Pass a larger one, "
                f"field=2**{2 * self.field.bit_length() - 2}, or fewer digits (precision_fractional)."
            )
        self.child = self._limbs(numbers)
        self.decodes_to = torch.float64 if plain.dtype is torch.float64 else torch.float32
        self.is_encoded = True
        return self

    fix_precision = fix_prec = fix_large_precision

    def float_precision(self) -> torch.Tensor:
        """Decode to the nearest float32, or float64 if that was encoded; shared numbers must be fetched first."""
        return big.to_floats(self.reconstruct(), self.scale, self.decodes_to)

    float_prec = float_precision

    def reconstruct(self) -> Integers:
        """Return the encoded integers as a numpy array of Python integers."""
        if not self.is_encoded:
            raise SyftError("This tensor is not encoded yet; call x.child.fix_large_precision() first.")
        if self.is_shared:
            raise SyftError(
                "These numbers are shared among workers. Fetch the shares first: x.get().float_precision()."
            )
        return big.centred(big.join(self.child, self.internal_precision), self.field)

    def like(self, numbers: Integers) -> LargePrecisionTensor:
        """Return a link of the same format around other integers, modulo the field."""
        return self.around(self._limbs(big.centred(numbers, self.field)))

    def around(self, child: object, terms: int = 1) -> LargePrecisionTensor:
        """Return a link of the same format around other limbs."""
        attributes = self.get_class_attributes()
        return LargePrecisionTensor(owner=self._owner, child=child, is_encoded=True, terms=terms, **attributes)

    def _limbs(self, numbers: Integers) -> torch.Tensor:
        return self.create_tensor_from_numpy(numbers, internal_type=self.internal_type)

    @staticmethod
    def create_tensor_from_numpy(
        ndarray: np.ndarray[Any, Any], internal_type: torch.dtype = torch.int32, **kwargs: object
    ) -> torch.Tensor:
        """Split an array of whole numbers into limbs, in a last dimension.

        Args:
            ndarray: whole numbers of any size.
            internal_type: the dtype of limbs.
            **kwargs: other options of the constructor, ignored.
        """
        bits = _limb_bits(internal_type)
        numbers = big.integers(ndarray)
        if internal_type is torch.uint8 and any(number < 0 for number in numbers.reshape(-1)):
            raise SyftError(
                "internal_type=torch.uint8 takes no negative numbers, and a value is negative. "
                "Use internal_type=torch.int8."
            )
        return big.split(numbers, bits).to(internal_type)

    # --- sharing --------------------------------------------------------------------------------------------------

    def share(
        self,
        *owners: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId],
        field: int | None = None,
        **kwargs: object,
    ) -> LargePrecisionTensor:
        """Return a link around shares of the limbs; sums and differences run on it.

        Every number gets as many limbs as the field needs, so that their number reveals nothing.

        Args:
            *owners: the parties, two workers or more.
            field: ignored, for compatibility; shares are modulo 2**64.
            **kwargs: `crypto_provider`, `protocol` and `insecure`, as for `tensor.share`.
        """
        if self.is_shared:
            raise SyftError("This tensor is shared already. Fetch it with .get() to share it again.")
        return self.around(providers.codec.share(self._shared_limbs(), owners, **kwargs))

    def _shared_limbs(self) -> torch.Tensor:
        """Return the integers as limbs for shares."""
        return big.split(self.reconstruct(), SHARED_BITS, big.limb_count(self.field, SHARED_BITS))

    def get(self) -> LargePrecisionTensor:
        """Fetch the shares; returns a link of the same format around local limbs.

        The limbs of a sum are not carried, so the parties move random carries first.
        """
        if not self.is_shared:
            return self
        content = self.child
        if self.terms > 1:
            count, mask = content.shape[-1], (1 << SHARED_BITS) - 1
            low = [(self.field >> (SHARED_BITS * place)) & mask for place in reversed(range(count - 1))]
            content = providers.sharing.hide_carries(
                content, SHARED_BITS, [self.field >> (SHARED_BITS * (count - 1)), *low]
            )
        return self.like(big.join(content.get(), SHARED_BITS))

    def virtual_get(self) -> LargePrecisionTensor:
        """Return the values without fetching the shares (in-process workers only, for debugging)."""
        return self.like(big.join(self.child.virtual_get(), SHARED_BITS)) if self.is_shared else self

    def plus(self, other: LargePrecisionTensor, sign: int) -> LargePrecisionTensor:
        """Add or subtract two tensors of one format of which at least one is shared."""
        terms = self.terms + other.terms
        if terms > MAX_TERMS:
            raise SyftError(
                f"This shared tensor is a sum of {terms} tensors; the limbs have room for {MAX_TERMS}. "
                "Fetch it and share it again: x.get().share(...)."
            )
        left, right = (link.child if link.is_shared else link._shared_limbs() for link in (self, other))
        return self.around(run(torch.add if sign > 0 else torch.sub, (left, right)), terms)

    # --- the rest -------------------------------------------------------------------------------------------------

    def mod(self, other: object) -> Any:
        """Return the remainder of the division by another tensor or a number; it has the sign of the divisor."""
        return run(torch.Tensor.remainder, (self, other))

    def clone(self, *, memory_format: torch.memory_format | None = None) -> LargePrecisionTensor:
        """Return a copy of this link and of its child."""
        copied = self.around(self.child.clone(), self.terms)
        copied.is_encoded = self.is_encoded
        return copied

    def _facts(self) -> FactList:
        """Yield what a table shows of this link."""
        yield "precision", f"{self.precision_fractional} digits of base {self.base}"
        yield "field", _text(self.field)

    def __repr__(self) -> str:
        digits = {2: "bits", 10: "decimals"}.get(self.base, f"digits of base {self.base}")
        below = f">{self.child!r}" if "child" in self.__dict__ else ""
        return f"LargePrecisionTensor({self.precision_fractional} {digits}, {_text(self.field)}){below}"

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call by its rule, or refuse it and say how to get a kind of tensor that has more rules."""
        try:
            return super().handle(function, args, kwargs)
        except UnsupportedOperationError as error:
            if error.operation != function_name(function) or error.link != cls.__name__:
                raise
            hint = "It adds, multiplies, compares and takes remainders. Decode it first: x.float_precision()."
            raise UnsupportedOperationError(error.operation, cls.__name__, hint) from None

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description, the format with its field as bytes, the child and its state."""
        link: Any = tensor
        attributes = link.get_class_attributes()
        attributes["field"] = field_to_bytes(link.field)
        child = link.__dict__.get("child")
        return (link.id, link.tags, link.description, attributes, child, link.is_encoded, link.terms)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> LargePrecisionTensor:
        """Rebuild an untrusted link."""
        obj_id, tags, description, attributes, child, is_encoded, terms = payload
        check_labels(obj_id, tags, description)
        if type(attributes) is not dict or not set(attributes) <= _ATTRIBUTES or not set(attributes) >= _REQUIRED:
            raise TypeError("a large-precision tensor has a field, a base, a precision, a type of limbs and a dtype")
        if type(is_encoded) is not bool or type(terms) is not int or not 1 <= terms <= MAX_TERMS:
            raise TypeError("a large-precision tensor says whether it is encoded, and its number of terms")
        attributes = {**attributes, "field": field_from_bytes(attributes["field"])}
        link = cls(
            id=obj_id, owner=worker, tags=tags, description=description, child=child, is_encoded=is_encoded,
            terms=terms, **attributes,
        )  # fmt: skip
        _check_child(link)
        return link


_REQUIRED = frozenset({"field", "base", "precision_fractional", "internal_type"})
_ATTRIBUTES = _REQUIRED | {"dtype"}


def _limb_bits(internal_type: object) -> int:
    bits = LIMB_BITS.get(internal_type) if isinstance(internal_type, torch.dtype) else None
    if bits is None:
        names = ", ".join(str(dtype) for dtype in LIMB_BITS)
        hint = did_you_mean(internal_type, LIMB_BITS)
        raise SyftError(f"internal_type must be one of {names}; got {str(internal_type)[:40]}.{hint}")
    return bits


def _check_format(field: object, base: object, precision_fractional: object, internal_type: object) -> None:
    """Raise unless the options of a large-precision tensor are of the right types and sizes."""
    _limb_bits(internal_type)
    for name, value, low, high, shown in (
        ("base", base, 2, MAX_BASE, str(MAX_BASE)),
        ("precision_fractional", precision_fractional, 0, MAX_FIELD_BITS, str(MAX_FIELD_BITS)),
        ("field", field, 4, 2**MAX_FIELD_BITS, f"2**{MAX_FIELD_BITS}"),
    ):
        if type(value) is not int or not low <= value <= high:
            raise SyftError(
                f"{name} of a large-precision tensor must be an integer from {low} to {shown}, got {_text(value)}."
            )
    if base**precision_fractional > field // 2:  # type: ignore[operator]
        raise SyftError(
            f"{precision_fractional} digits in base {base} leave no room for 1 in a field of {_text(field)}. "
            "Pass a larger field, or fewer digits (precision_fractional)."
        )


def _check_child(link: LargePrecisionTensor) -> None:
    """Raise unless a received child is limbs of the format of its link, shares of them, or a plain tensor."""
    child = link.__dict__.get("child")
    if isinstance(child, AdditiveSharingTensor) and link.is_encoded:
        if child.dim() < 1 or child.shape[-1] != big.limb_count(link.field, SHARED_BITS):
            raise TypeError("shares of limbs have one limb for each part of the field")
        return
    if type(child) is not torch.Tensor or child.layout is not torch.strided or child.is_quantized:
        raise TypeError("the child of a large-precision tensor is a tensor, or shares of limbs")
    if not link.is_encoded:
        return
    whole = child.dtype is link.internal_type and child.dim() >= 1
    if not whole or not 1 <= child.shape[-1] <= big.limb_count(link.field, link.internal_precision):
        raise TypeError("the limbs of a large-precision tensor have its type, and not more bits than its field")


def field_to_bytes(field: int) -> bytes:
    """Return a field in the form that travels: messages hold no integers of more than 64 bytes."""
    return field.to_bytes((field.bit_length() + 7) // 8, "big")


def field_from_bytes(data: object) -> int:
    """Read a received field."""
    if type(data) is not bytes or not 1 <= len(data) <= MAX_FIELD_BITS // 8 + 1:
        raise TypeError(f"a field is an integer of at most {MAX_FIELD_BITS} bits, in bytes")
    return int.from_bytes(data, "big")


def _text(value: object) -> str:
    """Return a number as text; a power of two as one."""
    if type(value) is int and value > 2**16 and value & (value - 1) == 0:
        return f"2**{value.bit_length() - 1}"
    return repr(value) if type(value) is not int or abs(value) < 10**20 else f"{value.bit_length()} bits"


give_methods(LargePrecisionTensor, "add add_ sub sub_ mul mul_ gt lt")
