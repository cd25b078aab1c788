"""Pass: a backward pass over restricted values. Who gets gradients, and what is said, depends on graphs alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch

from syft.workers.losing import give_gradients
from syft.workers.outlines import leaves_of, nodes_of

_GRAD = "torch.autograd.grad"
_SIGNATURES = {
    "torch.Tensor.backward": inspect.signature(torch.Tensor.backward),
    "torch.autograd.backward": inspect.signature(torch.autograd.backward),
    _GRAD: inspect.signature(torch.autograd.grad),
}


class Pass:
    """One of the three calls that make gradients.

    Args:
        name: the wire name of the call.
        args: its arguments as they are here.
        kwargs: its keyword arguments.
    """

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = name
        bound = _SIGNATURES[name].bind(*args, **kwargs)
        given = bound.arguments
        self.roots = _several(given.get("self", given.get("tensors", given.get("outputs"))))
        self.seeds = _several(given.get("gradient", given.get("grad_tensors", given.get("grad_outputs"))))
        self.inputs = _several(given.get("inputs"))
        self.makes_graph = bool(given.get("create_graph"))
        self._fills = bool(given.get("materialize_grads"))
        self._may_miss = self._fills or bool(given.get("allow_unused"))

    def check(self) -> None:
        """Raise what torch would raise of shapes and graphs; whatever it raises beyond that may be due to values."""
        if not all(isinstance(tensor, torch.Tensor) for tensor in (*self.roots, *self.inputs)):
            raise TypeError(f"{self.name} takes tensors.")
        seeds = [*self.seeds, *[None] * (len(self.roots) - len(self.seeds))]
        for number, (root, seed) in enumerate(zip(self.roots, seeds, strict=False)):
            if not root.requires_grad:
                raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
            if seed is None and root.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if isinstance(seed, torch.Tensor) and seed.shape != root.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {seed.shape} and output[{number}] has a "
                    f"shape of {root.shape}."
                )
        if self.name == _GRAD and not self._may_miss and not all(map(self._is_used, self.inputs)):
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                "if this is the desired behavior."
            )

    def _is_used(self, tensor: torch.Tensor) -> bool:
        if tensor.grad_fn is not None:
            return tensor.grad_fn in nodes_of(self.roots)
        return any(leaf is tensor for leaf in leaves_of(self.roots))

    def evened_out(self, result: Any) -> Any:
        """Return gradients whose elements lie in memory as those of their tensors do, whatever made them."""
        if self.name != _GRAD or not isinstance(result, tuple):
            return result
        return tuple(
            grad if grad is None or self.makes_graph else torch.zeros_like(tensor).copy_(grad)
            for tensor, grad in zip(self.inputs, result, strict=True)
        )

    def lose(self, retained: Iterable[torch.Tensor]) -> Any:
        """Do as if the pass had not failed: zeros are the gradients of all that would have one.

        Args:
            retained: results that keep their gradients, of this graph or of others.
        """
        if self.name == _GRAD:
            found = [torch.zeros_like(one) if self._fills or self._is_used(one) else None for one in self.inputs]
            return tuple(found)
        nodes = nodes_of(self.roots)
        give_gradients(one for one in retained if one.grad_fn in nodes)
        give_gradients(self.inputs or leaves_of(self.roots))
        return None


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
