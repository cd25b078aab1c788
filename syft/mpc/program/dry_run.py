"""A dry run: a model is called, nothing is sent, and whatever it can't do on encrypted tensors is noted.

After a failure it goes on with an outline of the shape that torch says the result has, so that all failures are found.
Nothing stays changed: modules, buffers, links and random numbers are as before.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from syft.core import observers
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, UnsupportedOperation
from syft.hook.module_path import module_place
from syft.hook.syft_tensor import SyftTensor, make_shell
from syft.mpc.rules.names import public_name
from syft.mpc.rules.operands import Link, Operation, aten, is_link
from syft.mpc.runtime.recording import ShareRecording, SymbolicShare, SymbolicShareError, Value, outline
from syft.tensors.additive_shared import AdditiveSharingTensor
from syft.tensors.precision import FixedPrecisionTensor


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that a model can't do on encrypted tensors.

    Attributes:
        path: where: the name of the module in the model, empty for the model itself.
        module: the class of the module.
        operation: what it calls.
        instead: what to use instead.
    """

    path: str
    module: str
    operation: str
    instead: str


_READ = "Reading a value"
_STAY_PRIVATE = "Comparisons stay private: use torch.where, or multiply by them; or decrypt first."
_Tensor: Any = torch.Tensor
# What a dry run goes on with where the model reads values.
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
    """Nothing can be said of what comes after this."""


class DryRun(TorchFunctionMode):
    """Notes what fails while a model is called.

    Attributes:
        problems: what was found.
    """

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[Problem, None] = {}
        self._inside = False

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note values that are read, and calls that are refused as the user writes them."""
        kwargs = kwargs or {}
        reading = _READINGS.get(func)
        if reading is not None and isinstance(args[0], SyftTensor):
            self._note(_READ, _STAY_PRIVATE)
            return reading(args[0])
        try:
            return func(*args, **kwargs)
        except (UnsupportedOperation, SymbolicShareError) as error:
            if isinstance(error, _Stop):
                raise
            self._note_error(torch.overrides.resolve_name(func) or str(func), error)
            return self._instead(func, args, kwargs)

    def watch(self, function: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run an ATen operation; what it is made of is part of it."""
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
        told = isinstance(error, UnsupportedOperation)
        self._note(getattr(error, "operation", name), getattr(error, "hint", "") if told else str(error))

    def _note(self, operation: str, instead: str) -> None:
        path, module = module_place() or ("", None)
        kind = "" if module is None else type(module).__name__
        self.problems.setdefault(Problem(path, kind, operation, instead))

    def _instead(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an outline of what a call would have returned."""
        if getattr(getattr(function, "_schema", None), "is_mutable", False) or kwargs.get("out") is not None:
            return args[0]
        models = [leaf.child if isinstance(leaf, SyftTensor) else leaf for leaf in iter_tensors((args, kwargs))]
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
    """Return an outline of a shape, of the form of a link."""
    if isinstance(model, AdditiveSharingTensor):
        return outline(Value(shape), model)
    if isinstance(model.child, AdditiveSharingTensor):
        return model.like(outline(Value(shape), model.child))
    return model.like(torch.zeros(shape, dtype=torch.int64))


# --- outlines of what is plain ----------------------------------------------------------------------------------


class _Nobody:
    """A party of a dry run."""

    def __init__(self, id: str) -> None:
        self.id = id


def encrypted_form() -> FixedPrecisionTensor:
    """Return a link as tensors have that are encoded and shared, with nobody in particular."""
    value = Value(torch.Size(()))
    shares = {name: SymbolicShare(value, _Nobody(name)) for name in ("alice", "bob")}
    return FixedPrecisionTensor(child=AdditiveSharingTensor(shares, crypto_provider=_Nobody("carol")))


def shared_outline(plain: torch.Tensor, form: FixedPrecisionTensor) -> SyftTensor:
    """Return a plain tensor as it would be encrypted: floats encoded and shared, whole numbers shared.

    Args:
        plain: the tensor.
        form: a link of the form that encrypted tensors have.
    """
    is_float = plain.is_floating_point()
    model = form if is_float or not isinstance(form.child, AdditiveSharingTensor) else form.child
    return make_shell(like(model, plain.shape), plain.requires_grad and is_float)


# --- modules as they were ---------------------------------------------------------------------------------------


@contextmanager
def kept(model: torch.nn.Module, replace: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Let other tensors stand for those of a model; afterwards every module is as it was.

    Args:
        model: the model.
        replace: returns what stands for a parameter or a buffer.
    """
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
    """Return what stands for a tensor as it is: buffers may be written to, and links are put back anyway."""
    return tensor if isinstance(tensor, SyftTensor | torch.nn.Parameter) else tensor.clone()


@dataclasses.dataclass(slots=True)
class Looked:
    """What a dry run found.

    Attributes:
        problems: what the model can't do.
        error: why the model itself came to no end, such as shapes that do not fit.
    """

    problems: list[Problem]
    error: Exception | None = None


def look(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    replace: Callable[[torch.Tensor], torch.Tensor] = _own,
) -> Looked:
    """Call a model without computing anything on shares, and see what it can't do.

    Args:
        model: the model.
        args: what it is called with.
        kwargs: what it is called with, by name.
        replace: returns what stands for a parameter or a buffer.
    """
    run = DryRun()
    failure: Exception | None = None
    numbers, more = torch.get_rng_state(), random.getstate()
    try:
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings(action="ignore"))  # they are for the call itself
            stack.enter_context(kept(model, replace))
            stack.enter_context(observers.unwatched())
            stack.enter_context(ShareRecording())
            stack.enter_context(observers.watching(run.watch))
            stack.enter_context(run)
            model(*args, **kwargs)
    except _Stop:
        return Looked(list(run.problems))
    except Exception as error:  # whatever the user's code raises
        failure = error.with_traceback(None)  # which holds on to tensors
    finally:
        if not torch.equal(numbers, torch.get_rng_state()):
            torch.set_rng_state(numbers)
        random.setstate(more)
    return Looked(list(run.problems), failure)
