"""FrameworkHook: the interface of hooks, and the tables of names that they add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from syft.core.dispatch import run
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors

# Filled by the layers above: the class of the local worker, and the classes whose names are added to torch's.
worker_factory: list[Any] = []
tensor_methods: list[type] = []
module_methods: list[type] = []
# Called with a module and whether its tensors are now encoded or shared.
module_watchers: list[Any] = []
dataset_methods: list[type] = []
optimizer_methods: list[type] = []
optimizer_hooks: list[Any] = []


class FrameworkHook(ABC):
    """The base of hooks.

    Args:
        framework_module: the framework.
        local_worker: the worker that code acts for.
        is_client: whether the local worker only sends.
    """

    @abstractmethod
    def __init__(self, framework_module: Any, local_worker: Any = None, is_client: bool = True) -> None: ...

    @classmethod
    @abstractmethod
    def create_shape(cls, shape_dims: object) -> Any:
        """Make a shape."""

    @classmethod
    @abstractmethod
    def create_wrapper(cls, wrapper_type: object, *args: object, **kwargs: object) -> Any:
        """Make the outer tensor of a chain."""

    @classmethod
    @abstractmethod
    def create_zeros(cls, *shape: object, dtype: object = None, **kwargs: object) -> Any:
        """Make a tensor of zeros."""

    # Calls are routed by `__torch_function__`, so these return functions that also accept bare links.

    @staticmethod
    def get_hooked_func(attr: Any) -> Any:
        """Return a function, passed itself or by dotted name, that accepts links, pointers and plain tensors."""
        from syft.core.dispatch import resolve

        function = resolve(attr) if isinstance(attr, str) else attr
        return lambda *args, **kwargs: _routed(function, args, kwargs)

    @classmethod
    def get_hooked_method(cls, method_name: str) -> Any:
        """Return a tensor method that accepts links, pointers and plain tensors."""
        return cls.get_hooked_func(getattr(torch.Tensor, method_name))

    get_hooked_syft_method = get_hooked_method
    get_hooked_pointer_method = get_hooked_method
    get_hooked_multi_pointer_method = get_hooked_method
    get_hooked_additive_shared_method = get_hooked_method


def _routed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call whose arguments may be bare links: links in, links out; otherwise as torch does."""
    if any(isinstance(leaf, AbstractTensor) for leaf in iter_tensors((args, kwargs))):
        return run(function, args, kwargs)
    return function(*args, **kwargs)
