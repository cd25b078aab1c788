"""Sample arguments for every torch call that a worker runs for its peers.

Run ``python -m tests.helpers.remote.samples`` to call every sample locally and to see how much is covered.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch

from syft.hook.denylist import REFUSED
from tests.helpers.remote.handwritten import handwritten, unlisted
from tests.helpers.remote.opinfo import Database
from tests.helpers.remote.sample import Sample, fresh, replaced, tensors

__all__ = [
    "EXTRAS",
    "UNLISTED",
    "Sample",
    "allowed",
    "fresh",
    "run",
    "samples",
    "tensors",
    "unlisted_samples",
]

#: Calls that are not in torch's table and have a wire name of their own.
EXTRAS: dict[str, Callable[..., Any]] = {
    "torch.autograd.backward": torch.autograd.backward,
    "torch.autograd.grad": torch.autograd.grad,
    **{
        f"torch.Tensor.{name}.__set__": getattr(torch.Tensor, name).__set__
        for name in ("grad", "data", "requires_grad")
    },
}

#: Methods that reach ``__torch_function__`` with a wire name although torch's table leaves them out.
UNLISTED: dict[str, Callable[..., Any]] = {
    f"torch.Tensor.{name}": getattr(torch.Tensor, name)
    for name in (
        *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros"),
        *("stride", "unflatten"),
    )
}

#: Calls whose results contain memory that has not been written to.
UNINITIALISED = {"torch.empty_like", "torch.Tensor.new_empty", "torch.Tensor.new_empty_strided"}

#: How many samples are taken from torch's own table, next to those written by hand.
PER_NAME = 3


def candidates() -> dict[str, Callable[..., Any]]:
    """Give every call that has a wire name, allowed or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = {torch.overrides.resolve_name(call): call for call in torch.overrides.get_testing_overrides()}
    table.pop(None)
    return {**table, **EXTRAS}


def allowed() -> dict[str, Callable[..., Any]]:
    """Give every call that workers run, by wire name."""
    return {name: function for name, function in candidates().items() if name not in REFUSED}


def run(function: Callable[..., Any], sample: Sample, seed: int = 0) -> tuple[Any, list[torch.Tensor]]:
    """Call a function on fresh arguments and give the result, and the tensors it was called with."""
    args, kwargs = fresh(sample)
    given = tensors((args, kwargs))
    if sample.needs_grad:
        for tensor in given:
            if tensor.is_floating_point():
                tensor.requires_grad_()
    torch.default_generator.manual_seed(seed)
    return function(*args, **kwargs), given


def _prepared(
    functions: dict[str, Callable[..., Any]], written: dict[str, list[Sample]], database: Database | None
) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in functions.items():
            found[name] = [_complete(name, function, sample) for sample in written.get(name, ())]
            if database is not None:
                found[name] += _working(name, function, database.candidates(name, function))
    return found


@cache
def samples() -> dict[str, list[Sample]]:
    """Give samples for every allowed name; one that cannot be had has an empty list."""
    return _prepared(allowed(), handwritten(), Database())


@cache
def unlisted_samples() -> dict[str, list[Sample]]:
    """Give samples for methods that reach ``__torch_function__`` although torch's table leaves them out."""
    return _prepared(UNLISTED, unlisted(), None)


def _working(name: str, function: Callable[..., Any], offered: Iterable[Sample]) -> list[Sample]:
    """Take the first few samples that a function accepts."""
    taken: list[Sample] = []
    for sample in offered:
        with suppress(Exception):  # Raised by samples that are meant for another variant of the operator.
            taken.append(_complete(name, function, _copy(sample)))
        if len(taken) == PER_NAME:
            break
    return taken


def _copy(sample: Sample) -> Sample:
    args, kwargs = fresh(sample)
    return Sample(args, kwargs, note=sample.note, wrt=sample.wrt)


def _complete(name: str, function: Callable[..., Any], sample: Sample) -> Sample:
    """Set the flags of a sample, by running it."""
    result, given = run(function, sample)
    originals = tensors(sample)
    pairs = list(zip(originals, given, strict=True))
    sample.mutates = (
        any(new._version > 0 or new.grad is not None or not _same(old, new) for old, new in pairs)
        or any(new.requires_grad for new in given) is not sample.needs_grad
    )
    sample.value = result is not None and not tensors(result)
    sample.uninitialised = name in UNINITIALISED
    other, other_given = run(function, sample, seed=1)
    sample.random = not sample.uninitialised and not _same((result, given), (other, other_given))
    if not (sample.value or sample.uninitialised or sample.needs_grad):
        floating = tuple(i for i, t in enumerate(originals) if t.is_floating_point() or t.is_complex())
        for wrt in (sample.wrt, floating, *((i,) for i in floating)):
            sample.wrt = _differentiable(function, sample, wrt)
            if sample.wrt:
                break
    sample.grad = bool(sample.wrt)
    return sample


def _differentiable(function: Callable[..., Any], sample: Sample, wrt: tuple[int, ...]) -> tuple[int, ...]:
    """Give those of the positions whose tensors get gradients, none if it does not work at all."""
    leaves: dict[int, torch.Tensor] = {}
    positions = {id(tensor): i for i, tensor in enumerate(tensors(sample))}

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        position = positions[id(tensor)]
        if position not in wrt:
            return copy
        leaves[position] = copy.requires_grad_()
        return copy.clone() if sample.mutates else copy

    try:
        args, kwargs = replaced(sample, leaf)
        torch.default_generator.manual_seed(0)
        result = function(*args, **kwargs)
        outputs = [tensor for tensor in tensors(result) if tensor.requires_grad]
        if sample.mutates:
            outputs += [tensor for tensor in tensors((args, kwargs)) if tensor.grad_fn is not None]
        sums = [(tensor.abs() if tensor.is_complex() else tensor).sum() for tensor in outputs]
        gradients: tuple[torch.Tensor | None, ...] = torch.autograd.grad(sums, list(leaves.values()), allow_unused=True)
    except Exception:
        return ()
    return tuple(i for i, gradient in zip(leaves, gradients, strict=True) if gradient is not None)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def _same(one: Any, other: Any) -> bool:
    """Whether two results are equal to the bit."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and (one.shape, one.dtype) == (other.shape, other.dtype)
            and torch.equal(_bytes(one), _bytes(other))
        )
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other) and one.dtype == other.dtype
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other or (one != one and other != other))


def main() -> int:
    """Run every sample locally, print the counts and give the exit code."""
    warnings.simplefilter("ignore")
    functions = allowed()
    table = samples()
    failures: list[str] = []
    for name, chosen in {**table, **unlisted_samples()}.items():
        function = functions[name] if name in functions else UNLISTED[name]
        for number, sample in enumerate(chosen):
            try:
                first, second = run(function, sample), run(function, sample)
            except Exception as error:
                failures.append(f"{name} #{number}: {error}")
                continue
            if not sample.uninitialised and not _same(first, second):
                failures.append(f"{name} #{number}: not reproducible")
    empty = [name for name, chosen in table.items() if not chosen]
    everything = [sample for chosen in table.values() for sample in chosen]
    print(f"names allowed: {len(functions)}")
    print(f"names with samples: {len(functions) - len(empty)}")
    print(f"samples: {len(everything)}, and {sum(map(len, unlisted_samples().values()))} of unlisted methods")
    for flag in ("grad", "random", "value", "uninitialised", "mutates", "needs_grad"):
        print(f"  {flag}: {sum(getattr(sample, flag) for sample in everything)}")
    print(f"names refused: {len(REFUSED)}")
    for reason, count in Counter(REFUSED.values()).most_common():
        print(f"  {reason}: {count}")
    unknown = sorted((set(REFUSED) - set(candidates())) | (set(handwritten()) - set(functions)))
    for title, names in {
        "no sample": empty,
        "failed": failures,
        "unknown or needless": unknown,
    }.items():
        for name in names:
            print(f"{title}: {name}")
    return 1 if empty or failures or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
