"""Record a function once, with example tensors, as operations over placeholders.

Two torch modes watch while it runs. The function mode sees each call as the user wrote it and writes it down. The
dispatch mode sees what the first one can't (a script module, C++ code): such a computation on recorded tensors
raises, for the plan would lose it.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from syft.core import context
from syft.core.callsite import describe_line, user_line
from syft.core.dispatch import function_name
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowed, PlanBuildError
from syft.hook.functions import CONSTRUCTORS, name_of
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.commands import (
    ARITHMETIC,
    EXPECT,
    EXPECT_FORM,
    GRAD_MODE,
    GRADIENT,
    NUMEL,
    OPTIMIZER_STEP,
    PURE,
    SIZE,
    gradient_of,
)
from syft.messaging.plan.keeping import Keeper
from syft.messaging.plan.numbers import RecordedFloat, RecordedInt, Shape, plain
from syft.messaging.plan.program import RETURN_TYPES
from syft.messaging.plan.reads import READS, VALUE_READS
from syft.tensors.placeholder import PlaceHolder

_CONSTRUCTOR_NAMES = {function: name for name, function in CONSTRUCTORS.items()}
_LITERALS = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
_Tensor: Any = torch.Tensor
# Made anew at each access, so compared by value.
_GRAD_GET, _GRAD_SET = _Tensor.grad.__get__, _Tensor.grad.__set__
# Printing while the plan is built is no part of it.
_SHOWS = frozenset({_Tensor.__repr__, _Tensor.__format__})
_HINTS = {
    "_nested_tensor_from_mask_left_aligned": "Make the nn.TransformerEncoder with enable_nested_tensor=False.",
    "_pack_padded_sequence": "Pack the sequence outside of the plan, or give the layer the padded one.",
}
# What torch does around its own calls; a tensor made of an array is looked at when it is used.
_NOT_COMPUTING = ("profiler.", "aten.lift_fresh")
_APPLIES = frozenset({torch.autograd.Function.apply.__func__.__code__})  # type: ignore[attr-defined]
_ZERO_GRAD = frozenset(
    inspect.unwrap(method).__code__ for method in (torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad)
)
_active = threading.local()


def current() -> Recorder | None:
    """Return the recording that this thread is in."""
    return getattr(_active, "recorder", None)


class Recorder(TorchFunctionMode):
    """One recording.

    Args:
        state: placeholders of the tensors that the plan declares as its state.
        optimizers: the optimizers that the function has as variables.
    """

    def __init__(self, state: list[PlaceHolder], optimizers: Iterable[Any] = ()) -> None:
        super().__init__()
        self.known_optimizers = list(optimizers)
        self.operations: list[Operation] = []
        self.lines: list[tuple[str, int]] = []
        self.state: list[PlaceHolder] = list(state)
        self.captured: list[PlaceHolder] = []
        self.inputs: list[PlaceHolder] = []
        self.optimizers: list[Any] = []
        self.remembering: list[Any] = []  # those of the optimizers that keep something from step to step
        self.keeper = Keeper()
        # Kept in case that it is caught on its way, by the function or by torch.
        self.refusal: PlanBuildError | None = None
        # A call that raised: a function that catches that would take another path for other tensors.
        self.failure: tuple[str, tuple[str, int]] | None = None
        self.running = 0
        # How autograd is set: True or False where the function said so, None as it was when the plan is called.
        self.mode: bool | None = None
        self._modes: dict[int, tuple[bool | None, Any]] = {}
        self._ambient = _ambient()
        self._alive: list[Any] = []
        self._memories: set[int] = set()  # of what was computed; views of the state are in that of the state
        self._state_memories: set[int] = set()
        self._gradients_known: set[int] = set()
        self._gradients_missing: dict[int, Any] = {}
        self._placeholders: dict[int, PlaceHolder] = {}
        self._of_state: set[int] = set()
        for placeholder in state:
            self._bind_state(placeholder)

    # --- the recording itself ---------------------------------------------------------------------------------

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what happens inside a `with` block, in this thread."""
        before, _active.recorder = current(), self
        context.recording.refuse = lambda what: self._refuse(what, "Do it outside of the function.")
        enabled = torch.is_grad_enabled()
        self.keeper.begin(self.known_optimizers)
        try:
            with _Unseen(self), self, _optimizer_steps(self):
                yield
            self._require_settings()
        finally:
            _active.recorder = before
            context.recording.refuse = None
            torch._C._set_grad_enabled(enabled)
            self.keeper.restore()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Write a call down, unless it only looks at the form of a tensor."""
        kwargs = kwargs or {}
        if self.running:
            return func(*args, **kwargs)
        if func is torch._C._set_grad_enabled:
            return self._set_grad(func, bool(args[0]))
        reader = READS.get(func)
        if reader is not None:
            if not args:
                (_, first), *others = kwargs.items()
                args, kwargs = (first,), dict(others)
            placeholder = self._placeholders.get(id(args[0]))
            if placeholder is None or id(args[0]) in self._of_state:
                return func(*args, **kwargs)
            return reader(self, func, placeholder, args, kwargs)
        if func in VALUE_READS or _iterates(func):
            if func is _Tensor.__index__:
                self.run(func, args, kwargs)  # torch tries it on tensors that are no index, to find a signature
            raise self._refuse(*VALUE_READS.get(func, _ITERATION))
        if func in _SHOWS:
            return f"<recorded tensor {tuple(args[0].shape)} {args[0].dtype}>"
        if function_name(func).startswith(_NOT_COMPUTING):
            return func(*args, **kwargs)
        return self._record_call(func, args, kwargs)

    def _record_call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func == _GRAD_GET:
            return self._read_gradient(args[0])
        if getattr(func, "__name__", "").startswith("_foreach_"):
            return self._for_each(func, *args, **kwargs)
        name = self._name_of(func)
        if func == _GRAD_SET:
            self._gradients_known.add(id(args[0]))
        return self._record(name, func, args, kwargs)

    def _name_of(self, func: Any) -> str:
        try:
            return _CONSTRUCTOR_NAMES.get(func) or name_of(func)
        except CommandNotAllowed as error:
            what = getattr(func, "__name__", "") if " at 0x" in function_name(func) else function_name(func)
            hint = _HINTS.get(what.rpartition(".")[2]) or error.hint[:1].upper() + error.hint[1:]
            raise self._refuse(what, hint) from None

    def _for_each(self, func: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        """Take a call on many tensors, which does not travel, apart into calls on one."""
        name = func.__name__.removeprefix("_foreach_")
        single = torch.linalg.vector_norm if name == "norm" else getattr(_Tensor, name, func)
        results = []
        for number, tensor in enumerate(tensors):
            given = [arg[number] if isinstance(arg, list | tuple) else arg for arg in args]
            results.append(self._record(self._name_of(single), single, (tensor, *given), kwargs))
        return None if name.endswith("_") else tuple(results)

    def _record(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a call with the example and write it down."""
        if torch._C._functorch.maybe_current_level() is not None:
            raise self._refuse("A transform of torch.func", "Use loss.backward() or torch.autograd.grad.")
        if _inside(_APPLIES):
            raise self._refuse("A torch.autograd.Function", "Its backward would be lost; write it with torch calls.")
        if _ambient() != self._ambient:
            raise self._refuse(
                "inference_mode or autocast inside of the function", "Use it around the call of the plan."
            )
        symbolic_args, symbolic_kwargs = self.symbolic((args, kwargs))
        try:
            result = self.run(func, *example((args, kwargs)))
        except Exception:
            self.failure = (name, user_line())
            raise
        if result is NotImplemented:
            return result
        pattern = self.bind(result)
        if pattern is None and result is not None:
            raise self._refuse(f"{name}, which gives a {type(result).__name__} made of a tensor's values,")
        self.write(name, symbolic_args, symbolic_kwargs, () if pattern is None else (pattern,))
        return result

    def run(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a call with the modes out of its way."""
        self.running += 1
        try:
            with _disable_current_modes():
                return func(*args, **kwargs)
        finally:
            self.running -= 1

    def write(self, name: str, args: Any, kwargs: Any, results: Any) -> None:
        """Add an operation."""
        self.operations.append(Operation(name, None, tuple(args), dict(kwargs), results))
        self.lines.append(user_line())

    # --- values -----------------------------------------------------------------------------------------------

    def new_input(self, value: Any) -> PlaceHolder:
        """Make the placeholder of an input."""
        placeholder = PlaceHolder(tags={f"#input-{len(self.inputs)}"})
        self.inputs.append(placeholder)
        self._place(value, placeholder)
        return placeholder

    def _place(self, value: Any, placeholder: PlaceHolder) -> None:
        self._alive.append(value)
        self._placeholders[id(value)] = placeholder
        memory = memory_of(value)
        if memory and memory not in self._state_memories:
            self._memories.add(memory)

    def _bind_state(self, placeholder: PlaceHolder) -> None:
        tensor = placeholder.child
        self._alive.append(tensor)
        self._placeholders[id(tensor)] = placeholder
        self._of_state.add(id(tensor))
        self._state_memories.add(memory_of(tensor))
        self.keeper.keep(tensor)

    def bind(self, result: Any) -> Any:
        """Return the pattern of a result: placeholders where it has tensors, None where it has None."""
        if isinstance(result, torch.Tensor):
            placeholder = self._placeholders.get(id(result))
            if placeholder is None:
                placeholder = PlaceHolder(tags={"#inner"})
                self._place(result, placeholder)
            return placeholder
        if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
            parts = tuple([self.bind(item) for item in result])
            strange = any(part is None and item is not None for item, part in zip(result, parts, strict=True))
            return None if strange else parts
        return None

    def symbolic(self, value: Any) -> Any:
        """Return arguments with placeholders for tensors and recorded numbers."""
        if isinstance(value, RecordedInt | RecordedFloat):
            return value.placeholder
        if isinstance(value, torch.Tensor):
            return self._placeholder_of(value)
        if value is None or value is Ellipsis or type(value) in _LITERALS:
            return value
        if type(value) is torch.Size:
            return tuple([self.symbolic(item) for item in value])
        if isinstance(value, list | tuple):
            items = [self.symbolic(item) for item in value]
            return (
                items
                if isinstance(value, list)
                else type(value)(items)
                if type(value) in RETURN_TYPES
                else tuple(items)
            )
        if isinstance(value, dict):
            return {self._key(key): self.symbolic(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.symbolic(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, range):
            return [int(item) for item in value]
        if isinstance(value, np.generic) or type(value).__mro__[1:2] in ((int,), (float,), (str,)):
            return value.item() if isinstance(value, np.generic) else type(value).__mro__[1](value)
        if isinstance(value, np.ndarray):
            raise self._refuse(
                "An array of numpy", "Make it a tensor outside of the function: torch.from_numpy(array)."
            )
        raise self._refuse(f"An argument of type {type(value).__name__}")

    def _key(self, key: Any) -> str:
        if type(key) is not str:
            raise self._refuse(f"A dictionary with a key of type {type(key).__name__}")
        return key

    def _placeholder_of(self, tensor: torch.Tensor) -> PlaceHolder:
        placeholder = self._placeholders.get(id(tensor))
        if placeholder is None:
            placeholder = self._capture(tensor)
        return placeholder

    def _capture(self, tensor: torch.Tensor) -> PlaceHolder:
        """Make a tensor from outside part of the state: by reference, so that what changes it reaches the plan."""
        if isinstance(tensor, SyftTensor):
            raise self._refuse("A remote tensor from outside of the function", "Pass it as an argument.")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise self._refuse(f"A tensor of type {type(tensor).__name__}")
        if not tensor.is_leaf or memory_of(tensor) in self._memories:
            raise self._refuse(
                "A tensor made in a way that the recording can't see", "Make it with a torch call, or pass it in."
            )
        kind = "#parameter" if isinstance(tensor, torch.nn.Parameter) else "#constant"
        placeholder = PlaceHolder(tags={"#state", "#captured", kind}, child=tensor)
        self.captured.append(placeholder)
        self._bind_state(placeholder)
        return placeholder

    def is_traced(self, tensor: Any) -> bool:
        """Say whether a tensor was computed from the inputs (or is one)."""
        return id(tensor) in self._placeholders and id(tensor) not in self._of_state

    # --- numbers ----------------------------------------------------------------------------------------------

    def number(self, name: str, args: tuple[Any, ...], value: Any) -> Any:
        """Record how a number comes about, and return it."""
        placeholder = PlaceHolder(tags={"#inner", "#number"})
        self.write(name, args, {}, (placeholder,))
        return (RecordedFloat if isinstance(value, float) else RecordedInt)(self, value, placeholder)

    def compute(self, name: str, *operands: Any) -> Any:
        """Record arithmetic on sizes."""
        value = ARITHMETIC[name](*map(plain, operands))
        return self.number(f"syft.plan.{name}", tuple(map(self.symbolic, operands)), value)

    def check_number(self, relation: str, left: Any, right: Any, outcome: bool) -> None:
        """Record that a comparison ends as it does for the example."""
        if current() is self:
            self.write(EXPECT, (relation, self.symbolic(left), self.symbolic(right), outcome), {}, ())

    def check_form(self, placeholder: PlaceHolder, form: str, value: Any) -> None:
        """Record that a tensor has the form it has in the example."""
        check = (placeholder, form, value)
        if not any(o.cmd_name == EXPECT_FORM and o.cmd_args == check for o in self.operations[-20:]):
            self.write(EXPECT_FORM, check, {}, ())

    def shape_of(self, placeholder: PlaceHolder, tensor: torch.Tensor) -> Shape:
        """Record the reading of a shape."""
        sizes = self.run(tuple, (tensor.shape,), {})
        self.check_form(placeholder, "ndim", len(sizes))
        return Shape(self.number(SIZE, (placeholder, dim), size) for dim, size in enumerate(sizes))

    def numel_of(self, placeholder: PlaceHolder, count: int) -> Any:
        """Record the reading of a number of elements."""
        return self.number(NUMEL, (placeholder,), count)

    # --- gradients and optimizers -------------------------------------------------------------------------------

    def _read_gradient(self, tensor: torch.Tensor) -> Any:
        """Record the reading of a gradient.

        A tensor of the state may have one or not when the plan runs, unless the function said so itself: a check.
        """
        if isinstance(tensor, SyftTensor) or not (tensor.is_leaf and tensor.requires_grad):
            return self._record("torch.Tensor.grad.__get__", _GRAD_GET, (tensor,), {})
        placeholder = self._placeholder_of(tensor)
        has = self.run(_GRAD_GET, (tensor,), {}) is not None
        if id(tensor) not in self._gradients_known and id(tensor) in self._of_state:
            if _inside(_ZERO_GRAD):
                return self._gradient_to_zero(tensor, has)
            self._gradients_known.add(id(tensor))
            self.check_form(placeholder, "has a gradient", has)
        if has:
            return self._record("torch.Tensor.grad.__get__", _GRAD_GET, (tensor,), {})
        self.check_form(placeholder, "has a gradient", False)
        return None

    def _gradient_to_zero(self, tensor: torch.Tensor, has: bool) -> Any:
        """Record that zero_grad looks at a gradient, which may be there or not when the plan runs.

        Where the example has none, zeros stand for it that never become the gradient of the tensor.
        """
        if has:
            return self._record(GRADIENT, gradient_of, (tensor,), {})
        if id(tensor) not in self._gradients_missing:
            self._gradients_missing[id(tensor)] = self._record(GRADIENT, gradient_of, (tensor,), {})
        return self._gradients_missing[id(tensor)]

    def _set_grad(self, func: Any, enabled: bool) -> None:
        name, context = _grad_context(sys._getframe(2))
        if name == "__exit__":
            mode = self._modes.pop(id(context), (enabled, context))[0]
        else:
            self._modes.setdefault(id(context), (self.mode, context))
            mode = enabled
        func(enabled)
        self.set_mode(mode)

    def set_mode(self, mode: bool | None) -> None:
        """Record how autograd is set from here on."""
        if mode is not self.mode:
            self.write(GRAD_MODE, (mode,), {}, ())
            self.mode = mode

    def _require_settings(self) -> None:
        if self.keeper.settings_changed():
            raise self._refuse(
                "A change of an optimizer's settings",
                "Pass them in as tensors: optimizer.param_groups[0]['lr'] = lr, with lr an argument of the function.",
            )

    def settings(self, optimizer: Any) -> tuple[Any, ...]:
        """Return the settings of an optimizer that the function computed, such as a learning rate from an argument."""
        return tuple(
            (number, key, self._placeholder_of(value))
            for number, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if key != "params" and self.is_traced(value)
        )

    def step(self, optimizer: Any) -> None:
        """Record a step of an optimizer as one operation."""
        settings = self.settings(optimizer)
        if settings and not self.keeper.knew(optimizer):
            raise self._refuse("Settings of an optimizer that is no variable of the function")
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        self.write(OPTIMIZER_STEP, (self.optimizers.index(optimizer), settings), {}, ())

    # --- ends -------------------------------------------------------------------------------------------------

    def _refuse(self, what: str, hint: str = "") -> PlanBuildError:
        self.refusal = PlanBuildError(what, describe_line(user_line()), hint)
        return self.refusal

    def prune(self, outputs: Any) -> None:
        """Drop readings of sizes that nothing uses."""
        used = {id(leaf) for leaf in iter_tensors(outputs)}
        kept: list[tuple[Operation, tuple[str, int]]] = []
        for operation, line in zip(reversed(self.operations), reversed(self.lines), strict=True):
            results = {id(leaf) for leaf in iter_tensors(operation.return_ids)}
            if operation.cmd_name in PURE and not results & used:
                continue
            used |= {id(leaf) for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs))}
            kept.append((operation, line))
        kept.reverse()
        self.operations, self.lines = [o for o, _ in kept], [line for _, line in kept]


_ITERATION = ("A loop over a tensor", "Use torch calls on the whole tensor, or x.unbind() if its length is fixed.")


def _inside(codes: frozenset[Any]) -> bool:
    """Say whether one of some functions is among those that led here."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None


def _ambient() -> tuple[bool, bool]:
    return torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def _iterates(func: Any) -> bool:
    return func is torch.Tensor.unbind and sys._getframe(2).f_code.co_name == "__iter__"


def _grad_context(frame: Any) -> tuple[str, Any]:
    """Return which method of which of torch's context managers sets autograd: leaving one restores what was."""
    while frame.f_back is not None and frame.f_back.f_code.co_filename == frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_locals.get("self")


def example(value: Any) -> Any:
    """Return arguments with the numbers that recorded ones have for the example."""
    if isinstance(value, RecordedInt | RecordedFloat):
        return value.value
    if isinstance(value, torch.Tensor) or value is None:
        return value
    if type(value) in (Shape, torch.Size):
        return torch.Size([plain(item) for item in value])
    if type(value) in (list, tuple):
        return type(value)(example(item) for item in value)
    if type(value) is dict:
        return {key: example(item) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(example(part) for part in (value.start, value.stop, value.step)))
    return value


def memory_of(value: Any) -> int:
    """Return where the values of a plain tensor are; 0 for anything else."""
    if not isinstance(value, torch.Tensor) or isinstance(value, SyftTensor) or value.layout is not torch.strided:
        return 0
    return int(value.untyped_storage().data_ptr())


class _Unseen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse computations on recorded tensors that the function mode does not see."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let a computation pass if it is none of the recording's."""
        if not self.recorder.running and any(map(self.recorder.is_traced, iter_tensors((args, kwargs or {})))):
            raise self.recorder._refuse(
                f"{func}, called in a way that torch does not show,", "Use a torch call for it."
            )
        return func(*args, **(kwargs or {}))


@contextmanager
def _optimizer_steps(recorder: Recorder) -> Iterator[None]:
    """Record each step of a torch optimizer as one operation: its Python code decides by what it did before."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if current() is recorder:
            if any(callable(given) for given in (*args, *kwargs.values()) if given is not optimizer):
                raise recorder._refuse("A step with a closure", "Write forward and backward before optimizer.step().")
            recorder._require_settings()
            recorder.running += 1
            recorder.keeper.note_optimizer(optimizer)
            for group in optimizer.param_groups:
                map_tensors(recorder._placeholder_of, group["params"])

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if current() is recorder:
            recorder.running -= 1
            recorder.step(optimizer)
            if optimizer.state and optimizer not in recorder.remembering:
                recorder.remembering.append(optimizer)

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
