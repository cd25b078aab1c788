"""TorchHook: adds send, get, move, ... to torch, and removes them again.

It only adds: tensor methods and properties, methods of Module and a step hook of optimizers, `torch.native_*`
aliases, and keyword arguments of `torch.tensor`. Plain tensors stay plain, and as fast as before.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch as _torch

from syft import _uncaught
from syft.core.context import set_default_worker
from syft.core.id_provider import ObjectId
from syft.core.labels import OWNER, set_id
from syft.exceptions import SyftError
from syft.hook import _installed, base, places
from syft.hook.allowed_functions import overridable
from syft.hook.args import default_register_tensor
from syft.hook.attributes import TorchAttributes
from syft.hook.base import FrameworkHook
from syft.hook.optimizers import follow_parameters
from syft.hook.patches import OfModule, Patches
from syft.hook.syft_tensor import SyftTensor

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


# The local worker that a hook made: the next hook uses it again. Two would be two clients, whose messages to one worker
# have no common order.
_made: list[Any] = []


def _default_local_worker(hook: TorchHook, is_client: bool) -> Any:
    """Return the local worker of an earlier hook, or make one."""
    if not _made or _made[0].is_client_worker is not is_client:
        _made[:] = [base.worker_factory[0](hook, "me", is_client_worker=is_client)]
    return _made[0]


class TorchHook(FrameworkHook):
    """Adds the methods for remote computation to torch.

    A second hook is the first one again: torch is hooked once, and there is one local worker. It is the same worker
    after `unhook()`: pointers and workers of before continue to work with it.

    Args:
        torch: the torch module.
        local_worker: the worker that code acts for; by default a VirtualWorker `me` is made.
        is_client: whether that worker only sends and never stores.
        verbose: kept from earlier releases.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> hook.local_worker.id
        'me'
    """

    torch: Any
    local_worker: Any
    attributes: TorchAttributes
    _patches: Patches

    def __init__(
        self,
        torch: ModuleType = _torch,
        local_worker: BaseWorker | None = None,
        is_client: bool = True,
        verbose: bool = True,
    ) -> None:
        if torch != _torch:  # `sy.torch` is equal to it
            raise SyftError("TorchHook takes the torch module: sy.TorchHook(torch).")
        if _installed:
            self.__dict__ = _installed[0].__dict__
            return
        self.torch = _torch
        self._patches = Patches()
        self._handles: list[Any] = []
        self.local_worker = None
        self.local_worker = local_worker or _default_local_worker(self, is_client)
        self.local_worker.hook = self
        self.attributes = TorchAttributes(_torch, self)
        self._hook_everything()
        _installed.append(self)
        set_default_worker(self.local_worker)

    def _hook_everything(self) -> None:
        try:
            for methods in base.tensor_methods:
                self._hook_native_tensor(_torch.Tensor, methods)
            self._hook_tensor()
            self._hook_torch_module()
            self._hook_module()
            self._hook_optim()
            self._hook_dataset()
            self._patches.add(_torch, "torch_hooked", True)
            self._undo_suggestions = _uncaught.install()
        except BaseException:  # an interrupt too
            self._patches.undo()
            raise

    def unhook(self) -> None:
        """Remove all added names: torch is as before. Workers and pointers stay."""
        if not _installed or _installed[0].__dict__ is not self.__dict__:
            return
        _installed.clear()
        self._patches.undo()
        self._undo_suggestions()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        set_default_worker(None)

    remove = unhook

    @classmethod
    def create_shape(cls, shape_dims: Any) -> _torch.Size:
        """Make a shape from a list of numbers."""
        return _torch.Size(shape_dims)

    @classmethod
    def create_wrapper(cls, wrapper_type: object = None, *args: Any, **kwargs: Any) -> Any:
        """Make the outer tensor of a link, or an empty tensor without a link."""
        if args:
            return SyftTensor(*args, **kwargs)
        return _torch.Tensor()

    @classmethod
    def create_zeros(cls, *shape: Any, dtype: Any = None, **kwargs: Any) -> _torch.Tensor:
        """Make a tensor of zeros."""
        return _torch.zeros(*shape, dtype=dtype, **kwargs)

    def _hook_native_tensor(self, tensor_type: type, syft_type: type) -> None:
        """Add the methods and properties of `syft_type` to the tensor class."""
        self._transfer_methods_to_native_tensor(tensor_type, syft_type, self._patches)
        self.__hook_properties(tensor_type, syft_type)

    def __hook_properties(self, tensor_type: type, syft_type: type | None = None) -> None:
        """Add the properties of `syft_type` to the tensor class."""
        for name, value in _public([syft_type or base.tensor_methods[0]]):
            if not callable(value) and not isinstance(value, classmethod):
                self._patches.add(tensor_type, name, value)

    @classmethod
    def _transfer_methods_to_native_tensor(
        cls, tensor_type: type, syft_type: type, patches: Patches | None = None
    ) -> None:
        """Add the methods of `syft_type` to the tensor class."""
        patches = patches if patches is not None else Patches()
        for name, value in _public([syft_type]):
            if callable(value) or isinstance(value, classmethod):
                patches.add(tensor_type, name, value)

    def _hook_syft_tensor_methods(self, syft_type: type) -> None:
        """Register a new kind of link; links accept every tensor method."""
        default_register_tensor(syft_type)

    _hook_private_tensor_methods = _hook_syft_tensor_methods
    _hook_additive_shared_tensor_methods = _hook_syft_tensor_methods

    def _hook_worker_methods(self) -> list[str]:
        """Return the names of the tensor constructors at `worker.remote.torch`."""
        return list(self.attributes.worker_methods)

    def _get_hooked_base_worker_method(self, attr: str) -> Any:
        """Return a function `(worker, *args)` that makes a tensor directly at a worker."""
        return lambda worker, *args, **kwargs: getattr(worker.remote.torch, attr)(*args, **kwargs)

    def _hook_parameters(self) -> type:
        """Return Parameter, which accepts chains as it is."""
        return _torch.nn.Parameter

    def _hook_torch_module(self) -> None:
        """Add a `native_` alias of every function; the functions themselves stay unchanged."""
        targets = {
            "torch": _torch,
            "torch.nn.functional": _torch.nn.functional,
            "torch.Tensor": _torch.Tensor,
        }
        for name in overridable():
            head, _, short = name.rpartition(".")
            target = targets.get(head)
            native = f"native_{short}"
            if target is not None and not short.startswith("__") and native not in target.__dict__:
                self._patches.add(target, native, getattr(target, short))

    @classmethod
    def _get_hooked_func(cls, public_module_name: str, func_api_name: str, attr: object) -> Any:
        """Return a torch function that accepts links, pointers and plain tensors."""
        return cls.get_hooked_func(attr)

    def _hook_tensor(self) -> None:
        """Add the arguments `owner`, `id` and `register` to `torch.tensor`."""
        native = _torch.tensor
        self._patches.add(_torch, "native_tensor", native)

        @functools.wraps(native)
        def tensor(
            *args: Any, owner: Any = None, id: ObjectId | None = None, register: bool = True, **kwargs: Any
        ) -> _torch.Tensor:
            made = native(*args, **kwargs)
            if id is not None:
                set_id(made, id)
            if owner is not None:
                made.__dict__[OWNER] = owner
                if register:
                    owner.register_obj(made)
            return made

        self._patches.add(_torch, "tensor", tensor, replace=True)

    def _hook_module(self) -> None:
        """Add send, get, move, copy, ... to Module."""
        for name, value in _public(base.module_methods):
            self._patches.add(_torch.nn.Module, name, OfModule(name, value))
        for target, name, shown in places.patches():
            self._patches.add(target, name, shown, replace=name == "__repr__")

    def _hook_optim(self) -> None:
        """Keep the state of optimizers where their parameters are."""
        self._patches.add(_torch.optim.Optimizer, "follow_parameters", follow_parameters)
        for register in base.optimizer_hooks:
            self._handles.append(register())

    def _hook_dataset(self) -> None:
        """Add federate to Dataset."""
        for name, value in _public(base.dataset_methods):
            self._patches.add(_torch.utils.data.Dataset, name, value)

    def __repr__(self) -> str:
        return f"<TorchHook of torch {_torch.__version__}, local worker {self.local_worker.id!r}>"


def _public(classes: list[type]) -> list[tuple[str, Any]]:
    """Return the public names of some classes, and their values."""
    return [(name, value) for cls in classes for name, value in vars(cls).items() if not name.startswith("_")]


def make_hook(namespace: dict[str, Any] | None = None) -> TorchHook:
    """Make the TorchHook, as later 0.2 releases do: `sy.make_hook(globals())` sets the variable `hook`.

    Args:
        namespace: the variables that `hook` is added to.
    """
    hook = TorchHook(_torch)
    if namespace is not None:
        namespace["hook"] = hook
    return hook
