"""Rules for losses and their gradients; torch composes other losses of operations that have rules.

The incoming gradient is usually public (that of a loss is 1), and is then used as a public factor. Means divide
gradients by a public number, and gradients get more digits for that (see `gradients`).
"""

from __future__ import annotations

import torch

from syft.mpc.rules import public_scaling
from syft.mpc.rules.approximations import log, logsigmoid
from syft.mpc.rules.arithmetic import QUOTIENT_BITS, add, div, divided, mul, sub
from syft.mpc.rules.gradients import finer
from syft.mpc.rules.operands import aten, content, format_of, is_link, rule, to_integers
from syft.mpc.rules.public_scaling import times
from syft.mpc.rules.reduction import mean, total
from syft.mpc.rules.types import AnyTensor, Link, Operand
from syft.mpc.values import ring_ops

# torch's codes for reduction="none", "mean", "sum".
NONE, MEAN, SUM = 0, 1, 2


def reduced(x: Link, reduction: int) -> Link:
    """Return losses, their mean or their sum."""
    return x if reduction == NONE else mean(x) if reduction == MEAN else total(x)


def public_part(grad: AnyTensor | float) -> AnyTensor | float:
    """Return a public gradient as a number or a plain tensor, a private one unchanged."""
    if is_link(grad):
        if ring_ops.is_shared(content(grad)):
            return grad
        grad = content(grad).double() / format_of(grad).scale
    return float(grad) if isinstance(grad, float) or grad.numel() == 1 else grad.double()


def chain_rule(slope: AnyTensor, grad: AnyTensor | float, count: float = 1) -> Link:
    """Return the derivative of a loss times the incoming gradient, divided by a public number.

    Args:
        slope: the derivative of the loss, private or public.
        grad: the gradient of the loss.
        count: the divisor: the number of elements, for means.
    """
    fmt = finer(format_of(slope, grad), count)
    factor = public_part(grad)
    if is_link(factor):
        made = mul(fmt.link(to_integers(slope, fmt)), factor)
        return made if count == 1 else fmt.link(public_scaling.divide(content(made), count, fmt))
    if is_link(slope):
        return fmt.link(times(to_integers(slope, fmt), factor / count, fmt))
    return fmt.link(to_integers(slope.double() * factor / count, fmt))


def _count(x: AnyTensor, reduction: int) -> int:
    return x.shape.numel() if reduction == MEAN else 1


# --- distances ----------------------------------------------------------------------------------------------------


@rule(aten.mse_loss.default, in_place=False)
def mse_loss(x: AnyTensor, target: AnyTensor, reduction: int = MEAN) -> Link:
    """Squared distance."""
    distance = sub(x, target)
    return reduced(mul(distance, distance), reduction)


@rule(aten.mse_loss_backward.default, in_place=False)
def mse_loss_backward(grad: AnyTensor, x: AnyTensor, target: AnyTensor, reduction: int) -> Link:
    """Gradient of the squared distance: twice the distance."""
    distance = _distance(x, target)
    return chain_rule(mul(distance, 2) if is_link(distance) else distance * 2, grad, _count(distance, reduction))


def _distance(x: AnyTensor, target: AnyTensor) -> AnyTensor:
    return sub(x, target) if is_link(x) or is_link(target) else x - target


def times_tensor(x: AnyTensor, y: AnyTensor | float) -> AnyTensor:
    """Return x y, of private or public tensors."""
    return mul(x, y) if is_link(x) or is_link(y) else x * y


# --- probabilities --------------------------------------------------------------------------------------------------


def _with_weight(losses: Link, weight: AnyTensor | None) -> Link:
    return losses if weight is None else mul(losses, weight)


def _both_logs(x: AnyTensor) -> tuple[AnyTensor, AnyTensor]:
    """Return log(1 - x) and log(x) - log(1 - x); of a public x, with torch's bound."""
    if not is_link(x):
        first, second = x.double().log().clamp(min=-100), (1 - x.double()).log().clamp(min=-100)
        return second, first - second
    fmt, value = format_of(x), content(x)
    both = ring_ops.local(aten.stack.default, [value, ring_ops.sub(fmt.scale, value)])
    log_x, log_rest = ring_ops.unbind(content(log(fmt.link(both))))
    return fmt.link(log_rest), fmt.link(ring_ops.sub(log_x, log_rest))


@rule(aten.binary_cross_entropy.default, in_place=False)
def binary_cross_entropy(
    x: AnyTensor, target: AnyTensor, weight: AnyTensor | None = None, reduction: int = MEAN
) -> Link:
    """Return -(t log(x) + (1 - t) log(1 - x)).

    A probability of 0 counts as one unit, as in `log`: its logarithm is -11.1 with 16 bits, and -100 in torch.
    """
    second, difference = _both_logs(x)
    return reduced(_with_weight(mul(add(second, mul(target, difference)), -1), weight), reduction)


@rule(aten.binary_cross_entropy_backward.default, in_place=False)
def binary_cross_entropy_backward(
    grad: AnyTensor, x: AnyTensor, target: AnyTensor, weight: AnyTensor | None = None, reduction: int = MEAN
) -> Link:
    """Return (x - t) / (x (1 - x)), and 0 where x is 0 or 1, like the slope of a sigmoid."""
    distance = _distance(x, target)
    slope = _over_variance(x, distance)
    return chain_rule(slope if weight is None else times_tensor(slope, weight), grad, _count(x, reduction))


def _over_variance(x: AnyTensor, distance: AnyTensor) -> AnyTensor:
    """Divide by x (1 - x); of a private x it is computed with twice the digits, because it may be a single unit."""
    if not is_link(x):
        plain = (x.double() * (1 - x.double())).clamp(min=1e-12)
        return div(distance, plain) if is_link(distance) else distance / plain
    fmt, value = format_of(x, distance), to_integers(x, format_of(x, distance))
    scale = fmt.scale**2
    variance = ring_ops.mul(value, ring_ops.sub(fmt.scale, value))
    if scale > 1 << QUOTIENT_BITS:
        variance, scale = ring_ops.truncate(variance, fmt.scale), fmt.scale
    return fmt.link(divided(to_integers(distance, fmt), variance, scale))


@rule(aten.binary_cross_entropy_with_logits.default, in_place=False)
def bce_with_logits(
    x: AnyTensor,
    target: AnyTensor,
    weight: AnyTensor | None = None,
    pos_weight: AnyTensor | None = None,
    reduction: int = MEAN,
) -> Link:
    """Return (1 - t) x - (1 + (pos_weight - 1) t) log(sigmoid(x))."""
    logs: AnyTensor = logsigmoid(x) if is_link(x) else torch.nn.functional.logsigmoid(x.double())
    if pos_weight is not None:
        more = sub(pos_weight, 1) if is_link(pos_weight) else pos_weight - 1
        factor = add(mul(more, target), 1) if is_link(more) or is_link(target) else more * target + 1
        logs = times_tensor(logs, factor)
    line = mul(sub(1, target) if is_link(target) else 1 - target, x)
    return reduced(_with_weight(sub(line, logs), weight), reduction)


@rule(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(x: AnyTensor, y: Operand) -> Link:
    """Return x log(y), and 0 where x is 0."""
    if is_link(y):
        return mul(x, log(y))
    unit = 1 / format_of(x).scale
    return mul(x, torch.as_tensor(y).double().clamp(min=unit).log())
