"""Example inputs for modules of torch, derived from their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Args = tuple[torch.Tensor, ...]
# Sizes of images and signals, the likeliest first.
SIZES = (28, 32, 16, 64, 8, 224)
_PLAIN_SHAPES = ((2, 4), (2, 4, 8), (2, 4, 8, 8), (2, 4, 6, 6, 6), (4,))


def _zeros(*shape: int) -> Args:
    return (torch.zeros(shape),)


def _indices(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def _images(channels: int, dimensions: int) -> list[Args]:
    sizes = SIZES if dimensions < 3 else SIZES[2:3]
    return [_zeros(2, channels, *[size] * dimensions) for size in sizes]


def _of_norm(dimensions: tuple[int, ...]) -> Callable[[Any], list[Args]]:
    return lambda module: [_zeros(2, module.num_features, *[4] * count) for count in dimensions]


def _sequence(width: int, count: int = 1) -> Args:
    return tuple([torch.zeros(3, 2, width) for _ in range(count)])


# Modules of two tensors of one shape.
_DISTANCES = (
    nn.CosineSimilarity, nn.PairwiseDistance, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss,
    nn.BCEWithLogitsLoss, nn.KLDivLoss, nn.PoissonNLLLoss,
)  # fmt: skip
# Module class -> candidate arguments; the first that work are used.
_RULES: list[tuple[tuple[type[nn.Module], ...], Callable[[Any], list[Args]]]] = [
    ((nn.Linear,), lambda m: [_zeros(2, m.in_features)]),
    ((nn.Bilinear,), lambda m: [(torch.zeros(2, m.in1_features), torch.zeros(2, m.in2_features))]),
    ((nn.Conv1d, nn.ConvTranspose1d), lambda m: _images(m.in_channels, 1)),
    ((nn.Conv2d, nn.ConvTranspose2d), lambda m: _images(m.in_channels, 2)),
    ((nn.Conv3d, nn.ConvTranspose3d), lambda m: _images(m.in_channels, 3)),
    ((nn.BatchNorm1d,), _of_norm((0, 1))),
    ((nn.InstanceNorm1d,), _of_norm((1,))),
    ((nn.BatchNorm2d, nn.InstanceNorm2d), _of_norm((2,))),
    ((nn.BatchNorm3d, nn.InstanceNorm3d), _of_norm((3,))),
    ((nn.GroupNorm,), lambda m: [_zeros(2, m.num_channels, 4)]),
    ((nn.LayerNorm, nn.RMSNorm), lambda m: [_zeros(2, *m.normalized_shape)]),
    ((nn.Embedding, nn.EmbeddingBag), lambda m: [(_indices(2, 3),)]),
    ((nn.RNN, nn.LSTM, nn.GRU), lambda m: [_sequence(m.input_size)]),
    ((nn.RNNCell, nn.LSTMCell, nn.GRUCell), lambda m: [_zeros(2, m.input_size)]),
    ((nn.MultiheadAttention,), lambda m: [_sequence(m.embed_dim, 3)]),
    ((nn.TransformerEncoderLayer,), lambda m: [_sequence(m.self_attn.embed_dim)]),
    ((nn.TransformerDecoderLayer,), lambda m: [_sequence(m.self_attn.embed_dim, 2)]),
    ((nn.PReLU,), lambda m: [_zeros(2, max(m.num_parameters, 1))]),
    (_DISTANCES, lambda m: [(torch.zeros(2, 4), torch.zeros(2, 4))]),
    ((nn.CrossEntropyLoss, nn.NLLLoss), lambda m: [(torch.zeros(2, 4), _indices(2))]),
]
EXAMPLES = {kind: examples for kinds, examples in _RULES for kind in kinds}
# Layers that determine the input of a model.
_FIRST = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding, nn.RNN, nn.LSTM, nn.GRU)


def examples_for(module: nn.Module) -> list[Args]:
    """Return candidate arguments for a module of torch; none for other modules and for containers."""
    for kind in type(module).__mro__:
        if kind in EXAMPLES:
            return EXAMPLES[kind](module)
    is_torch = type(module).__module__.startswith("torch.nn.")
    if not is_torch or next(module.children(), None) is not None:
        return []
    return [_zeros(*shape) for shape in _PLAIN_SHAPES]


def guesses(model: nn.Module) -> list[Args]:
    """Return candidate arguments for a whole model, derived from its first layer."""
    for part in model.modules():
        if isinstance(part, _FIRST):
            first = examples_for(part)
            width = first[0][0].shape[-1]
            return [*first, *([_zeros(3, 2, width)] if isinstance(part, nn.Linear) else [])]
    return []
