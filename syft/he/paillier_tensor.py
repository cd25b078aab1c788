"""PaillierTensor: a tensor of Paillier ciphertexts.

Anyone with the public key can add, move elements, and multiply by plain numbers; only the holder of the private key can
decrypt. The rules for torch calls are in `syft.he.rules`.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> public_key, private_key = sy.keygen(n_length=1024)
    >>> x = torch.tensor([1, 2]).encrypt(public_key)
    >>> (x + x - 1).decrypt(private_key)
    tensor([1, 3])
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.dispatch import find_rule, function_name, give_methods
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, Level
from syft.core.trees import iter_tensors
from syft.display.facts import FactList
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.he import ciphertexts as c
from syft.he.encoding import objects
from syft.he.modular import arithmetic
from syft.he.paillier import modulus_from_bytes, modulus_of
from syft.tensors.views import Viewable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker

HINT = (
    "Paillier ciphertexts can be added, moved, and multiplied by plain numbers. "
    "For other calls decrypt first: x.decrypt(private_key)."
)
MAX_DIMS = 64


def refuse_gradient(value: object, call: str) -> None:
    """Refuse a plain tensor whose gradient would be lost: none flow back through ciphertexts."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise UnsupportedOperationError(
            f"{call} with a tensor that requires a gradient",
            "PaillierTensor",
            "Gradients don't flow through ciphertexts: use x.detach(), or torch.no_grad() for a model.",
        )


class PaillierTensor(Viewable):
    """A link whose child is ciphertexts.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: ciphertexts; or a plain tensor for `encrypt_` to encrypt.
    """

    level: ClassVar[Level] = Level.API
    priority: ClassVar[int] = 6
    numpy_operators: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "matmul": operator.matmul,
    }

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: object = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)

    @property
    def ciphertexts(self) -> c.Ciphertexts:
        """The ciphertexts; raises if they are not encrypted yet."""
        child = self.child
        if not isinstance(child, c.Ciphertexts):
            raise SyftError("This tensor is not encrypted yet. Call encrypt(public_key) first.")
        return child

    @property
    def public_key(self) -> Any:
        """The public key, an object of phe."""
        return self.ciphertexts.key.public_key

    def tensor_meta(self) -> TensorMeta:
        """Return the shape, and the dtype of the decrypted tensor."""
        child = self.child
        if not isinstance(child, c.Ciphertexts):
            return TensorMeta(child.shape, child.dtype)
        return TensorMeta(child.shape, torch.int64 if child.whole else torch.get_default_dtype())

    def like(self, child: c.Ciphertexts) -> PaillierTensor:
        """Return a link around other ciphertexts."""
        return PaillierTensor(owner=self._owner, child=child)

    def clone(self, *, memory_format: torch.memory_format | None = None) -> PaillierTensor:
        """Return a copy of this link; ciphertexts never change, so they are not copied."""
        return self.like(self.child)

    def memory(self) -> dict[int, int]:
        """Return the memory of the ciphertexts: address, and bytes at it."""
        x = self.ciphertexts
        return {id(x): x.values.size * x.key.width}

    def encrypt(self, public_key: Any) -> PaillierTensor:
        """Return a link around the encrypted child, a plain tensor."""
        return self.clone().encrypt_(public_key)

    def encrypt_(self, public_key: Any) -> PaillierTensor:
        """Encrypt the child, a plain tensor, in place; returns this link."""
        if isinstance(self.child, c.Ciphertexts):
            raise SyftError("This tensor is encrypted already. Paillier ciphertexts can't be encrypted again.")
        self.child = c.encrypt(modulus_of(public_key), self.child)
        return self

    def decrypt(self, private_key: Any) -> torch.Tensor:
        """Decrypt to a plain tensor."""
        return c.decrypt(self.ciphertexts, private_key)

    def write(self, result: c.Ciphertexts, call: str) -> PaillierTensor:
        """Replace the ciphertexts by the result of an in-place call, as torch allows it."""
        old = self.ciphertexts
        if result.shape != old.shape:
            raise SyftError(
                f"{call} in place can't change the shape {tuple(old.shape)} to {tuple(result.shape)}. "
                "Use the form that is not in place."
            )
        if old.whole and not result.whole:
            raise SyftError(
                f"{call} in place can't write fractions to a tensor of whole numbers. "
                "Use the form that is not in place, or encrypt floating-point numbers."
            )
        self.child = result if result.whole == old.whole else c.as_fractions(result)
        return self

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a torch call by its rule, or refuse it."""
        rule = find_rule(cls, function)
        if rule is None:
            raise UnsupportedOperationError(function_name(function), cls.__name__, HINT)
        if torch.is_grad_enabled():
            for leaf in iter_tensors((args, kwargs)):
                refuse_gradient(leaf, function_name(function))
        return rule(*args, **kwargs)

    def _facts(self) -> FactList:
        """Yield what a table shows of this link."""
        child = self.__dict__.get("child")
        yield "public key", child.key if isinstance(child, c.Ciphertexts) else "not encrypted yet"

    def __repr__(self) -> str:
        child = self.__dict__.get("child")
        if not isinstance(child, c.Ciphertexts):
            return "PaillierTensor, not encrypted yet"
        meta = self.tensor_meta()
        return f"PaillierTensor[{tuple(meta.shape)}, {meta.dtype}; {child.key}]"

    __str__ = __repr__

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, labels, key, shape, scale, bound, kind and ciphertexts; results are randomised first."""
        link: Any = tensor
        x = c.randomised(link.ciphertexts)
        link.__dict__["child"] = x
        width = x.key.width
        written = b"".join([int(value).to_bytes(width, "big") for value in x.flat()])
        bound = x.bound.to_bytes((x.bound.bit_length() + 7) // 8, "big")
        key, shape = x.key.to_bytes(), tuple(x.shape)
        return (link.id, link.tags, link.description, key, shape, x.scale, bound, x.whole, written)

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> PaillierTensor:
        """Rebuild an untrusted link."""
        obj_id, tags, description, n, shape, scale, bound, whole, written = payload
        check_labels(obj_id, tags, description)
        key = modulus_from_bytes(n)
        if type(shape) is not tuple or len(shape) > MAX_DIMS or not all(type(d) is int and d >= 0 for d in shape):
            raise TypeError("a Paillier tensor has a shape")
        if math.prod(max(1, d) for d in shape) > c.MAX_ELEMENTS:
            raise TypeError(f"a Paillier tensor has at most {c.MAX_ELEMENTS} elements")
        if type(whole) is not bool or type(scale) is not int or not 0 <= scale <= (0 if whole else key.bits):
            raise TypeError("a Paillier tensor has a scale that fits into its key")
        if not isinstance(bound, bytes | memoryview) or len(bound) > key.width:
            raise TypeError("a Paillier tensor has a bound")
        limit = int.from_bytes(bound, "big")
        if not 0 < limit <= key.limit:
            raise TypeError("the bound of a Paillier tensor fits into its key")
        values = _ciphertexts_from(written, key.width, shape, int(key.square))
        child = c.Ciphertexts(key, objects(values, shape), scale, limit, whole, fresh=True)
        return cls(id=obj_id, owner=worker, tags=tags, description=description, child=child)


def _ciphertexts_from(written: object, width: int, shape: tuple[int, ...], square: int) -> list[Any]:
    """Read ciphertexts of a fixed width; there are as many as the shape says."""
    count = math.prod(shape)
    if not isinstance(written, bytes | memoryview) or len(written) != count * width:
        raise TypeError("a Paillier tensor has one ciphertext for each element")
    read = [int.from_bytes(written[start : start + width], "big") for start in range(0, count * width, width)]
    if not all(0 < value < square for value in read):
        raise TypeError("a ciphertext is a number below the square of its key")
    number = arithmetic().number
    return [number(value) for value in read]


give_methods(PaillierTensor, "add add_ sub sub_ mul mul_ div matmul mm t neg sum mean")
