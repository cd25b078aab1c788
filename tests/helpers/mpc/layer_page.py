"""The part of docs/reference/operations.md about layers: what they cost there and back, measured."""

from __future__ import annotations

from typing import Any

import torch

from syft.mpc.runtime import cost_meter
from tests.helpers.mpc.layers import LAYERS, module_of
from tests.helpers.mpc.rows import encrypted

HEAD = """
## Layers

Unchanged modules of torch.nn, here with private weights on private data. A public model on private data, or a private
model on public data, costs less. Results, gradients and running statistics are compared with float64 in both bases. The
first pair of rounds and bytes is for the forward pass, the second pair for the backward pass, which reuses comparison bits and
divisors of the forward pass. Batch norm in training mode updates its running statistics; in eval mode with private statistics a
second call takes 2 rounds. Dropout takes 1 round. EmbeddingBag, Bilinear and other modules cost as much as the calls they
consist of. Tensors are small, with 16 bits. Errors are in units of the last place, multiplied by the largest value of the result
if that exceeds one.

| layer | rounds | bytes | rounds back | bytes back | error, units |
|---|---|---|---|---|---|
"""


def measure(name: str, workers: tuple[Any, Any, Any]) -> tuple[cost_meter.RunCost, cost_meter.RunCost]:
    """Run a layer on shares, there and back, and count."""
    alice, bob, dealer = workers
    module: Any = module_of(name)
    module.fix_precision(base=2, precision_fractional=16).share(alice, bob, crypto_provider=dealer)
    shape = LAYERS[name].shape
    x = encrypted(torch.ones(shape), (alice, bob), dealer, "2^-16").requires_grad_()
    with cost_meter.count() as there:
        made = module(x)
    grad = encrypted(torch.ones(made.shape), (alice, bob), dealer, "2^-16")
    with cost_meter.count() as back:
        torch.autograd.backward(made, grad)
    return there, back


def table(workers: tuple[Any, Any, Any]) -> list[str]:
    """Return the lines of the part."""
    lines = [HEAD.rstrip("\n")]
    for name, layer in LAYERS.items():
        there, back = measure(name, workers)
        lines.append(f"| `{name}` | {there.rounds} | {there.bytes} | {back.rounds} | {back.bytes} | {layer.units:g} |")
    return lines
