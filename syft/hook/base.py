"""FrameworkHook: what a hook of any framework offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from syft.core.dispatch import run
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors

# Filled by the layers above: who makes the local worker, and what is added to torch's classes.
worker_factory: list[Any] = []
tensor_methods: list[type] = []
module_methods: list[type] = []
# Told of a module whose tensors were encoded or shared (True), or decoded or fetched (False).
module_watchers: list[Any] = []
dataset_methods: list[type] = []
optimizer_methods: list[type] = []
optimizer_hooks: list[Any] = []


class FrameworkHook(ABC):
    """The base of hooks.

    Args:
        framework_module: the framework.
        local_worker: the worker that code acts for.
        is_client: whether it only sends.
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
        """Make the outer shell of a chain."""

    @classmethod
    @abstractmethod
    def create_zeros(cls, *shape: object, dtype: object = None, **kwargs: object) -> Any:
        """Make a tensor of zeros."""

    # Calls are routed by `__torch_function__`, so these give back routers that also take bare links.

    @staticmethod
    def get_hooked_func(attr: Any) -> Any:
        """Return a function (given itself or by dotted name) that takes links, pointers and plain tensors."""
        from syft.core.dispatch import resolve

        function = resolve(attr) if isinstance(attr, str) else attr
        return lambda *args, **kwargs: _routed(function, args, kwargs)

    @classmethod
    def get_hooked_method(cls, method_name: str) -> Any:
        """Return a tensor method that takes links, pointers and plain tensors."""
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
