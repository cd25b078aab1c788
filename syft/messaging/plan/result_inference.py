"""ResultInference: what a call of a plan will return, known before it runs, so that nobody has to wait for the answer.

Worked out once for each form of arguments, on torch's fake tensors, and remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.messaging.message import Operation
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.dry_run import interpret, quiet
from syft.messaging.plan.program import Program

# How many forms of arguments are remembered, and how long a program may be for this to pay.
_MOST, _LONGEST = 256, 2000


class ResultInference:
    """What calls of one program return, by the forms of their arguments.

    Args:
        name: the name of the plan.
        program: what it does.
    """

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.program = program
        self.known: dict[Any, Any] = {}
        # As it is sent: what becomes of the state here later is not what the worker has.
        self.state = [TensorMeta.of_copy(placeholder.child) for placeholder in program.state]

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the metadata of what a call returns, in its containers; None if only the worker can tell.

        Arguments that the plan does not take raise here, before anything is sent.
        """
        given_args, given_kwargs = map_tensors(_stand_in, (args, kwargs))
        inputs = match(self.name, self.program.arguments, given_args, given_kwargs)
        key = (torch.is_grad_enabled(), *[(t.shape, t.dtype, t.requires_grad) for t in inputs])
        if key in (known := self.known):
            return known[key]
        found = self._work_out(inputs)
        self.known = {**(known if len(known) < _MOST else {}), key: found}  # another one: other threads may look
        return found

    def _work_out(self, inputs: list[torch.Tensor]) -> Any:
        if len(self.program.operations) > _LONGEST:
            return None
        from torch._subclasses.fake_tensor import FakeTensorMode

        ambient = torch.is_grad_enabled()
        try:
            with quiet(), FakeTensorMode(), torch.set_grad_enabled(ambient):
                state, fakes = [_empty(meta) for meta in self.state], [_empty(tensor) for tensor in inputs]
                result = interpret(self.program, fakes, state, _lookup(ambient))
        except Exception:
            return None  # shapes that depend on values, or a mistake, which the worker will explain
        leaves = list(iter_tensors(result))
        itself = {id(tensor) for tensor in (*fakes, *state)}
        if not leaves or not _only_tensors(result) or any(id(leaf) in itself for leaf in leaves):
            return None
        return map_tensors(lambda t: TensorMeta(torch.Size(t.shape), t.dtype, t.requires_grad), result)


def _empty(form: Any) -> torch.Tensor:
    return torch.zeros(form.shape, dtype=form.dtype).requires_grad_(form.requires_grad)


def _lookup(ambient: bool) -> Callable[[Operation], Callable[..., Any] | None]:
    def set_mode(mode: bool | None) -> None:
        torch._C._set_grad_enabled(ambient if mode is None else mode)

    def find(operation: Operation) -> Callable[..., Any] | None:
        if operation.cmd_name == OPTIMIZER_STEP:
            return None  # it changes no shape
        return set_mode if operation.cmd_name == GRAD_MODE else function_for(operation.cmd_name)

    return find


def _stand_in(leaf: object) -> Any:
    """Return a tensor without memory that has the form of a local or remote one."""
    if isinstance(leaf, AbstractTensor):
        meta = leaf.tensor_meta()
        return torch.empty(meta.shape, dtype=meta.dtype, device="meta").requires_grad_(meta.requires_grad)
    return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") if isinstance(leaf, torch.Tensor) else leaf


def _only_tensors(result: object) -> bool:
    if isinstance(result, dict):
        return all(map(_only_tensors, result.values()))
    if isinstance(result, tuple | list):
        return all(map(_only_tensors, result))
    return isinstance(result, torch.Tensor)
