"""Rules for approximated functions: exponentials, logarithms, roots, sigmoids, sine and cosine, softmax.

docs/reference/operations.md lists measured domains and errors. Outside its domain a function has a documented value,
never noise: sqrt of a number that is not positive is 0, its logarithm is that of one unit, e^x stays at its maximum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from syft.exceptions import UnsupportedOperationError
from syft.mpc.protocols.exponential import edges
from syft.mpc.rules.arithmetic import add, chain_rule, div, mul, reciprocal, sub
from syft.mpc.rules.comparison import absolute, clamp, ge, sign
from syft.mpc.rules.operands import FixedPointFormat, aten, content, format_of, is_link, rule
from syft.mpc.rules.reduction import check_dtype, dims_of, total
from syft.mpc.rules.types import AnyTensor, Dims, Link, Operation, Value
from syft.mpc.values import ring_ops
from syft.mpc.values.encoding import encode_plain
from syft.mpc.values.function_tables import SLOPES, acos_factor, table_of

Plain = Callable[[torch.Tensor], torch.Tensor]


def encoded(x: Link, name: str) -> FixedPointFormat:
    """Return the format of an operand; refuse whole numbers, which have no digits for results."""
    fmt = format_of(x)
    if fmt.model is None:
        raise UnsupportedOperationError(
            f"{name} of whole numbers", "AdditiveSharingTensor", "Encode before sharing with fix_precision()."
        )
    return fmt


def on_plain(function: Plain, value: torch.Tensor, fmt: FixedPointFormat) -> torch.Tensor:
    """Compute a function of plain numbers in float64."""
    return encode_plain(function(value.double() / fmt.scale), fmt.scale, fmt.field)


def apply(x: Link, name: str, shared: Callable[[Value, FixedPointFormat], Value], plain: Plain) -> Link:
    """Compute a function of shared or plain numbers."""
    fmt = encoded(x, name)
    value = content(x)
    return fmt.link(shared(value, fmt) if ring_ops.is_shared(value) else on_plain(plain, value, fmt))


# --- exponentials, logarithms and roots -------------------------------------------------------------------------


def _exp_plain(x: torch.Tensor, fmt: FixedPointFormat) -> torch.Tensor:
    first, last = edges(fmt.scale, fmt.scale)
    made = x.clamp(max=last / fmt.scale).exp()
    return torch.where(x * fmt.scale < first, torch.zeros_like(made), made)


def _exp(x: Link, negative: bool) -> Link:
    plain = functools.partial(_exp_plain, fmt=encoded(x, "exp"))
    return apply(x, "exp", lambda v, f: ring_ops.run("exp", v, scale=f.scale, negative=negative), plain)


@rule(aten.exp.default)
def exp(x: Link) -> Link:
    """e^x."""
    return _exp(x, False)


def exp_of_negative(x: Link) -> Link:
    """e^x where no x is positive; needs one comparison less."""
    return _exp(x, True)


def _root(name: str, plain: Plain, x: Link) -> Link:
    return apply(x, name, lambda v, f: ring_ops.run("root", v, kind=name, scale=f.scale), plain)


def of_positive(function: Plain) -> Plain:
    """Return a function that is 0 where a number is not positive."""
    return lambda x: torch.where(x > 0, function(x.clamp(min=torch.finfo(torch.float64).tiny)), torch.zeros_like(x))


sqrt = rule(aten.sqrt.default)(functools.partial(_root, "sqrt", of_positive(torch.sqrt)))
rsqrt = rule(aten.rsqrt.default)(functools.partial(_root, "rsqrt", of_positive(torch.rsqrt)))


@rule(aten.log.default)
def log(x: Link) -> Link:
    """Natural logarithm; of numbers that are not positive, that of one unit."""
    unit = 1 / encoded(x, "log").scale
    return _root("log", lambda v: v.clamp(min=unit).log(), x)


# --- piecewise functions ----------------------------------------------------------------------------------


def piecewise(x: Link, name: str, plain: Plain) -> Link:
    """Compute one of the functions of `function_tables.SHAPES`."""

    def shared(value: Value, fmt: FixedPointFormat) -> Value:
        table = table_of(name, fmt.scale)
        return ring_ops.run("piecewise", value, table.coefficients, **table.options)

    return apply(x, name, shared, plain)


def _piecewise(name: str, plain: Plain) -> Callable[[Link], Link]:
    return rule(getattr(aten, name).default)(lambda x: piecewise(x, name, plain))


functional = torch.nn.functional
sigmoid, erf = _piecewise("sigmoid", torch.sigmoid), _piecewise("erf", torch.erf)
sin, cos = _piecewise("sin", torch.sin), _piecewise("cos", torch.cos)
_piecewise("tanh", torch.tanh)
_piecewise("silu", functional.silu)
_piecewise("mish", functional.mish)
_GELU = {"none": "gelu", "tanh": "gelu_tanh"}


@rule(aten.gelu.default)
def gelu(x: Link, approximate: str = "none") -> Link:
    """Gaussian error linear unit."""
    return piecewise(x, _GELU[approximate], functools.partial(functional.gelu, approximate=approximate))


@rule(aten.softplus.default, in_place=False)
def softplus(x: Link, beta: float = 1, threshold: float = 20) -> Link:
    """log(1 + e^(beta x)) / beta; the threshold is not needed here."""
    if beta == 1:
        return piecewise(x, "softplus", functional.softplus)
    return div(softplus(mul(x, beta)), beta)


@rule(aten.asin.default)
def asin(x: Link) -> Link:
    """sign(x) (pi/2 - sqrt(1 - |x|) f(|x|)) with a smooth f; beyond -1 and 1 the value there."""
    fmt, value = encoded(x, "asin"), content(x)
    if not ring_ops.is_shared(value):
        return fmt.link(on_plain(lambda v: v.clamp(-1, 1).asin(), value, fmt))
    size = absolute(x)
    rest = mul(sqrt(sub(1, size)), piecewise(size, "acos_factor", acos_factor))
    return mul(sign(x), sub(math.pi / 2, rest))


@rule(aten.logit.default)
def logit(x: Link, eps: float | None = None) -> Link:
    """log(x / (1 - x)), with x clamped to [eps, 1 - eps] if eps is given."""
    inside = x if eps is None or not eps >= 0 else clamp(x, eps, 1 - eps)
    return sub(log(inside), log(sub(1, inside)))


@rule(aten.logit_backward.default, in_place=False)
def logit_backward(grad: AnyTensor, x: AnyTensor, eps: float | None = None) -> Link:
    """Gradient of logit: 1 / (x (1 - x)), and 0 beyond eps."""
    found = mul(grad, reciprocal(mul(x, sub(1, x))))
    return found if eps is None or not eps >= 0 else mul(found, mul(ge(x, eps), ge(1 - eps, x)))


def logsigmoid(x: Link) -> Link:
    """log(sigmoid(x))."""
    return piecewise(x, "log_sigmoid", functional.logsigmoid)


@rule(aten.log_sigmoid_forward.default, in_place=False)
def log_sigmoid_forward(x: Link) -> tuple[Link, torch.Tensor]:
    """log(sigmoid(x)), and an empty buffer."""
    return logsigmoid(x), torch.zeros(0)


_COMPOSED: dict[Operation, Callable[[Link], Link]] = {
    aten.exp2.default: lambda x: exp(mul(x, math.log(2))),
    aten.expm1.default: lambda x: sub(exp(x), 1),
    aten.log2.default: lambda x: mul(log(x), 1 / math.log(2)),
    aten.log10.default: lambda x: mul(log(x), 1 / math.log(10)),
    aten.log1p.default: lambda x: log(add(x, 1)),
    aten.erfc.default: lambda x: sub(1, erf(x)),
    aten.tan.default: lambda x: div(sin(x), cos(x)),
    aten.acos.default: lambda x: sub(math.pi / 2, asin(x)),
    aten.sinh.default: lambda x: mul(sub(exp(x), exp(mul(x, -1))), 0.5),
    aten.cosh.default: lambda x: mul(add(exp(x), exp(mul(x, -1))), 0.5),
}
for _operation, _function in _COMPOSED.items():
    rule(_operation)(_function)


# --- gradients --------------------------------------------------------------------------------------------------


def slope(name: str, x: AnyTensor, plain: Plain | None = None) -> AnyTensor:
    """Return the derivative of a function at public or private numbers."""
    plain = plain or SLOPES[name]
    return piecewise(x, name, plain) if is_link(x) else plain(x.double())


def _sigmoid_at(x: AnyTensor, factor: float) -> AnyTensor:
    return slope("sigmoid", mul(x, factor) if is_link(x) else x * factor, torch.sigmoid)


# Gradients of sigmoid and tanh use the result y, others the argument x.
_GRADIENTS: dict[str, Callable[..., Link]] = {
    "sigmoid": lambda grad, y: mul(grad, mul(y, sub(1, y)) if is_link(y) else y * (1 - y)),
    "tanh": lambda grad, y: mul(grad, sub(1, mul(y, y)) if is_link(y) else 1 - y * y),
    "gelu": lambda grad, x, approximate="none": mul(grad, slope(f"{_GELU[approximate]}_slope", x)),
    "silu": lambda grad, x: mul(grad, slope("silu_slope", x)),
    "mish": lambda grad, x: mul(grad, slope("mish_slope", x)),
    "softplus": lambda grad, x, beta=1, threshold=20: chain_rule(_sigmoid_at(x, beta), grad),
    "log_sigmoid": lambda grad, x, buffer: chain_rule(_sigmoid_at(x, -1), grad),
}
for _name, _gradient in _GRADIENTS.items():
    rule(getattr(aten, f"{_name}_backward").default, in_place=False)(_gradient)


# --- softmax ------------------------------------------------------------------------------------------------------


def _softmax(x: Link, dim: int, log: bool) -> Link:
    """Return softmax, or its logarithm, along a dimension."""
    fmt, (dim,) = encoded(x, "softmax"), dims_of(x, dim) or [0]
    value = content(x)
    if ring_ops.is_shared(value):
        return fmt.link(ring_ops.run("softmax", value, dim=dim, scale=fmt.scale, log=log))
    call = torch.log_softmax if log else torch.softmax
    return fmt.link(on_plain(lambda v: call(v, dim), value, fmt))


rule(aten._softmax.default, in_place=False)(lambda x, dim, half_to_float: _softmax(x, dim, False))
rule(aten._log_softmax.default, in_place=False)(lambda x, dim, half_to_float: _softmax(x, dim, True))


@rule(aten._safe_softmax.default, in_place=False)
def safe_softmax(x: Link, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Softmax along a dimension, as attention calls it."""
    check_dtype(x, dtype)
    return _softmax(x, dim, False)


@rule(aten._softmax_backward_data.default, in_place=False)
def softmax_backward(grad: AnyTensor, result: AnyTensor, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Gradient of softmax, from its result."""
    weighed = mul(grad, result)
    return sub(weighed, mul(result, total(weighed, [dim], True)))


@rule(aten._log_softmax_backward_data.default, in_place=False)
def log_softmax_backward(grad: AnyTensor, result: AnyTensor, dim: int, dtype: torch.dtype | None = None) -> Link:
    """Gradient of the logarithm of softmax, from its result."""
    if not len(grad.shape) or grad.shape[dim] == 1:  # the gradient is 0 for every input
        return mul(grad, 0) if is_link(grad) else mul(result, 0)
    softmaxed = exp_of_negative(result) if is_link(result) else result.double().exp()
    summed = total(grad, [dim], True) if is_link(grad) else grad.sum(dim, keepdim=True)
    return sub(grad, mul(softmaxed, summed))


@rule(aten.logsumexp.default, in_place=False)
def logsumexp(x: Link, dim: Dims, keepdim: bool = False) -> Link:
    """log(sum(e^x)) along dimensions: max(x) + log(sum(e^(x - max(x))))."""
    fmt, dims = encoded(x, "logsumexp"), dims_of(x, dim)
    value = content(x)
    if not ring_ops.is_shared(value):
        return fmt.link(on_plain(lambda v: torch.logsumexp(v, dims, keepdim), value, fmt))
    kept = [size for at, size in enumerate(x.shape) if at not in dims]
    if all(x.shape[one] == 1 for one in dims):  # the logarithm of one exponential
        return fmt.link(ring_ops.scale(ring_ops.reshape(value, x.shape if keepdim else kept), 1))
    largest: Value = value
    for one in dims:
        largest = ring_ops.extreme(largest, one, True)
    inner = 1 << 20
    raised = ring_ops.run("exp", ring_ops.sub(value, largest), scale=fmt.scale, out=inner, negative=True)
    summed = ring_ops.run("root", ring_ops.total(raised, dims, True), kind="log", scale=inner, out=fmt.scale)
    made = ring_ops.add(largest, summed)
    return fmt.link(made if keepdim else ring_ops.reshape(made, kept))
