"""FixedPrecisionTensor: fixed-point numbers, stored as integers.

A value v is stored as round(v * base ** precision_fractional), an int64, local or shared among workers. Arithmetic is
done below autograd by the rules of `syft.mpc.rules`, so torch differentiates through it.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = torch.tensor([1.5, -2.25]).fix_precision()
    >>> x.child.child
    tensor([ 1500, -2250])
    >>> (x * 2).float_precision()
    tensor([ 3.0000, -4.5000])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.dispatch import give_methods
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.references import TensorMeta
from syft.core.tensor import Level, below, keep_ids
from syft.display.facts import FactList
from syft.exceptions import SyftError
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.views import Viewable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syft.workers.base import BaseWorker

MAX_BASE = 2**16
# Encoded values are in [-2^62, 2^62): truncation and comparison need a spare bit.
LIMIT = 2**62
# The largest number of units to one that leaves room for products in 62 bits.
MAX_SCALE = 2**40
# Fields up to this size are those of residues, whose digits need no room.
_MAX_RESIDUE_FIELD = 2**20
# The dtypes that values are decoded to; others are decoded to float32.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def decoded_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Return the dtype that the values of a tensor are decoded to."""
    return tensor.dtype if tensor.dtype in FLOATS else torch.float32


def reduced(whole: Any, field: int) -> Any:
    """Return plain integers modulo a field, those above its half as negative ones.

    Fields of 2**62 and more have no effect: encoded values are smaller. Shared integers are reduced when fetched.
    """
    if field >= LIMIT or not isinstance(whole, torch.Tensor) or whole.dtype is not torch.int64:
        return whole
    half = field // 2
    return (whole + half) % field - half


class FixedPrecisionTensor(Viewable):
    """A link that reads integers as fixed-point numbers.

    Args:
        owner: the worker it belongs to.
        id: its id.
        field: the number of integers; encoding refuses values beyond half of it on either side, and results wrap
            around. 2**62 and more have no effect.
        base: the base of its digits, usually 2 or 10.
        precision_fractional: the number of fractional digits.
        kappa: ignored, for compatibility.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: integers (int64), local or shared.
        dtype: the dtype that values are decoded to: that of the encoded tensor, promoted as torch does.
    """

    level: ClassVar[Level] = Level.ATEN
    priority: ClassVar[int] = 5

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        field: int = 2**62,
        base: int = 10,
        precision_fractional: int = 3,
        kappa: int = 1,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: object = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)
        if dtype not in FLOATS:
            raise SyftError(f"A fixed-precision tensor needs a floating-point dtype, got {dtype}.")
        for name, value, low, high in (
            ("base", base, 2, MAX_BASE),
            ("precision_fractional", precision_fractional, 0, 61),
            ("field", field, 2, 2**64),
        ):
            if type(value) is not int or not low <= value <= high:
                raise SyftError(
                    f"{name} of a fixed-precision tensor must be an integer from {low} to {high}, got {value!r}."
                )
        if base**precision_fractional > MAX_SCALE and field > _MAX_RESIDUE_FIELD:
            raise SyftError(
                f"{precision_fractional} digits in base {base} leave no room for products in 62 bits. "
                "Use at most 40 bits (12 decimals)."
            )
        self.field = field
        self.base = base
        self.precision_fractional = precision_fractional
        self.kappa = kappa
        self.decodes_to = dtype

    @property
    def scale(self) -> int:
        """The factor between a value and its integer."""
        return int(self.base**self.precision_fractional)

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit, without the default dtype float32."""
        dtype = {} if self.decodes_to is torch.float32 else {"dtype": self.decodes_to}
        return self.format() | dtype

    def format(self) -> dict[str, Any]:
        """Return the options of `fix_precision` that encode other values in the same way."""
        return {
            "field": self.field,
            "base": self.base,
            "precision_fractional": self.precision_fractional,
            "kappa": self.kappa,
        }

    def tensor_meta(self) -> TensorMeta:
        """Return the shape of the child, and the dtype that values are decoded to."""
        meta = super().tensor_meta()
        return TensorMeta(meta.shape, self.decodes_to, device=meta.device)

    @property
    def data(self) -> FixedPrecisionTensor:
        """This link."""
        return self

    @data.setter
    def data(self, value: object) -> None:
        self.child = below(value)

    def attr(self, attr_name: str) -> Any:
        """Return an attribute of this link."""
        return getattr(self, attr_name)

    @property
    def is_shared(self) -> bool:
        """Whether the integers are shared among workers."""
        return isinstance(self.child, AdditiveSharingTensor)

    def like(self, child: object) -> FixedPrecisionTensor:
        """Return a link of the same format around other integers, modulo its field."""
        child = reduced(child, self.field)
        return FixedPrecisionTensor(**self.get_class_attributes(), owner=self._owner, child=child)

    def fix_precision(self, check_range: bool = True) -> FixedPrecisionTensor:
        """Encode the child, a plain tensor, rounding to the nearest; returns this link."""
        plain = self.child
        self.child = providers.codec.encode(plain, self, check_range)
        self.decodes_to = decoded_dtype(plain)
        return self

    def float_precision(self) -> torch.Tensor:
        """Decode to the dtype of the encoded tensor; shared numbers must be fetched first."""
        if self.is_shared:
            raise SyftError(
                "float_precision() needs local numbers, but these are shared among workers. "
                "Fetch the shares first: x.get().float_precision()."
            )
        decoded: torch.Tensor = providers.codec.decode(reduced(self.child, self.field), self)
        return decoded

    fix_prec = fix_precision
    float_prec = float_precision

    def truncate(self, precision_fractional: int, check_sign: bool = True) -> FixedPrecisionTensor:
        """Divide the integers by base ** precision_fractional, in place, rounding to the nearest.

        Args:
            precision_fractional: the number of digits removed.
            check_sign: ignored, for compatibility; the sign is always right.
        """
        self.child = providers.codec.truncate(self.child, self.base**precision_fractional)
        return self

    def share(
        self, *owners: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId], **kwargs: object
    ) -> FixedPrecisionTensor:
        """Return a link of the same format around shares of the integers; arguments as `tensor.share`."""
        if self.is_shared:
            raise SyftError("This tensor is shared already. Fetch it with .get() to share it again.")
        if self.field < LIMIT:
            raise SyftError(
                f"This tensor has a field of {self.field}, and shares are modulo 2**64: they would not wrap around. "
                "Encode it with the default field: x.fix_precision().share(...)."
            )
        return self.like(providers.codec.share(self.child, owners, **kwargs))

    def share_(
        self, *owners: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId], **kwargs: object
    ) -> FixedPrecisionTensor:
        """Share the integers, in place."""
        self.child = self.share(*owners, **kwargs).child
        return self

    def get(self) -> FixedPrecisionTensor:
        """Fetch the shares; returns a link of the same format around local integers.

        Numbers that are local already, such as a public gradient, are returned unchanged.
        """
        return self.like(self.child.get()) if self.is_shared else self

    def virtual_get(self) -> FixedPrecisionTensor:
        """Return the values without fetching the shares (in-process workers only, for debugging)."""
        return self.like(self.child.virtual_get())

    def refresh(self) -> FixedPrecisionTensor:
        """Split the same values again."""
        if self.is_shared:
            self.child.refresh()
        return self

    def clone(self, *, memory_format: torch.memory_format | None = None) -> FixedPrecisionTensor:
        """Return a copy of this link and of its child, with the same ids."""
        made = self.like(self.child.clone())
        keep_ids(self, made)
        return made

    def _facts(self) -> FactList:
        """Yield what a table shows of this link."""
        yield "precision", f"{self.precision_fractional} digits of base {self.base}"

    def __repr__(self) -> str:
        digits = {2: "bits", 10: "decimals"}.get(self.base, f"digits of base {self.base}")
        below = f">{self.child!r}" if "child" in self.__dict__ else ""
        return f"FixedPrecisionTensor({self.precision_fractional} {digits}){below}"

    def mul_and_div(self, other: object, cmd: str) -> Any:
        """Multiply or divide: `cmd` is "mul" or "div"."""
        if cmd not in ("mul", "div"):
            raise SyftError(f"mul_and_div() needs 'mul' or 'div', got {str(cmd)[:20]!r}.")
        return self.mul(other) if cmd == "mul" else self.div(other)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> FixedPrecisionTensor:
        """Rebuild a link; its child is integers or shares of them."""
        obj_id, tags, description, attributes, child = payload
        check_labels(obj_id, tags, description)
        if type(attributes) is not dict or not set(attributes) <= _ATTRIBUTES:
            raise TypeError("a fixed-precision tensor has a field, a base, a precision, kappa and a dtype")
        whole = type(child) is torch.Tensor and child.dtype is torch.int64 and not child.is_sparse
        if not whole and not isinstance(child, AdditiveSharingTensor):
            raise TypeError("the child of a fixed-precision tensor is integers, or shares of them")
        return cls(id=obj_id, owner=worker, tags=tags, description=description, child=child, **attributes)


_ATTRIBUTES = frozenset({"field", "base", "precision_fractional", "kappa", "dtype"})


give_methods(
    FixedPrecisionTensor,
    "add add_ sub sub_ mul mul_ div pow matmul mm t eq ne gt ge lt le relu sum mean max min argmax argmin neg "
    "inverse exp sigmoid log",
)
