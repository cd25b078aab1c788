"""RecordingState: the operations of a recording, and the placeholder of each value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from syft.core.callsite import describe_line, user_line
from syft.core.trees import iter_tensors
from syft.exceptions import PlanBuildError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.commands import ARITHMETIC, EXPECT, EXPECT_PROPERTY, NUMEL, PURE, SIZE
from syft.messaging.plan.program import ATOMS, RETURN_TYPES
from syft.messaging.plan.record.state_snapshot import StateSnapshot
from syft.messaging.plan.record.symbolic_sizes import RecordedFloat, RecordedInt, SymbolicShape, plain
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.messaging.plan.record.recording import Recorder

_active = threading.local()


def current() -> Any:
    """Return the active recording of this thread."""
    return getattr(_active, "recorder", None)


def set_current(recorder: Recorder) -> Any:
    """Set the active recording of this thread; returns the one before."""
    before, _active.recorder = current(), recorder
    return before


class RecordingState:
    """The operations and values of one recording, which begins with the declared state."""

    def __init__(self, state: list[PlaceHolder]) -> None:
        self.operations: list[Operation] = []
        self.lines: list[tuple[str, int]] = []
        self.state: list[PlaceHolder] = list(state)
        self.captured: list[PlaceHolder] = []
        self.inputs: list[PlaceHolder] = []
        self.snapshot = StateSnapshot()
        # Stored, as the function or torch may catch it.
        self.refusal: PlanBuildError | None = None
        self.running = 0
        self._alive: list[Any] = []
        self._memories: set[int] = set()  # of computed values; views of the state share the memory of the state
        self._state_memories: set[int] = set()
        self._placeholders: dict[int, PlaceHolder] = {}
        self._of_state: set[int] = set()
        for placeholder in state:
            self._bind_state(placeholder)

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call without the recording modes."""
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

    def _refuse(self, what: str, hint: str = "") -> PlanBuildError:
        self.refusal = PlanBuildError(what, describe_line(user_line()), hint)
        return self.refusal

    def prune(self, outputs: object) -> None:
        """Remove reads of sizes that are not used."""
        used = {id(leaf) for leaf in iter_tensors(outputs)}
        needed: list[tuple[Operation, tuple[str, int]]] = []
        for operation, line in zip(reversed(self.operations), reversed(self.lines), strict=True):
            results = {id(leaf) for leaf in iter_tensors(operation.return_ids)}
            if operation.cmd_name in PURE and not results & used:
                continue
            used |= {id(leaf) for leaf in iter_tensors((operation.cmd_args, operation.cmd_kwargs))}
            needed.append((operation, line))
        needed.reverse()
        self.operations, self.lines = [o for o, _ in needed], [line for _, line in needed]

    # --- values -----------------------------------------------------------------------------------------------

    def new_input(self, value: object) -> PlaceHolder:
        """Make the placeholder of an input."""
        placeholder = PlaceHolder(tags={f"#input-{len(self.inputs)}"})
        self.inputs.append(placeholder)
        self._assign(value, placeholder)
        return placeholder

    def _assign(self, value: object, placeholder: PlaceHolder) -> None:
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
        self.snapshot.save(tensor)

    def bind(self, result: object) -> Any:
        """Return the pattern of a result: placeholders for tensors, None for None."""
        if isinstance(result, torch.Tensor):
            placeholder = self._placeholders.get(id(result))
            if placeholder is None:
                placeholder = PlaceHolder(tags={"#inner"})
                self._assign(result, placeholder)
            return placeholder
        if isinstance(result, tuple | list) and not isinstance(result, torch.Size):
            parts = tuple([self.bind(item) for item in result])
            unknown = any(part is None and item is not None for item, part in zip(result, parts, strict=True))
            return None if unknown else parts
        return None

    def symbolic(self, value: object) -> Any:
        """Return arguments with placeholders for tensors and recorded numbers."""
        if isinstance(value, RecordedInt | RecordedFloat):
            return value.placeholder
        if isinstance(value, torch.Tensor):
            return self._placeholder_of(value)
        if type(value) in ATOMS:
            return value
        if isinstance(value, list):
            return [self.symbolic(item) for item in value]
        if isinstance(value, tuple):
            items = [self.symbolic(item) for item in value]
            return type(value)(items) if type(value) in RETURN_TYPES else tuple(items)
        if isinstance(value, dict):
            return {self._key(key): self.symbolic(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.symbolic(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, range):
            return [int(item) for item in value]
        if isinstance(value, np.generic) or type(value).__mro__[1:2] in ((int,), (float,), (str,)):
            return value.item() if isinstance(value, np.generic) else type(value).__mro__[1](value)
        if isinstance(value, np.ndarray):
            raise self._refuse("A numpy array", "Make it a tensor outside of the function: torch.from_numpy(array).")
        raise self._refuse(f"An argument of type {type(value).__name__}")

    def _key(self, key: object) -> str:
        if type(key) is not str:
            raise self._refuse(f"A dictionary with a key of type {type(key).__name__}")
        return key

    def _placeholder_of(self, tensor: torch.Tensor) -> PlaceHolder:
        placeholder = self._placeholders.get(id(tensor))
        if placeholder is None:
            placeholder = self._capture(tensor)
        return placeholder

    def _capture(self, tensor: torch.Tensor) -> PlaceHolder:
        """Make a tensor from outside part of the state: by reference, so that later changes reach the plan."""
        if isinstance(tensor, SyftTensor):
            raise self._refuse("A remote tensor from outside of the function", "Pass it as an argument.")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise self._refuse(f"A tensor of type {type(tensor).__name__}")
        if not tensor.is_leaf or memory_of(tensor) in self._memories:
            raise self._refuse(
                "A tensor made without a torch call", "Make it with a torch call, or pass it as an argument."
            )
        kind = "#parameter" if isinstance(tensor, torch.nn.Parameter) else "#constant"
        placeholder = PlaceHolder(tags={"#state", "#captured", kind}, child=tensor)
        self.captured.append(placeholder)
        self._bind_state(placeholder)
        return placeholder

    def is_traced(self, tensor: torch.Tensor) -> bool:
        """Say whether a tensor was computed from the inputs (or is one)."""
        return id(tensor) in self._placeholders and id(tensor) not in self._of_state

    # --- numbers ----------------------------------------------------------------------------------------------

    def number(self, name: str, args: tuple[Any, ...], value: Any) -> Any:
        """Record the computation of a number, and return it."""
        placeholder = PlaceHolder(tags={"#inner", "#number"})
        self.write(name, args, {}, (placeholder,))
        return (RecordedFloat if isinstance(value, float) else RecordedInt)(self, value, placeholder)

    def compute(self, name: str, *operands: object) -> Any:
        """Record arithmetic on sizes."""
        value = ARITHMETIC[name](*map(plain, operands))
        return self.number(f"syft.plan.{name}", tuple(map(self.symbolic, operands)), value)

    def check_number(self, relation: str, left: object, right: object, outcome: bool) -> None:
        """Record a check that a comparison has the same outcome as for the example."""
        if current() is self:
            self.write(EXPECT, (relation, self.symbolic(left), self.symbolic(right), outcome), {}, ())

    def check_property(self, placeholder: PlaceHolder, name: str, value: object) -> None:
        """Record a check that a property of a tensor is the same as for the example."""
        check = (placeholder, name, value)
        if not any(o.cmd_name == EXPECT_PROPERTY and o.cmd_args == check for o in self.operations[-20:]):
            self.write(EXPECT_PROPERTY, check, {}, ())

    def shape_of(self, placeholder: PlaceHolder, tensor: torch.Tensor) -> SymbolicShape:
        """Record the read of a shape."""
        sizes = self.run(tuple, (tensor.shape,), {})
        self.check_property(placeholder, "ndim", len(sizes))
        return SymbolicShape(self.number(SIZE, (placeholder, dim), size) for dim, size in enumerate(sizes))

    def numel_of(self, placeholder: PlaceHolder, count: int) -> Any:
        """Record the read of a number of elements."""
        return self.number(NUMEL, (placeholder,), count)


def example(value: Any) -> Any:
    """Return arguments with recorded numbers replaced by their values for the example."""
    if isinstance(value, RecordedInt | RecordedFloat):
        return value.value
    if isinstance(value, torch.Tensor) or value is None:
        return value
    if type(value) in (SymbolicShape, torch.Size):
        return torch.Size([plain(item) for item in value])
    if type(value) in (list, tuple):
        return type(value)(example(item) for item in value)
    if type(value) is dict:
        return {key: example(item) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(example(part) for part in (value.start, value.stop, value.step)))
    return value


def memory_of(value: object) -> int:
    """Return the address of the memory of a plain tensor; 0 for anything else."""
    if not isinstance(value, torch.Tensor) or isinstance(value, SyftTensor) or value.layout is not torch.strided:
        return 0
    return int(value.untyped_storage().data_ptr())
