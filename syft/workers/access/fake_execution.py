"""Predict the result of a call without values: by running it on torch's fake tensors, with a cache.

Clients learn the shapes of results. A shape that can be predicted depends on other shapes only; one that can't
(`nonzero`, `x[mask]`, a size that is a tensor) would reveal values, so it counts as releasing them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import PlanMismatchError, SyftError
from syft.hook.functions import function_of
from syft.hook.guards import guard_call
from syft.hook.size_bounds import bound_sizes
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.interpreter import Lookup, fake_tensors, interpret, shape_functions
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.access.tensor_spec import FakeInputs, TensorSpec, UnkeyedArguments, forms_in, frozen, shape_of_result

# Words of errors that are caused by the tensors being fake, not by a mistake of the caller.
_ARTEFACTS = tuple("fake,meta,data pointer,not allocated,storage,not implemented,dispatch,symbolic,subclass".split(","))
_MOST = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted outcome of a call.

    Attributes:
        is_known: whether the spec of its result does not depend on values.
        form: the public part of that spec: shapes and dtypes.
        result: the result, with `TensorSpec` in place of tensors and None in place of other values.
        changed: the positions of input tensors that it changes, with their specs afterwards.
        error: the mistake of the caller, which follows from shapes alone: its type and text.
        value: the result itself if there are no tensors in it: a size, a dtype, a flag.
    """

    is_known: bool
    form: Any = None
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


def warm_up() -> None:
    """Load what the first prediction needs, which takes a second or two."""
    foresee("torch.Tensor.add", (torch.zeros(1), torch.zeros(1)), {}, False)


def foresee(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    """Predict the spec of the result of a call without reading values.

    Args:
        name: the wire name of the call.
        args: its arguments.
        kwargs: its keyword arguments.
        grad_enabled: whether autograd records it.
    """
    if name == RUN_PLAN:
        return _foresee_plan(args, kwargs, grad_enabled)
    if not name.startswith("torch."):
        return _UNKNOWN
    try:
        form = forms_in((args, kwargs))
        key = (name, grad_enabled, torch.get_default_dtype(), frozen(form))
        hash(key)
    except TypeError:
        return _UNKNOWN
    return _remembered(key, UnkeyedArguments(form))


@functools.lru_cache(maxsize=_MOST)
def _remembered(key: tuple[Any, ...], carried: UnkeyedArguments) -> Prediction:
    args, kwargs = carried.value
    return work_out(key[0], args, kwargs, key[1])


def _tried(run: Callable[[FakeInputs], Any], grad_enabled: bool) -> Prediction:
    fakes = FakeInputs()
    try:
        with fake_tensors(grad_enabled):
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
    """Run a call on fake tensors, without the cache.

    Args:
        name: the wire name of the call.
        args: its arguments, with specs in place of tensors.
        kwargs: its keyword arguments, likewise.
        grad_enabled: whether autograd records it.
    """
    function = function_of(name)

    def run(fakes: FakeInputs) -> Any:
        fake_args, fake_kwargs = fakes.of(args), fakes.of(kwargs)
        guard_call(name, fake_args, fake_kwargs, by_values=False)
        return function(*fake_args, **fake_kwargs)

    return _tried(run, grad_enabled)


def work_out_plan(program: Any, inputs: list[Any], state: list[Any], grad_enabled: bool) -> Prediction:
    """Run a program on fake tensors, without the cache.

    Args:
        program: the program of a plan.
        inputs: the specs of its inputs.
        state: the specs of its state.
        grad_enabled: whether autograd records it.
    """
    run = functools.partial(_run_fake, program, inputs, state, grad_enabled)
    return _explained(_tried(run, grad_enabled))


def _foresee_plan(args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Prediction:
    plan = args[0]
    if not isinstance(plan, Plan) or not plan.is_built:
        return _UNKNOWN
    program = plan.program
    try:
        # Invalid arguments of the plan raise here; that follows from their number and type.
        inputs = [forms_in(value) for value in match(plan.name, program.arguments, args[1:], kwargs)]
        state = [forms_in(place.child) for place in program.state]
    except TypeError:
        return _UNKNOWN
    key = (id(program), grad_enabled, torch.get_default_dtype(), frozen(inputs), frozen(state))
    known: dict[Any, Prediction] = plan.__dict__.setdefault("_foreseen", {})
    if key not in known:
        if len(known) >= 64:
            known.clear()
        known[key] = work_out_plan(program, inputs, state, grad_enabled)
    return known[key]


def _explained(found: Prediction) -> Prediction:
    """Replace an error about the number of results by one that names the cause: the plan was built for other shapes."""
    if found.error is None or found.error[0] is not ValueError:
        return found
    text = "An operation returns another number of results than when the plan was built. Build a plan for this shape."
    return Prediction(False, error=(PlanMismatchError, text))


def _run_fake(program: Any, inputs: list[Any], state: list[Any], ambient: bool, fakes: FakeInputs) -> Any:
    return interpret(program, fakes.of(inputs), fakes.of(state), fake_functions(ambient))


def fake_functions(ambient: bool) -> Lookup:
    """Return the lookup of the functions of a plan that runs on fake tensors, with their guards.

    Args:
        ambient: the mode of autograd where the plan does not set one.
    """
    return shape_functions(ambient, _guarded)


def _guarded(name: str) -> Callable[..., Any]:
    """Return the function of an operation with its checks, since a call on fake tensors can hang, too."""
    function = function_for(name)

    def checked(*args: object, **kwargs: object) -> Any:
        bound_sizes(name, args, kwargs)
        guard_call(name, args, kwargs, by_values=False)
        return function(*args, **kwargs)

    return checked
