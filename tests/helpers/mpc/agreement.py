"""Encrypted models beside their float64 proxies: what goes in, what comes out, and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from syft.hook.syft_tensor import SyftTensor

BITS = {"base": 2, "precision_fractional": 16}
DECIMALS = {"base": 10, "precision_fractional": 3}
MIXES = ("data", "model", "both")


def shared(x: Any, parties: list[Any], provider: Any, form: dict[str, int] = BITS, **options: Any) -> Any:
    """Encode and share a tensor or a model."""
    return x.fix_precision(**form).share(*parties, crypto_provider=provider, **options)


def opened(x: Any) -> torch.Tensor:
    """Bring a result together; one that is plain is there already."""
    if not isinstance(x, SyftTensor):
        return x.detach()
    return (x.detach().copy().get() if x.child.is_shared else x.detach()).float_precision()


def leaves(result: Any) -> list[Any]:
    """Return the tensors of a result; None is left out."""
    if result is None or isinstance(result, torch.Tensor):
        return [] if result is None else [result]
    return [leaf for part in result for leaf in leaves(part)]


def total(result: Any) -> Any:
    """Return one number that depends on every element of a result in its own way."""
    parts = [(leaf * torch.linspace(-1, 1, leaf.numel()).view(leaf.shape)).sum() for leaf in leaves(result)]
    return sum(parts[1:], parts[0])


def proxy_of(model: nn.Module) -> nn.Module:
    """Return a copy of a plain model in float64."""
    return copy.deepcopy(model).double()


def check(
    model: nn.Module,
    inputs: list[torch.Tensor],
    cast: Any,
    mix: str = "both",
    count: int = 2,
    form: dict[str, int] = BITS,
    units: float = 60,
    call: Callable[..., Any] | None = None,
    private: list[bool] | None = None,
) -> None:
    """Compare an encrypted model with its proxy: results, and gradients of all inputs and parameters.

    Args:
        model: a plain model; it is encrypted in place.
        inputs: its inputs.
        cast: (parties, provider).
        mix: what is private: "data", "model" or "both".
        count: how many parties there are.
        form: how numbers are encoded.
        units: how many units of the last place a number may be off, times the largest number where that is over 1.
        call: what is called with the model and the inputs; the model itself by default.
        private: which of the inputs are private where data is; all by default.
    """
    parties, provider = cast[0][:count], cast[1]
    call = call or (lambda model, *inputs: model(*inputs))
    proxy, doubles = proxy_of(model), [x.double().requires_grad_() for x in inputs]
    expected = call(proxy, *doubles)
    total(expected).backward()
    if mix != "data":
        shared(model, parties, provider, form).requires_grad_()
    hidden = private or [True] * len(inputs)
    given = [
        shared(x, parties, provider, form, requires_grad=True) if mix != "model" and is_hidden else x.clone()
        for x, is_hidden in zip(inputs, hidden, strict=True)
    ]
    given = [x if isinstance(x, SyftTensor) else x.requires_grad_() for x in given]
    made = call(model, *given)
    total(made).backward()
    unit = form["base"] ** -form["precision_fractional"]
    near("a result", leaves(made), leaves(expected), units * unit)
    near("a gradient of an input", [x.grad for x in given], [x.grad for x in doubles], units * unit)
    names = [name for name, _ in model.named_parameters()]
    for name, mine, theirs in zip(names, model.parameters(), proxy.parameters(), strict=True):
        near(f"the gradient of {name}", [mine.grad], [theirs.grad], units * unit)


def near(what: str, made: list[Any], expected: list[Any], bound: float) -> None:
    """Compare tensors, encrypted or not, with what they should be."""
    assert len(made) == len(expected)
    for mine, theirs in zip(made, expected, strict=True):
        assert (mine is None) == (theirs is None), what
        if mine is None:
            continue
        theirs = theirs.detach()
        assert mine.shape == theirs.shape, what
        off = float((opened(mine).double() - theirs).abs().max()) if theirs.numel() else 0.0
        allowed = bound * max(1.0, float(theirs.abs().max()) if theirs.numel() else 0.0)
        assert off <= allowed, f"{what} is off by {off:.2g}, allowed are {allowed:.2g}"
