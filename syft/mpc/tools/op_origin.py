"""OriginTracker: the user's call and the module that an ATen operation belongs to.

An operation of a backward pass belongs to the call and the module of the forward pass: autograd numbers its nodes, and
the tracker records the origin of each number in the forward pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import optimizer as optimizers
from torch.overrides import TorchFunctionMode

from syft.core.dispatch import OPERATORS, function_name
from syft.hook.module_path import module_place
from syft.hook.syft_tensor import METADATA
from syft.mpc.values.ring_ops import Operation

_INDEXING = {"__getitem__": "x[...]", "__setitem__": "x[...] = y"}


@dataclasses.dataclass(frozen=True, slots=True)
class OpOrigin:
    """The origin of an operation.

    Attributes:
        operation: its name at the ATen level, such as "addmm".
        call: the user's call, such as "linear"; empty if unknown.
        module: the module, as `name (Class)`; empty outside of one.
        backward: whether it belongs to a gradient.
    """

    operation: str
    call: str = ""
    module: str = ""
    backward: bool = False

    @property
    def name(self) -> str:
        """The display name."""
        if self.backward:
            return f"gradient of {self.call}" if self.call else f"{self.operation}, in backward"
        return self.call or self.operation


def name_of(function: Callable[..., Any]) -> str:
    """Return the short name of a torch function; operators have their symbol."""
    last = function_name(function).rpartition(".")[2]
    return _INDEXING.get(last) or OPERATORS.get(last, last)


class _Calls(TorchFunctionMode):
    """Records the torch function that the user called; torch disables the mode for calls inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a call with its name recorded."""
        if func in METADATA or getattr(func, "__name__", "") in ("__get__", "__set__", "backward"):
            return func(*args, **(kwargs or {}))
        self.names.append(name_of(func))
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.names.pop()


class OriginTracker:
    """Tracks the origins of operations in this thread, inside a `with` block."""

    def __init__(self) -> None:
        self._calls = _Calls()
        self._steps: list[str] = []
        self._nodes: dict[int, OpOrigin] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> OriginTracker:
        for hook in (
            optimizers.register_optimizer_step_pre_hook(self._enter_step),
            optimizers.register_optimizer_step_post_hook(lambda *args: self._steps.clear()),
        ):
            self._stack.callback(hook.remove)
        self._stack.enter_context(self._calls)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _enter_step(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        self._steps.append(f"{type(optimizer).__name__}.step")

    def _module(self) -> str:
        """Return the module that runs, or the step of an optimizer."""
        path, module = module_place() or ("", None)
        if module is None:
            return self._steps[-1] if self._steps else ""
        kind = type(module).__name__
        return f"{path} ({kind})" if path else kind

    def here(self, function: Operation) -> OpOrigin:
        """Return the origin of the operation that is about to run."""
        operation = function.overloadpacket.__name__
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            forward = self._nodes.get(node._sequence_nr())
            known = forward or OpOrigin("")
            return OpOrigin(operation, known.call or known.operation, known.module, True)
        origin = OpOrigin(operation, self._calls.names[-1] if self._calls.names else "", self._module())
        if torch.is_grad_enabled():
            # The node is created just before its operation runs; later operations without a node are ignored.
            self._nodes.setdefault(torch._C._autograd._get_sequence_nr() - 1, origin)
        return origin
