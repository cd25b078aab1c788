"""Programs: a function of encrypted tensors, or a plan called with them, run with one message to each party.

The function is recorded (see `recording`), and its steps are sent to the parties in one message. Later calls with
tensors of the same shapes and formats, and the same public values, replay the recorded steps.

Example:
    >>> import torch
    >>> import syft as sy
    >>> from syft.mpc.program.program import as_program
    >>> hook = sy.TorchHook(torch)
    >>> alice, bob, carol = (sy.VirtualWorker(hook, id=f"program-{name}") for name in ("alice", "bob", "carol"))
    >>> @as_program
    ... def polynomial(x):
    ...     return x * x + 3 * x + 1
    >>> x = torch.tensor([1.0, 2.0]).fix_precision().share(alice, bob, crypto_provider=carol)
    >>> with sy.count_messages() as n:
    ...     y = polynomial(x)
    >>> n.messages
    2
    >>> y.get().float_precision()
    tensor([ 5., 11.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import SCALARS, is_leaf, iter_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.commands import GRADIENT, OPTIMIZER_STEP
from syft.messaging.plan.executor import Compiled, on_links
from syft.messaging.plan.record.module_binding import used_by
from syft.messaging.plan.record.recording import current as current_recorder
from syft.mpc.program.cache import Programs
from syft.mpc.program.compile import NotOneProgramError
from syft.mpc.program.inputs import link_of, sharing_of


def _structure(value: object) -> object:
    """Return a hashable description of arguments without their tensors."""
    if is_leaf(value):
        return "tensor"
    if isinstance(value, tuple | list):
        return (type(value), *map(_structure, value))
    if type(value) is dict:
        return (dict, *[(key, _structure(item)) for key, item in value.items()])
    if type(value) in SCALARS:
        return (type(value), value)
    raise NotOneProgramError("Arguments of other classes may change from call to call.")


class RecordedFunction:
    """A function or a module that runs as a program."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.programs = Programs()
        self._owner = getattr(function, "__self__", function)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function; its operations on shares are sent to each party in one message."""
        modules = self._modules()
        leaves = [leaf for leaf in iter_tensors((args, kwargs)) if isinstance(leaf, torch.Tensor | AbstractTensor)]
        leaves += [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
        leaves += [tensor for _, tensor in used_by(self.function, torch.Tensor)]
        try:
            key: Any = _structure((args, kwargs))
        except NotOneProgramError:
            key = None
        modes = tuple([part.training for module in modules for part in module.modules()])
        return self.programs.run(lambda: self.function(*args, **kwargs), leaves, None if key is None else (key, modes))

    def _modules(self) -> list[torch.nn.Module]:
        if isinstance(self._owner, torch.nn.Module):
            return [self._owner]
        return [module for _, module in used_by(self.function, torch.nn.Module)]

    def __repr__(self) -> str:
        return f"<{getattr(self.function, '__name__', type(self.function).__name__)}, one message to each party>"


def as_program(function: Callable[..., Any], *examples: object) -> Callable[..., Any]:
    """Return a function or a module as one that runs with one message to each party.

    It is recorded at the first call with tensors of new shapes or formats, and replayed after that. It must depend only
    on its arguments, and on the modules and tensors that it names; if public values among these change, it is recorded
    again. If autograd records a call, every operation runs by itself: call it under `torch.no_grad()`.

    Args:
        function: a function of encrypted tensors, or a module.
        *examples: arguments to call it with once, for it to be recorded.
    """
    recorded = RecordedFunction(function)
    if examples:
        with torch.no_grad():
            recorded(*examples)
    return recorded


# --- plans ----------------------------------------------------------------------------------------------------


# Operations with these names compute gradients, which need every operation by itself.
_GRADIENTS = ("backward", "requires_grad", "retain_grad", "autograd", GRADIENT, OPTIMIZER_STEP)


class _Memory:
    """The programs of a compiled plan."""

    def __init__(self, compiled: Compiled) -> None:
        self.programs = Programs()
        names = {operation.cmd_name for operation in compiled.program.operations}
        self.has_gradients = any(part in name for name in names for part in _GRADIENTS)


def run_plan(compiled: Compiled, inputs: Sequence[Any], state: list[Any], optimizers: list[Any]) -> Any:
    """Run a compiled plan: as a program if a tensor is shared, else operation by operation."""
    leaves = [*inputs, *state]
    memory = compiled.memory
    if memory is None:
        memory = compiled.memory = _Memory(compiled)
    if (
        optimizers
        or memory.has_gradients
        or current_recorder() is not None
        or all(sharing_of(leaf) is None for leaf in leaves)
        or any(isinstance(leaf, SyftTensor) and link_of(leaf) is None for leaf in leaves)
    ):
        return compiled.run(inputs, state, optimizers)
    return memory.programs.run(lambda: compiled.run(inputs, state, optimizers), leaves)


on_links[:] = [run_plan]
