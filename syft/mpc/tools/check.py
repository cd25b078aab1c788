"""Check a model before it is encrypted: list all operations that don't run on encrypted tensors.

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

import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from syft.core.tensor import AbstractTensor
from syft.core.trees import iter_tensors, map_tensors
from syft.display import grid_html
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook import base
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.record.recording import current as current_recorder
from syft.mpc.program.dry_run import DryRunResult, Problem, dry_run, encrypted_example, symbolic_encryption
from syft.mpc.program.inputs import link_of, spec_of
from syft.mpc.runtime import recording
from syft.mpc.tools.module_inputs import examples_for, guesses
from syft.tensors.precision import FixedPrecisionTensor

_COLUMNS: tuple[str, ...] = ("where", "module", "what", "instead")


@dataclasses.dataclass(repr=False, eq=False)
class Report:
    """The problems of a model on encrypted tensors: a collection, which is true if there are any.

    Attributes:
        problems: the problems, each with `path`, `module`, `operation` and `instead`.
        unseen: the names of modules that were not checked, because they need an example input.
    """

    problems: list[Problem]
    unseen: list[str] = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything was checked and runs on encrypted tensors."""
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
                f"Not checked without an example input: {', '.join(self.unseen)}. Pass one: sy.mpc.check(model, x)."
            )
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        head, _, rest = repr(self).partition("\n")
        unseen = rest.rpartition("\n")[2] if self.unseen and self.problems else ""
        return grid_html(f"{head} {unseen}".strip(), _COLUMNS if self.problems else (), _cells(self.problems))


def _cells(problems: list[Problem]) -> list[tuple[str, ...]]:
    return [(p.path or "(the model)", p.module, p.operation, p.instead) for p in problems]


def table_of(problems: list[Problem]) -> str:
    """Render problems as a table."""
    rows = [_COLUMNS, *_cells(problems)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] + [row[3]] for row in rows]
    return "\n".join(("  " + "  ".join(row)).rstrip() for row in cells)


def check(model: torch.nn.Module, *inputs: object, **kwargs: object) -> Report:
    """List all operations of a model that don't run on encrypted tensors; nothing is sent, and the model is unchanged.

    Plain inputs are treated as if they were encrypted: floats in fixed precision, integers shared; masks (bool) stay
    public. A plain model is treated as if it were encrypted, unless the inputs are encrypted: then it stays public.

    Without inputs, each module is checked by itself, and the whole model if its first layer determines the input.

    Args:
        model: the model, or a loss.
        *inputs: the inputs of a call, or tensors of the same shapes.
        **kwargs: inputs by name.
    """
    if not isinstance(model, torch.nn.Module):
        raise SyftError(f"check() takes a module, got {type(model).__name__}. Use sy.mpc.check(model, example).")
    if _has_others(model, (inputs, kwargs)):
        raise SyftError(
            "check() takes plain or encrypted tensors, not pointers. Check a plain model with a plain example."
        )
    if not inputs and not kwargs:
        return _check_parts(model)
    encrypted = any(isinstance(leaf, SyftTensor) for leaf in iter_tensors((inputs, kwargs)))
    with torch.no_grad():
        found = dry_run(model, inputs, kwargs) if encrypted else _dry_run_as_private(model, inputs, kwargs)
    if found.error is not None and not found.problems:
        raise found.error
    return Report(found.problems)


def _dry_run_as_private(model: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> DryRunResult:
    """Dry-run a model as if it and its inputs were encrypted."""
    links = (link_of(tensor) for tensor in (*model.parameters(), *model.buffers()))
    example = next((link for link in links if isinstance(link, FixedPrecisionTensor)), None) or encrypted_example()

    def private(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, SyftTensor) or leaf.dtype is torch.bool:
            return leaf
        return symbolic_encryption(leaf, example)

    def parameter(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, SyftTensor):
            return tensor
        # Only float parameters are encrypted; integers of a model are counters.
        return symbolic_encryption(tensor.detach(), example) if tensor.is_floating_point() else tensor.clone()

    args, kwargs = map_tensors(private, (args, kwargs))
    return dry_run(model, args, kwargs, parameter)


def _attempt(model: torch.nn.Module, candidates: list[tuple[Any, ...]]) -> tuple[list[Problem], bool]:
    """Dry-run a model with the first arguments it accepts; returns the problems, and whether any were accepted."""
    longest: list[Problem] = []
    for args in candidates:
        with torch.no_grad():
            found = _dry_run_as_private(model, args, {})
        longest = max(longest, found.problems, key=len)
        if found.error is None:
            return found.problems, True
    return longest, False


def _check_parts(model: torch.nn.Module) -> Report:
    """Check a whole model with guessed inputs, and each module of torch by itself."""
    found, fits = _attempt(model, guesses(model))
    places, unseen = [], []
    for name, part in model.named_modules():
        places.append(name)
        problems, seen = _attempt(part, examples_for(part))
        for problem in problems:
            path = ".".join(filter(None, (name, problem.path)))
            found.append(dataclasses.replace(problem, path=path))
        if not (fits or seen or problems or isinstance(part, _CONTAINERS)):
            unseen.append(f"{name or 'the model'} ({type(part).__name__})")
    return Report(sorted(dict.fromkeys(found), key=lambda problem: places.index(problem.path)), unseen)


_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


# --- before the first call ----------------------------------------------------------------------------------------


class ModelNotSupportedError(UnsupportedOperationError):
    """An encrypted model has operations that don't run on encrypted tensors."""

    def __init__(self, problems: list[Problem]) -> None:
        SyftError.__init__(
            self, f"{Report(problems)!r}\nNothing was computed. (sy.mpc.check(model, x) gives this list.)"
        )
        self.problems = problems
        self.operation = ", ".join(dict.fromkeys(problem.operation for problem in problems))
        self.link = "encrypted tensors"
        self.hint = problems[0].instead
        self.place = problems[0].path


# The signatures of inputs with which modules were checked.
_checked: weakref.WeakKeyDictionary[torch.nn.Module, set[Any]] = weakref.WeakKeyDictionary()
MAX_SIGNATURES = 64


def check_before_call(module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Check an encrypted module before it is called with inputs of a new signature: a forward pre-hook."""
    if recording.current.recording is not None or current_recorder() is not None:
        return
    signature = (module.training, _signature((args, kwargs)))
    seen = _checked.setdefault(module, set())
    if signature in seen:
        return
    if len(seen) >= MAX_SIGNATURES:
        seen.clear()
    seen.add(signature)
    if any(map(_is_hooked, module.modules())) or _has_others(module, (args, kwargs)):
        return  # user hooks would get symbolic tensors, and remote calls would run
    problems = dry_run(module, args, kwargs).problems  # the call itself raises any other error
    if problems:
        seen.discard(signature)
        raise ModelNotSupportedError(problems)


def _has_others(module: torch.nn.Module, inputs: object) -> bool:
    """Return whether there are tensors that are neither plain nor encrypted, such as pointers."""
    tensors = (*module.parameters(), *module.buffers(), *iter_tensors(inputs))
    return any(isinstance(tensor, SyftTensor) and link_of(tensor) is None for tensor in tensors)


def _is_hooked(part: torch.nn.Module) -> bool:
    ours = [hook is check_before_call for hook in part._forward_pre_hooks.values()]
    return bool(part._forward_hooks) or not all(ours)


def _signature(value: object) -> object:
    if isinstance(value, torch.Tensor | AbstractTensor):
        return spec_of(value)
    if isinstance(value, tuple | list):
        return (type(value), *map(_signature, value))
    if type(value) is dict:
        return tuple([(key, _signature(item)) for key, item in value.items()])
    return value if isinstance(value, int | float | str | type(None)) else type(value)


def _changed(module: torch.nn.Module, encrypted: bool) -> None:
    """Add the check to a module when it is encrypted, or remove it."""
    _checked.pop(module, None)
    hooks: Any = module._forward_pre_hooks
    ours = [key for key, hook in hooks.items() if hook is check_before_call]
    if encrypted and not ours:
        module.register_forward_pre_hook(check_before_call, with_kwargs=True)
    if not encrypted:
        for key in ours:
            del hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)


base.module_watchers[:] = [_changed]
