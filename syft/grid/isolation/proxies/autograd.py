"""Gradients of proxies: backward passes, `torch.autograd.grad`, and the attributes and calls about gradients.

Three cases are not detected here and fail, or differ, in the vault: a second backward pass through a freed graph,
sparse gradients, and gradients that need no graph of their own although `create_graph` is set.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import torch

from syft.exceptions import GetNotPermittedError, SyftError
from syft.grid.isolation.proxies.effects import ProxyCall, ProxyResult
from syft.grid.isolation.proxies.objects import (
    AutogradNode,
    Proxy,
    connected,
    gradient_spec,
    retain,
    size_in_bytes,
    spec_of,
    tensor_proxy,
    walk,
)
from syft.grid.isolation.proxies.refusals import not_plain

Handler = Callable[[ProxyCall], ProxyResult]
_GRAD = "torch.autograd.grad"
_SIGNATURES = {
    "torch.Tensor.backward": inspect.signature(torch.Tensor.backward),
    "torch.autograd.backward": inspect.signature(torch.autograd.backward),
    _GRAD: inspect.signature(torch.autograd.grad),
}


class ProxyPass:
    """A backward pass over proxies."""

    def __init__(self, call: ProxyCall) -> None:
        self.call = call
        self.name = call.operation.cmd_name
        given = _SIGNATURES[self.name].bind(*call.args, **call.kwargs).arguments
        self.roots = _several(given.get("self", given.get("tensors", given.get("outputs"))))
        self.seeds = _several(given.get("gradient", given.get("grad_tensors", given.get("grad_outputs"))))
        self.inputs = _several(given.get("inputs"))
        self.has_inputs = given.get("inputs") is not None
        self.makes_graph = bool(given.get("create_graph"))
        self.fills = bool(given.get("materialize_grads"))
        self.may_miss = self.fills or bool(given.get("allow_unused"))
        if given.get("is_grads_batched"):
            raise GetNotPermittedError(f"{self.name} does not take is_grads_batched on private data.")
        self._check()
        self.leaves, self.nodes = walk(self.roots)

    def _node(self) -> AutogradNode | None:
        """Return the node of a new gradient; None if it has no graph."""
        if not self.makes_graph:
            return None
        sources = [one.source for one in (*self.roots, *self.seeds) if isinstance(one, Proxy)]
        return AutogradNode(tuple([source for source in sources if source is not None]))

    def _check(self) -> None:
        """Raise the errors that torch raises for these shapes and flags."""
        for root in self.roots:
            if isinstance(root, torch.Tensor):
                raise SyftError(
                    f"{self.name} can't run through graphs inside and outside of the vault at once. "
                    "Call it once for each graph."
                )
        if not all(isinstance(one, Proxy | torch.Tensor) for one in (*self.roots, *self.inputs)):
            raise TypeError(f"{self.name} takes tensors.")
        seeds = [*self.seeds, *[None] * (len(self.roots) - len(self.seeds))]
        for number, (root, seed) in enumerate(zip(self.roots, seeds, strict=False)):
            if not root.requires_grad:
                raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
            if seed is None and root.shape.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if seed is not None and seed.shape != root.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {seed.shape} and output[{number}] has a "
                    f"shape of {root.shape}."
                )
        if self.has_inputs and not self.inputs:
            raise RuntimeError(f"{self.name}: `inputs` cannot be empty.")
        if not all(one.requires_grad for one in self.inputs):
            raise RuntimeError("One of the differentiated Tensors does not require grad")

    def _is_reached(self, proxy: Proxy | torch.Tensor) -> bool:
        return proxy.source in self.nodes or proxy in self.leaves if isinstance(proxy, Proxy) else False

    def accumulate(self) -> ProxyResult:
        """Add gradients to the leaves, or to the named inputs, and to results that retain theirs."""
        owners = (node.owner() for node in self.nodes if node.owner is not None)
        targets = {owner for owner in owners if owner is not None and owner.retains_grad}
        targets |= {one for one in self.inputs if self._is_reached(one)} if self.has_inputs else self.leaves
        for proxy in targets:
            self.call.give_gradient(proxy, self._node())
        return self.call.done()

    def gradients(self) -> ProxyResult:
        """Return proxies of the gradients."""
        return self.call.done(tuple([self._gradient(one) for one in self.inputs]))

    def _gradient(self, one: Proxy | torch.Tensor) -> Proxy | None:
        if one is self.roots[0] and len(self.roots) == 1 and self.seeds:
            seed = self.seeds[0]  # the gradient of a tensor with respect to itself is the seed
            return self.call.add(seed if isinstance(seed, Proxy) else tensor_proxy(seed))
        if not self._is_reached(one):
            if not self.may_miss:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
            if not self.fills:
                return None
        own = one.spec if isinstance(one, Proxy) else spec_of(one)
        if own is None:
            raise not_plain(self.name)
        spec = gradient_spec(own)
        self.call.size += size_in_bytes(spec)
        node = self._node() if self._is_reached(one) else None
        return self.call.add(Proxy(spec if node is None else connected(spec), node))


def _several(value: object) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


# --- attributes -------------------------------------------------------------------------------------------------


def _get_grad(call: ProxyCall) -> ProxyResult:
    grad = call.args[0].grad
    return call.done(None if grad is None else call.add(grad), has_effect=grad is not None)


def _assign(call: ProxyCall, change: Callable[[Any, object], None]) -> ProxyResult:
    """Assign to an attribute. Its tensors share memory afterwards, so those outside of the vault must move there."""
    found = [call.move(one, True) for one in call.args if isinstance(one, torch.Tensor)]
    moves = tuple(move for move in found if move is not None)
    if moves:
        return ProxyResult(moves=moves)
    change(*[tensor_proxy(one) if isinstance(one, torch.Tensor) else one for one in call.args])
    return call.done()


def _set_grad(target: Proxy, value: object) -> None:
    if value is None:
        target.grad = None
        return
    if not isinstance(value, Proxy):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is target:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.dtype != target.dtype:
        raise RuntimeError(f"assigned grad has data of a different type: {value.dtype}, not {target.dtype}")
    if value.shape != target.shape:
        raise RuntimeError(f"assigned grad has data of a different size: {value.shape}, not {target.shape}")
    target.grad = value


def data_of(proxy: Proxy) -> Proxy:
    """Return a proxy of the same tensor without its graph."""
    spec = proxy.spec
    if spec.requires_grad or not spec.is_leaf:
        spec = dataclasses.replace(spec, requires_grad=False, is_leaf=True)
    found = Proxy(spec)
    found.origin = proxy.origin
    return found


def _set_data(target: Proxy, value: object) -> None:
    if not isinstance(value, Proxy):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if target.requires_grad and not (value.dtype.is_floating_point or value.dtype.is_complex):
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    target.spec = dataclasses.replace(value.spec, requires_grad=target.requires_grad, is_leaf=target.is_leaf)


def _retain_grad(call: ProxyCall) -> ProxyResult:
    proxy = call.args[0]
    if not proxy.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not proxy.is_leaf:
        retain(proxy)
    return call.done()


def _detach_in_place(call: ProxyCall) -> ProxyResult:
    proxy = call.args[0]
    if proxy.root is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    proxy.node, proxy.retains_grad = None, False
    proxy.spec = data_of(proxy).spec
    return call.done(call.existing(proxy))


HANDLERS: dict[str, Handler] = {
    "torch.Tensor.backward": lambda call: ProxyPass(call).accumulate(),
    "torch.autograd.backward": lambda call: ProxyPass(call).accumulate(),
    _GRAD: lambda call: ProxyPass(call).gradients(),
    "torch.Tensor.grad.__get__": _get_grad,
    "torch.Tensor.grad.__set__": lambda call: _assign(call, _set_grad),
    "torch.Tensor.data.__get__": lambda call: call.done(call.add(data_of(call.args[0]))),
    "torch.Tensor.data.__set__": lambda call: _assign(call, _set_data),
    "torch.Tensor.retain_grad": _retain_grad,
    "torch.Tensor.detach_": _detach_in_place,
    "torch.detach_": _detach_in_place,
    "torch.Tensor.is_leaf.__get__": lambda call: call.done(call.args[0].is_leaf, has_effect=False),
    "torch.Tensor.retains_grad.__get__": lambda call: call.done(call.args[0].retains_grad, has_effect=False),
}
