"""Plans on shares: a built plan with encrypted arguments or shared state runs as a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.commands import GRADIENT, OPTIMIZER_STEP
from syft.messaging.plan.executor import Compiled, on_links
from syft.messaging.plan.record.recording import current as current_recorder
from syft.mpc.program.cache import Programs
from syft.mpc.program.inputs import link_of, sharing_of

# Operations with these names compute gradients, which need every operation by itself.
_GRADIENTS = ("backward", "requires_grad", "retain_grad", "autograd", GRADIENT, OPTIMIZER_STEP)


class _Memory:
    """The programs of a compiled plan."""

    def __init__(self, compiled: Compiled) -> None:
        self.programs = Programs()
        names = {operation.cmd_name for operation in compiled.program.operations}
        self.has_gradients = any(part in name for name in names for part in _GRADIENTS)


def run(compiled: Compiled, inputs: Sequence[Any], state: list[Any], optimizers: list[Any]) -> Any:
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


on_links[:] = [run]
