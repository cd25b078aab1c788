"""Predict the result of a call, and the peak memory of a plan, by running it on torch's fake tensors, with a cache.

Clients learn the shapes of results. A shape that can be predicted depends on other shapes only; one that can't
(`nonzero`, `x[mask]`, a size that is a tensor) would reveal values, so it counts as releasing them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import PlanMismatchError, SyftError
from syft.hook.allowed_functions import function_of
from syft.hook.guards import guard_call
from syft.hook.size_bounds import bound_sizes
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.interpreter import MAX_OPERATIONS, fake_tensors, interpret, run_steps, shape_functions
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Program
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.tensor_spec import FakeInputs, TensorSpec, frozen, remember, shape_of_result, specs_in

# Words of errors that are caused by the tensors being fake, not by a mistake of the caller.
_ARTEFACTS = tuple("fake,meta,data pointer,not allocated,storage,not implemented,dispatch,symbolic,subclass".split(","))
# Calls with more inputs than this do not use torch's cache of calls on fake tensors.
_MOST_HASHED = 64
# Entries of the cache of calls, and of each plan.
_MOST, _MOST_OF_A_PLAN = 4096, 64


@dataclasses.dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted outcome of a call.

    Attributes:
        is_known: whether the spec of its result does not depend on values.
        shapes: the public part of that spec: shapes and dtypes.
        result: the result, with `TensorSpec` in place of tensors and None in place of other values.
        changed: the positions of input tensors that it changes, with their specs afterwards.
        error: the mistake of the caller, which follows from shapes alone: its type and text.
        value: the result itself if there are no tensors in it: a size, a dtype, a flag.
    """

    is_known: bool
    shapes: Any = None
    result: Any = None
    changed: tuple[tuple[int, TensorSpec], ...] = ()
    error: tuple[type[Exception], str] | None = None
    value: Any = None

    def raise_error(self) -> None:
        """Raise the error of the caller, if there is one."""
        if self.error is not None:
            kind, text = self.error
            error = kind.__new__(kind)
            Exception.__init__(error, text)
            raise error


_UNKNOWN = Prediction(False)
_predictions: dict[tuple[Any, ...], Prediction] = {}


def warm_up() -> None:
    """Load what the first prediction needs, which takes a second or two."""
    foresee("torch.Tensor.add", (torch.zeros(1), torch.zeros(1)), {}, False)


def foresee(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    """Predict the spec of the result of a call without reading values."""
    if name == RUN_PLAN:
        return _foresee_plan(args, kwargs, grad_enabled)
    if not name.startswith("torch."):
        return _UNKNOWN
    try:
        specs: tuple[tuple[Any, ...], dict[str, Any]] = specs_in((args, kwargs))
        key = (name, grad_enabled, torch.get_default_dtype(), frozen(specs))
        hash(key)
    except TypeError:
        return _UNKNOWN
    return remember(_predictions, key, lambda: work_out(name, *specs, grad_enabled), _MOST)


def _tried(run: Callable[[FakeInputs], Any], grad_enabled: bool) -> Prediction:
    try:
        with fake_tensors(grad_enabled) as mode:
            fakes = FakeInputs(mode)
            result = run(fakes)
            outline = fakes.outline(result)
            value = None if next(iter_tensors(result), None) is not None else result
            return Prediction(True, shape_of_result(outline), outline, fakes.changed(), value=value)
    except Exception as error:
        words = str(error).lower()
        plain = type(error).__module__ == "builtins" and not isinstance(error, NotImplementedError)
        mistake = plain or isinstance(error, SyftError)
        if not mistake or any(word in words for word in _ARTEFACTS):
            return _UNKNOWN
        if str(error).startswith("Cannot view a tensor"):  # torch itself raises another type
            return Prediction(False, error=(RuntimeError, f"{error} Use .reshape(...) instead."))
        return Prediction(False, error=(type(error), str(error)))


def work_out(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    """Run a call on fake tensors, without the cache; its arguments have specs in place of tensors."""
    function = function_of(name)

    def run(fakes: FakeInputs) -> Any:
        fake_args, fake_kwargs = fakes.of(args), fakes.of(kwargs)
        guard_call(name, fake_args, fake_kwargs, by_values=False)
        if len(fakes.tensors) > _MOST_HASHED and fakes.mode is not None:
            fakes.mode.cache_enabled = False  # hashing the inputs would take longer than the call
        return function(*fake_args, **fake_kwargs)

    return _tried(run, grad_enabled)


def work_out_plan(program: Any, inputs: list[Any], state: list[Any], grad_enabled: bool) -> Prediction:
    """Run the program of a plan on fake tensors, without the cache, given the specs of its inputs and its state."""

    def run(fakes: FakeInputs) -> Any:
        return interpret(program, fakes.of(inputs), fakes.of(state), shape_functions(grad_enabled, _guarded))

    found = _tried(run, grad_enabled)
    if found.error is None or found.error[0] is not ValueError:
        return found
    text = "An operation returns another number of results than when the plan was built. Build a plan for this shape."
    return Prediction(False, error=(PlanMismatchError, text))


def _foresee_plan(args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    plan = args[0]
    if not isinstance(plan, Plan) or not plan.is_built:
        return _UNKNOWN
    program = plan.program
    try:
        # Invalid arguments of the plan raise here; that follows from their number and type.
        inputs = [specs_in(value) for value in match(plan.name, program.arguments, args[1:], kwargs)]
        state = [specs_in(place.child) for place in program.state]
    except TypeError:
        return _UNKNOWN
    key = (id(program), grad_enabled, torch.get_default_dtype(), frozen(inputs), frozen(state))
    known: dict[Any, Prediction] = plan.__dict__.setdefault("_foreseen", {})
    return remember(known, key, lambda: work_out_plan(program, inputs, state, grad_enabled), _MOST_OF_A_PLAN)


def _guarded(name: str) -> Callable[..., Any]:
    """Return the function of an operation with its checks, since a call on fake tensors can hang, too."""
    function = function_for(name)

    def checked(*args: object, **kwargs: object) -> Any:
        bound_sizes(name, args, kwargs)
        guard_call(name, args, kwargs, by_values=False)
        return function(*args, **kwargs)

    return checked


# --- peak memory of a plan -------------------------------------------------------------------------------------------


def peak_bytes(plan: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> int:
    """Return the peak bytes of the values of a plan, as far as shapes determine them; 0 if unknown.

    Its inputs and its state are not counted, nor the memory of autograd.
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
    return remember(known, key, lambda: _measure(program, inputs, state, grad_enabled), _MOST_OF_A_PLAN)


class _Live:
    """The memory of the values that are still needed, except that of given values."""

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
            given = fakes.of(specs_in(inputs)), fakes.of(specs_in(state))
            live = _Live(fakes.tensors)
            for number in run_steps(program, *given, shape_functions(ambient, _guarded), values):
                for place in iter_tensors(program.operations[number].return_ids):
                    live.add(values.get(id(place)))
                peak = max(peak, live.bytes)
                for place in last_uses.get(number, ()):
                    live.drop(values.pop(id(place), None))
    except (
        Exception
    ):  # shapes depend on values, tensors are at other workers, or the plan fails: the peak so far counts
        return peak
    return peak
