"""Random calls of the whole table, with extreme integers, values and shapes.

`random_call` knows nothing about the worker that runs the calls, so any target can be fuzzed with it.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import torch

from syft.hook.allowed_functions import CONSTRUCTORS
from tests.helpers.remote.sample import fresh, transform
from tests.helpers.remote.samples import Sample, samples, unlisted_samples

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

# Half of them are below the bound for sizes, so that they reach the kernels.
INTEGERS = (
    *(0, 1, -1, 2, 3, 5, -7, 16, 63, 64, 65, 255, 1000, 2**15, 2**16 + 1, 10**5, 2**20, 2**24, 10**8, 2**30),
    *(2**31 - 1, -(2**31) + 1, 2**31 - 2, -(2**30)),
    *(2**31, -(2**31), 2**32, 2**40, 2**62, 2**62 - 3, 2**63 - 1, -(2**63), 2**64, -(2**64), 2**200),
)
FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-320, 1e30, 1e308, -1e308, float("inf"), -float("inf"), float("nan"), 2.0**63)
OTHERS = (None, True, False, "", "mean", "sum", "none", "trunc", "floor", "reflect", "circular", "replicate", ...)
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


@functools.cache
def _table() -> tuple[tuple[str, list[Sample]], ...]:
    """Return the samples of every call, in a fixed order."""
    makers = {
        "torch.zeros": Sample((2, 3)), "torch.ones": Sample(((2, 3),)), "torch.rand": Sample((2,)),
        "torch.randn": Sample((2, 3)), "torch.randint": Sample((0, 5, (2, 3))), "torch.eye": Sample((2, 3)),
        "torch.arange": Sample((0, 10, 2)), "torch.linspace": Sample((0, 1, 5)), "torch.logspace": Sample((0, 1, 5)),
        "torch.full": Sample(((2, 3), 7)), "torch.empty": Sample((2, 3)), "torch.randperm": Sample((4,)),
        "torch.tensor": Sample(([1, [2]],)), "torch.as_tensor": Sample(([1, 2],)), "torch.normal": Sample((0.0, 1.0, (2,))),
    }  # fmt: skip
    assert makers.keys() == CONSTRUCTORS.keys()
    found = {name: [sample] for name, sample in makers.items()}
    for name, several in itertools.chain(samples().items(), unlisted_samples().items()):
        found.setdefault(name, []).extend(several)
    return tuple(sorted((name, several) for name, several in found.items() if several))


def random_call(rng: random.Random) -> Call:
    """Return a random call: its wire name, its arguments and its keyword arguments.

    Args:
        rng: the source of all randomness, so that a seed reproduces a run.
    """
    name, several = rng.choice(_table())
    args, kwargs = fresh(rng.choice(several))
    if rng.random() < 0.2:  # keyword arguments of another sample
        kwargs = {**kwargs, **fresh(rng.choice(several))[1]}
    whole: Any = (list(args), dict(kwargs))
    if rng.random() < 0.15:  # several integers at once, of one magnitude, so that their sums and products are extreme
        whole = _scaled(rng, whole, rng.choice((2**20, 2**30, 2**31 - 1)))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        whole = _mutated(rng, whole)
    return name, tuple(whole[0]), {key: value for key, value in whole[1].items() if type(key) is str}


def _scaled(rng: random.Random, value: Any, number: int) -> Any:
    """Replace most integers of nested arguments by one number, its half or its negative."""
    if isinstance(value, list | tuple) and type(value) is not torch.Size:
        items = [_scaled(rng, item, number) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _scaled(rng, item, number) for key, item in value.items()}
    if type(value) is not int or rng.random() < 0.25:
        return value
    return rng.choice((number, number // 2, number - 1, -number, 1))


def _mutated(rng: random.Random, whole: tuple[list[Any], dict[str, Any]]) -> tuple[list[Any], dict[str, Any]]:
    """Change one argument, or the list of arguments."""
    args, kwargs = whole
    kind = rng.random()
    if kind < 0.03 and args:
        return args[:-1], kwargs
    if kind < 0.10:
        return [*args, rng.choice(INTEGERS)], kwargs
    if kind < 0.13 and kwargs:
        gone = rng.choice(sorted(kwargs))
        return args, {key: value for key, value in kwargs.items() if key != gone}
    # The first argument is mostly the tensor itself, and most interesting are the others.
    keys: list[Any] = [*range(1, len(args)), *range(len(args)), *range(1, len(args)), *sorted(kwargs)]
    if not keys:
        return args, kwargs
    key = rng.choice(keys)
    if isinstance(key, int):
        return [*args[:key], change(rng, args[key]), *args[key + 1 :]], kwargs
    return args, {**kwargs, key: change(rng, kwargs[key])}


def change(rng: random.Random, value: Any) -> Any:
    """Return another value in place of one argument."""
    if rng.random() < 0.06:
        return rng.choice(OTHERS)
    if isinstance(value, torch.Tensor):
        return _other_tensor(rng, value)
    if type(value) in (list, tuple, torch.Size) and value:
        return _other_sequence(rng, value)
    if isinstance(value, slice):
        return slice(*(rng.choice((part, rng.choice(INTEGERS))) for part in (value.start, value.stop, value.step)))
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return rng.choice((True, False, None, rng.choice(INTEGERS), value))
    if isinstance(value, float):
        return rng.choice((rng.choice(FLOATS), rng.choice(FLOATS), rng.choice(INTEGERS)))
    if isinstance(value, int):
        return _other_integer(rng)
    return value


def _other_integer(rng: random.Random) -> Any:
    number = rng.choice(INTEGERS)
    kind = rng.randrange(12)
    if kind == 0:
        return [rng.choice(INTEGERS) for _ in range(rng.choice((1, 2, 3, 5)))]
    if kind == 1 and -(2**63) <= number < 2**63:
        return torch.tensor(number)
    if kind == 2:
        return float(rng.choice(FLOATS))
    return number


def _other_sequence(rng: random.Random, value: Any) -> Any:
    items = list(value)
    at = rng.randrange(len(items))
    kind = rng.randrange(6)
    if kind == 0:
        items = items[:at] + items[at + 1 :]
    elif kind == 1:
        items = [*items, items[at]]
    elif kind == 2:
        items = [change(rng, item) for item in items]
    else:
        items[at] = change(rng, items[at])
    return tuple(items) if isinstance(value, tuple) else items


def _other_tensor(rng: random.Random, tensor: torch.Tensor) -> Any:
    """Return a tensor with other values, another dtype or another layout; all are small."""
    kinds: tuple[Callable[[random.Random, torch.Tensor], Any], ...] = (
        _extreme, _extreme, _filled, _recast, _reshaped, _reshaped, _strided, _empty, _number,
    )  # fmt: skip
    return rng.choice(kinds)(rng, tensor)


def _extremes(dtype: torch.dtype) -> list[Any]:
    if dtype is torch.bool:
        return [True, False]
    if dtype.is_floating_point or dtype.is_complex:
        return [float("nan"), float("inf"), -float("inf"), torch.finfo(dtype).max, torch.finfo(dtype).tiny, -1.0, 0.0]
    return [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1, torch.iinfo(dtype).max // 2]


def _extreme(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """Set some elements to extreme values."""
    changed = tensor.clone().contiguous()
    flat = changed.view(-1)
    for _ in range(min(flat.numel(), rng.choice((1, 1, 4)))):
        flat[rng.randrange(flat.numel())] = rng.choice(_extremes(tensor.dtype))
    return changed


def _filled(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, rng.choice(_extremes(tensor.dtype)))


def _recast(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(rng.choice(DTYPES))


def _reshaped(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or rng.random() < 0.5:
        return tensor.unsqueeze(rng.randrange(tensor.dim() + 1))
    if rng.random() < 0.5:
        return tensor.reshape(-1)
    dim = rng.randrange(tensor.dim())
    return tensor.narrow(dim, 0, min(tensor.shape[dim], rng.choice((0, 1, 1, 2))))


def _strided(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() > 1 and rng.random() < 0.5:
        return tensor.transpose(0, rng.randrange(1, tensor.dim()))
    return tensor.unsqueeze(0).expand(rng.choice((2, 3)), *tensor.shape)


def _empty(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_zeros([0 if rng.random() < 0.5 else size for size in tensor.shape])


def _number(rng: random.Random, tensor: torch.Tensor) -> Any:
    if rng.random() < 0.5:
        return rng.choice(INTEGERS) if rng.random() < 0.5 else rng.choice(FLOATS)
    return torch.tensor(rng.choice(_extremes(tensor.dtype)), dtype=tensor.dtype)


def shown(call: Call) -> str:
    """Return a call as text, short enough for a report."""
    name, args, kwargs = call

    def show(tensor: torch.Tensor) -> Any:
        values = tensor.reshape(-1)[:4].tolist() if tensor.numel() else []
        return f"<{str(tensor.dtype)[6:]}{list(tensor.shape)} {values}>"

    return f"{name}{transform(args, show)} {transform(kwargs, show)}"[:1500]
