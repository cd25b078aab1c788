"""Sample arguments taken from torch's own table of operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch

from tests.helpers.remote.sample import Sample, tensors, transform

#: Data types to ask an operator for, in order of preference.
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64)
#: How many samples of an operator are looked at.
LOOKED_AT = 40
#: Samples with more elements than this are left out.
LARGEST = 3000

_TRAVELS = (
    int, float, bool, complex, str, type(None), type(...), torch.dtype, torch.device, torch.layout,
    torch.memory_format, torch.Size,
)  # fmt: skip


def travels(thing: Any) -> bool:
    """Whether a value can be an argument of a remote call: tensors, plain values and nestings of these."""
    if isinstance(thing, (list, tuple)):
        return all(travels(item) for item in thing)
    if isinstance(thing, dict):
        return all(isinstance(key, str) and travels(item) for key, item in thing.items())
    if isinstance(thing, slice):
        return travels((thing.start, thing.stop, thing.step))
    if isinstance(thing, torch.Tensor):
        return thing.layout == torch.strided and thing.device.type == "cpu" and not thing.is_nested
    return isinstance(thing, _TRAVELS)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor into one that is contiguous and has no history."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy.copy_(tensor.detach())


class Database:
    """The operators of ``torch.testing``, found by function or, failing that, by name."""

    def __init__(self) -> None:
        """Read torch's table, which takes some seconds."""
        from torch.testing._internal.common_methods_invocations import op_db

        self._by_function: dict[Any, list[Any]] = defaultdict(list)
        self._by_name: dict[str, list[Any]] = defaultdict(list)
        self._made: dict[tuple[int, torch.dtype], list[Sample]] = {}
        self._broadcast: set[int] = set()
        for op in op_db:
            for one in (op, *op.aliases):
                for variant in (one.op, one.method_variant, one.inplace_variant):
                    if callable(variant):
                        self._by_function[variant].append(op)
                self._by_name[one.name.rpartition(".")[2]].append(op)

    def _operators(self, name: str, function: Callable[..., Any]) -> list[Any]:
        short = name.removesuffix(".__get__").rpartition(".")[2]
        found = list(self._by_function.get(function, ()))
        names = [short, short.removesuffix("_"), f"__r{short.strip('_')}__"]
        for other in names:
            found += [op for op in self._by_name.get(other, ()) if op not in found]
        return found

    def _samples(self, op: Any, dtype: torch.dtype) -> list[Sample]:
        key = (id(op), dtype)
        if key not in self._made:
            torch.manual_seed(0)
            grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
            self._made[key] = []
            try:
                # Not op.sample_inputs: it inspects the stack for each sample, which takes minutes in all.
                for sample in islice(op.sample_inputs_func(op, "cpu", dtype, grad), LOOKED_AT):
                    made = _plain_sample(op, sample)
                    if made is not None:
                        self._made[key].append(made)
                        if sample.broadcasts_input:
                            self._broadcast.add(id(made))
            except Exception:  # Some operators cannot make samples of every kind; what was made is kept.
                pass
        return self._made[key]

    def candidates(self, name: str, function: Callable[..., Any]) -> Iterator[Sample]:
        """Give samples that may suit a function, the likeliest first; each has to be tried."""
        operators = self._operators(name, function)
        in_place = name.endswith("_")
        for dtype in DTYPES:
            lists = [self._samples(op, dtype) for op in operators if dtype in op.supported_dtypes("cpu")]
            for rank in range(max(map(len, lists), default=0)):
                for sample in (found[rank] for found in lists if rank < len(found)):
                    if not (in_place and id(sample) in self._broadcast):
                        yield sample


def _plain_sample(op: Any, sample: Any) -> Sample | None:
    arguments = ((sample.input, *sample.args), dict(sample.kwargs))
    if not travels(arguments):
        return None
    made: dict[int, torch.Tensor] = {}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        return made.setdefault(id(tensor), plain(tensor))

    originals = tensors(arguments)
    args, kwargs = transform(arguments, once)
    size = sum(tensor.numel() for tensor in originals)
    if not 0 < size <= LARGEST:
        return None
    wrt = tuple(i for i, tensor in enumerate(originals) if tensor.requires_grad)
    return Sample(args, kwargs, wrt=wrt, note=f"torch.testing: {op.full_name}")
