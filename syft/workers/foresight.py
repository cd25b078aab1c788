"""What a call will return, as far as that can be told without values: run on torch's fake tensors, and remembered.

Shapes are told to whoever sends commands. A shape that can be told here depends on other shapes alone; one that can't
(`nonzero`, `x[mask]`, a size that is a tensor) would tell values, so it counts as releasing them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.references import SameAs
from syft.core.trees import map_tensors, rebuild_tuple
from syft.exceptions import PlanMismatchError, SyftError
from syft.hook.functions import function_of
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.forms import interpret, quiet
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN

# Words of errors that come from the tensors being fake, not from a mistake of the caller.
_ARTEFACTS = tuple("fake,meta,data pointer,not allocated,storage,not implemented,dispatch,symbolic,subclass".split(","))
_MOST = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """The form of a tensor, and nothing else of it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = False
    # Which argument it is, for a result that is one.
    position: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a call before it runs.

    Attributes:
        is_known: whether the form of its result does not depend on values.
        form: that form: `Form` in place of tensors.
        result: the result, with `Form` in place of tensors and nothing in place of other values.
        error: what the caller did wrong, told from shapes alone: its type and text.
    """

    is_known: bool
    form: Any = None
    result: Any = None
    error: tuple[type[Exception], str] | None = None

    def raise_error(self) -> None:
        """Raise the mistake of the caller, if there is one."""
        if self.error is not None:
            kind, text = self.error
            error = kind.__new__(kind)
            Exception.__init__(error, text)
            raise error


_UNKNOWN = Outcome(False)


def warm_up() -> None:
    """Load what the first look ahead needs, which takes a second or two."""
    foresee("torch.Tensor.add", (torch.zeros(1), torch.zeros(1)), {}, False)


def foresee(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Outcome:
    """Work out the form of the result of a call without looking at values.

    Args:
        name: the wire name of the call.
        args: its arguments as they are here.
        kwargs: its keyword arguments.
        grad_enabled: whether autograd records it.
    """
    if name == RUN_PLAN:
        return _foresee_plan(args, kwargs, grad_enabled)
    if not name.startswith("torch."):
        return _UNKNOWN
    try:
        form = _form_of((args, kwargs))
        key = (name, grad_enabled, _frozen(form))
        hash(key)
    except TypeError:
        return _UNKNOWN
    return _remembered(key, _Carried(form))


class _Carried:
    """Something that rides along with a key without being part of it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Carried)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=_MOST)
def _remembered(key: tuple[Any, ...], carried: _Carried) -> Outcome:
    args, kwargs = carried.value
    function = function_of(key[0])

    def run() -> tuple[Any, list[Any]]:
        given, named = _faked(args), _faked(kwargs)
        return function(*given, **named), [*given, *named.values()]

    return _tried(run, key[1])


def _tried(run: Callable[[], tuple[Any, list[Any]]], grad_enabled: bool) -> Outcome:
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with quiet(), FakeTensorMode(), torch.set_grad_enabled(grad_enabled):
            result, given = run()
            return Outcome(True, form_of_result(result), _outline(result, given))
    except Exception as error:
        words = str(error).lower()
        plain = type(error).__module__ == "builtins" and not isinstance(error, NotImplementedError)
        mistake = plain or isinstance(error, SyftError)
        if not mistake or any(word in words for word in _ARTEFACTS):
            return _UNKNOWN
        return Outcome(False, error=(type(error), str(error)))


def _outline(result: Any, given: list[Any]) -> Any:
    """Return a result with forms in place of tensors."""
    if isinstance(result, torch.Tensor):
        same = next((position for position, arg in enumerate(given) if arg is result), None)
        return Form(tuple(map(int, result.shape)), result.dtype, result.requires_grad, same)
    if isinstance(result, dict):
        return {key: _outline(item, given) for key, item in result.items()}
    if isinstance(result, tuple):
        return rebuild_tuple(type(result), [_outline(item, given) for item in result])
    return [_outline(item, given) for item in result] if isinstance(result, list) else None


def stand_in(outline: Any, given: list[Any]) -> Any:
    """Return zeros of the foreseen form in place of a result that could not be computed."""
    if isinstance(outline, Form):
        if outline.position is not None:
            return given[outline.position]
        return torch.zeros(outline.shape, dtype=outline.dtype).requires_grad_(outline.requires_grad)
    if isinstance(outline, dict):
        return {key: stand_in(item, given) for key, item in outline.items()}
    if isinstance(outline, tuple):
        return rebuild_tuple(type(outline), [stand_in(item, given) for item in outline])
    return [stand_in(item, given) for item in outline] if isinstance(outline, list) else None


def form_of_result(result: Any) -> Any:
    """Return a result with `Form` in place of tensors, as it will be told; other values are told by other rules."""
    if isinstance(result, torch.Tensor):
        return Form(tuple(map(int, result.shape)), result.dtype)
    if isinstance(result, SameAs):
        return Form(tuple(result.meta.shape), result.meta.dtype)
    if isinstance(result, dict):
        return tuple((key, form_of_result(item)) for key, item in result.items())
    if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
        return tuple(form_of_result(item) for item in result)
    return None


def _form_of(value: Any) -> Any:
    """Return arguments with forms in place of tensors; what is no plain tensor has none."""

    def form(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, SyftTensor):
            raise TypeError("only plain tensors have a form")
        return Form(tuple(leaf.shape), leaf.dtype, leaf.requires_grad)

    return map_tensors(form, value)


def _frozen(value: Any) -> Any:
    """Return something hashable that differs where two calls may differ."""
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return (type(value).__name__, tuple([_frozen(item) for item in value]))
    if isinstance(value, dict):
        return ("dict", tuple([(key, _frozen(item)) for key, item in value.items()]))
    if isinstance(value, slice):
        return ("slice", _frozen(value.start), _frozen(value.stop), _frozen(value.step))
    return (type(value).__name__, value)


def _faked(value: Any) -> Any:
    """Return arguments with fake tensors in place of forms (inside of the mode)."""
    if isinstance(value, Form):
        return torch.zeros(value.shape, dtype=value.dtype).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _faked(item) for key, item in value.items()}
    if type(value) is tuple:
        return tuple([_faked(item) for item in value])
    if type(value) is list:
        return [_faked(item) for item in value]
    if isinstance(value, slice):
        return slice(_faked(value.start), _faked(value.stop), _faked(value.step))
    return value


def _foresee_plan(args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Outcome:
    plan = args[0]
    if not isinstance(plan, Plan) or not plan.is_built:
        return _UNKNOWN
    program = plan.program
    try:
        # Arguments that the plan does not take raise here; that is told from their number and kind.
        inputs = [_form_of(value) for value in match(plan.name, program.arguments, args[1:], kwargs)]
        state = [_form_of(place.child) for place in program.state]
    except TypeError:
        return _UNKNOWN
    key = (id(program), grad_enabled, _frozen(inputs), _frozen(state))
    known: dict[Any, Outcome] = plan.__dict__.setdefault("_foreseen", {})
    if key not in known:
        if len(known) >= 64:
            known.clear()
        run = functools.partial(_run_fake, program, inputs, state, grad_enabled)
        known[key] = _explained(_tried(run, grad_enabled))
    return known[key]


def _explained(found: Outcome) -> Outcome:
    """Say of a number of results that does not fit that the plan was built for other shapes."""
    if found.error is None or found.error[0] is not ValueError:
        return found
    text = "An operation gives another number of results than when the plan was built. Build a plan for this shape."
    return Outcome(False, error=(PlanMismatchError, text))


def _run_fake(program: Any, inputs: list[Any], state: list[Any], ambient: bool) -> tuple[Any, list[Any]]:
    def set_mode(mode: bool | None) -> None:
        torch._C._set_grad_enabled(ambient if mode is None else mode)

    def find(operation: Operation) -> Callable[..., Any] | None:
        if operation.cmd_name == OPTIMIZER_STEP:
            return None  # it changes no shape
        return set_mode if operation.cmd_name == GRAD_MODE else function_for(operation.cmd_name)

    # What a plan returns of its arguments is told like any other result.
    return interpret(program, _faked(inputs), _faked(state), find), []
