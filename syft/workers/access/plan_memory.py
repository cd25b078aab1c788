"""Peak memory of the values of a plan, found by running it on fake tensors, with a cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.messaging.plan.arguments import match
from syft.messaging.plan.interpreter import MAX_OPERATIONS, fake_tensors, run_steps
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Program
from syft.workers.access.fake_execution import fake_functions
from syft.workers.access.tensor_spec import FakeInputs, forms_in

_REMEMBERED = 64


def peak_bytes(plan: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> int:
    """Return the peak bytes of the values of a plan, as far as shapes determine them; 0 if unknown.

    Its inputs and its state are not counted, nor the memory of autograd.

    Args:
        plan: the plan.
        args: its arguments.
        kwargs: its keyword arguments.
        grad_enabled: whether autograd records it.
    """
    if not isinstance(plan, Plan) or not plan.is_built or len(plan.program.operations) > MAX_OPERATIONS:
        return 0
    program = plan.program
    try:
        inputs = match(plan.name, program.arguments, args, kwargs)
        state = [place.child for place in program.state]
        tensors = [*iter_tensors(inputs), *iter_tensors(state)]
        shapes = tuple([(tensor.shape, tensor.dtype, tensor.stride()) for tensor in tensors])
    except Exception:  # the call itself reports arguments that do not fit
        return 0
    key = (id(program), grad_enabled, torch.get_default_dtype(), shapes)
    known: dict[Any, int] = plan.__dict__.setdefault("_peaks", {})
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.clear()
        try:
            known[key] = _measure(program, forms_in(inputs), forms_in(state), grad_enabled)
        except TypeError:  # some tensors are at other workers
            known[key] = 0
    return known[key]


class _Live:
    """The memory of the values that are still needed.

    Args:
        given: the values whose memory is not counted.
    """

    def __init__(self, given: Iterable[torch.Tensor]) -> None:
        self._given = {_memory(tensor)[0] for tensor in given}
        self._uses: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.bytes = 0

    def add(self, value: object) -> None:
        """Count a value, unless it shares its memory with one that is counted."""
        for tensor in iter_tensors(value):
            key, size = _memory(tensor)
            if key in self._given:
                continue
            self._uses[key] = self._uses.get(key, 0) + 1
            if self._uses[key] == 1:
                self._sizes[key] = size
                self.bytes += size

    def drop(self, value: object) -> None:
        """Stop counting a value."""
        for tensor in iter_tensors(value):
            key, _ = _memory(tensor)
            if key in self._uses:
                self._uses[key] -= 1
                if not self._uses[key]:
                    del self._uses[key]
                    self.bytes -= self._sizes.pop(key)


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage._cdata, storage.nbytes()


def _measure(program: Program, inputs: list[Any], state: list[Any], ambient: bool) -> int:
    peak = 0
    values: dict[int, Any] = {}
    last_uses = program.last_uses((*program.state, *program.inputs))
    try:
        with fake_tensors(ambient):
            fakes = FakeInputs()
            given = fakes.of(inputs), fakes.of(state)
            live = _Live(fakes.tensors)
            for number in run_steps(program, *given, fake_functions(ambient), values):
                for place in iter_tensors(program.operations[number].return_ids):
                    live.add(values.get(id(place)))
                peak = max(peak, live.bytes)
                for place in last_uses.get(number, ()):
                    live.drop(values.pop(id(place), None))
    except Exception:  # shapes depend on values, or the plan fails: the peak so far counts
        return peak
    return peak
