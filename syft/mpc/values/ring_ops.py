"""Arithmetic on integers modulo 2^64 that are plain (int64 tensors) or shared among workers.

Each function computes plain values directly, and runs a protocol if an operand is shared, so that rules are written
once for both. A public operand may be a tensor or a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import SyftError
from syft.mpc.ring import arithmetic
from syft.mpc.runtime import client
from syft.tensors.additive_shared import AdditiveSharingTensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# Integers modulo 2^64: plain (an int64 tensor) or shared.
Value = torch.Tensor | AdditiveSharingTensor
# An operand of a sum or a product: such integers, or one public integer.
Term = Value | int
Operation = torch._ops.OpOverload[..., Any]
aten = torch.ops.aten


def run(name: str, *args: object, **options: object) -> AdditiveSharingTensor:
    """Run a protocol that has one result."""
    result: AdditiveSharingTensor = client.run(name, *args, **options)
    return result


def is_shared(x: object) -> TypeIs[AdditiveSharingTensor]:
    """Return whether a value is shared."""
    return isinstance(x, AdditiveSharingTensor)


def shape_of(x: Term) -> torch.Size:
    """Return the shape of a value; a number has none."""
    return x.shape if isinstance(x, torch.Tensor | AdditiveSharingTensor) else torch.Size(())


@overload
def as_tensor(x: torch.Tensor | int) -> torch.Tensor: ...
@overload
def as_tensor(x: AdditiveSharingTensor) -> AdditiveSharingTensor: ...
def as_tensor(x: Term) -> Value:
    """Return a public number as a tensor, any other value unchanged."""
    return torch.tensor(x, dtype=torch.int64) if isinstance(x, int) else x


def divide(x: torch.Tensor, divisor: int) -> torch.Tensor:
    """Divide plain integers by a positive one, rounding to the nearest."""
    return x if divisor == 1 else torch.div(x + divisor // 2, divisor, rounding_mode="floor")


# --- sums -------------------------------------------------------------------------------------------------------


def add(x: Term, y: Term) -> Value:
    """Add."""
    if is_shared(x):
        return run("add" if is_shared(y) else "add_public", x, y)
    return run("add_public", y, x) if is_shared(y) else as_tensor(x + y)


def sub(x: Term, y: Term) -> Value:
    """Subtract."""
    if is_shared(x):
        return run("add", x, y, alpha=-1) if is_shared(y) else run("add_public", x, -y)
    return run("add_public", y, x, alpha=-1) if is_shared(y) else as_tensor(x - y)


def neg(x: Value) -> Value:
    """Change the sign."""
    return scale(x, -1)


def scale(x: Value, factor: int) -> Value:
    """Multiply by a public whole number."""
    if factor == 1:
        return x
    # A sum, unlike a product, needs no dealer.
    return run("add_public", x, 0, alpha=factor) if is_shared(x) else product("mul", x, factor)


# --- products ---------------------------------------------------------------------------------------------------


_PLAIN: dict[str, Any] = {"mul": torch.mul, "matmul": arithmetic.matmul, "conv": arithmetic.conv}
_FLOATS: dict[str, Any] = {"mul": torch.mul, "matmul": torch.matmul, "conv": arithmetic.conv}
# Plain products below this fit, with half of a divisor added.
ROOM = 2.0**63 * (1 - 2.0**-20)


def _largest(x: torch.Tensor) -> int:
    low, high = x.aminmax()
    return max(abs(int(low)), abs(int(high)))


def _check_room(operation: str, x: torch.Tensor, y: torch.Tensor, divisor: int, options: dict[str, object]) -> None:
    """Raise if a plain product does not fit into 64 bits; it would wrap around."""
    if not x.numel() or not y.numel():
        return
    largest = float(_largest(x) * _largest(y))
    terms = 1 if operation == "mul" else max(x.numel(), y.numel())
    if largest * terms + divisor < ROOM:
        return
    if float(_FLOATS[operation](x.double(), y.double(), **options).abs().max()) + divisor >= ROOM:
        raise SyftError(
            "A product of these fixed-precision tensors has no room in 64 bits. "
            "Use fewer digits (precision_fractional), or scale the values down first."
        )


def product(operation: str, x: Term, y: Term, divisor: int = 1, **options: object) -> Value:
    """Multiply (`mul`, `matmul` or `conv`), then divide by a public number, rounding."""
    if divisor == 1 and is_shared(x) and isinstance(y, int):
        return scale(x, y)
    if divisor == 1 and is_shared(y) and isinstance(x, int):
        return scale(y, x)
    if is_shared(x) and is_shared(y):
        if operation == "mul" and x is y:
            return run("square", x, divisor=divisor)
        return run("product", x, y, divisor=divisor, operation=operation, **options)
    if is_shared(x):
        return run("product_public", x, y, divisor=divisor, operation=operation, **options)
    if is_shared(y):
        return run(
            "product_public", y, x, divisor=divisor, operation=operation, swapped=isinstance(x, torch.Tensor), **options
        )
    x, y = as_tensor(x), as_tensor(y)
    _check_room(operation, x, y, divisor, options)
    return divide(_PLAIN[operation](x, y, **options), divisor)


def mul(x: Term, y: Term, divisor: int = 1) -> Value:
    """Multiply element by element, then divide by a public number."""
    return product("mul", x, y, divisor)


def truncate(x: Value, divisor: int) -> Value:
    """Divide by a public whole number, of either sign; plain numbers are rounded to the nearest."""
    if divisor == 1:
        return x
    if is_shared(x):
        return run("truncate", x, divisor)
    return divide(x, divisor) if divisor > 0 else -divide(x, -divisor)


# --- comparisons ------------------------------------------------------------------------------------------------


# The comparison protocol of a link -> the prefix of its protocol names.
COMPARISONS = {"beaver": "", "snn": "snn_", "fss": "fss_"}


def _compare(name: str, x: AdditiveSharingTensor, **options: object) -> Value:
    return run(COMPARISONS[x.protocol] + name, x, **options)


def negative(x: Value, scale: int = 1, invert: bool = False) -> Value:
    """Return `scale` where a value is negative (inverted: where it is not), and 0 elsewhere.

    Two values are compared by the sign of their difference. This is correct for values in [-2^62, 2^62); with protocol
    "snn" the difference itself must be in this range, as it is for values in [-2^61, 2^61).
    """
    if is_shared(x):
        return _compare("negative", x, invert=invert, scale=scale)
    return ((x >= 0) if invert else (x < 0)).long() * scale


def zero(x: Value, scale: int = 1, invert: bool = False) -> Value:
    """Return `scale` where a value is zero (inverted: where it is not), and 0 elsewhere."""
    if is_shared(x):
        return _compare("zero", x, invert=invert, scale=scale)
    return ((x != 0) if invert else (x == 0)).long() * scale


def relu(x: Value) -> Value:
    """Return max(x, 0)."""
    return _compare("relu", x) if is_shared(x) else x.clamp(min=0)


def relu_and_bits(x: Value, *names: str) -> tuple[Value, ...]:
    """Return max(x, 0), and bits for x >= 0 ("ge") or x > 0 ("gt") at no further cost."""
    if is_shared(x):
        return tuple(client.run("relu", x, bits=names))
    return x.clamp(min=0), *[(x >= 0 if name == "ge" else x > 0).long() for name in names]


# --- linear operations -----------------------------------------------------------------------


_VIEWS = {aten.view.default: aten.reshape.default, aten._unsafe_view.default: aten.reshape.default}


def local(operation: Operation, *args: object, **kwargs: object) -> Value:
    """Run a linear ATen operation that has one result (see `local_results`)."""
    result: Value = local_results(operation, *args, **kwargs)
    return result


def unbind(x: Value) -> list[Value]:
    """Return the slices along the first dimension."""
    return list(local_results(aten.unbind.int, x))


def local_results(operation: Operation, *args: object, **kwargs: object) -> Any:
    """Run a call of the closed table of linear ATen operations; plain values among shared ones are shared first."""
    # A tensor that is contiguous for the user may not be contiguous here, or at a party.
    operation = _VIEWS.get(operation, operation)
    if not any(is_shared(leaf) for leaf in iter_tensors(args)):
        return operation(*args, **kwargs)
    name = f"{operation.overloadpacket.__name__}.{operation._overloadname}"
    made = client.run("local", *args, call=name, **kwargs)
    return list(made) if isinstance(made, tuple) else made


def together(items: Sequence[Term]) -> list[Value]:
    """Share plain values if any of them is shared, so that they can be combined."""
    model = next((item for item in items if is_shared(item)), None)
    if model is None:
        return [as_tensor(item) for item in items]
    return [item if is_shared(item) else public(as_tensor(item), model) for item in items]


def public(plain: torch.Tensor, model: Value) -> AdditiveSharingTensor:
    """Return public numbers as shares, which hide nothing, at the parties of a shared tensor."""
    nothing = scale(local(aten.sum.default, model), 0)
    return run("add_public", nothing, plain)


def reshape(x: Term, shape: Sequence[int]) -> Value:
    """Change the shape of a value."""
    x = as_tensor(x)
    if isinstance(x, torch.Tensor):
        return x.reshape(tuple(shape))
    return x if tuple(x.shape) == tuple(shape) else local(aten.view.default, x, list(shape))


def permute(x: Value, order: list[int]) -> Value:
    """Permute dimensions."""
    return local(aten.permute.default, x, order)


def pick(x: Value, positions: torch.Tensor) -> Value:
    """Return the elements of a value at flat public positions, in the shape of the positions."""
    flat = reshape(x, [shape_of(x).numel()])
    return reshape(local(aten.index_select.default, flat, 0, positions.reshape(-1)), positions.shape)


def put(x: Value, positions: torch.Tensor, new: Value) -> Value:
    """Return a value with new numbers at flat public positions."""
    x, new = together([x, new])
    flat, count = reshape(x, [shape_of(x).numel()]), positions.numel()
    rows = reshape(expand(new, positions.shape), [count])
    written = local(aten.index_put.default, flat, [positions.reshape(-1)], rows)
    return reshape(written, shape_of(x))


def expand(x: Term, shape: Sequence[int]) -> Value:
    """Repeat a value along dimensions of size one."""
    x = as_tensor(x)
    return x if tuple(shape_of(x)) == tuple(shape) else local(aten.expand.default, x, list(shape))


def total(x: Value, dims: list[int] | None = None, keepdim: bool = False) -> Value:
    """Add up along some dimensions, or all."""
    if dims is None or not len(dims):
        dims = list(range(len(shape_of(x))))
    return local(aten.sum.dim_IntList, x, dims, keepdim) if dims else x


# --- extremes ---------------------------------------------------------------------------------------------------


def extreme(x: Value, dim: int | None = None, keepdim: bool = False, largest: bool = True) -> Value:
    """Return the largest (or smallest) element along a dimension, or of all."""
    if is_shared(x):
        return run("extreme", x, dim=dim, keepdim=keepdim, largest=largest)
    return _plain_extreme(x, dim, keepdim, largest)


def _plain_extreme(x: torch.Tensor, dim: int | None, keepdim: bool, largest: bool) -> torch.Tensor:
    dims = list(range(x.dim())) if dim is None else [dim]
    return (torch.amax if largest else torch.amin)(x, dims, keepdim)


def extreme_at(
    x: Value, dim: int | None = None, keepdim: bool = False, largest: bool = True, scale: int = 1
) -> tuple[Value, Value]:
    """Return the largest (or smallest) element along a dimension, or of all, and its index times a scale.

    Of equal elements the first one is returned, unlike in torch.
    """
    if is_shared(x):
        found, place = client.run("extreme_at", x, dim=dim, keepdim=keepdim, largest=largest, scale=scale)
        return found, place
    return _plain_extreme_at(x, dim, keepdim, largest, scale)


def _plain_extreme_at(
    x: torch.Tensor, dim: int | None, keepdim: bool, largest: bool, scale: int
) -> tuple[torch.Tensor, torch.Tensor]:
    found = _plain_extreme(x, dim, True, largest)
    first = (x == found).long().flatten().argmax() if dim is None else (x == found).long().argmax(dim, True)
    shape = _plain_extreme(x, dim, keepdim, largest).shape
    return found.reshape(shape), (first * scale).reshape(shape)


def extreme_and_path(x: Value, dim: int) -> tuple[Value, Value]:
    """Return the largest element along a dimension, and the path that `path_back` needs."""
    if is_shared(x):
        found, path = client.run("extreme_path", x, dim=dim)
        return found, path
    found, place = _plain_extreme_at(x, dim, False, True, 1)
    return found, torch.nn.functional.one_hot(place, x.shape[dim]).movedim(-1, 0)


def path_back(grad: Value, path: Value, count: int) -> Value:
    """Return gradients at the largest of `count` elements, in a new first dimension, and 0 elsewhere."""
    if not is_shared(path):
        return mul(path, grad)
    grad, path = together([grad, path])
    return run("path_back", grad, path, count=count)
