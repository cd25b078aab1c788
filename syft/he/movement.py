"""Rules of PaillierTensor for calls that move elements: they run on positions, which then select ciphertexts.

Positions count from 1, so that a 0 that a call puts in (`tril`, `pad`) becomes a zero. If torch returns a view of the
positions, the result is a view of the tensor: writes to either reach the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.he import ciphertexts as c
from syft.he.paillier_tensor import HINT, PaillierTensor
from syft.he.rules import add, mul, operand, refuse_out, rule, total

_Tensor: Any = torch.Tensor
F: Any = torch.nn.functional

# Calls on one encrypted tensor; plain tensors among their arguments are indices or masks.
_MOVES = (
    "__getitem__ view view_as reshape reshape_as transpose t swapaxes swapdims permute movedim moveaxis squeeze "
    "unsqueeze flatten unflatten ravel expand expand_as broadcast_to repeat repeat_interleave tile split chunk "
    "tensor_split hsplit vsplit dsplit unbind narrow select index_select gather take take_along_dim masked_select flip "
    "fliplr flipud roll rot90 diagonal diag diag_embed tril triu unfold adjoint detach contiguous "
    "cpu conj split_with_sizes T mT H mH data"
).split()
# Calls on several tensors, encrypted or plain.
_JOINS = (
    "cat concat concatenate stack hstack vstack dstack column_stack row_stack broadcast_tensors atleast_1d atleast_2d "
    "atleast_3d"
).split()


def _positions(x: c.Ciphertexts, start: int = 1) -> torch.Tensor:
    return torch.arange(start, start + x.values.size).reshape(x.shape)


def _functions(name: str) -> list[Any]:
    """Return the functions of torch and the methods of tensors of a name; for a property, its getter."""
    found: list[Any] = [getattr(home, name, None) for home in (torch, torch.functional, _Tensor)]
    getters = [f.__get__ for f in found if not callable(f) and hasattr(f, "__set__")]
    return list(dict.fromkeys([*filter(callable, found), *getters]))


def _move(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a call that moves the elements of its first argument."""
    name = getattr(function, "__name__", "")

    def model(leaf: Any) -> Any:
        if not isinstance(leaf, PaillierTensor):
            return leaf
        if not name.endswith("_as"):
            raise UnsupportedOperationError("An encrypted index or mask", "PaillierTensor", HINT)
        return torch.empty(leaf.shape)

    def move(*args: Any, **kwargs: Any) -> Any:
        refuse_out(kwargs.get("out"), "This call")
        link = args[0] if args else kwargs.pop("input")
        if not isinstance(link, PaillierTensor) or (name == "repeat_interleave" and not args[1:] and not kwargs):
            raise UnsupportedOperationError("An encrypted index, mask or count", "torch.Tensor", HINT)
        positions = _positions(link.ciphertexts)
        others, named = map_tensors(model, (args[1:], kwargs))
        result = function(positions, *others, **named)
        return map_tensors(lambda leaf: _moved(link, positions, leaf), result)

    return move


def _moved(link: PaillierTensor, positions: torch.Tensor, result: torch.Tensor) -> PaillierTensor:
    """Return the link of one result of a move: a view where torch returns one."""
    if result is positions:
        return link
    if result.dtype is not torch.int64:
        raise UnsupportedOperationError("view(dtype)", "PaillierTensor", HINT)
    made = link.like(c.taken(link.ciphertexts, result))
    if result.untyped_storage().data_ptr() == positions.untyped_storage().data_ptr() and positions.numel():
        made.view_of(link, lambda parent: c.taken(parent, result), lambda old, new: _written(old, result, new))
    return made


def _written(old: c.Ciphertexts, places: torch.Tensor, new: c.Ciphertexts) -> c.Ciphertexts:
    """Return ciphertexts with new ones at some positions."""
    line = places.reshape(-1)
    if len(set(line.tolist())) < len(line):
        raise SyftError("An expanded tensor can't be changed in place. Use clone() first.")
    positions = _positions(old)
    positions.reshape(-1)[line - 1] = torch.arange(len(line)) + old.values.size + 1
    return c.taken(c.joined([old, new]), positions)


def _join(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule of a call that joins several tensors, some of them plain."""

    def join(*args: Any, **kwargs: Any) -> Any:
        refuse_out(kwargs.get("out"), "This call")
        leaves: list[Any] = []
        map_tensors(leaves.append, (args, kwargs))
        parts = _encrypted(leaves)
        starts, start = {}, 1
        for leaf, part in zip(leaves, parts, strict=True):
            starts[id(leaf)] = _positions(part, start)
            start += part.values.size
        call_args, call_kwargs = map_tensors(lambda leaf: starts[id(leaf)], (args, kwargs))
        pool = c.joined(parts)
        result = function(*call_args, **call_kwargs)
        return map_tensors(lambda leaf: PaillierTensor(child=c.taken(pool, leaf)), result)

    return join


def _encrypted(leaves: list[Any]) -> list[c.Ciphertexts]:
    """Return operands as ciphertexts; plain ones are randomised before they leave, as all results."""
    model = next(leaf.ciphertexts for leaf in leaves if isinstance(leaf, PaillierTensor))
    given = [operand(leaf, "This call") for leaf in leaves]
    return [each if isinstance(each, c.Ciphertexts) else c.as_addend(model, each, "This call") for each in given]


for _names, _make in ((_MOVES, _move), (_JOINS, _join)):
    for _name in _names:
        for _function in _functions(_name):
            PaillierTensor.implements(_function)(_make(_function))


@rule("where")
def where(condition: Any, input: Any = None, other: Any = None, *, out: object = None) -> PaillierTensor:
    """Choose between two tensors by a plain condition."""
    refuse_out(out, "where")
    if isinstance(condition, PaillierTensor) or input is None or other is None:
        raise UnsupportedOperationError("where() with an encrypted condition", "PaillierTensor", HINT)
    first, second = _encrypted([input, other])
    chosen = torch.where(condition, _positions(first), _positions(second, first.values.size + 1))
    return PaillierTensor(child=c.taken(c.joined([first, second]), chosen))


@PaillierTensor.implements(F.pad)
def pad(input: PaillierTensor, pad: Any, mode: str = "constant", value: float | None = None) -> PaillierTensor:
    """Pad with zeros."""
    if mode != "constant" or value:
        raise UnsupportedOperationError(f"pad(mode={mode!r}, value={value!r})", "PaillierTensor", "Pad with zeros.")
    return PaillierTensor(child=c.taken(input.ciphertexts, F.pad(_positions(input.ciphertexts), pad)))


@rule("__setitem__")
def set_item(target: Any, index: Any, value: Any) -> None:
    """Write to some elements."""
    if not isinstance(target, PaillierTensor):
        raise UnsupportedOperationError(
            "Writing ciphertexts to a plain tensor", "torch.Tensor", "Encrypt the tensor first."
        )
    old = target.ciphertexts
    new = _encrypted([target, value])[1]
    if any(isinstance(leaf, PaillierTensor) for leaf in iter_tensors(index)):
        raise UnsupportedOperationError("An encrypted index or mask", "PaillierTensor", HINT)
    positions = _positions(old)
    positions[index] = _positions(new, old.values.size + 1)
    joined = c.joined([old, new])
    target.write(c.taken(joined, positions), "x[...] = y")


@rule("copy_")
def copy_(target: Any, source: Any, non_blocking: bool = False) -> PaillierTensor:
    """Write all elements."""
    set_item(target, ..., source)
    return target  # type: ignore[no-any-return]


@rule("fill_")
def fill_(target: PaillierTensor, value: Any) -> PaillierTensor:
    """Write one number to all elements."""
    return copy_(target, value)


@rule("zero_")
def zero_(target: PaillierTensor) -> PaillierTensor:
    """Write zeros to all elements."""
    return copy_(target, 0)


@rule("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> PaillierTensor:
    """Replace the elements at which a plain mask is true."""
    return where(mask, value, input)


@rule("trace")
def trace(input: PaillierTensor) -> PaillierTensor:
    """Add the diagonal of a matrix."""
    return total(input.diagonal())


@rule("lerp")
def lerp(input: Any, end: Any, weight: Any, *, out: object = None) -> PaillierTensor:
    """Interpolate by a plain weight."""
    refuse_out(out, "lerp")
    return add(input, mul(end - input, weight))


@rule("clone", "__copy__")
def clone(input: PaillierTensor, *, memory_format: object = None) -> PaillierTensor:
    """Return a copy."""
    return input.clone()


@rule("__deepcopy__")
def deep_copy(input: PaillierTensor, memo: dict[int, Any]) -> Any:
    """Return a copy."""
    return input.clone().wrap()


@rule("__iter__")
def iterate(input: PaillierTensor) -> Any:
    """Iterate over the first dimension."""
    if not input.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter([row.wrap() for row in input.unbind(0)])


@rule("float", "double", "half", "bfloat16")
def as_float(input: PaillierTensor, *, memory_format: object = None) -> PaillierTensor:
    """Return numbers that are decrypted to the default dtype of torch."""
    x = input.ciphertexts
    return PaillierTensor(child=c.as_fractions(x)) if x.whole else input


@rule("long", "int", "short", "char", "byte")
def as_whole(input: PaillierTensor, *, memory_format: object = None) -> PaillierTensor:
    """Return whole numbers as they are: they are decrypted to int64. Fractions can't be rounded."""
    if not input.ciphertexts.whole:
        raise UnsupportedOperationError("Rounding", "PaillierTensor", HINT)
    return input


@rule("to")
def to(input: PaillierTensor, *args: Any, **kwargs: Any) -> PaillierTensor:
    """Convert between whole numbers and fractions; devices are ignored, because ciphertexts are in main memory."""
    plain = torch.empty(0, dtype=input.dtype)
    dtype = plain.to(*args, **kwargs).dtype
    if dtype is plain.dtype:
        return input
    return as_float(input) if dtype.is_floating_point else as_whole(input)


@rule("requires_grad_")
def requires_grad_(input: PaillierTensor, requires_grad: bool = True) -> PaillierTensor:
    """Refuse gradients."""
    if requires_grad:
        raise UnsupportedOperationError("Autograd", "PaillierTensor", HINT)
    return input


@rule("is_contiguous")
def is_contiguous(input: PaillierTensor, **kwargs: object) -> bool:
    """Return True: there are no strides."""
    return True


@PaillierTensor.implements(_Tensor.is_leaf.__get__)
def is_leaf(input: PaillierTensor) -> bool:
    """Return True: there is no graph."""
    return True


@rule("__reduce_ex__")
def refuse_pickle(input: PaillierTensor, protocol: object) -> NoReturn:
    """Refuse pickle, which would not randomise results."""
    raise SyftError("A Paillier tensor can't be pickled or saved with torch.save. Write it with sy.serialize(x).")


@rule("__repr__", "__str__")
def shown(input: PaillierTensor, **kwargs: object) -> str:
    """Return the text of the tensor, without ciphertexts."""
    return f"(Wrapper)>{input!r}"


@rule("__format__")
def formatted(input: PaillierTensor, spec: str) -> str:
    """Return the text of the tensor, without ciphertexts."""
    return format(shown(input), spec)
