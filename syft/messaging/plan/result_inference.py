"""ResultInference: the metadata of the results of a plan, known before it runs, so that the client need not wait."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.messaging.plan.arguments import match
from syft.messaging.plan.interpreter import MAX_OPERATIONS, empty, fake_tensors, interpret, shape_functions
from syft.messaging.plan.program import Program

MAX_CACHED = 256


class ResultInference:
    """Infers the results of calls of one program; cached by the shapes and dtypes of their arguments."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.program = program
        self.cache: dict[Any, Any] = {}
        # As it is sent: later changes of the local state do not reach the worker.
        self.state = [TensorMeta.of_copy(placeholder.child) for placeholder in program.state]

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the metadata of the results of a call, in their containers; None if it depends on values.

        Invalid arguments raise here, before anything is sent.
        """
        meta_args, meta_kwargs = map_tensors(_on_meta, (args, kwargs))
        inputs = match(self.name, self.program.arguments, meta_args, meta_kwargs)
        key = (torch.is_grad_enabled(), *[(t.shape, t.dtype, t.requires_grad) for t in inputs])
        if key in (cache := self.cache):
            return cache[key]
        found = self._infer(inputs)
        self.cache = {**(cache if len(cache) < MAX_CACHED else {}), key: found}  # replaced: other threads may read it
        return found

    def _infer(self, inputs: list[torch.Tensor]) -> Any:
        if len(self.program.operations) > MAX_OPERATIONS:
            return None
        grad_enabled = torch.is_grad_enabled()
        try:
            with fake_tensors(grad_enabled):
                state, fakes = [empty(meta) for meta in self.state], [empty(tensor) for tensor in inputs]
                result = interpret(self.program, fakes, state, shape_functions(grad_enabled))
        except Exception:
            return None  # shapes that depend on values, or an error, which the worker will report
        leaves = list(iter_tensors(result))
        operands = {id(tensor) for tensor in (*fakes, *state)}
        if not leaves or not _only_tensors(result) or any(id(leaf) in operands for leaf in leaves):
            return None
        return map_tensors(lambda t: TensorMeta(torch.Size(t.shape), t.dtype, t.requires_grad), result)


def _on_meta(leaf: object) -> Any:
    """Return a tensor on the meta device with the shape and dtype of a local or remote one."""
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
