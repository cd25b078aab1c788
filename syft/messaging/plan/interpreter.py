"""Runs a program one operation after the other: with functions of the caller, or on torch's fake tensors for shapes."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.arguments import example_of, match
from syft.messaging.plan.checks import function_for, guarded
from syft.messaging.plan.commands import GRAD_MODE, OPTIMIZER_STEP
from syft.messaging.plan.program import Program, map_pattern
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

# Longer programs are not tried: it would take too long.
MAX_OPERATIONS = 2000
# The maximum number of results that are kept for one plan.
MAX_CACHED = 256
_MAX_GROUPS = 6
# Sizes that are unlikely to be special for a program.
_PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)
# The most operations, elements of inputs and elements of the state of a program that is tried with real tensors.
MAX_TRIAL = (300, 1 << 16, 1 << 20)
DYNAMO = "torch._dynamo"  # which fake tensors import
_lock = threading.RLock()


Lookup = Callable[[Operation], Callable[..., Any] | None]
Specs = tuple[TensorMeta, ...]
# For each operation of a program, the specs of its results; None for a result that is not a tensor.
Results = list[tuple[TensorMeta | None, ...]]


def run_steps(
    program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup, values: dict[int, Any]
) -> Iterator[int]:
    """Run a program; yields the number of each operation after it has run.

    Args:
        program: the program.
        inputs: values of its inputs.
        state: values of its state.
        lookup: returns the function of an operation; None skips the operation.
        values: receives the value of each placeholder, by the id() of the placeholder.
    """
    given = (*program.inputs, *program.state)
    values.update((id(p), value) for p, value in zip(given, (*inputs, *state), strict=True))
    for number, operation in enumerate(program.operations):
        function = lookup(operation)
        if function is not None:
            args, kwargs = map_pattern(lambda p: values[id(p)], (operation.cmd_args, operation.cmd_kwargs))
            result = function(*args, **kwargs)
            for pattern in operation.return_ids:
                _bind(pattern, result, values)
        yield number


def interpret(program: Program, inputs: Iterable[Any], state: Iterable[Any], lookup: Lookup) -> Any:
    """Run a program and return its outputs; the arguments are those of `run_steps`."""
    values: dict[int, Any] = {}
    for _ in run_steps(program, inputs, state, lookup, values):
        pass
    return map_pattern(lambda p: values[id(p)], program.outputs)


def _bind(pattern: Any, result: Any, values: dict[int, Any]) -> None:
    if isinstance(pattern, PlaceHolder):
        values[id(pattern)] = result
    elif pattern is not None:
        for part, item in zip(pattern, result, strict=True):
            _bind(part, item, values)


# --- fake tensors -------------------------------------------------------------------------------------------------


def specs_of(values: Iterable[object]) -> Specs:
    """Return the specs of the tensors in nested values, in order."""
    return tuple(
        TensorMeta(tensor.shape, tensor.dtype, bool(tensor.requires_grad))
        for value in values
        for tensor in iter_tensors(value)
    )


def empty(spec: TensorMeta | torch.Tensor) -> torch.Tensor:
    """Return a tensor of a spec; without memory inside `fake_tensors`."""
    return torch.zeros(spec.shape, dtype=spec.dtype).requires_grad_(spec.requires_grad)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's warnings about fake tensors and traces inside a `with` block."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with _lock:  # filters and loggers belong to the whole process
        before, logger.disabled = logger.disabled, True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logger.disabled = before


@contextlib.contextmanager
def fake_tensors(grad_enabled: bool = True) -> Iterator[FakeTensorMode]:
    """Make tensors without memory inside a `with` block."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # takes long to import

    with quiet(), FakeTensorMode() as mode, torch.set_grad_enabled(grad_enabled):
        yield mode


def shape_functions(
    grad_enabled: bool = True, function_of: Callable[[str], Callable[..., Any]] = function_for
) -> Lookup:
    """Return a lookup of functions for fake tensors; `grad_enabled` holds where the program sets no mode.

    Steps of optimizers are skipped: they change no shape, and optimizers hold real tensors.
    """

    def set_mode(mode: bool | None) -> None:
        torch._C._set_grad_enabled(grad_enabled if mode is None else mode)

    def lookup(operation: Operation) -> Callable[..., Any] | None:
        if operation.cmd_name == OPTIMIZER_STEP:
            return None
        return set_mode if operation.cmd_name == GRAD_MODE else function_of(operation.cmd_name)

    return lookup


def results_of(program: Program, specs: Specs, is_own: bool = False) -> Results:
    """Return the specs of the results of each operation; empty tuples from the first one that depends on values.

    A program that was recorded here (`is_own`) and is small runs on real tensors: fake ones take seconds to import.
    """
    found = _dry_run(program, specs, is_own)
    return found + [()] * (len(program.operations) - len(found))


def _runs(program: Program, specs: Specs, is_own: bool) -> bool:
    return len(_dry_run(program, specs, is_own)) == len(program.operations)


def _dry_run(program: Program, specs: Specs, is_own: bool) -> Results:
    """Return the specs of the results of the operations that run without values, up to the first that does not."""
    if any(isinstance(placeholder.child, SyftTensor) for placeholder in program.state):
        return []  # a remote or encoded state
    if is_own and _is_small(program, specs) and DYNAMO not in sys.modules:
        found = _trial_run(program, specs, torch.zeros)
        # Otherwise shapes or errors may depend on values.
        if found is not None and found == _trial_run(program, specs, torch.ones):
            return found
    return _fake_run(program, specs)


def _fake_run(program: Program, specs: Specs) -> Results:
    found: Results = []
    # Shapes that depend on values, and checks that fail, end the run.
    with contextlib.suppress(Exception), fake_tensors() as mode:
        state = [mode.from_tensor(placeholder.child) for placeholder in program.state]
        _collect(program, map(empty, specs), state, found)
    return found


def _is_small(program: Program, specs: Specs) -> bool:
    numels = sum(math.prod(spec.shape) for spec in specs), sum(p.child.numel() for p in program.state)
    return len(program.operations) <= MAX_TRIAL[0] and numels[0] <= MAX_TRIAL[1] and numels[1] <= MAX_TRIAL[2]


def _trial_run(program: Program, specs: Specs, make: Callable[..., torch.Tensor]) -> Results | None:
    """Run a program on made tensors and copies of its state, as `_fake_run`; None if the values made it fail."""
    found: Results = []
    try:
        _run_on_real(program, specs, make, found)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        return None
    except Exception:
        return found
    return found


def _run_on_real(program: Program, specs: Specs, make: Callable[..., torch.Tensor], found: Results) -> None:
    with warnings.catch_warnings(), torch.random.fork_rng(devices=()):
        warnings.simplefilter("ignore")
        inputs = [make(spec.shape, dtype=spec.dtype).requires_grad_(spec.requires_grad) for spec in specs]
        state = [example_of(placeholder.child) for placeholder in program.state]
        with torch.enable_grad():
            _collect(program, inputs, state, found, guarded)


def _collect(
    program: Program, inputs: Iterable[Any], state: Iterable[Any], found: Results, checked: Lookup | None = None
) -> None:
    """Run a program, and add the specs of the results of each operation; `checked` looks functions up with guards."""
    values: dict[int, Any] = {}
    lookup = shape_functions()

    def function_of(operation: Operation) -> Callable[..., Any] | None:
        is_command = checked is None or operation.cmd_name in (GRAD_MODE, OPTIMIZER_STEP)
        return lookup(operation) if is_command or checked is None else checked(operation)

    for number in run_steps(program, inputs, state, function_of, values):
        results = iter_tensors(program.operations[number].return_ids)
        found.append(tuple(_spec_of(values[id(placeholder)]) for placeholder in results))


def _spec_of(value: object) -> TensorMeta | None:
    return TensorMeta(torch.Size(value.shape), value.dtype) if isinstance(value, torch.Tensor) else None


def with_other_sizes(program: Program, specs: Specs, is_own: bool = False) -> list[Specs]:
    """Return further specs that the program runs with, each with one more size that differs.

    Candidates are the first dimensions of all inputs together, and dimensions of equal size, which may have to stay
    equal.
    """
    sizes = {size for spec in specs for size in spec.shape}
    unused = [size for size in _PRIMES if size not in sizes]
    found = [specs]
    if len(program.operations) > MAX_OPERATIONS or not _runs(program, specs, is_own):
        return []
    for dims in _groups(specs):
        for size in (unused[0], 2 * specs[dims[0][0]].shape[dims[0][1]]):
            resized = _resized(found[-1], dims, size)
            if resized != found[-1] and _runs(program, resized, is_own):
                found.append(resized)
                unused = unused[1:]
                break
    return found[1:]


def _groups(specs: Specs) -> list[list[tuple[int, int]]]:
    """Return groups of (input, dimension) that may have to be of one size."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for number, spec in enumerate(specs):
        for dim, size in enumerate(spec.shape):
            groups.setdefault(size, []).append((number, dim))
    first = [(number, 0) for number, spec in enumerate(specs) if spec.shape]
    return ([first] if first else []) + [g for g in list(groups.values())[:_MAX_GROUPS] if g != first]


def _resized(specs: Specs, dims: list[tuple[int, int]], size: int) -> Specs:
    shapes = [list(spec.shape) for spec in specs]
    for number, dim in dims:
        shapes[number][dim] = size
    return tuple(dataclasses.replace(spec, shape=torch.Size(shape)) for spec, shape in zip(specs, shapes, strict=True))


# --- results of a call ---------------------------------------------------------------------------------------------


class ResultInference:
    """The metadata of the results of a plan, known before it runs, so that the client need not wait.

    Cached by the shapes and dtypes of the arguments.
    """

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self.program = program
        self.cache: dict[Any, Any] = {}
        # As it is sent: later changes of the local state do not reach the worker.
        self.state = [TensorMeta.of_copy(placeholder.child) for placeholder in program.state]

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the metadata of the results of a call, in their containers; None if it depends on values.

        Invalid arguments raise here, before anything is sent.
        """
        meta_args, meta_kwargs = map_tensors(_on_meta, (args, kwargs))
        inputs = match(self.name, self.program.arguments, meta_args, meta_kwargs)
        key = (torch.is_grad_enabled(), *[(t.shape, t.dtype, t.requires_grad) for t in inputs])
        if key in (cache := self.cache):
            return cache[key]
        found = self._infer(inputs)
        self.cache = {**(cache if len(cache) < MAX_CACHED else {}), key: found}  # replaced: other threads may read it
        return found

    def _infer(self, inputs: list[torch.Tensor]) -> Any:
        if len(self.program.operations) > MAX_OPERATIONS:
            return None
        grad_enabled = torch.is_grad_enabled()
        try:
            with fake_tensors(grad_enabled):
                state, fakes = [empty(meta) for meta in self.state], [empty(tensor) for tensor in inputs]
                result = interpret(self.program, fakes, state, shape_functions(grad_enabled))
        except Exception:
            return None  # shapes that depend on values, or an error, which the worker will report
        leaves = list(iter_tensors(result))
        operands = {id(tensor) for tensor in (*fakes, *state)}
        if not leaves or not _only_tensors(result) or any(id(leaf) in operands for leaf in leaves):
            return None
        return map_tensors(lambda t: TensorMeta(torch.Size(t.shape), t.dtype, t.requires_grad), result)


def _on_meta(leaf: object) -> Any:
    """Return a tensor on the meta device with the shape and dtype of a local or remote one."""
    if isinstance(leaf, AbstractTensor):
        meta = leaf.tensor_meta()
        return torch.empty(meta.shape, dtype=meta.dtype, device="meta").requires_grad_(meta.requires_grad)
    return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") if isinstance(leaf, torch.Tensor) else leaf


def _only_tensors(result: object) -> bool:
    if isinstance(result, dict):
        return all(map(_only_tensors, result.values()))
    if isinstance(result, tuple | list):
        return all(map(_only_tensors, result))
    return isinstance(result, torch.Tensor)
