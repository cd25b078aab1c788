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

from syft.exceptions import PlanMismatchError, SyftError
from syft.hook.functions import function_of
from syft.messaging.message import Operation
from syft.messaging.plan.arguments import match
from syft.messaging.plan.checks import function_for
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.forms import interpret, quiet
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import RUN_PLAN
from syft.workers.outlines import Fakes, Form, forms_in, frozen, shape_of_result, tensors_in

# Words of errors that come from the tensors being fake, not from a mistake of the caller.
_ARTEFACTS = tuple("fake,meta,data pointer,not allocated,storage,not implemented,dispatch,symbolic,subclass".split(","))
_MOST = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of a call before it runs.

    Attributes:
        is_known: whether the form of its result does not depend on values.
        form: what will be told of that form: shapes and dtypes.
        result: the result, with `Form` in place of tensors and nothing in place of other values.
        changed: the places of given tensors that it changes, and the forms they have then.
        error: what the caller did wrong, told from shapes alone: its type and text.
    """

    is_known: bool
    form: Any = None
    result: Any = None
    changed: tuple[tuple[int, Form], ...] = ()
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
        form = forms_in((args, kwargs))
        key = (name, grad_enabled, torch.get_default_dtype(), frozen(form))
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

    return _tried(lambda fakes: function(*fakes.of(args), **fakes.of(kwargs)), key[1])


def _tried(run: Callable[[Fakes], Any], grad_enabled: bool) -> Outcome:
    from torch._subclasses.fake_tensor import FakeTensorMode

    fakes = Fakes()
    try:
        with quiet(), FakeTensorMode(), torch.set_grad_enabled(grad_enabled):
            outline = fakes.outline(run(fakes))
            return Outcome(True, shape_of_result(outline), outline, fakes.changed())
    except Exception as error:
        words = str(error).lower()
        plain = type(error).__module__ == "builtins" and not isinstance(error, NotImplementedError)
        mistake = plain or isinstance(error, SyftError)
        if not mistake or any(word in words for word in _ARTEFACTS):
            return _UNKNOWN
        return Outcome(False, error=(type(error), str(error)))


def _foresee_plan(args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool) -> Outcome:
    plan = args[0]
    if not isinstance(plan, Plan) or not plan.is_built:
        return _UNKNOWN
    program = plan.program
    try:
        # Arguments that the plan does not take raise here; that is told from their number and kind.
        inputs = [forms_in(value) for value in match(plan.name, program.arguments, args[1:], kwargs)]
        state = [forms_in(place.child) for place in program.state]
    except TypeError:
        return _UNKNOWN
    key = (id(program), grad_enabled, torch.get_default_dtype(), frozen(inputs), frozen(state))
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


def _run_fake(program: Any, inputs: list[Any], state: list[Any], ambient: bool, fakes: Fakes) -> Any:
    def set_mode(mode: bool | None) -> None:
        torch._C._set_grad_enabled(ambient if mode is None else mode)

    def find(operation: Operation) -> Callable[..., Any] | None:
        if operation.cmd_name == OPTIMIZER_STEP:
            return None  # it changes no shape
        return set_mode if operation.cmd_name == GRAD_MODE else function_for(operation.cmd_name)

    return interpret(program, fakes.of(inputs), fakes.of(state), find)


def given_to(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors of a call that was foreseen, by the places that its outcome names."""
    if name != RUN_PLAN:
        return tensors_in((args, kwargs))
    program = args[0].program
    inputs = match(args[0].name, program.arguments, args[1:], kwargs)
    return tensors_in([*inputs, *(place.child for place in program.state)])
