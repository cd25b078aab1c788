"""In-place changes of the state of a plan, so that modules, attributes and variables keep holding the same tensors."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import SpentPointerError, SyftError
from syft.hook.modules import swapping
from syft.hook.syft_tensor import as_parameter, swap_all

if TYPE_CHECKING:
    from syft.messaging.plan.record.module_binding import ModuleBinding
    from syft.tensors.placeholder import PlaceHolder


def converted(tensor: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a method of a tensor, with its gradient converted too."""
    gradient = tensor.grad
    made = getattr(tensor, method)(*args, **kwargs)
    if gradient is not None:
        with suppress(SpentPointerError):  # it was fetched before
            made.grad = getattr(gradient, method)(*args, **kwargs)
    return made


def become(pairs: list[tuple[PlaceHolder, Any]], binding: ModuleBinding | None) -> None:
    """Let the tensors of placeholders become others in place: all of them, or none.

    Where a graph or a view needs the old values, the modules get the new tensors in place of the old ones.
    """
    with ExitStack() as stack:
        for module in () if binding is None else binding.modules:
            stack.enter_context(swapping(module))
        try:
            swap_all([(placeholder.child, tensor) for placeholder, tensor in pairs])
        except SyftError:
            for placeholder, tensor in pairs:
                old = placeholder.child
                is_parameter = isinstance(old, torch.nn.Parameter) and not isinstance(tensor, torch.nn.Parameter)
                placeholder.child = as_parameter(tensor) if is_parameter else tensor
                if binding is not None:
                    binding.replace(old, placeholder.child)
