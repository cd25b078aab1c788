"""SyftTensor: the one torch.Tensor subclass, with two levels of interception.

It has a true shape, dtype and device and no storage, so no native kernel ever works on an empty tensor. Its
content is in `.child`, the head of a chain of links.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.core import observers
from syft.core.autograd_state import following
from syft.core.dispatch import deciding_link, find_rule, run
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor, Level
from syft.core.trees import SCALARS, map_tensors
from syft.exceptions import SyftError, TensorsNotCollocatedError, UnsupportedOperationError
from syft.hook.composed import COMPOSED
from syft.hook.module_path import describe_place

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

_NoDispatch = torch._C.DisableTorchFunctionSubclass

_make_wrapper_subclass: Any = torch.Tensor._make_wrapper_subclass
_swap_tensors: Any = torch.utils.swap_tensors
_Tensor: Any = torch.Tensor
_ATEN_OPERATIONS: Any = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
# Metadata that the outer tensor itself has, whatever the chain is.
METADATA = frozenset(
    [getattr(_Tensor, name).__get__ for name in (
        "shape", "dtype", "device", "layout", "requires_grad", "ndim", "itemsize", "nbytes", "is_cuda", "is_cpu",
        "is_sparse", "is_sparse_csr", "is_quantized", "is_meta", "is_mkldnn", "is_mps", "is_xpu", "is_nested",
        "is_vulkan", "is_xla", "is_mtia", "is_maia", "is_ipu", "volatile",
    ) if hasattr(_Tensor, name)]
    + [_Tensor.dim, _Tensor.ndimension, _Tensor.size, _Tensor.numel, _Tensor.nelement, _Tensor.element_size,
       _Tensor.is_floating_point, _Tensor.is_complex, _Tensor.is_signed, _Tensor.__len__,
       _Tensor.get_device, _Tensor.is_inference, _Tensor.is_distributed,
       torch.is_floating_point, torch.is_complex, torch.is_signed, torch.numel, torch.get_device,
       torch.is_inference, torch.is_distributed, _Tensor.__hash__]
)  # fmt: skip


class SyftTensor(torch.Tensor):
    """A torch tensor whose content is the chain below it.

    Args:
        child: the head of the chain.
        requires_grad: whether autograd follows it; what the chain says by default.
    """

    child: AbstractTensor

    @staticmethod
    def __new__(cls, child: AbstractTensor, requires_grad: bool | None = None) -> SyftTensor:
        """Make the shell with the metadata of the chain."""
        return make_shell(child, child.tensor_meta().requires_grad if requires_grad is None else requires_grad)

    def __init__(self, child: AbstractTensor, requires_grad: bool | None = None) -> None:
        """Nothing is left to do: everything happens in __new__."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Send the user's call to the API-level links among its arguments, or on to autograd."""
        if func in METADATA:
            with _NoDispatch():
                return func(*args, **(kwargs or {}))
        shells: dict[int, SyftTensor] = {}
        link, inner_args = _unwrap_flat(args, shells)
        if link is not None and (not kwargs or all(type(value) in SCALARS for value in kwargs.values())):
            kwargs = inner_kwargs = kwargs or {}
        else:
            kwargs = kwargs or {}
            inner_args, inner_kwargs = _unwrap_nested((args, kwargs), shells)
            link = deciding_link(inner_args, inner_kwargs)
        if link is None or link.level is not Level.API:
            if func in COMPOSED:
                return COMPOSED[func](*args, **kwargs)
            # Some calls never reach the level below: torch reads the values itself. A link may have a rule for them.
            rule = None if link is None or isinstance(func, _ATEN_OPERATIONS) else find_rule(type(link), func)
            if rule is not None:
                result = rule(*inner_args, **inner_kwargs)
                return map_tensors(lambda leaf: _shell_of(leaf, shells), result)
            with _NoDispatch():
                return func(*args, **kwargs)
        result = type(link).handle(func, inner_args, inner_kwargs)
        for shell in shells.values():
            if shell.child.reshaped:
                refresh(shell)
        if isinstance(result, AbstractTensor):
            return _shell_of(result, shells)
        if result is None or type(result) in SCALARS:
            return result
        return map_tensors(lambda leaf: _shell_of(leaf, shells), result)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one ATen operation, below autograd, on ATen-level links."""
        shells: dict[int, SyftTensor] = {}
        inner_args, inner_kwargs = _unwrap_nested((args, kwargs or {}), shells)
        link = deciding_link(inner_args, inner_kwargs)
        if link is None or link.level is not Level.ATEN:
            raise UnsupportedOperationError(str(func), type(link).__name__)
        try:
            with following(shells.values()):
                if observers.state.watchers:
                    run_aten = functools.partial(_run_aten, type(link), func, inner_args, inner_kwargs)
                    result = observers.run_watched(func, inner_args, inner_kwargs, run_aten)
                else:
                    result = _run_aten(type(link), func, inner_args, inner_kwargs)
        except UnsupportedOperationError as error:
            error.note_place(describe_place())
            raise
        return map_tensors(lambda leaf: _shell_of(leaf, shells), result)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"(Wrapper)>{self.child!r}"

    def __str__(self) -> str:
        return f"(Wrapper)>{self.child!s}"

    @property
    def grad(self) -> Any:
        """The gradient: a pointer to it, for a remote tensor. Read often by optimizers, so it takes the short way."""
        return self.child.grad_of(self)

    @grad.setter
    def grad(self, value: object) -> None:
        self.child.set_grad_of(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.child.set_grad_of(self, None)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Give the values to numpy, if the worker that holds them lets them go."""
        array = self.detach().numpy()
        return array if dtype is None else array.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: object, **kwargs: object) -> Any:
        """Refuse numpy's arithmetic: it works on arrays that are here."""
        places = [
            f"argument {i} is in {value!r}" if isinstance(value, SyftTensor) else f"argument {i} is a local array"
            for i, value in enumerate(inputs)
        ]
        if self.child.level is Level.ATEN:
            raise UnsupportedOperationError(
                f"numpy.{ufunc.__name__}", "encrypted tensors", "Make a tensor of the array: torch.from_numpy(array)."
            )
        hint = "Send the array too, torch.from_numpy(array).send(worker), or fetch the tensor first with .get()."
        raise TensorsNotCollocatedError(f"numpy.{ufunc.__name__}", places, hint)

    def __format__(self, spec: str) -> str:
        """Show what this is; values that are encrypted are not here to be formatted."""
        if self.child.level is not Level.ATEN:
            return str(_Tensor.__format__(self, spec))
        if spec:
            raise TypeError("The values of this tensor are encrypted, so they can't be formatted; use .get() first.")
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse what is encrypted; calls on what is elsewhere are refused there."""
        if self.child.level is not Level.ATEN:
            return _Tensor.__reduce_ex__(self, protocol)
        raise SyftError(
            "An encrypted tensor can't be pickled or saved with torch.save. "
            "Fetch it first with .get(), or write it with sy.serialize(x) for another worker."
        )

    def __copy__(self) -> SyftTensor:
        """Return a second shell around the same chain."""
        return make_shell(self.child, self.requires_grad)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *self.__dict__})

    def set_(self, *args: object, **kwargs: object) -> Any:
        """Take the place of another tensor (torch itself does not let this call be seen)."""
        return SyftTensor.__torch_function__(torch.Tensor.set_, (SyftTensor,), (self, *args), kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy where the data is; a parameter stays one."""
        if id(self) not in memo:
            memo[id(self)] = copied = _Tensor.__deepcopy__(self, memo)
            if self.__dict__.get("_is_param"):
                copied._is_param = True
        return memo[id(self)]

    def _repr_html_(self) -> str:
        from syft.display import chain_html

        return chain_html(self)

    @staticmethod
    def simplify(worker: AbstractWorker, tensor: SyftTensor) -> tuple[Any, ...]:
        """Return the chain and what the shell adds to it."""
        own = tensor.__dict__
        return (
            tensor.child,
            tensor.requires_grad,
            bool(own.get("_is_param", False)),
            own.get("_syft_id"),
            own.get("_syft_tags"),
            own.get("_syft_description"),
        )

    @staticmethod
    def detail(worker: AbstractWorker, payload: tuple[Any, ...]) -> SyftTensor:
        """Rebuild the shell around its chain."""
        child, requires_grad, is_param, obj_id, tags, description = payload
        if type(child) in (torch.Tensor, torch.nn.Parameter):
            return child  # type: ignore[no-any-return]  # a pointer that came home is the object itself
        if not isinstance(child, AbstractTensor):
            raise TypeError("a chain begins with a link")
        check_labels(obj_id, tags, description)
        shell = SyftTensor(child, bool(requires_grad))
        if is_param:
            shell._is_param = True
        for name, value in (("_syft_id", obj_id), ("_syft_tags", tags), ("_syft_description", description)):
            if value is not None:
                shell.__dict__[name] = value
        return shell


def make_shell(child: AbstractTensor, requires_grad: bool) -> SyftTensor:
    """Make a shell with the metadata of a chain."""
    meta = child.tensor_meta()
    shell: SyftTensor = _make_wrapper_subclass(
        SyftTensor, meta.shape, dtype=meta.dtype, device=meta.device, requires_grad=requires_grad
    )
    shell.child = child
    return shell


def _unwrap_flat(args: tuple[Any, ...], shells: dict[int, SyftTensor]) -> tuple[Any, Any]:
    """Unwrap arguments without containers, the common case; returns the deciding link and the arguments.

    Arguments are None if there is anything that needs the full walk.
    """
    link = None
    rank = -1
    inner = []
    for arg in args:
        kind = type(arg)
        if kind is SyftTensor:
            child = arg.child
            shells[id(child)] = arg
            inner.append(child)
            child_rank = child.priority if child.level is Level.API else child.priority - 1000
            if link is None or child_rank > rank:
                link, rank = child, child_rank
        elif kind in SCALARS or kind is torch.Tensor:
            inner.append(arg)
        else:
            return None, None
    return link, tuple(inner)


def _unwrap_nested(value: object, shells: dict[int, SyftTensor]) -> Any:
    """Unwrap nested arguments, noting which shell each link came in."""

    def unwrap(leaf: object) -> Any:
        if isinstance(leaf, SyftTensor):
            shells[id(leaf.child)] = leaf
            return leaf.child
        return leaf

    return map_tensors(unwrap, value)


def _shell_of(leaf: object, shells: dict[int, SyftTensor]) -> Any:
    """Return the shell of a link: its own if it came with the call, else a new one."""
    if not isinstance(leaf, AbstractTensor):
        return leaf
    shell = shells.get(id(leaf))
    if shell is None:
        return make_shell(leaf, leaf.tensor_meta().requires_grad)
    return shell


def refresh(shell: SyftTensor) -> None:
    """Bring the metadata of a shell up to date after its chain changed shape, dtype or requires_grad in place."""
    shell.child.reshaped = False
    fresh = SyftTensor(shell.child)
    fresh.__dict__.update(shell.__dict__)
    _swap_tensors(shell, fresh)


def swap_all(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Let several tensors become others in place: all of them, or none."""
    done: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        for target, source in pairs:
            done.append((target, swap(target, source)))
    except RuntimeError as error:
        for target, source in reversed(done):
            _swap_tensors(target, source)
        raise SyftError(
            "A parameter can't change in place while something else holds on to it: a result of the model whose graph "
            "is still there, a view of it (p.T, p.view(...)), or a weak reference. Nothing was changed; delete that "
            "(or compute it under torch.no_grad()) and try again."
        ) from error


def as_parameter(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a parameter, with its gradient."""
    if isinstance(tensor, SyftTensor):
        tensor._is_param = True
        return tensor
    parameter = torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    parameter.grad = tensor.grad
    return parameter


def _are_encrypted(target: object, source: object) -> bool:
    """Say whether two tensors are shells of the same form around links below autograd: then only the links differ."""
    return (
        isinstance(target, SyftTensor)
        and isinstance(source, SyftTensor)
        and target.child.level is source.child.level is Level.ATEN
        and (target.shape, target.dtype) == (source.shape, source.dtype)
    )


def _exchange(target: Any, source: Any) -> Any:
    """Exchange the links of two shells, with their gradients; that works while a graph holds on to the shells."""
    grads, follow = (target.grad, source.grad), (target.requires_grad, source.requires_grad)
    target.child, source.child = source.child, target.child
    source.grad, target.grad = grads
    if follow[0] is not follow[1] and target.is_leaf:
        source.requires_grad_(follow[0])
        target.requires_grad_(follow[1])
    return source


def swap(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Let a tensor object become another one in place: variables, modules and optimizers keep pointing at it.

    Returns the object that now is what the target was.
    """
    if _are_encrypted(target, source):
        return _exchange(target, source)  # type: ignore[no-any-return]
    if isinstance(target, torch.nn.Parameter) and not isinstance(source, torch.nn.Parameter):
        source = as_parameter(source)
    _swap_tensors(target, source)
    return source


def _run_aten(cls: type[AbstractTensor], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Find the rule of an ATen operation: its own, its packet's, or that of its functional form."""
    rule = find_rule(cls, func) or find_rule(cls, func.overloadpacket)
    if rule is not None:
        return rule(*args, **kwargs)
    if func in _AUTOGRAD_PLUMBING:
        return cls(**args[0].get_class_attributes()).on(run(func, (args[0].child, *args[1:]), kwargs), wrap=False)
    name = func.overloadpacket.__name__
    if func._schema.is_mutable and name.endswith("_") and not name.endswith("__"):
        functional = getattr(getattr(torch.ops.aten, name[:-1]), func._overloadname)
        result = _run_aten(cls, functional, args, kwargs)
        ours = isinstance(result, AbstractTensor) and isinstance(args[0], AbstractTensor)
        if not ours or result.tensor_meta().shape != args[0].tensor_meta().shape:
            raise UnsupportedOperationError(str(func), cls.__name__, "Use the form that is not in place.")
        args[0].child = result.child
        return args[0]
    return type(args[0]).handle(func, args, kwargs) if isinstance(args[0], cls) else cls.handle(func, args, kwargs)


# What autograd itself does to a tensor without computing anything.
_AUTOGRAD_PLUMBING = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})

providers.wrapper = SyftTensor
