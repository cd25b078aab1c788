"""Rules for losses and their gradients; torch composes other losses of operations that have rules.

The incoming gradient is usually public (that of a loss is 1), and is then used as a public factor. Means divide
gradients by a public number, and gradients get more digits for that (see `gradients`).

Classification losses select one input per class index. Targets are class indices: public integers, or integers shared
without fix_precision. Private targets are compared with every class (see `indexing`), so the class, and whether it is
ignored, stays private.
"""

from __future__ import annotations

import torch

from syft.mpc.rules.approximations import log
from syft.mpc.rules.arithmetic import QUOTIENT_BITS, add, chain_rule, div, divided, mul, public_part, sub
from syft.mpc.rules.gradients import finer
from syft.mpc.rules.indexing import one_hot
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, reshaped, rule, to_integers
from syft.mpc.rules.reduction import mean, total
from syft.mpc.rules.types import AnyTensor, Link, Operand, Value
from syft.mpc.values import ring_ops

# torch's codes for reduction="none" and "mean".
NONE, MEAN = 0, 1


def reduced(x: Link, reduction: int) -> Link:
    """Return losses, their mean or their sum."""
    return x if reduction == NONE else mean(x) if reduction == MEAN else total(x)


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
    losses = mul(add(second, mul(target, difference)), -1)
    return reduced(losses if weight is None else mul(losses, weight), reduction)


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


@rule(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(x: AnyTensor, y: Operand) -> Link:
    """Return x log(y), and 0 where x is 0."""
    if is_link(y):
        return mul(x, log(y))
    unit = 1 / format_of(x).scale
    return mul(x, torch.as_tensor(y).double().clamp(min=unit).log())


# --- selection by target --------------------------------------------------------------------------------------------


def _dimension(x: AnyTensor) -> int:
    """Return the dimension of classes: the first one after the batch dimension."""
    return 1 if len(x.shape) > 1 else 0


def _classes_last(x: AnyTensor) -> AnyTensor:
    """Return x, private or public, with classes in the last dimension."""
    order = list(range(len(x.shape)))
    order.append(order.pop(_dimension(x)))
    return format_of(x).link(ring_ops.permute(content(x), order)) if is_link(x) else x.permute(order)


def _classes_back(value: Value, dim: int) -> Value:
    """Move the last dimension back to the dimension of classes."""
    order = list(range(len(ring_ops.shape_of(value))))
    order.insert(dim, order.pop())
    return ring_ops.permute(value, order)


def _with_last(x: AnyTensor) -> AnyTensor:
    """Append a dimension to a private or public tensor."""
    return reshaped(x, [*x.shape, 1])


def _hot(target: AnyTensor, count: int, ignored: int) -> Value:
    """Return a one-hot row for each target; rows of public ignored targets are zero."""
    if not is_link(target):
        named = target != ignored
        return torch.nn.functional.one_hot(torch.where(named, target, 0), count) * named.unsqueeze(-1)
    return one_hot(target, count)


def _check(x: AnyTensor, target: AnyTensor, ignored: int) -> None:
    count = x.shape[_dimension(x)]
    if tuple(target.shape) != (*x.shape[: _dimension(x)], *x.shape[_dimension(x) + 1 :]):
        raise ValueError(f"Targets of shape {tuple(target.shape)} do not match inputs of shape {tuple(x.shape)}.")
    if not is_link(target):
        outside = target[(target != ignored) & ((target < 0) | (target >= count))]
        if len(outside):
            raise IndexError(f"Target {int(outside[0])} is out of bounds: there are {count} classes, 0 to {count - 1}.")


def _chosen(x: AnyTensor, target: AnyTensor, ignored: int) -> Link:
    """Return the elements of x that targets select, in the shape of the targets."""
    dim, fmt = _dimension(x), format_of(x)
    if is_link(target):
        hot = _hot(target, x.shape[dim], ignored)
        if not is_link(x):
            fmt = format_of(target)
        return fmt.link(ring_ops.total(ring_ops.mul(hot, to_integers(_classes_last(x), fmt)), [len(x.shape) - 1]))
    places = torch.where(target == ignored, 0, target).unsqueeze(dim)
    found = ring_ops.local(aten.gather.default, to_integers(x, fmt), dim, places)
    return fmt.link(ring_ops.reshape(found, tuple(target.shape)))


def _weights(x: AnyTensor, target: AnyTensor, weight: AnyTensor | None, ignored: int) -> AnyTensor | None:
    """Return the weight of each target, private or public; None if all weights are 1."""
    count = x.shape[_dimension(x)]
    if not is_link(target):
        named = (target != ignored).long()
        if weight is None:
            return None if bool(named.all()) else named
        places = torch.where(named.bool(), target, 0)
        if not is_link(weight):
            return weight.double()[places] * named
        flat = ring_ops.local(aten.index_select.default, content(weight), 0, places.reshape(-1))
        return mul(format_of(weight).link(ring_ops.reshape(flat, tuple(target.shape))), named)
    if weight is None and not 0 <= ignored < count:
        return None
    fmt = format_of(x, weight)
    each: Value = torch.full((count,), fmt.scale) if weight is None else to_integers(weight, fmt)
    each = ring_ops.mul(each, (torch.arange(count) != ignored).long())
    return fmt.link(ring_ops.total(ring_ops.mul(_hot(target, count, ignored), each), [len(target.shape)]))


def _sum(weights: AnyTensor) -> Link | float:
    """Return the sum of weights: a number, or a link."""
    return total(weights) if is_link(weights) else float(weights.sum())


# --- negative log likelihood ----------------------------------------------------------------------------------------


@rule(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default, in_place=False)
def nll_loss(
    x: AnyTensor, target: AnyTensor, weight: AnyTensor | None, reduction: int, ignore_index: int
) -> tuple[Link, AnyTensor]:
    """Minus the element that a target selects, times the weight of its class; and the sum of these weights."""
    _check(x, target, ignore_index)
    weights = _weights(x, target, weight, ignore_index)
    chosen = _chosen(x, target, ignore_index)
    losses = mul(chosen if weights is None else mul(chosen, weights), -1)
    if reduction == NONE:
        return losses, torch.zeros(())
    summed = float(target.shape.numel()) if weights is None else _sum(weights)
    made = total(losses)
    if reduction == MEAN and not is_link(summed) and not summed:
        raise ValueError("nll_loss has no mean: there are no targets, or all are ignored or have weight 0.")
    return div(made, summed) if reduction == MEAN else made, summed if is_link(summed) else torch.tensor(summed)


@rule(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default, in_place=False)
def nll_loss_backward(
    grad: AnyTensor, x: AnyTensor, target: AnyTensor, weight: AnyTensor | None, reduction: int, ignore_index: int,
    total_weight: AnyTensor,
) -> Link:  # fmt: skip
    """Gradient of `nll_loss`: minus the weight where a target selects an element, else 0."""
    weights = _weights(x, target, weight, ignore_index)
    factor, fmt = public_part(grad), format_of(x, grad, target)
    if reduction == MEAN:
        factor = _divided(factor, total_weight)
        fmt = finer(fmt, target.shape.numel())
    if weights is not None:
        factor = times_tensor(weights, factor)
    return _spread(_hot(target, x.shape[_dimension(x)], ignore_index), factor, fmt, _dimension(x))


def _divided(factor: AnyTensor | float, summed: AnyTensor | float) -> AnyTensor | float:
    if is_link(factor) or is_link(summed):
        return div(factor, summed if is_link(summed) else float(summed))
    return factor / float(summed)


def _spread(hot: Value, factor: AnyTensor | float, fmt: FixedPointFormat, dim: int) -> Link:
    """Return minus a factor (one, or one per target) where one-hot rows are 1."""
    if not isinstance(factor, float):
        factor = _with_last(factor) if len(factor.shape) else factor
    if not ring_ops.is_shared(hot) and not is_link(factor):
        made = to_integers(hot.double() * factor * -1, fmt)
    elif is_link(factor):
        made = ring_ops.neg(ring_ops.mul(hot, to_integers(factor, format_of(factor, fmt.model))))
        fmt = format_of(factor, fmt.model)
    else:
        made = ring_ops.mul(hot, to_integers(-factor, fmt))
    return fmt.link(_classes_back(made, dim))
