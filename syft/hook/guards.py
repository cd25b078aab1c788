"""Checks before calls that torch itself does not check well enough for arguments from a stranger.

Each was found by probing: a malformed argument reads memory beyond a tensor, or crashes or hangs the process.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError
from syft.hook.syft_tensor import SyftTensor

Guard = Callable[[tuple[Any, ...], dict[str, Any]], None]
GUARDS: dict[str, Guard] = {}
# Those of them that look at values: they can't check tensors without values.
BY_VALUES: set[str] = set()
_LINKED = (torch.Tensor, AbstractTensor)


def guard_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], by_values: bool = True) -> None:
    """Check a call, if it needs it, on the plain tensors below its links; a remote tensor is checked where it is.

    With `by_values=False` guards that look at the values of tensors are left out.
    """
    guard = GUARDS.get(name)
    if guard is None or (not by_values and name in BY_VALUES):
        return
    if any(isinstance(leaf, SyftTensor | AbstractTensor) for leaf in iter_tensors((args, kwargs))):
        args, kwargs = map_tensors(bottom, (args, kwargs))
        if not all(isinstance(leaf, torch.Tensor) for leaf in iter_tensors((args, kwargs))):
            return
    guard(args, kwargs)


def bottom(leaf: object) -> Any:
    """Return the tensor or link at the end of a chain."""
    while isinstance(leaf, SyftTensor | AbstractTensor) and isinstance(leaf.__dict__.get("child"), _LINKED):
        leaf = leaf.__dict__["child"]
    return leaf


def is_quantized(leaf: object) -> bool:
    """Return whether the tensor at the end of a chain is quantized."""
    found = bottom(leaf)
    return isinstance(found, torch.Tensor) and not isinstance(found, SyftTensor) and found.is_quantized


def guards(*names: str, by_values: bool = False) -> Callable[[Guard], Guard]:
    """Register a check for some calls; `by_values` says whether it looks at the values of tensors."""

    def register(guard: Guard) -> Guard:
        GUARDS.update(dict.fromkeys(names, guard))
        if by_values:
            BY_VALUES.update(names)
        return guard

    return register


_GATES = {"torch.lstm": 4, "torch.gru": 3, "torch.rnn_tanh": 1, "torch.rnn_relu": 1}


def _check_recurrent(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the weights of a recurrent layer: torch reads past the end of ones that are too small."""
    if kwargs or len(args) != 9:
        raise CommandNotAllowedError(name, "it takes nine positional arguments.")
    packed = isinstance(args[3], list | tuple)
    hx, weights, has_biases, layers = (args[2:6]) if packed else (args[1:5])
    bidirectional = args[8] if packed else args[7]
    batch = _packed_batch(args[0], args[1]) if packed else _padded_batch(args[0], bool(args[8]))
    states = tuple(hx) if isinstance(hx, list | tuple) else (hx,)
    if batch is None or len(states) != (2 if name == "torch.lstm" else 1) or any(s.dim() != 3 for s in states):
        raise CommandNotAllowedError(name, "the shapes of its input or states do not fit.")
    directions = 2 if bidirectional else 1
    if type(layers) is not int or not 0 < layers <= len(weights):  # before anything is made of that number
        raise CommandNotAllowedError(name, "the number of its layers does not fit its weights.")
    hidden, width = states[0].shape[-1], states[-1].shape[-1]
    rows, features = _GATES[name] * width, args[0].shape[-1]
    expected = _weight_shapes(rows, hidden, width, features, int(layers), directions, bool(has_biases))
    state_shapes = [(layers * directions, batch, size) for size in (hidden, width)[: len(states)]]
    if [tuple(w.shape) for w in weights] != expected or [tuple(s.shape) for s in states] != state_shapes:
        raise CommandNotAllowedError(name, "the shapes of its weights or states do not fit its input.")


def _padded_batch(x: torch.Tensor, batch_first: bool) -> int | None:
    """Return the batch size of a padded batch, or None if it is not one."""
    return None if x.dim() != 3 else x.shape[0] if batch_first else x.shape[1]


def _packed_batch(data: torch.Tensor, sizes: torch.Tensor) -> int | None:
    """Return the batch size of a packed sequence, or None if its parts do not fit together."""
    if data.dim() != 2 or sizes.dim() != 1 or sizes.dtype is not torch.int64 or not sizes.numel():
        return None
    counts = sizes.tolist()
    falling = all(a >= b for a, b in itertools.pairwise(counts))
    return counts[0] if falling and counts[-1] > 0 and sum(counts) == data.shape[0] else None


def _weight_shapes(
    rows: int, hidden: int, width: int, features: int, layers: int, directions: int, biases: bool
) -> list[tuple[int, ...]]:
    """Return the shapes of all weights, in torch's order; `hidden` differs from `width` in projected LSTMs."""
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        columns = features if layer == 0 else hidden * directions
        for _ in range(directions):
            shapes += [(rows, columns), (rows, hidden)]
            shapes += [(rows,), (rows,)] if biases else []
            shapes += [(hidden, width)] if hidden != width else []
    return shapes


GUARDS.update({name: partial(_check_recurrent, name) for name in _GATES})


@guards("torch.Tensor.set_")
def only_from_a_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Take the place of a whole tensor: sizes and offsets of one's own would reach beyond it."""
    if kwargs or len(args) != 2 or not isinstance(args[1], torch.Tensor):
        raise CommandNotAllowedError("torch.Tensor.set_", "it takes one tensor and nothing else.")


@guards(
    *(f"torch.{name}" for name in ("div", "divide")),
    *(f"torch.Tensor.{name}" for name in ("div", "div_", "divide", "divide_")),
    by_values=True,
)
def no_overflowing_division(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse the one integer quotient that does not exist: the smallest number by -1 ends the process."""
    if kwargs.get("rounding_mode") != "trunc":
        return
    values = [*args, *(kwargs[k] for k in ("input", "other") if k in kwargs)]
    whole = [v for v in values if isinstance(v, int) or (isinstance(v, torch.Tensor) and not v.is_floating_point())]
    if len(whole) == len(values) and any(_has(v, -1) for v in values[1:]) and _has_smallest(values[0]):
        raise CommandNotAllowedError("torch.div", "the smallest integer has no quotient by -1.")


def _has(value: object, number: int) -> bool:
    return bool((value == number).any()) if isinstance(value, torch.Tensor) else value == number


def _has_smallest(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return bool(value <= -(2**31))
    return value.dtype is not torch.bool and _has(value, torch.iinfo(value.dtype).min)


@guards("torch.linalg.eigvals", "torch.linalg.eig", by_values=True)
def finite_only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse infinite and undefined entries: they end the process."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and not bool(torch.isfinite(value).all()):
            raise CommandNotAllowedError("torch.linalg.eig", "it takes finite entries only.")


@guards("torch.binomial", by_values=True)
def numbers_only(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse undefined entries: drawing with them never ends."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and bool(torch.isnan(value).any()):
            raise CommandNotAllowedError("torch.binomial", "it takes numbers only, no NaN.")


@guards("torch.lcm", "torch.Tensor.lcm", "torch.Tensor.lcm_", by_values=True)
def no_overflowing_multiple(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse the smallest integer, whose magnitude does not fit its type: dividing it ends the process."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and not value.is_floating_point() and _has_smallest(value):
            raise CommandNotAllowedError("torch.lcm", "the smallest integer of a type has no least common multiple.")


# Repetitions of one call; each is a few matrix products.
MAX_ITERATIONS = 1000
# Elements of a grid that torch makes before it looks at the result.
MAX_GRID = 2**28


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: object) -> Any:
    return args[position] if position < len(args) else kwargs.get(name, default)


def _is_count(value: object, most: int) -> bool:
    return value is None or (type(value) is int and 0 <= value <= most)


@guards("torch.combinations")
def few_combinations(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the grid that torch builds: it has as many elements as there are tuples with repetition."""
    x = _argument(args, kwargs, 0, "input", None)
    r = _argument(args, kwargs, 1, "r", 2)
    if type(r) is not int or not 0 <= r <= 64:
        raise CommandNotAllowedError("torch.combinations", "r must be an integer between 0 and 64.")
    if isinstance(x, torch.Tensor) and x.numel() ** r > MAX_GRID:
        raise CommandNotAllowedError("torch.combinations", f"it needs {x.numel()}**{r} elements, and may use 2**28.")


@guards("torch.lobpcg")
def few_lobpcg_iterations(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the iterations of both loops; a negative number would mean no bound."""
    niter, tol = _argument(args, kwargs, 6, "niter", None), _argument(args, kwargs, 7, "tol", None)
    if not _is_count(niter, 100) or (niter is None and not (tol is None or tol > 0)):
        raise CommandNotAllowedError("torch.lobpcg", "niter must be an integer between 0 and 100.")
    inner = _argument(args, kwargs, 11, "ortho_iparams", None)
    if inner is not None and not (type(inner) is dict and all(_is_count(value, 100) for value in inner.values())):
        raise CommandNotAllowedError("torch.lobpcg", "ortho_iparams must be integers between 0 and 100.")


def _check_iterations(name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the iterations of a randomized decomposition, which are done whether they improve it or not."""
    if not _is_count(_argument(args, kwargs, position, "niter", None), MAX_ITERATIONS):
        raise CommandNotAllowedError(name, f"niter must be an integer between 0 and {MAX_ITERATIONS}.")


GUARDS["torch.functional.svd_lowrank"] = partial(_check_iterations, "torch.svd_lowrank", 2)
GUARDS["torch.functional.pca_lowrank"] = partial(_check_iterations, "torch.pca_lowrank", 3)


@guards("torch.arange")
def bounded_length(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the length of a range; its ends are values and may be large."""
    plain = [value for value in args if isinstance(value, int | float)]
    start = kwargs.get("start", plain[0] if len(plain) > 1 else 0)
    end = kwargs.get("end", plain[1] if len(plain) > 1 else plain[0] if plain else 0)
    step = kwargs.get("step", plain[2] if len(plain) > 2 else 1)
    if not all(isinstance(value, int | float) for value in (start, end, step)) or not step:
        return  # torch raises its own error
    if abs(end - start) >= abs(step) * 2**31:
        raise CommandNotAllowedError("torch.arange", "it makes fewer than 2**31 elements. Use a larger step.")


# Padding that a window may have on each side beyond the size of the input.
MAX_PADDING = 64


def _by_dimension(value: object, dimensions: int) -> list[int]:
    """Return a size for each dimension, given one for all, a sequence, or something that torch refuses."""
    if isinstance(value, int):
        return [value] * dimensions
    if isinstance(value, tuple | list) and all(isinstance(item, int) for item in value):
        return list(value) * (dimensions if len(value) == 1 else 1)
    return []


def _check_padding(dimensions: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the padding by the input: windows grow with it, and take their time whatever they hold."""
    x = _argument(args, kwargs, 0, "input", None)
    padding = _by_dimension(_argument(args, kwargs, 3, "padding", 0), dimensions)
    if not isinstance(x, torch.Tensor) or x.dim() < dimensions or len(padding) != dimensions:
        return  # torch raises its own error
    for size, pad in zip(x.shape[-dimensions:], padding, strict=True):
        if pad > max(size, MAX_PADDING):
            raise CommandNotAllowedError(
                "This pooling", f"padding {pad} is larger than the input, which has size {size} there."
            )


for _dimensions in (1, 2, 3):
    for _name in ("torch.max_pool{}d", "torch.max_pool{}d_with_indices", "torch.nn.functional.max_pool{}d",
                  "torch.nn.functional.max_pool{}d_with_indices", "torch.nn.functional.avg_pool{}d"):  # fmt: skip
        GUARDS[_name.format(_dimensions)] = partial(_check_padding, _dimensions)


def _refuse_large_block(name: str, size: object, channels: int = 1) -> None:
    if math.prod(_by_dimension(size, 2)) * channels >= 2**31:
        raise CommandNotAllowedError(name, f"size {size} makes blocks of 2**31 values or more.")


@guards("torch.nn.functional.unfold")
def small_kernel(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the values below a kernel: torch multiplies their number out and does not notice an overflow."""
    x = _argument(args, kwargs, 0, "input", None)
    channels = x.shape[-3] if isinstance(x, torch.Tensor) and x.dim() > 2 else 1
    _refuse_large_block("torch.nn.functional.unfold", _argument(args, kwargs, 1, "kernel_size", 1), max(channels, 1))


@guards("torch.nn.functional.fold")
def small_output(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the values below a kernel and of the result, for the same reason."""
    _refuse_large_block("torch.nn.functional.fold", _argument(args, kwargs, 1, "output_size", 1))
    _refuse_large_block("torch.nn.functional.fold", _argument(args, kwargs, 2, "kernel_size", 1))


@guards(*(f"torch.nn.functional.fractional_max_pool{n}d{end}" for n in (2, 3) for end in ("", "_with_indices")))
def positive_kernel(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse kernels of negative size: torch converts them to 32 bits, and may then count up to 2**31."""
    sizes = _by_dimension(_argument(args, kwargs, 1, "kernel_size", 1), 1)
    if any(size < 1 for size in sizes):
        raise CommandNotAllowedError("torch.fractional_max_pool", f"kernel_size must be positive, got {sizes}.")


@guards("torch.functional.tensordot", by_values=True)
def few_dimensions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Bound the number of dimensions: torch lists all of them before it compares it with those of the tensors."""
    dims = _argument(args, kwargs, 2, "dims", 2)
    if isinstance(dims, torch.Tensor) and dims.numel() == 1:
        dims = dims.item()
    if isinstance(dims, int | float) and dims > 64:
        raise CommandNotAllowedError("torch.tensordot", "dims must be at most 64.")


# Pieces of tensors, and plain numbers, that one call gives: as many floats as fit into the plain values of a message.
MAX_PIECES = 1 << 14
MAX_NUMBERS = 1 << 23


def _named(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, *names: str) -> Any:
    """Return an argument that has several names."""
    return args[position] if position < len(args) else next(kwargs[name] for name in names if name in kwargs)


def _tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _named(args, kwargs, 0, "input", "tensor", "self")


def _length(args: tuple[Any, ...], kwargs: dict[str, Any], position: int) -> int:
    """Return the size of the dimension that an argument names, the first one by default."""
    return int(_tensor(args, kwargs).shape[_argument(args, kwargs, position, "dim", 0)])


def _split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Count pieces of one size, or of listed sizes."""
    size = _named(args, kwargs, 1, "split_size_or_sections", "split_size", "split_sizes")
    return -(-_length(args, kwargs, 2) // size) if type(size) is int else len(size)


def _chunks(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return min(int(_named(args, kwargs, 1, "chunks")), _length(args, kwargs, 2))


def _sections(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Count pieces by their number, of which some may be empty, or by the indices between them."""
    where = _named(args, kwargs, 1, "tensor_indices_or_sections", "indices_or_sections", "sections", "indices")
    if type(where) is int:
        return where
    if hasattr(where, "shape"):  # a tensor: of indices, or a number, which fake tensors do not have
        return int(where.shape[0]) + 1 if len(where.shape) else int(where)
    return len(where) + 1


def _check_results(
    name: str, count: Callable[..., int], most: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Bound the results of a call: 300,000 pieces of a tensor take seconds, on fake tensors too."""
    try:
        found = count(args, kwargs)
    except Exception:  # the arguments do not fit, which torch reports; or a number that only a value tells
        return
    if found > most:
        raise CommandNotAllowedError(name, f"it would give {found} values, and one call gives at most {most}.")


_COUNTED = {
    "unbind unbind_copy": lambda args, kwargs: _length(args, kwargs, 1),
    "split split_copy split_with_sizes split_with_sizes_copy unsafe_split unsafe_split_with_sizes": _split,
    "chunk unsafe_chunk": _chunks,
    "tensor_split hsplit vsplit dsplit": _sections,
}
_PIECES: dict[str, Callable[..., int]] = {
    f"{home}.{name}": count
    for names, count in _COUNTED.items()
    for name in names.split()
    for home in ("torch", "torch.Tensor")
} | {
    "torch.functional.split": _split,
    "torch.Tensor.__iter__": lambda args, kwargs: int(_tensor(args, kwargs).shape[0]),
}
GUARDS.update({name: partial(_check_results, name, count, MAX_PIECES) for name, count in _PIECES.items()})
GUARDS["torch.Tensor.tolist"] = partial(
    _check_results, "torch.Tensor.tolist", lambda args, kwargs: int(_tensor(args, kwargs).numel()), MAX_NUMBERS
)
