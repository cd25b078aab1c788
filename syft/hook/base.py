"""FrameworkHook: the interface of hooks, and the tables of names that they add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from syft.core.dispatch import resolve, run

# Filled by the layers above: the class of the local worker, and the classes whose names are added to torch's.
worker_factory: list[Any] = []
tensor_methods: list[type] = []
module_methods: list[type] = []
# Called with a module and whether its tensors are now encoded or shared.
module_watchers: list[Any] = []
dataset_methods: list[type] = []
optimizer_hooks: list[Any] = []


class FrameworkHook(ABC):
    """The base of hooks."""

    @abstractmethod
    def __init__(self, framework_module: Any, local_worker: Any = None, is_client: bool = True) -> None: ...

    @classmethod
    @abstractmethod
    def create_shape(cls, shape_dims: Any) -> Any:
        """Return the shape of these sizes, as the framework writes it."""

    @classmethod
    @abstractmethod
    def create_wrapper(cls, wrapper_type: object = None, *args: Any, **kwargs: Any) -> Any:
        """Return the outer tensor of a chain."""

    @classmethod
    @abstractmethod
    def create_zeros(cls, *shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """Return a tensor of zeros."""

    # Calls are routed by `__torch_function__`, so these return functions that also accept bare links.

    @staticmethod
    def get_hooked_func(attr: Any) -> Any:
        """Return a function, passed itself or by dotted name, that accepts links, pointers and plain tensors."""
        function = resolve(attr) if isinstance(attr, str) else attr
        return lambda *args, **kwargs: run(function, args, kwargs)

    @classmethod
    def get_hooked_method(cls, method_name: str) -> Any:
        """Return a tensor method that accepts links, pointers and plain tensors."""
        return cls.get_hooked_func(getattr(torch.Tensor, method_name))

    get_hooked_syft_method = get_hooked_method
    get_hooked_pointer_method = get_hooked_method
    get_hooked_multi_pointer_method = get_hooked_method
    get_hooked_additive_shared_method = get_hooked_method
