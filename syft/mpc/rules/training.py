"""Rules for losses, their gradients, and what is random in training."""

from __future__ import annotations

from typing import Any

import torch

from syft.exceptions import UnsupportedOperation
from syft.mpc import values
from syft.mpc.rules.arithmetic import add, mul, sub
from syft.mpc.rules.factors import times
from syft.mpc.rules.operands import aten, content, form_of, is_link, rule, whole
from syft.mpc.rules.reduction import mean, total

# torch's numbers for reduction="none", "mean", "sum".
NONE, MEAN, SUM = 0, 1, 2


@rule(aten.mse_loss.default, in_place=False)
def mse_loss(x: Any, target: Any, reduction: int = MEAN) -> Any:
    """Squared distance."""
    distance = sub(x, target)
    squares = mul(distance, distance)
    return squares if reduction == NONE else mean(squares) if reduction == MEAN else total(squares)


@rule(aten.mse_loss_backward.default, in_place=False)
def mse_loss_backward(grad: Any, x: Any, target: Any, reduction: int) -> Any:
    """Gradient of the squared distance."""
    distance = mul(sub(x, target), 2)
    form = form_of(distance)
    if reduction == MEAN:
        distance = form.link(values.truncate(content(distance), x.shape.numel()))
    return mul(distance, grad)


@rule(aten.native_dropout.default, in_place=False)
def native_dropout(x: Any, probability: float, train: bool | None) -> Any:
    """Drop elements at random in training; which ones is public."""
    if not train or not probability:
        kept = form_of(x).link(values.local(aten.clone.default, content(x)))
        return kept, torch.ones(tuple(x.shape), dtype=torch.bool)
    # It hides nothing, so it comes from torch's generator: training can be repeated from a seed.
    mask = torch.rand(tuple(x.shape)) >= probability
    kept = mul(x, mask)
    form = form_of(kept)
    return form.link(times(content(kept), 1 / (1 - probability), form) if probability < 1 else content(kept)), mask


@rule(aten.native_dropout_backward.default, in_place=False)
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    """Gradient of dropout."""
    return mul(mul(grad, mask), scale)


@rule(aten.bernoulli_.float, in_place=False, views=True)
def bernoulli(x: Any, probability: float = 0.5, generator: Any = None) -> Any:
    """Fill with public random ones and zeros, as a mask of dropout."""
    drawn = torch.bernoulli(torch.full(tuple(x.shape), probability), generator=generator).long()
    form = form_of(x)
    x.child = drawn * form.scale if form.model is not None else values.public(drawn, x).child
    return x


@rule(aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default, in_place=False)
def batch_norm(x: Any, weight: Any, bias: Any, means: Any, variances: Any, *options: Any) -> Any:
    """Batch norm in eval mode, with public statistics."""
    *training, _, epsilon = options
    if (training and training[0]) or variances is None or is_link(variances):
        raise UnsupportedOperation(
            "Batch norm with private statistics",
            type(x).__name__,
            "It needs a square root; use eval mode, with public ones.",
        )
    shape = [1, -1, *[1] * (len(x.shape) - 2)]
    factor: Any = (variances.double() + epsilon).rsqrt().view(shape)
    if weight is not None:
        factor = mul(_shaped(weight, shape), factor) if is_link(weight) else weight.view(shape) * factor
    made = mul(sub(x, _shaped(means, shape)), factor)
    if bias is not None:
        made = add(made, _shaped(bias, shape))
    nothing = torch.zeros(0)
    return made, nothing, nothing


def _shaped(value: Any, shape: list[int]) -> Any:
    if not is_link(value):
        return value.view(shape)
    sizes = [value.shape[0] if size == -1 else size for size in shape]
    return form_of(value).link(values.reshape(content(value), sizes))


@rule(aten.embedding_dense_backward.default, in_place=False)
def embedding_backward(grad: Any, indices: Any, count: int, padding: int, scale_by_freq: bool) -> Any:
    """Gradient of an embedding: rows added up at public places."""
    form = form_of(grad, indices)
    width = grad.shape[-1]
    if is_link(indices) or scale_by_freq:
        raise UnsupportedOperation(
            "The gradient of an embedding by encrypted indices, or with scale_grad_by_freq", "encrypted tensors"
        )
    rows = values.reshape(whole(grad, form), [indices.numel(), width])
    if bool((indices == padding).any()):
        rows = values.mul(rows, (indices != padding).long().reshape(-1, 1))
    base, rows = values.together([torch.zeros(count, width, dtype=torch.int64), rows])
    return form.link(values.local(aten.index_add.default, base, 0, indices.reshape(-1), rows))
