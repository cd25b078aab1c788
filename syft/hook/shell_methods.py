"""ShellMethods: the methods that SyftTensor has instead of torch.Tensor's: forms of 0.2, and Python's protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syft._suggestions import missing_attribute
from syft.core.old_forms import check_options, current_form
from syft.core.providers import providers
from syft.core.tensor import Level, keep_ids
from syft.exceptions import SyftError, TensorsNotCollocatedError, UnsupportedOperationError
from syft.hook.autograd_mark import KEY as MARK

_Tensor: Any = torch.Tensor


class ShellMethods:
    """Methods of SyftTensor that need nothing but the chain."""

    def backward(
        self: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        """Compute gradients; without an argument the gradient of a local or encrypted result starts with ones.

        Args:
            gradient: the gradient of this tensor; required for a remote tensor of several elements without an
                AutogradTensor.
            retain_graph: as for torch.
            create_graph: as for torch.
            inputs: as for torch.
        """
        own = self.__dict__
        if own["child"].level is Level.ATEN and not self.is_floating_point():
            raise SyftError(
                f"backward() needs an encoded tensor, but this one holds {self.dtype} numbers, which have no gradient. "
                "Encode it before sharing: x.fix_precision().share(..., requires_grad=True)."
            )
        followed = MARK in own or own["child"].level is Level.ATEN or own["child"].on_shells
        if gradient is None and followed and self.numel() != 1:
            gradient = torch.ones_like(self)
        _Tensor.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def clone(self: Any, *, memory_format: torch.memory_format | None = None) -> Any:
        """Return a copy with the same ids, at the worker that holds the data; `copy()` gives new ids."""
        made = _Tensor.clone(self) if memory_format is None else _Tensor.clone(self, memory_format=memory_format)
        if type(made) is type(self):
            keep_ids(self.__dict__["child"], made.__dict__["child"])
            if MARK in self.__dict__:
                made.__dict__[MARK] = self.__dict__[MARK].copy(keep_id=True)
        return made

    def sigmoid(self: Any, method: str | None = None) -> Any:
        """Return the sigmoid of each element; `method` is checked and ignored, as the result is at least as exact."""
        check_options("sigmoid", {"method": method})
        return _Tensor.sigmoid(self)

    def tanh(self: Any, method: str | None = None) -> Any:
        """Return the hyperbolic tangent of each element; `method` is as for `sigmoid`."""
        check_options("tanh", {"method": method})
        return _Tensor.tanh(self)

    def reciprocal(self: Any, method: str | None = None, nr_iters: int | None = None) -> Any:
        """Return the reciprocal of each element; the options are as for `sigmoid`."""
        check_options("reciprocal", {"method": method, "nr_iters": nr_iters})
        return _Tensor.reciprocal(self)

    def exp(self: Any, iterations: int | None = None) -> Any:
        """Return the exponential of each element; `iterations` is checked and ignored."""
        check_options("exp", {"iterations": iterations})
        return _Tensor.exp(self)

    def log(self: Any, iterations: int | None = None, exp_iterations: int | None = None) -> Any:
        """Return the natural logarithm of each element; the options are checked and ignored."""
        check_options("log", {"iterations": iterations, "exp_iterations": exp_iterations})
        return _Tensor.log(self)

    def inverse(self: Any, iterations: int | None = None) -> Any:
        """Return the inverse matrix; `iterations` is checked and ignored."""
        check_options("inverse", {"iterations": iterations})
        return _Tensor.inverse(self)

    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Add as torch does; `x.add(factor, t)` with a one-element factor is x + factor * t."""
        args, kwargs = current_form("add", args, kwargs)
        return _Tensor.add(self, *args, **kwargs)

    def add_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Add in place; two arguments as for `add`."""
        args, kwargs = current_form("add_", args, kwargs)
        return _Tensor.add_(self, *args, **kwargs)

    def sub(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Subtract as torch does; `x.sub(factor, t)` with a one-element factor is x - factor * t."""
        args, kwargs = current_form("sub", args, kwargs)
        return _Tensor.sub(self, *args, **kwargs)

    def sub_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Subtract in place; two arguments as for `sub`."""
        args, kwargs = current_form("sub_", args, kwargs)
        return _Tensor.sub_(self, *args, **kwargs)

    def transpose(self: Any, *dims: Any, **named: Any) -> Any:
        """Exchange two dimensions; without arguments, which torch itself refuses, the link decides."""
        if dims or named or self.__dict__["child"].level is Level.ATEN:
            return _Tensor.transpose(self, *dims, **named)
        return type(self).__torch_function__(torch.Tensor.transpose, (type(self),), (self,), {})

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        """Give the values to numpy, if the worker that holds them lets them go."""
        array = self.detach().numpy()
        return array if dtype is None else array.astype(dtype)

    def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: object, **kwargs: object) -> Any:
        """Refuse numpy's arithmetic, which works on arrays that are here; a link may have operators for it."""
        operator = self.__dict__["child"].numpy_operators.get(ufunc.__name__)
        if operator is not None and method == "__call__" and not kwargs:
            return operator(*[torch.as_tensor(v) if isinstance(v, np.generic | np.ndarray) else v for v in inputs])
        places = [
            f"argument {i} is in {value!r}"
            if isinstance(value, providers.wrapper)
            else f"argument {i} is a local array"
            for i, value in enumerate(inputs)
        ]
        if self.__dict__["child"].level is Level.ATEN:
            raise UnsupportedOperationError(
                f"numpy.{ufunc.__name__}", "encrypted tensors", "Make a tensor of the array: torch.from_numpy(array)."
            )
        hint = "Send the array too, torch.from_numpy(array).send(worker), or fetch the tensor first with .get()."
        raise TensorsNotCollocatedError(f"numpy.{ufunc.__name__}", places, hint)

    def __format__(self: Any, spec: str) -> str:
        """Show what this is; values that are encrypted are not here to be formatted."""
        if self.__dict__["child"].level is not Level.ATEN:
            return str(_Tensor.__format__(self, spec))
        if spec:
            raise TypeError("The values of this tensor are encrypted, so they can't be formatted; use .get() first.")
        return repr(self)

    def __reduce_ex__(self: Any, protocol: object) -> Any:
        """Refuse what is encrypted; calls on what is elsewhere are refused there."""
        if self.__dict__["child"].level is not Level.ATEN:
            return _Tensor.__reduce_ex__(self, protocol)
        raise SyftError(
            "An encrypted tensor can't be pickled or saved with torch.save. "
            "Fetch it first with .get(), or write it with sy.serialize(x) for another worker."
        )

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name):
            return missing_attribute(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *self.__dict__})

    def _repr_html_(self) -> str:
        from syft.display import chain_html

        return chain_html(self)
