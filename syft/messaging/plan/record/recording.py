"""Recorder: records a function once, with example tensors, as operations over placeholders.

Two torch modes are active while it runs. The function mode records each call as the user wrote it. The dispatch mode
detects computations that the function mode does not see (a script module, C++ code); these raise, because the plan
would lack them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from syft.core import context
from syft.core.callsite import user_line
from syft.core.dispatch import function_name
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError
from syft.hook.allowed_functions import CONSTRUCTORS, name_of
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.commands import GRAD_MODE, GRADIENT, OPTIMIZER_STEP, gradient_of
from syft.messaging.plan.metadata_access import READS, VALUE_READS, read
from syft.messaging.plan.record.recording_state import RecordingState, current, example, memory_of, set_current
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_CONSTRUCTOR_NAMES = {function: name for name, function in CONSTRUCTORS.items()}
_Tensor: Any = torch.Tensor
# A new object at each access, so compared by value.
_GRAD_GET, _GRAD_SET = _Tensor.grad.__get__, _Tensor.grad.__set__
# Printing while the plan is built is not recorded.
_DISPLAYS = frozenset({_Tensor.__repr__, _Tensor.__format__})
_HINTS = {
    "_nested_tensor_from_mask_left_aligned": "Make the nn.TransformerEncoder with enable_nested_tensor=False.",
    "_pack_padded_sequence": "Pack the sequence outside of the plan, or give the layer the padded one.",
}
# Internal calls of torch; a tensor made of an array is checked when it is used.
_NOT_COMPUTING = ("profiler.", "aten.lift_fresh")
_APPLIES = frozenset({torch.autograd.Function.apply.__func__.__code__})  # type: ignore[attr-defined]
_ZERO_GRAD = frozenset(
    inspect.unwrap(method).__code__ for method in (torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad)
)


class Recorder(TorchFunctionMode, RecordingState):
    """One recording of a function, with its declared state and the optimizers among its variables."""

    def __init__(self, state: list[PlaceHolder], optimizers: Iterable[Any] = ()) -> None:
        TorchFunctionMode.__init__(self)
        RecordingState.__init__(self, state)
        self.declared_optimizers = list(optimizers)
        self.optimizers: list[Any] = []
        self.stateful: list[Any] = []  # optimizers that keep state between steps
        # A call that raised: a function that catches the error may take another path for other tensors.
        self.failure: tuple[str, tuple[str, int]] | None = None
        # The mode of autograd: True or False where the function sets it, None for the caller's mode.
        self.mode: bool | None = None
        self._modes: dict[int, tuple[bool | None, Any]] = {}
        self._ambient = _ambient()
        self._checked_gradients: set[int] = set()
        self._missing_gradients: dict[int, Any] = {}

    # --- the recording itself ---------------------------------------------------------------------------------

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls inside a `with` block, in this thread."""
        before = set_current(self)
        context.recording.refuse = lambda what: self._refuse(what, "Do it outside of the function.")
        enabled = torch.is_grad_enabled()
        self.snapshot.begin(self.declared_optimizers)
        try:
            with UnrecordedGuard(self), self, optimizer_steps(self):
                yield
            self._require_settings()
        finally:
            set_current(before)
            context.recording.refuse = None
            torch._C._set_grad_enabled(enabled)
            self.snapshot.restore()

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record a call, unless it only reads a property of a tensor."""
        kwargs = kwargs or {}
        if self.running:
            return func(*args, **kwargs)
        if func is torch._C._set_grad_enabled:
            return self._set_grad(func, bool(args[0]))
        if func in READS:
            if not args:
                (_, first), *others = kwargs.items()
                args, kwargs = (first,), dict(others)
            placeholder = self._placeholders.get(id(args[0]))
            if placeholder is None or id(args[0]) in self._of_state:
                return func(*args, **kwargs)
            return read(self, func, placeholder, args, kwargs)
        if func in VALUE_READS or _iterates(func):
            if func is _Tensor.__index__:
                self.run(func, args, kwargs)  # torch tries it on other tensors, to find a signature
            raise self._refuse(*VALUE_READS.get(func, _ITERATION))
        if func in _DISPLAYS:
            return f"<recorded tensor {tuple(args[0].shape)} {args[0].dtype}>"
        if function_name(func).startswith(_NOT_COMPUTING):
            return func(*args, **kwargs)
        return self._record_call(func, args, kwargs)

    def _record_call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func == _GRAD_GET:
            return self._read_gradient(args[0])
        if getattr(func, "__name__", "").startswith("_foreach_"):
            return self._for_each(func, *args, **kwargs)
        name = self._name_of(func)
        if func == _GRAD_SET:
            self._checked_gradients.add(id(args[0]))
        return self._record(name, func, args, kwargs)

    def _name_of(self, func: Callable[..., Any]) -> str:
        try:
            return _CONSTRUCTOR_NAMES.get(func) or name_of(func)
        except CommandNotAllowedError as error:
            what = getattr(func, "__name__", "") if " at 0x" in function_name(func) else function_name(func)
            hint = _HINTS.get(what.rpartition(".")[2]) or error.hint[:1].upper() + error.hint[1:]
            raise self._refuse(what, hint) from None

    def _for_each(self, func: Callable[..., Any], tensors: Any, *args: object, **kwargs: object) -> Any:
        """Split a _foreach call, which can't be sent, into calls on one tensor."""
        name = func.__name__.removeprefix("_foreach_")
        single = torch.linalg.vector_norm if name == "norm" else getattr(_Tensor, name, func)
        results = []
        for number, tensor in enumerate(tensors):
            own = [arg[number] if isinstance(arg, list | tuple) else arg for arg in args]
            results.append(self._record(self._name_of(single), single, (tensor, *own), kwargs))
        return None if name.endswith("_") else tuple(results)

    def _record(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call with the example and record it."""
        if torch._C._functorch.maybe_current_level() is not None:
            raise self._refuse("A transform of torch.func", "Use loss.backward() or torch.autograd.grad.")
        if _inside(_APPLIES):
            raise self._refuse(
                "A torch.autograd.Function", "Its backward can't be recorded. Write it with torch calls."
            )
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
            raise self._refuse(f"{name}, which returns a {type(result).__name__} made of a tensor's values,")
        self.write(name, symbolic_args, symbolic_kwargs, () if pattern is None else (pattern,))
        return result

    # --- gradients and optimizers -------------------------------------------------------------------------------

    def _read_gradient(self, tensor: torch.Tensor) -> Any:
        """Record the read of a gradient.

        A tensor of the state may have one or not when the plan runs, so this is checked, unless the function sets it.
        """
        if isinstance(tensor, SyftTensor) or not (tensor.is_leaf and tensor.requires_grad):
            return self._record("torch.Tensor.grad.__get__", _GRAD_GET, (tensor,), {})
        placeholder = self._placeholder_of(tensor)
        has = self.run(_GRAD_GET, (tensor,), {}) is not None
        if id(tensor) not in self._checked_gradients and id(tensor) in self._of_state:
            if _inside(_ZERO_GRAD):
                return self._gradient_to_zero(tensor, has)
            self._checked_gradients.add(id(tensor))
            self.check_property(placeholder, "has a gradient", has)
        if has:
            return self._record("torch.Tensor.grad.__get__", _GRAD_GET, (tensor,), {})
        self.check_property(placeholder, "has a gradient", False)
        return None

    def _gradient_to_zero(self, tensor: torch.Tensor, has: bool) -> Any:
        """Record that zero_grad reads a gradient, which may exist or not when the plan runs.

        If the example has none, zeros replace it; they never become the gradient of the tensor.
        """
        if has:
            return self._record(GRADIENT, gradient_of, (tensor,), {})
        if id(tensor) not in self._missing_gradients:
            self._missing_gradients[id(tensor)] = self._record(GRADIENT, gradient_of, (tensor,), {})
        return self._missing_gradients[id(tensor)]

    def _set_grad(self, func: Callable[..., Any], enabled: bool) -> None:
        name, context = _grad_context(sys._getframe(2))
        if name == "__exit__":
            mode = self._modes.pop(id(context), (enabled, context))[0]
        else:
            self._modes.setdefault(id(context), (self.mode, context))
            mode = enabled
        func(enabled)
        self.set_mode(mode)

    def set_mode(self, mode: bool | None) -> None:
        """Record a change of the mode of autograd."""
        if mode is not self.mode:
            self.write(GRAD_MODE, (mode,), {}, ())
            self.mode = mode

    def _require_settings(self) -> None:
        if self.snapshot.settings_changed():
            raise self._refuse(
                "A change of an optimizer's settings",
                "Pass them as tensors: optimizer.param_groups[0]['lr'] = lr, with lr an argument of the function.",
            )

    def settings(self, optimizer: torch.optim.Optimizer) -> tuple[Any, ...]:
        """Return the settings of an optimizer that the function computed, such as a learning rate."""
        return tuple(
            (number, key, self._placeholder_of(value))
            for number, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if key != "params" and self.is_traced(value)
        )

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Record a step of an optimizer as one operation."""
        settings = self.settings(optimizer)
        if settings and not self.snapshot.has_optimizer(optimizer):
            raise self._refuse("Settings of an optimizer that is not a variable of the function")
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        self.write(OPTIMIZER_STEP, (self.optimizers.index(optimizer), settings), {}, ())


_ITERATION = ("A loop over a tensor", "Use torch calls on the whole tensor, or x.unbind() if its length is fixed.")


def _inside(codes: frozenset[Any]) -> bool:
    """Say whether one of these functions is on the call stack."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None


def _ambient() -> tuple[bool, bool]:
    return torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def _iterates(func: Callable[..., Any]) -> bool:
    return func is torch.Tensor.unbind and sys._getframe(2).f_code.co_name == "__iter__"


def _grad_context(frame: FrameType) -> tuple[str, Any]:
    """Return the method and the context manager of torch that sets autograd; `__exit__` restores the earlier mode."""
    while frame.f_back is not None and frame.f_back.f_code.co_filename == frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_name, frame.f_locals.get("self")


class UnrecordedGuard(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse computations on recorded tensors that the function mode does not see."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Refuse a computation on recorded tensors."""
        if not self.recorder.running and any(map(self.recorder.is_traced, iter_tensors((args, kwargs or {})))):
            raise self.recorder._refuse(
                f"{func}, called without one of torch's Python functions,", "Use a torch call for it."
            )
        return func(*args, **(kwargs or {}))


@contextmanager
def optimizer_steps(recorder: Recorder) -> Iterator[None]:
    """Record each step of a torch optimizer as one operation: its Python code depends on its state."""

    def before(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current() is recorder:
            if any(callable(arg) for arg in (*args, *kwargs.values()) if arg is not optimizer):
                raise recorder._refuse("A step with a closure", "Write forward and backward before optimizer.step().")
            recorder._require_settings()
            recorder.running += 1
            recorder.snapshot.save_optimizer(optimizer)
            for group in optimizer.param_groups:
                map_tensors(recorder._placeholder_of, group["params"])

    def after(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current() is recorder:
            recorder.running -= 1
            recorder.step(optimizer)
            if optimizer.state and optimizer not in recorder.stateful:
                recorder.stateful.append(optimizer)

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


__all__ = ["Recorder", "current", "memory_of"]
