"""Rules of PaillierTensor for the arithmetic calls of torch: sums, and products with plain numbers."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch

from syft.exceptions import SyftError, UnsupportedOperationError
from syft.he import ciphertexts as c
from syft.he.encoding import Integers, encode, encode_reciprocals, is_number
from syft.he.paillier_tensor import HINT, PaillierTensor

_Tensor: Any = torch.Tensor
F: Any = torch.nn.functional
Dims = int | Sequence[int] | None


Rule = TypeVar("Rule", bound=Callable[..., Any])
# Torch's other names of arguments -> the names that rules use; the first one that a rule has.
_ALIASES = {
    "mat2": ("other",), "vec": ("other", "mat2"), "tensor": ("other",), "mat": ("mat1",), "batch1": ("mat1",),
    "batch2": ("mat2",), "axis": ("dim",), "keepdims": ("keepdim",),
}  # fmt: skip


def _with_aliases(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a rule take the arguments of torch calls that name them differently."""
    own = inspect.signature(function).parameters
    names = {
        alias: next((n for n in known if n in own), alias) for alias, known in _ALIASES.items() if alias not in own
    }

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{names.get(name, name): value for name, value in kwargs.items()})

    return run


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for torch functions and tensor methods of these names."""

    def register(function: Rule) -> Rule:
        found = [getattr(home, name) for name in names for home in (torch, _Tensor) if hasattr(home, name)]
        PaillierTensor.implements(*dict.fromkeys(found))(_with_aliases(function))
        return function

    return register


def in_place(functional: Callable[..., Any], *names: str) -> None:
    """Register the in-place forms of a rule."""

    @functools.wraps(functional)
    def write(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, PaillierTensor):
            raise UnsupportedOperationError(
                f"{names[0]} of ciphertexts into a plain tensor", "torch.Tensor", "Use the form that is not in place."
            )
        return x.write(functional(x, *args, **kwargs).ciphertexts, names[0])

    rule(*names)(write)


def operand(value: Any, call: str) -> Any:
    """Return the ciphertexts of a link, or a plain operand as it is."""
    if isinstance(value, PaillierTensor):
        return value.ciphertexts
    if is_number(value):
        return value
    kind = type(value).__name__
    hint = "Send both to the same worker." if hasattr(value, "location") else "Use a plain tensor or number."
    raise UnsupportedOperationError(f"{call} with a {kind}", "PaillierTensor", hint)


def wrapped(result: c.Ciphertexts) -> PaillierTensor:
    """Return a link around a result."""
    return PaillierTensor(child=result)


def refuse_out(out: object, call: str) -> None:
    """Refuse the argument `out`."""
    if out is not None:
        raise UnsupportedOperationError(f"{call}(out=...)", "PaillierTensor", "Use the result instead.")


def refuse_product(call: str) -> NoReturn:
    """Refuse a call that needs the product of two ciphertexts."""
    raise UnsupportedOperationError(
        call,
        "PaillierTensor",
        "Paillier can't multiply two ciphertexts. Multiply by a plain tensor, "
        "or share the tensors among workers: x.fix_precision().share(alice, bob, crypto_provider=carol).",
    )


# --- sums -----------------------------------------------------------------------------------------------------------


def _scaled(value: Any, alpha: Any) -> Any:
    """Multiply an operand by the argument `alpha` of torch's sums."""
    if type(alpha) is int and alpha == 1:
        return value
    if not isinstance(value, c.Ciphertexts):
        return value * alpha
    if type(alpha) is int and alpha == -1:
        return c.neg(value)
    return c.mul(value, encode(value.key, alpha, value.key.factor, "alpha"))


def _sum(x: Any, y: Any, call: str) -> PaillierTensor:
    if not isinstance(x, c.Ciphertexts):
        x, y = y, x
    return wrapped(c.add(x, y if isinstance(y, c.Ciphertexts) else c.as_addend(x, y, call)))


@rule("add", "__add__", "__radd__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: object = None) -> PaillierTensor:
    """Add ciphertexts, or ciphertexts and plain numbers."""
    refuse_out(out, "add")
    return _sum(operand(input, "add"), _scaled(operand(other, "add"), alpha), "add")


@rule("sub", "subtract", "__sub__")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: object = None) -> PaillierTensor:
    """Subtract ciphertexts, or ciphertexts and plain numbers."""
    refuse_out(out, "sub")
    scaled = _scaled(operand(other, "sub"), alpha)
    if isinstance(scaled, c.Ciphertexts):
        return _sum(operand(input, "sub"), c.neg(scaled), "sub")
    x = operand(input, "sub")
    return wrapped(c.add(x, c.as_addend(x, scaled, "sub", sign=-1)))


@rule("rsub", "__rsub__")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> PaillierTensor:
    """Subtract from a plain number or from ciphertexts."""
    return sub(other, input, alpha=alpha)


@rule("neg", "negative", "__neg__")
def neg(input: PaillierTensor, *, out: object = None) -> PaillierTensor:
    """Change the sign."""
    refuse_out(out, "neg")
    return wrapped(c.neg(input.ciphertexts))


@rule("positive", "__pos__")
def positive(input: PaillierTensor) -> PaillierTensor:
    """Return the tensor itself."""
    return input


def _dims(x: PaillierTensor, dim: Dims) -> list[int]:
    """Return dimensions from 0; all of them for None and for an empty sequence."""
    count = x.dim()
    wanted = [dim] if isinstance(dim, int) else list(dim or range(count))
    if not all(-max(1, count) <= each < max(1, count) for each in wanted):
        raise IndexError(f"Dimension out of range: this tensor has {count} dimensions, got dim={dim!r}.")
    found = [each % count for each in wanted] if count else []
    if len(set(found)) < len(found):
        raise SyftError(f"A dimension appears twice in dim={dim!r}.")
    return found


@rule("sum")
def total(
    input: PaillierTensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: object = None
) -> PaillierTensor:
    """Add all elements, or those along dimensions."""
    refuse_out(out, "sum")
    if dtype is not None:
        raise UnsupportedOperationError("sum(dtype=...)", "PaillierTensor", "Convert the decrypted tensor.")
    return wrapped(c.total(input.ciphertexts, _dims(input, dim), keepdim))


@rule("mean")
def mean(
    input: PaillierTensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: object = None
) -> PaillierTensor:
    """Return the mean of all elements, or of those along dimensions."""
    count = math.prod(input.shape[each] for each in _dims(input, dim))
    if not count:
        raise SyftError("mean() of an empty tensor is not a number. Check x.numel() first.")
    return div(total(input, dim, keepdim, dtype=dtype, out=out), count)


@rule("cumsum")
def cumsum(input: PaillierTensor, dim: int, *, dtype: object = None, out: object = None) -> PaillierTensor:
    """Add the elements up to each one."""
    refuse_out(out, "cumsum")
    if dtype is not None:
        raise UnsupportedOperationError("cumsum(dtype=...)", "PaillierTensor", "Convert the decrypted tensor.")
    return wrapped(c.cumulative(input.ciphertexts, _dims(input, dim)[0] if input.dim() else 0))


# --- products -------------------------------------------------------------------------------------------------------


def _ordered(x: Any, y: Any, call: str) -> tuple[c.Ciphertexts, Any]:
    """Return the ciphertexts and the plain operand of a product."""
    first, second = operand(x, call), operand(y, call)
    if isinstance(first, c.Ciphertexts) and isinstance(second, c.Ciphertexts):
        refuse_product(f"{call} of two encrypted tensors")
    return (first, second) if isinstance(first, c.Ciphertexts) else (second, first)


@rule("mul", "multiply", "__mul__", "__rmul__")
def mul(input: Any, other: Any, *, out: object = None) -> PaillierTensor:
    """Multiply ciphertexts by plain numbers."""
    refuse_out(out, "mul")
    x, plain = _ordered(input, other, "mul")
    return wrapped(c.mul(x, encode(x.key, plain, x.key.factor, "mul")))


@rule("div", "divide", "true_divide", "__truediv__")
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: object = None) -> PaillierTensor:
    """Divide ciphertexts by plain numbers."""
    refuse_out(out, "div")
    if rounding_mode is not None:
        raise UnsupportedOperationError(f"div(rounding_mode={rounding_mode!r})", "PaillierTensor", HINT)
    if isinstance(other, PaillierTensor):
        raise UnsupportedOperationError("Division by an encrypted tensor", "PaillierTensor", HINT)
    x = operand(input, "div")
    return wrapped(c.mul(x, encode_reciprocals(x.key, operand(other, "div"))))


def _refuse_powers(*args: object, **kwargs: object) -> NoReturn:
    refuse_product("A power of an encrypted tensor")


rule("pow", "square", "__pow__", "__rpow__", "pow_", "__ipow__")(_refuse_powers)


def _product(x: c.Ciphertexts, plain: Integers) -> c.Ciphertexts:
    """Return x @ plain as torch.matmul does: vectors, matrices, batches."""
    if not x.values.ndim or not plain.values.ndim:
        raise SyftError("matmul() needs tensors with at least one dimension. Use mul() for numbers.")
    left, right = x.values.ndim == 1, plain.values.ndim == 1
    lifted = c.reshaped(x, (1, *x.shape)) if left else x
    weights = plain._replace(values=plain.values[:, None]) if right else plain
    result = c.matmul(lifted, weights)
    shape = list(result.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-1 if right else -2]
    return c.reshaped(result, tuple(shape))


def _flipped(values: Any) -> Any:
    return np.swapaxes(values, -1, -2) if values.ndim > 1 else values


@rule("matmul", "mm", "__matmul__", "bmm", "mv", "dot", "vdot")
def matmul(input: Any, other: Any, *, out: object = None) -> PaillierTensor:
    """Multiply matrices, one of them plain; `mm` of two vectors gives their inner product."""
    refuse_out(out, "matmul")
    x, plain = _ordered(input, other, "matmul")
    if isinstance(plain, bool | int | float):
        raise SyftError("matmul() needs two tensors. Use mul() to multiply by a number.")
    weights = encode(x.key, plain, x.key.factor, "matmul")
    if isinstance(input, PaillierTensor):
        return wrapped(_product(x, weights))
    # A @ x is the transpose of the transposes' product in the other order.
    turned = _product(c.transposed(x), weights._replace(values=_flipped(weights.values)))
    both = x.values.ndim > 1 and weights.values.ndim > 1
    return wrapped(c.transposed(turned) if both else turned)


@rule("__rmatmul__")
def rmatmul(input: Any, other: Any) -> PaillierTensor:
    """Multiply matrices in the other order."""
    return matmul(other, input)


@rule("inner")
def inner(input: Any, other: Any, *, out: object = None) -> PaillierTensor:
    """Return inner products over the last dimensions."""
    if not input.dim() or not other.dim():
        return mul(input, other, out=out)
    if other.dim() == 1 or input.dim() == 1:
        return matmul(input, other, out=out) if other.dim() == 1 else matmul(other, input, out=out)
    columns = other.reshape(-1, other.shape[-1]).t()
    result: Any = matmul(input.reshape(-1, input.shape[-1]), columns, out=out)
    shaped: PaillierTensor = result.reshape(*input.shape[:-1], *other.shape[:-1])
    return shaped


@rule("outer", "ger")
def outer(input: Any, vec2: Any, *, out: object = None) -> PaillierTensor:
    """Return the products of all pairs of two vectors."""
    return mul(input.unsqueeze(1), vec2.unsqueeze(0), out=out)


@PaillierTensor.implements(F.linear)
def linear(input: Any, weight: Any, bias: Any = None) -> PaillierTensor:
    """Apply a linear layer."""
    product = matmul(input, weight.t() if weight.dim() > 1 else weight)
    return product if bias is None else add(product, bias)


def _plus_product(base: Any, product: PaillierTensor, beta: Any, alpha: Any) -> PaillierTensor:
    scaled = product if type(alpha) is int and alpha == 1 else mul(product, alpha)
    if type(beta) is int and beta == 1:
        return add(scaled, base)
    return add(scaled, mul(base, beta) if isinstance(base, PaillierTensor) else base * beta)


@rule("addmm", "addmv", "baddbmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: object = None) -> PaillierTensor:
    """Return beta * input + alpha * (mat1 @ mat2)."""
    refuse_out(out, "addmm")
    if not isinstance(mat1, PaillierTensor) and not isinstance(mat2, PaillierTensor):
        return add(input if beta == 1 else mul(input, beta), torch.matmul(mat1, mat2) * alpha)
    return _plus_product(input, matmul(mat1, mat2), beta, alpha)


in_place(add, "add_", "__iadd__")
in_place(sub, "sub_", "subtract_", "__isub__")
in_place(mul, "mul_", "multiply_", "__imul__")
in_place(div, "div_", "divide_", "true_divide_", "__itruediv__")
in_place(neg, "neg_", "negative_")
