"""Dry run: call a model without sending anything, and collect the operations that encrypted tensors don't support.

After a failure the run continues with a symbolic result of the shape that torch computes, so that all failures are
found. Modules, buffers, links and random state are restored afterwards.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from syft.core import observers
from syft.core.tensor import below
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook.module_path import module_place
from syft.hook.syft_tensor import SyftTensor, make_shell
from syft.mpc.rules.names import public_name
from syft.mpc.rules.operands import aten, is_link
from syft.mpc.rules.types import Link, Operation
from syft.mpc.runtime.recording import ShareRecording, SymbolicShare, SymbolicShareError, Value, outline
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """An operation of a model that encrypted tensors don't support.

    Attributes:
        path: the name of the module in the model, empty for the model itself.
        module: the class of the module.
        operation: the unsupported operation.
        instead: the operation to use instead.
    """

    path: str
    module: str
    operation: str
    instead: str


_READ = "Reading a value"
_STAY_PRIVATE = "Comparisons stay private: use torch.where, or multiply by them; or decrypt first."
_Tensor: Any = torch.Tensor
# The values with which a dry run continues if the model reads values.
_READINGS: dict[Any, Callable[[Any], Any]] = {
    _Tensor.item: lambda x: 1.0 if x.is_floating_point() else 1,
    _Tensor.__bool__: lambda x: True,
    _Tensor.__float__: lambda x: 1.0,
    _Tensor.__int__: lambda x: 1,
    _Tensor.__index__: lambda x: 1,
    _Tensor.tolist: lambda x: torch.ones(x.shape).tolist(),
    _Tensor.numpy: lambda x: torch.ones(x.shape).numpy(),
}


class _Stop(SyftError):
    """The dry run can't continue after this operation."""


class DryRun(TorchFunctionMode):
    """Collects unsupported operations while a model is called."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[Problem, None] = {}
        self._inside = False

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record reads of values, and refused calls as the user wrote them."""
        kwargs = kwargs or {}
        reading = _READINGS.get(func)
        if reading is not None and isinstance(args[0], SyftTensor):
            self._note(_READ, _STAY_PRIVATE)
            return reading(args[0])
        try:
            return func(*args, **kwargs)
        except (UnsupportedOperationError, SymbolicShareError) as error:
            if isinstance(error, _Stop):
                raise
            self._note_error(torch.overrides.resolve_name(func) or str(func), error)
            return self._instead(func, args, kwargs)

    def watch(self, function: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run an ATen operation; nested operations are part of it."""
        if self._inside:
            return run()
        self._inside = True
        try:
            return run()
        except (SyftError, NotImplementedError, ValueError) as error:
            if isinstance(error, _Stop):
                raise
            if function is aten._local_scalar_dense.default:
                self._note(_READ, _STAY_PRIVATE)
                return 1.0
            self._note_error(public_name(function), error)
            return self._instead(function, args, kwargs)
        finally:
            self._inside = False

    def _note_error(self, name: str, error: Exception) -> None:
        has_hint = isinstance(error, UnsupportedOperationError)
        self._note(getattr(error, "operation", name), getattr(error, "hint", "") if has_hint else str(error))

    def _note(self, operation: str, instead: str) -> None:
        path, module = module_place() or ("", None)
        kind = "" if module is None else type(module).__name__
        self.problems.setdefault(Problem(path, kind, operation, instead))

    def _instead(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a symbolic result with the shape of the real one."""
        if getattr(getattr(function, "_schema", None), "is_mutable", False) or kwargs.get("out") is not None:
            return args[0]
        models = [below(leaf) if isinstance(leaf, SyftTensor) else leaf for leaf in iter_tensors((args, kwargs))]
        model = max((leaf for leaf in models if is_link(leaf)), key=_is_private, default=None)
        if model is None:
            raise _Stop
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                made = function(*map_tensors(_without_values, args), **map_tensors(_without_values, kwargs))
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            raise _Stop from None  # the shape depends on values
        wrapped = any(isinstance(leaf, SyftTensor) for leaf in iter_tensors((args, kwargs)))

        def stand(leaf: torch.Tensor) -> object:
            link = like(model, leaf.shape)
            return make_shell(link, False) if wrapped else link

        return map_tensors(stand, made)


def _is_private(link: Link) -> bool:
    return isinstance(link, AdditiveSharingTensor) or isinstance(link.child, AdditiveSharingTensor)


def _without_values(leaf: torch.Tensor | Link) -> torch.Tensor:
    if isinstance(leaf, torch.Tensor) and not isinstance(leaf, SyftTensor):
        return leaf.detach().to("meta")
    return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta")


def like(model: Link, shape: torch.Size) -> Link:
    """Return a symbolic link with a shape, like another link."""
    if isinstance(model, AdditiveSharingTensor):
        return outline(Value(shape), model)
    if isinstance(model.child, AdditiveSharingTensor):
        return model.like(outline(Value(shape), model.child))
    return model.like(torch.zeros(shape, dtype=torch.int64))


# --- symbolic tensors ----------------------------------------------------------------------------------


def encrypted_example() -> FixedPrecisionTensor:
    """Return the link of an encoded and shared tensor, with placeholder parties."""
    value = Value(torch.Size(()))
    shares = {name: SymbolicShare(value, SimpleNamespace(id=name)) for name in ("alice", "bob")}
    provider: Any = SimpleNamespace(id="carol")
    return FixedPrecisionTensor(child=AdditiveSharingTensor(shares, crypto_provider=provider))


def symbolic_encryption(plain: torch.Tensor, example: FixedPrecisionTensor) -> SyftTensor:
    """Return the symbolic encryption of a plain tensor: floats encoded and shared, integers shared."""
    is_float = plain.is_floating_point()
    model = example if is_float or not isinstance(example.child, AdditiveSharingTensor) else example.child
    return make_shell(like(model, plain.shape), plain.requires_grad and is_float)


# --- restoring modules ---------------------------------------------------------------------------------------


@contextmanager
def replaced_tensors(model: torch.nn.Module, replace: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Replace the tensors of a model inside a `with` block; afterwards every module is restored."""
    standing: dict[int, torch.Tensor] = {}

    def stand(value: object) -> object:
        return standing.get(id(value), value) if isinstance(value, torch.Tensor) else value

    saved = [(module, dict(module.__dict__)) for module in model.modules()]
    try:
        for tensor in (*model.parameters(), *model.buffers()):
            standing[id(tensor)] = replace(tensor)
        for module, attributes in saved:
            for name, value in attributes.items():
                if type(value) is dict:
                    module.__dict__[name] = {key: stand(item) for key, item in value.items()}
                elif type(value) in (list, set):
                    module.__dict__[name] = type(value)(map(stand, value))
                elif isinstance(value, torch.Tensor):
                    module.__dict__[name] = stand(value)
        yield
    finally:
        for module, attributes in saved:
            module.__dict__.clear()
            module.__dict__.update(attributes)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Return the default replacement: a copy of a plain buffer, which may be written to, else the tensor itself."""
    return tensor if isinstance(tensor, SyftTensor | torch.nn.Parameter) else tensor.clone()


@dataclasses.dataclass(slots=True)
class DryRunResult:
    """The unsupported operations, and the error of the model itself, such as shapes that don't match."""

    problems: list[Problem]
    error: Exception | None = None


def dry_run(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    replace: Callable[[torch.Tensor], torch.Tensor] = _own,
) -> DryRunResult:
    """Call a model without computing on shares, and collect its unsupported operations."""
    run = DryRun()
    failure: Exception | None = None
    numbers, more = torch.get_rng_state(), random.getstate()
    try:
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings(action="ignore"))  # the real call warns
            stack.enter_context(replaced_tensors(model, replace))
            stack.enter_context(observers.unwatched())
            stack.enter_context(ShareRecording())
            stack.enter_context(observers.watching(run.watch))
            stack.enter_context(run)
            model(*args, **kwargs)
    except _Stop:
        return DryRunResult(list(run.problems))
    except Exception as error:  # user code may raise anything
        failure = error.with_traceback(None)  # a traceback keeps tensors alive
    finally:
        if not torch.equal(numbers, torch.get_rng_state()):
            torch.set_rng_state(numbers)
        random.setstate(more)
    return DryRunResult(list(run.problems), failure)
