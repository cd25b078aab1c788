"""Layers to be compared with float64 torch, with their inputs; results and all gradients, in every mix of privacy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.helpers.mpc.rows import FORMATS, decrypted, encrypted


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        make: makes the module.
        shape: the shape of its input.
        units: how many units of the last place results and gradients may be off, times the largest of them.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    units: float = 3


def _with_statistics(module: nn.Module) -> nn.Module:
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return module.eval()


CONVOLUTIONS = {
    "Conv1d": Layer(lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9)),
    "Conv2d": Layer(lambda: nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), (2, 2, 6, 5)),
    "Conv2d depthwise": Layer(lambda: nn.Conv2d(3, 6, 3, groups=3, bias=False), (2, 3, 5, 4)),
    "Conv2d same": Layer(lambda: nn.Conv2d(2, 2, 3, padding="same"), (1, 2, 4, 4)),
    "Conv2d circular": Layer(lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), (1, 1, 4, 4)),
    "Conv2d one image": Layer(lambda: nn.Conv2d(2, 2, 2), (2, 4, 4)),
    "Conv3d": Layer(lambda: nn.Conv3d(2, 4, 2, stride=2, groups=2), (1, 2, 4, 3, 4)),
    "ConvTranspose1d": Layer(lambda: nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1, groups=2), (2, 4, 4)),
    "ConvTranspose2d": Layer(
        lambda: nn.ConvTranspose2d(2, 3, (3, 2), stride=2, padding=1, dilation=(2, 1), output_padding=(1, 0)),
        (2, 2, 4, 3),
    ),
    "ConvTranspose3d": Layer(lambda: nn.ConvTranspose3d(2, 1, 2, bias=False), (1, 2, 2, 3, 2)),
}
POOLS = {
    "MaxPool1d": Layer(lambda: nn.MaxPool1d(3, 2, padding=1), (2, 2, 7)),
    "MaxPool2d": Layer(lambda: nn.MaxPool2d(2), (2, 2, 6, 4)),
    "MaxPool2d options": Layer(lambda: nn.MaxPool2d((3, 2), 2, 1, (1, 2), ceil_mode=True), (1, 2, 6, 5)),
    "MaxPool3d": Layer(lambda: nn.MaxPool3d(2), (1, 2, 4, 3, 4)),
    "AvgPool1d": Layer(lambda: nn.AvgPool1d(3, 1, 1), (2, 2, 5)),
    "AvgPool2d": Layer(lambda: nn.AvgPool2d(2, ceil_mode=True), (2, 2, 5, 5)),
    "AvgPool2d options": Layer(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 2, 6, 5)),
    "AvgPool3d": Layer(lambda: nn.AvgPool3d(2, divisor_override=3), (1, 2, 4, 3, 4)),
    "AdaptiveAvgPool1d": Layer(lambda: nn.AdaptiveAvgPool1d(3), (1, 2, 7)),
    "AdaptiveAvgPool2d": Layer(lambda: nn.AdaptiveAvgPool2d((3, None)), (1, 2, 5, 4)),
    "AdaptiveAvgPool2d(1)": Layer(lambda: nn.AdaptiveAvgPool2d(1), (1, 2, 5, 4)),
    "AdaptiveAvgPool3d": Layer(lambda: nn.AdaptiveAvgPool3d((2, 1, 3)), (1, 2, 3, 4, 4)),
    "AdaptiveMaxPool1d": Layer(lambda: nn.AdaptiveMaxPool1d(3), (1, 2, 7)),
    "AdaptiveMaxPool2d": Layer(lambda: nn.AdaptiveMaxPool2d((3, 2)), (1, 2, 5, 4)),
    "AdaptiveMaxPool3d": Layer(lambda: nn.AdaptiveMaxPool3d(2), (1, 2, 3, 2, 4)),
    "LPPool2d": Layer(lambda: nn.LPPool2d(2, 2), (1, 2, 4, 4), 12),
}
MOVES = {
    "PixelShuffle": Layer(lambda: nn.PixelShuffle(2), (1, 4, 2, 3)),
    "PixelUnshuffle": Layer(lambda: nn.PixelUnshuffle(2), (2, 1, 4, 2)),
    "ChannelShuffle": Layer(lambda: nn.ChannelShuffle(2), (1, 4, 2, 2)),
    "ZeroPad2d": Layer(lambda: nn.ZeroPad2d((1, 0, 2, 1)), (1, 2, 2, 3)),
    "ReflectionPad1d": Layer(lambda: nn.ReflectionPad1d(2), (2, 2, 4)),
    "ReflectionPad3d": Layer(lambda: nn.ReflectionPad3d(1), (1, 1, 2, 3, 2)),
    "ReplicationPad2d": Layer(lambda: nn.ReplicationPad2d((1, 2, 0, 1)), (1, 2, 2, 3)),
    "CircularPad2d": Layer(lambda: nn.CircularPad2d(1), (1, 2, 3, 3)),
    "Flatten": Layer(nn.Flatten, (2, 2, 3)),
    "Unfold": Layer(lambda: nn.Unfold((2, 3), padding=1, stride=2), (2, 2, 4, 4)),
    "Fold": Layer(lambda: nn.Fold((4, 3), 2, padding=1), (2, 8, 20)),
    "Upsample": Layer(lambda: nn.Upsample(scale_factor=2), (1, 2, 2, 3)),
    "Upsample 1d": Layer(lambda: nn.Upsample(size=5), (1, 2, 3)),
    "Upsample exact": Layer(lambda: nn.Upsample(scale_factor=1.5, mode="nearest-exact"), (1, 2, 4, 3)),
    "Upsample linear": Layer(lambda: nn.Upsample(scale_factor=2, mode="linear"), (1, 2, 4)),
    "Upsample bilinear": Layer(lambda: nn.Upsample(size=(5, 4), mode="bilinear"), (2, 2, 3, 2)),
    "Upsample corners": Layer(
        lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        (1, 1, 3, 3),
    ),
    "Upsample bicubic": Layer(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (1, 1, 3, 4)),
}
NORMS = {
    "BatchNorm1d": Layer(lambda: nn.BatchNorm1d(3), (6, 3), 5),
    "BatchNorm2d": Layer(lambda: nn.BatchNorm2d(2), (3, 2, 2, 3), 5),
    "BatchNorm2d eval": Layer(lambda: _with_statistics(nn.BatchNorm2d(2)), (2, 2, 3, 2), 5),
    "BatchNorm1d bare": Layer(lambda: nn.BatchNorm1d(3, affine=False, track_running_stats=False), (5, 3), 5),
    "BatchNorm3d": Layer(lambda: nn.BatchNorm3d(2, momentum=None), (2, 2, 2, 1, 3), 5),
    "LayerNorm": Layer(lambda: nn.LayerNorm(5), (3, 5), 5),
    "LayerNorm 2": Layer(lambda: nn.LayerNorm((2, 3), bias=False), (2, 2, 2, 3), 5),
    "GroupNorm": Layer(lambda: nn.GroupNorm(2, 4), (2, 4, 3), 5),
    "InstanceNorm1d": Layer(lambda: nn.InstanceNorm1d(2), (2, 2, 5), 5),
    "InstanceNorm2d": Layer(lambda: nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (2, 2, 2, 3), 5),
    "RMSNorm": Layer(lambda: nn.RMSNorm(4), (3, 4), 5),
    "LocalResponseNorm": Layer(lambda: nn.LocalResponseNorm(2), (1, 3, 3), 8),
}
ACTIVATIONS = {
    "ReLU": Layer(nn.ReLU, (3, 4)),
    "ReLU6": Layer(nn.ReLU6, (3, 4)),
    "LeakyReLU": Layer(nn.LeakyReLU, (3, 4)),
    "PReLU": Layer(nn.PReLU, (3, 4)),
    "PReLU channels": Layer(lambda: nn.PReLU(3), (2, 3, 2)),
    "RReLU eval": Layer(lambda: nn.RReLU().eval(), (3, 4)),
    "Hardtanh": Layer(lambda: nn.Hardtanh(-0.75, 1), (3, 4)),
    "Hardsigmoid": Layer(nn.Hardsigmoid, (3, 4)),
    "Hardswish": Layer(nn.Hardswish, (3, 4)),
    "Threshold": Layer(lambda: nn.Threshold(0.5, 2.0), (3, 4)),
    "Softshrink": Layer(nn.Softshrink, (3, 4)),
    "Hardshrink": Layer(nn.Hardshrink, (3, 4)),
    "ELU": Layer(nn.ELU, (3, 4)),
    "CELU": Layer(lambda: nn.CELU(0.5), (3, 4)),
    "SELU": Layer(nn.SELU, (3, 4)),
    "Softsign": Layer(nn.Softsign, (3, 4)),
    "GLU": Layer(nn.GLU, (3, 4), 15),
}
LAYERS = CONVOLUTIONS | POOLS | MOVES | NORMS | ACTIVATIONS
# Data at the kinks of activations; random numbers would hardly ever be there.
KINKS = torch.tensor([-3.0, -1.0, -0.75, -0.5, 0.0, 0.5, 0.75, 1.0, 3.0, 6.0, 7.0, -7.0])


def _eighths(*shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 8).round() / 8


def inputs_of(name: str) -> torch.Tensor:
    """Return what a layer is given: multiples of 1/8, which every format holds."""
    torch.manual_seed(1)
    if name in ACTIVATIONS and LAYERS[name].shape == (3, 4):
        return KINKS.view(3, 4).clone()
    return _eighths(*LAYERS[name].shape) * 2


def module_of(name: str) -> nn.Module:
    """Make the module, with parameters that three decimals hold, too."""
    torch.manual_seed(2)
    module = LAYERS[name].make()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_((tensor * 8).round() / 8)
    return module


def run(module: nn.Module, x: Any) -> tuple[Any, dict[str, Any]]:
    """Run a module on data, and back; returns its result, and all gradients and buffers by name."""
    result = module(x)
    torch.manual_seed(3)
    weights = _eighths(*result.shape).to(x.dtype)
    (result * weights.masked_fill(weights == 0, 0.5)).sum().backward()
    found = {"input": x.grad} | {name: p.grad for name, p in module.named_parameters()}
    found |= {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}
    return result.detach(), found


def check_layer(
    name: str, parties: Any = (), provider: Any = None, form: str = "2^-16", model: bool = True, data: bool = True
) -> None:
    """Assert that a layer is right, with a private model, private data, or both."""
    module, x = module_of(name), inputs_of(name)
    meant, grads = run(copy.deepcopy(module).double(), x.double().requires_grad_())
    base, precision = FORMATS[form]
    if model:
        module.fix_precision(base=base, precision_fractional=precision)
        if parties:
            module.share(*parties, crypto_provider=provider)
    given = encrypted(x, parties, provider, form).requires_grad_() if data else x
    found, got = run(module, given)
    allowed = LAYERS[name].units / base**precision
    _check(found, meant, allowed, "result")
    for key, grad in got.items():
        if not isinstance(grad, torch.Tensor) or not hasattr(grad, "child"):
            continue
        _check(grad, grads[key], allowed, key)


def _check(found: Any, meant: torch.Tensor, allowed: float, what: str) -> None:
    found = decrypted(found.copy() if found.child.is_shared else found)
    assert found.shape == meant.shape, what
    largest = max(1.0, meant.abs().max().item())
    assert (found - meant).abs().max().item() <= allowed * largest, what
