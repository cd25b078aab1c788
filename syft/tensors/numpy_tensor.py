"""NumpyTensor: a numpy array behind the names of torch's methods.

Calls run on the arrays, with numpy's rules of types and shapes; results are wrapped again.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> m = sy.NumpyTensor([[1, 2]])
    >>> (m @ m.transpose()).child.child
    array([[5]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from syft.core.dispatch import give_methods, run
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor
from syft.core.trees import map_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook import base
from syft.hook.syft_tensor import SyftTensor
from syft.tensors.torch_names import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syft.workers.base import BaseWorker

    Numbers = Sequence[Any] | np.ndarray[Any, Any]

_Tensor: Any = torch.Tensor


class NumpyTensor(AbstractTensor):
    """A link around a numpy array of numbers.

    Args:
        numpy_tensor: an array, or nested lists of numbers.
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        verbose: ignored, for compatibility.
    """

    priority: ClassVar[int] = 6
    carries_labels: ClassVar[bool] = True

    def __init__(
        self,
        numpy_tensor: Numbers | None = None,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        if numpy_tensor is not None:
            self.child = _array(numpy_tensor)

    def on(self, tensor: object, wrap: bool = True) -> Any:
        """Put this link around an array."""
        self.child = _array(tensor)
        return self.wrap() if wrap else self

    def tensor_meta(self) -> TensorMeta:
        """Return the shape of the array, and the dtype of torch for its numbers."""
        return TensorMeta(torch.Size(self.child.shape), _torch_dtype(self.child))

    @property
    def grad(self) -> None:
        """None: numpy has no gradients."""
        return None

    def clone(self, *, memory_format: torch.memory_format | None = None) -> NumpyTensor:
        """Return a copy of this link and of its array."""
        return NumpyTensor(self.child.copy(), owner=self._owner)

    def transpose(self, *dims: int) -> Any:
        """Exchange two axes; without arguments, reverse all axes."""
        return run(_Tensor.transpose, (self, *dims))

    def get(self) -> NumpyTensor:
        """Return this link: its array is here."""
        return self

    def __repr__(self) -> str:
        return f"NumpyTensor>{self.child!r}" if "child" in self.__dict__ else "NumpyTensor"

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description and the array."""
        return (tensor.id, tensor.tags, tensor.description, tensor.__dict__.get("child"))

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> NumpyTensor:
        """Rebuild an untrusted link."""
        obj_id, tags, description, array = payload
        check_labels(obj_id, tags, description)
        if type(array) is not np.ndarray:
            raise TypeError("the child of a numpy tensor is an array")
        return cls(array, owner=worker, id=obj_id, tags=tags, description=description)


def create_numpy_tensor(numpy_tensor: Numbers) -> Any:
    """Wrap an array, or nested lists of numbers; `sy.NumpyTensor` is this function.

    Args:
        numpy_tensor: the array or lists.
    """
    return NumpyTensor().on(numpy_tensor)


def _array(given: object) -> np.ndarray[Any, Any]:
    """Return numbers as an array."""
    if isinstance(given, torch.Tensor | AbstractTensor) or given is None:
        raise SyftError(
            f"NumpyTensor() needs an array or lists of numbers, got a {type(given).__name__}. "
            "Use x.numpy_tensor() for a plain tensor."
        )
    try:
        array = np.asarray(given)
    except ValueError:
        raise SyftError("NumpyTensor() needs lists of equal lengths.") from None
    _torch_dtype(array)
    return array


def _torch_dtype(array: np.ndarray[Any, Any]) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, dtype=array.dtype.newbyteorder("="))).dtype
    except TypeError:
        raise SyftError(
            f"NumpyTensor() needs numbers that torch has a dtype for, got an array of {array.dtype}. "
            "Convert it first: array.astype(float)."
        ) from None


# --- calls ----------------------------------------------------------------------------------------------------------


def _transpose(array: np.ndarray[Any, Any], *dims: Any, **named: Any) -> Any:
    """Exchange two axes as torch does; without arguments reverse all axes, as numpy does."""
    dims = (*dims, *named.values())
    if not dims:
        return array.transpose()
    if len(dims) != 2:
        raise SyftError(f"transpose() takes two axes or none, got {len(dims)}. Use permute() for others.")
    return array.swapaxes(*dims)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction of numpy with the argument names of torch."""

    def reduce(array: Any, dim: int | list[int] | tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
        return function(array, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)

    return reduce


def _reshape(array: Any, *shape: Any) -> Any:
    return array.reshape(*shape)


def _reversed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda left, right: function(right, left)


# Names of torch -> function of arrays. Numbers of Python are taken as operands too.
_CALLS: dict[str, Callable[..., Any]] = {
    "add __add__ __radd__": np.add,
    "sub subtract __sub__": np.subtract,
    "__rsub__ rsub": _reversed(np.subtract),
    "mul multiply __mul__ __rmul__": np.multiply,
    "div divide true_divide __truediv__": np.true_divide,
    "__rtruediv__": _reversed(np.true_divide),
    "dot mm matmul mv bmm __matmul__": np.dot,
    "__rmatmul__": _reversed(np.dot),
    "neg negative __neg__": np.negative,
    "abs absolute __abs__": np.abs,
    "pow __pow__": np.power,
    "remainder __mod__": np.mod,
    "eq __eq__": np.equal,
    "ne not_equal __ne__": np.not_equal,
    "gt greater __gt__": np.greater,
    "ge greater_equal __ge__": np.greater_equal,
    "lt less __lt__": np.less,
    "le less_equal __le__": np.less_equal,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sum": _reduction(np.sum),
    "mean": _reduction(np.mean),
    "prod": _reduction(np.prod),
    "all": _reduction(np.all),
    "any": _reduction(np.any),
    "transpose swapaxes": _transpose,
    "t": np.transpose,
    "T.__get__": np.transpose,
    "reshape view": _reshape,
    "flatten ravel": np.ravel,
    "squeeze": np.squeeze,
    "__getitem__": lambda array, index: array[index],
    "clone detach data.__get__ contiguous": np.copy,
}
_IN_PLACE = {
    "add_ __iadd__": np.add,
    "sub_ subtract_ __isub__": np.subtract,
    "mul_ multiply_ __imul__": np.multiply,
    "div_ divide_ true_divide_ __itruediv__": np.true_divide,
}
# Calls that give values of Python.
_READS: dict[str, Callable[..., Any]] = {
    "item": lambda array: array.item(),
    "tolist": lambda array: array.tolist(),
    "numpy": lambda array: array.copy(),
    "__bool__": lambda array: bool(array.item()),
    "__float__": lambda array: float(array.item()),
    "__int__": lambda array: int(array.item()),
    "is_leaf.__get__": lambda array: True,
    "equal": lambda left, right: np.array_equal(left, right),
}


def _below(call: str, value: Any) -> Any:
    """Return the array of a link; other tensors are refused."""

    def lower(leaf: object) -> Any:
        if isinstance(leaf, NumpyTensor):
            return leaf.child
        raise UnsupportedOperationError(
            f"{call} with a {type(leaf).__name__}", "NumpyTensor", "Convert the other operand too: y.numpy_tensor()."
        )

    return map_tensors(lower, value)


def _register(names: str, function: Callable[..., Any]) -> None:
    def rule(*args: object, **kwargs: object) -> NumpyTensor:
        lowered, options = _below(names.split()[0], (args, kwargs))
        return NumpyTensor(_run(names.split()[0], function, lowered, options))

    NumpyTensor.implements(*functions(names))(rule)


def _run(call: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except (ValueError, TypeError, IndexError) as error:
        raise SyftError(f"{call} failed on numpy arrays: {error}. Check the shapes and the arguments.") from None


def _register_in_place(names: str, function: Callable[..., Any]) -> None:
    def rule(target: object, *args: object) -> NumpyTensor:
        (array, *others) = _below(names.split()[0], (target, *args))
        if not isinstance(target, NumpyTensor):
            raise UnsupportedOperationError(f"{names.split()[0]} on a plain tensor", "NumpyTensor", "Use x = x + y.")
        result = _run(names.split()[0], function, (array, *others), {})
        if result.shape != array.shape or not np.can_cast(result.dtype, array.dtype, "same_kind"):
            raise SyftError(
                f"{names.split()[0]}() can't change {array.dtype} numbers of shape {array.shape} to {result.dtype} "
                f"numbers of shape {result.shape}. Use the form that is not in place."
            )
        target.child = result.astype(array.dtype)
        return target

    NumpyTensor.implements(*functions(names))(rule)


def _register_read(names: str, function: Callable[..., Any]) -> None:
    def rule(*args: object, **kwargs: object) -> Any:
        lowered, options = _below(names, (args, kwargs))
        return _run(names, function, lowered, options)

    NumpyTensor.implements(*functions(names))(rule)


for _names, _function in _CALLS.items():
    _register(_names, _function)
for _names, _function in _IN_PLACE.items():
    _register_in_place(_names, _function)
for _names, _function in _READS.items():
    _register_read(_names, _function)


@NumpyTensor.implements(_Tensor.__format__)
def _formatted(link: NumpyTensor, spec: str) -> str:
    return format(link.child.item(), spec) if spec else f"(Wrapper)>{link!r}"


@NumpyTensor.implements(_Tensor.__deepcopy__)
def _deepcopy(link: NumpyTensor, memo: dict[int, Any]) -> NumpyTensor:
    return link.clone()


give_methods(NumpyTensor, "add sub mul div dot mm matmul t")


class NumpyMethods:
    """Methods of tensors; the hook adds them to torch.Tensor."""

    def numpy_tensor(self: Any) -> Any:
        """Return the values of this plain tensor as a tensor around a numpy array."""
        if isinstance(self, SyftTensor):
            raise SyftError(
                f"numpy_tensor() needs a plain tensor, and this is a {type(self.child).__name__}. "
                "Fetch or decode it first: x.get() or x.float_precision()."
            )
        if self.dtype is torch.bfloat16 or self.layout is not torch.strided or self.is_quantized:
            raise SyftError(f"numpy has no arrays of {self.dtype}; convert it first: x.float().numpy_tensor().")
        return create_numpy_tensor(self.detach().cpu().numpy().copy())


base.tensor_methods.append(NumpyMethods)
