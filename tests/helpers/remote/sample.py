"""One set of arguments for a torch call, and what a test needs to know about calling it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Sample:
    """Arguments for one call, with CPU tensors in it that do not require gradients.

    Attributes:
        args: The positional arguments; for methods, ``args[0]`` is the tensor itself.
        kwargs: The keyword arguments.
        grad: Gradients of the results with respect to the tensors in ``wrt`` can be checked.
        note: Where the sample comes from, or what it is about.
        random: The result depends on the random generator: seed it before each call.
        value: The result contains no tensors but plain Python values or metadata.
        uninitialised: The elements of the result are arbitrary: only shape and dtype can be compared.
        mutates: The call changes some of its arguments: compare them afterwards, and give it copies of
            the tensors gradients are asked for, since leaves may not be changed.
        needs_grad: The floating tensors must require gradients before the call (``backward`` and the like).
        wrt: Positions, within ``tensors(sample)``, of the tensors that gradients can be asked for.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    grad: bool = False
    note: str = ""
    random: bool = False
    value: bool = False
    uninitialised: bool = False
    mutates: bool = False
    needs_grad: bool = False
    wrt: tuple[int, ...] = ()


def transform(thing: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Rebuild nested lists, tuples, dicts and slices with every tensor in them replaced."""
    if isinstance(thing, torch.Tensor):
        return change(thing)
    if isinstance(thing, torch.Size):
        return thing
    if isinstance(thing, (list, tuple)):
        items = [transform(item, change) for item in thing]
        if isinstance(thing, list):
            return items
        return type(thing)(*items) if hasattr(thing, "_fields") else tuple(items)
    if isinstance(thing, dict):
        return {key: transform(item, change) for key, item in thing.items()}
    if isinstance(thing, slice):
        return slice(*(transform(part, change) for part in (thing.start, thing.stop, thing.step)))
    return thing


def tensors(thing: Any) -> list[torch.Tensor]:
    """List the distinct tensors of a sample, or of any nested value, in order of appearance."""
    if isinstance(thing, Sample):
        thing = (thing.args, thing.kwargs)
    found: dict[int, torch.Tensor] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.setdefault(id(tensor), tensor)
        return tensor

    transform(thing, note)
    return list(found.values())


def replaced(sample: Sample, change: Callable[[torch.Tensor], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give the arguments with every tensor replaced; one that occurs twice is replaced once."""
    made: dict[int, Any] = {}

    def once(tensor: torch.Tensor) -> Any:
        if id(tensor) not in made:
            made[id(tensor)] = change(tensor)
        return made[id(tensor)]

    return transform(sample.args, once), transform(sample.kwargs, once)


def fresh(sample: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give the arguments with every tensor copied, none of them requiring gradients."""
    return replaced(sample, lambda tensor: tensor.detach().clone())
