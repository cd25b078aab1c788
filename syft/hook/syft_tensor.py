"""SyftTensor: the one torch.Tensor subclass, with two levels of interception.

It has a true shape, dtype and device and no storage, so no native kernel ever works on an empty tensor. Its
content is in `.child`, the head of a chain of links.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.core import observers
from syft.core.autograd_state import following
from syft.core.dispatch import deciding_link, find_rule, run
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor, Level
from syft.core.trees import SCALARS, iter_tensors, map_tensors
from syft.core.wide_int import WideInt
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook.autograd_mark import KEY as MARK
from syft.hook.autograd_mark import ZERO_GRADIENT, AutogradMark, carry_marks, make_zero_gradient, mark
from syft.hook.composed import COMPOSED
from syft.hook.module_path import describe_place
from syft.hook.shell_methods import ShellMethods
from syft.hook.swapping import swap_objects

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker

_NoDispatch = torch._C.DisableTorchFunctionSubclass

_make_wrapper_subclass: Any = torch.Tensor._make_wrapper_subclass
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


class SyftTensor(ShellMethods, torch.Tensor):
    """A torch tensor whose content is the chain below it.

    Args:
        child: the head of the chain.
        requires_grad: whether autograd follows it; what the chain says by default.
    """

    @staticmethod
    def __new__(cls, child: AbstractTensor, requires_grad: bool | None = None) -> SyftTensor:
        """Make the shell with the metadata of the chain."""
        if child.on_shells:
            return child.wrap() if requires_grad is None else child.wrap(requires_grad=requires_grad)  # type: ignore[no-any-return]
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
            if any(type(arg) is WideInt for arg in args):
                return WideInt.__torch_function__(func, types, args, kwargs)
            inner_args, inner_kwargs = _unwrap_nested((args, kwargs), shells)
            link = deciding_link(inner_args, inner_kwargs)
        if link is not None and link.on_shells:
            return type(link).handle_shells(func, args, kwargs)
        if link is None or link.level is not Level.API:
            if func in COMPOSED:
                return COMPOSED[func](*args, **kwargs)
            # Some calls never reach the level below: torch reads the values itself. A link may have a rule for them.
            rule = None if link is None or isinstance(func, _ATEN_OPERATIONS) else find_rule(type(link), func)
            if rule is not None:
                return _shells_around(rule(*inner_args, **inner_kwargs), shells)
            if any(isinstance(leaf, AbstractTensor) for leaf in iter_tensors((args, kwargs))):
                return func(*map_tensors(_wrapped, args), **map_tensors(_wrapped, kwargs))
            with _NoDispatch():
                return func(*args, **kwargs)
        result = type(link).handle(func, inner_args, inner_kwargs)
        for shell in shells.values():
            if shell.__dict__["child"].reshaped:
                refresh(shell)
        return result if result is None or type(result) in SCALARS else _shells_around(result, shells)

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
        return _shells_around(result, shells)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"(Wrapper)>{self.child!r}"

    def __str__(self) -> str:
        return f"(Wrapper)>{self.child!s}"

    @property
    def child(self) -> AbstractTensor:
        """The head of the chain; on a marked tensor an AutogradTensor, which shows the chain below it."""
        own = self.__dict__
        return providers.autograd_view(self) if MARK in own else own["child"]  # type: ignore[no-any-return]

    @child.setter
    def child(self, link: AbstractTensor) -> None:
        self.__dict__["child"] = link

    @property
    def grad(self) -> Any:
        """The gradient: a pointer to it, for a remote tensor. Read often by optimizers, so it takes the short way."""
        own = self.__dict__
        found = own["child"].grad_of(self)
        if found is None:
            if ZERO_GRADIENT not in own:
                return None
            return make_zero_gradient(self, sys._getframe(1).f_globals.get("__name__", ""))
        return _marked_gradient(found) if MARK in own else found

    @grad.setter
    def grad(self, value: object) -> None:
        self.__dict__["child"].set_grad_of(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.__dict__["child"].set_grad_of(self, None)

    def __copy__(self) -> SyftTensor:
        """Return a second shell around the same chain."""
        return carry_marks(self, make_shell(self.__dict__["child"], self.requires_grad))  # type: ignore[no-any-return]

    def set_(self, *args: object, **kwargs: object) -> Any:
        """Take the place of another tensor (torch itself does not let this call be seen)."""
        return SyftTensor.__torch_function__(torch.Tensor.set_, (SyftTensor,), (self, *args), kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy where the data is; a parameter stays one."""
        if id(self) not in memo:
            memo[id(self)] = copied = _Tensor.__deepcopy__(self, memo)
            if self.__dict__.get("_is_param"):
                copied._is_param = True
            if ZERO_GRADIENT in self.__dict__:
                copied.__dict__[ZERO_GRADIENT] = True
        return memo[id(self)]

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
    shell.__dict__["child"] = child
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
            child = arg.__dict__["child"]
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
            link = leaf.__dict__["child"]
            shells[id(link)] = leaf
            return link
        return leaf

    return map_tensors(unwrap, value)


def _shells_around(result: object, shells: dict[int, SyftTensor]) -> Any:
    """Put the links of a result in shells, which are marked if an argument is; gradients are not."""
    for shell in shells.values():  # faster than any(): this is on the path of every call
        if MARK in shell.__dict__ and torch._C._current_graph_task_id() == -1:
            break
    else:
        if isinstance(result, AbstractTensor):
            return _shell_of(result, shells)
        return map_tensors(lambda leaf: _shell_of(leaf, shells), result)

    def around(leaf: object) -> Any:
        shell = _shell_of(leaf, shells)
        return mark(shell) if shell is not leaf and shells.get(id(leaf)) is not shell else shell

    return map_tensors(around, result)


def _marked_gradient(gradient: Any) -> Any:
    """Return the gradient of a marked tensor, marked; a remote one in a shell of its own, as others share its shell."""
    if type(gradient) is SyftTensor:
        link = gradient.__dict__["child"]
        shell = make_shell(link, False) if link.level is Level.API else gradient
        return mark(shell, AutogradMark(is_gradient=True))
    return gradient


def _wrapped(leaf: object) -> Any:
    return leaf.wrap() if isinstance(leaf, AbstractTensor) else leaf


def _shell_of(leaf: object, shells: dict[int, SyftTensor]) -> Any:
    """Return the shell of a link: its own if it came with the call, else a new one."""
    if not isinstance(leaf, AbstractTensor):
        return leaf
    shell = shells.get(id(leaf))
    if shell is None:
        if leaf.on_shells:
            return leaf.wrap()
        return make_shell(leaf, leaf.tensor_meta().requires_grad)
    return shell


def refresh(shell: SyftTensor) -> None:
    """Bring the metadata of a shell up to date after its chain changed shape, dtype or requires_grad in place."""
    link = shell.__dict__["child"]
    link.reshaped = False
    fresh = make_shell(link, link.tensor_meta().requires_grad)
    fresh.__dict__.update(shell.__dict__)
    swap_objects(shell, fresh)


def swap_all(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Let several tensors become others in place: all of them, or none."""
    done: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        for target, source in pairs:
            done.append((target, swap(target, source)))
    except RuntimeError as error:
        for target, source in reversed(done):
            swap_objects(target, source)
        raise SyftError(
            "A parameter can't change in place while a weak reference to it exists. Nothing was changed; delete the "
            "reference and try again."
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
        and target.__dict__["child"].level is source.__dict__["child"].level is Level.ATEN
        and (target.shape, target.dtype) == (source.shape, source.dtype)
    )


def _exchange(target: Any, source: Any) -> Any:
    """Exchange the links of two shells, with their gradients; that works while a graph holds on to the shells."""
    grads, follow = (target.grad, source.grad), (target.requires_grad, source.requires_grad)
    for key in ("child", MARK):
        pair = target.__dict__.pop(key, None), source.__dict__.pop(key, None)
        for own, value in zip((source.__dict__, target.__dict__), pair, strict=True):
            if value is not None:
                own[key] = value
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
    swap_objects(target, source)
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
