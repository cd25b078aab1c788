"""Check a model before anything is encrypted: what of it can't run on encrypted tensors, all at once.

Example:
    >>> import torch
    >>> import syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> class Sorted(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.sort(-1).values
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), Sorted())
    >>> sy.mpc.check(model)
    1 thing in this model does not run on encrypted tensors:
      where  module  what        instead
      2      Sorted  torch.sort  Use max, min or argmax.
    >>> sy.mpc.check(model[:2])
    Everything in this model runs on encrypted tensors.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, UnsupportedOperation
from syft.hook import base
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.record.recording import current as current_recorder
from syft.mpc.program.dry_run import Looked, Problem, encrypted_form, look, shared_outline
from syft.mpc.program.inputs import form_of, link_of
from syft.mpc.runtime import recording
from syft.mpc.tools.module_inputs import examples_for, guesses
from syft.tensors.precision import FixedPrecisionTensor


class Report:
    """What a model can't do on encrypted tensors: a collection of problems, so it is true if there are any.

    Args:
        problems: what was found.
        unseen: the names of modules that could not be looked at.

    Attributes:
        problems: what was found: each with `path`, `module`, `operation` and `instead`.
        unseen: the names of modules that could not be looked at without an example of what they take.
    """

    def __init__(self, problems: list[Problem], unseen: list[str] | None = None) -> None:
        self.problems = problems
        self.unseen = unseen or []

    @property
    def ok(self) -> bool:
        """Whether everything was looked at and runs on encrypted tensors."""
        return not self.problems and not self.unseen

    def __len__(self) -> int:
        return len(self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __repr__(self) -> str:
        count = len(self.problems)
        if self.ok:
            return "Everything in this model runs on encrypted tensors."
        head = "1 thing in this model does" if count == 1 else f"{count} things in this model do"
        rows = [f"{head} not run on encrypted tensors:", table_of(self.problems)] if count else []
        if self.unseen:
            rows.append(
                f"Not looked at, for want of an example: {', '.join(self.unseen)}. Give one: sy.mpc.check(model, x)."
            )
        return "\n".join(rows)


def table_of(problems: list[Problem]) -> str:
    """Render problems as a table."""
    rows = [("where", "module", "what", "instead")]
    rows += [(p.path or "(the model)", p.module, p.operation, p.instead) for p in problems]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] + [row[3]] for row in rows]
    return "\n".join(("  " + "  ".join(row)).rstrip() for row in cells)


def check(model: torch.nn.Module, *inputs: object, **kwargs: object) -> Report:
    """List everything in a model that can't run on encrypted tensors; nothing is sent and nothing changes.

    A model or inputs that are encrypted are taken as they are. Plain inputs stand for encrypted ones: floats in fixed
    precision, whole numbers shared; masks (bool) stay public. A plain model stands for an encrypted one, unless the
    inputs are encrypted: then it stays public, as it would.

    Without inputs each module is looked at by itself, and the whole model if the first layer tells what it takes.

    Args:
        model: the model, or a loss.
        *inputs: what it is called with, or tensors of these shapes.
        **kwargs: what it is called with by name.
    """
    if not isinstance(model, torch.nn.Module):
        raise SyftError(f"check() takes a module, not a {type(model).__name__}: sy.mpc.check(model, example).")
    if _has_others(model, (inputs, kwargs)):
        raise SyftError("check() takes plain or encrypted tensors, not pointers: check a plain model with an example.")
    if not inputs and not kwargs:
        return _look_at_parts(model)
    encrypted = any(isinstance(leaf, SyftTensor) for leaf in iter_tensors((inputs, kwargs)))
    looked = _look(model, inputs, kwargs) if encrypted else _look_as_private(model, inputs, kwargs)
    if looked.error is not None and not looked.problems:
        raise looked.error
    return Report(looked.problems)


def _look(
    model: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *replace: Callable[[torch.Tensor], torch.Tensor],
) -> Looked:
    before, _state.looking = _state.looking, True
    try:
        with torch.no_grad():
            return look(model, args, kwargs, *replace)
    finally:
        _state.looking = before


def _look_as_private(model: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> Looked:
    """Look at a model as if it and what it is called with were encrypted."""
    links = (link_of(tensor) for tensor in (*model.parameters(), *model.buffers()))
    form = next((link for link in links if isinstance(link, FixedPrecisionTensor)), None) or encrypted_form()

    def private(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, SyftTensor) or leaf.dtype is torch.bool:
            return leaf
        return shared_outline(leaf, form)

    def parameter(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, SyftTensor):
            return tensor
        # Only floats of a model are encrypted; its whole numbers count something.
        return shared_outline(tensor.detach(), form) if tensor.is_floating_point() else tensor.clone()

    return _look(model, *map_tensors(private, (args, kwargs)), parameter)


class _CheckState(threading.local):
    looking = False


_state = _CheckState()


def _attempt(model: torch.nn.Module, candidates: list[tuple[Any, ...]]) -> tuple[list[Problem], bool]:
    """Look at a model with the first arguments that fit it; returns what was found, and whether some did fit."""
    most: list[Problem] = []
    for args in candidates:
        found = _look_as_private(model, args, {})
        most = max(most, found.problems, key=len)
        if found.error is None:
            return found.problems, True
    return most, False


def _look_at_parts(model: torch.nn.Module) -> Report:
    """Look at a whole model with what it may take, and at each module of torch by itself."""
    found, fits = _attempt(model, guesses(model))
    places, unseen = [], []
    for name, part in model.named_modules():
        places.append(name)
        problems, seen = _attempt(part, examples_for(part))
        for problem in problems:
            path = ".".join(filter(None, (name, problem.path)))
            found.append(Problem(path, problem.module, problem.operation, problem.instead))
        if not (fits or seen or problems or isinstance(part, _CONTAINERS)):
            unseen.append(f"{name or 'the model'} ({type(part).__name__})")
    return Report(sorted(dict.fromkeys(found), key=lambda problem: places.index(problem.path)), unseen)


_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


# --- before the first call ----------------------------------------------------------------------------------------


class ModelNotSupported(UnsupportedOperation):
    """A model that was encrypted does something that can't be done on encrypted tensors."""

    def __init__(self, problems: list[Problem]) -> None:
        SyftError.__init__(
            self, f"{Report(problems)!r}\nNothing was computed. (sy.mpc.check(model, x) gives this list.)"
        )
        self.problems = problems
        self.operation = ", ".join(dict.fromkeys(problem.operation for problem in problems))
        self.link = "encrypted tensors"
        self.hint = problems[0].instead
        self.place = problems[0].path


# The forms of inputs that modules were looked at with.
_looked: weakref.WeakKeyDictionary[torch.nn.Module, set[Any]] = weakref.WeakKeyDictionary()
MAX_FORMS = 64


def look_first(module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Look at an encrypted module before it is called with inputs of new forms: a forward hook."""
    if _state.looking or recording.current.recording is not None or current_recorder() is not None:
        return
    forms = (module.training, _forms((args, kwargs)))
    known = _looked.setdefault(module, set())
    if forms in known:
        return
    if len(known) >= MAX_FORMS:
        known.clear()
    known.add(forms)
    if any(map(_is_hooked, module.modules())) or _has_others(module, (args, kwargs)):
        return  # hooks of the user would see outlines, and what is remote would be computed
    _state.looking = True
    try:
        problems = look(module, args, kwargs).problems  # any other error it will raise again, without help
    finally:
        _state.looking = False
    if problems:
        known.discard(forms)
        raise ModelNotSupported(problems)


def _has_others(module: torch.nn.Module, inputs: object) -> bool:
    """Return whether there are tensors that are neither plain nor encrypted, such as pointers."""
    tensors = (*module.parameters(), *module.buffers(), *iter_tensors(inputs))
    return any(isinstance(tensor, SyftTensor) and link_of(tensor) is None for tensor in tensors)


def _is_hooked(part: torch.nn.Module) -> bool:
    ours = [hook is look_first for hook in part._forward_pre_hooks.values()]
    return bool(part._forward_hooks) or not all(ours)


def _forms(value: object) -> object:
    if isinstance(value, torch.Tensor | AbstractTensor):
        return form_of(value)
    if isinstance(value, tuple | list):
        return (type(value), *map(_forms, value))
    if type(value) is dict:
        return tuple([(key, _forms(item)) for key, item in value.items()])
    return value if isinstance(value, int | float | str | type(None)) else type(value)


def _changed(module: torch.nn.Module, encrypted: bool) -> None:
    """Have a module looked at before it is called, once it is encrypted; or no longer."""
    _looked.pop(module, None)
    hooks: Any = module._forward_pre_hooks
    ours = [key for key, hook in hooks.items() if hook is look_first]
    if encrypted and not ours:
        module.register_forward_pre_hook(look_first, with_kwargs=True)
    if not encrypted:
        for key in ours:
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)


base.module_watchers[:] = [_changed]
