"""Where the parameters of a module or an optimizer are, in its repr: one line below that of torch."""

from __future__ import annotations

import functools
import html
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

from syft.display.facts import place_of
from syft.display.tables import table_html

_local = threading.local()
_HERE = "here"
# Maximum number of modules that are named if a model is at several places.
_SHOWN = 8


def _place(tensor: torch.Tensor) -> str:
    """Return where a tensor is, without a message; for a shared one also how it is encrypted."""
    place = place_of(tensor)
    link = tensor.__dict__.get("child")
    facts: dict[str, object] = {}
    while link is not None and not hasattr(link, "lease"):
        facts.update(link._facts() if hasattr(type(link), "_facts") else ())
        link = getattr(link, "__dict__", {}).get("child")
    details = [f"{name}: {facts[name]}" for name in ("protocol", "crypto provider", "precision") if facts.get(name)]
    what = "encoded here" if place == _HERE and details else place
    return f"{what} ({', '.join(details)})" if details else what


def places_of(module: torch.nn.Module) -> dict[str, list[str]]:
    """Return the places of a module's parameters and buffers, each with the modules whose tensors are there."""
    found: dict[str, list[str]] = {}
    for name, part in module.named_modules():
        tensors = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        for place in dict.fromkeys(map(_place, tensors)):
            found.setdefault(place, []).append(name or "itself")
    return found


def _line(places: dict[str, list[str]]) -> str:
    """Return one line about places; empty if everything is here."""
    if not places or list(places) == [_HERE]:
        return ""
    if len(places) == 1:
        return f"Parameters: {next(iter(places))}"
    parts = []
    for place, names in places.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        parts.append(f"{', '.join(names[:_SHOWN])}{more} {place}")
    return f"Parameters: {'; '.join(parts)}"


def _optimizer_line(optimizer: torch.optim.Optimizer) -> str:
    tensors: Iterable[Any] = (one for group in optimizer.param_groups for one in group["params"])
    places = list(dict.fromkeys(map(_place, tensors)))
    return "" if places in ([], [_HERE]) else f"Parameters: {'; '.join(places)}"


def with_places(native: Callable[[Any], str], line: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a `__repr__` that adds one line to the outermost of nested reprs."""

    @functools.wraps(native)
    def __repr__(self: Any) -> str:
        if getattr(_local, "is_nested", False):
            return native(self)
        _local.is_nested = True
        try:
            text = native(self)
        finally:
            _local.is_nested = False
        added = line(self)
        return f"{text}\n{added}" if added else text

    return __repr__


def _module_line(module: torch.nn.Module) -> str:
    return _line(places_of(module))


def _html_of(module: torch.nn.Module) -> str | None:
    """Return the HTML of a module that is elsewhere or encrypted; None for a local one, which stays text."""
    places = places_of(module)
    if not _line(places):
        return None
    text = repr(module).rpartition("\nParameters: ")[0]
    rows = [(", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else ""), at) for at, names in places.items()]
    table = table_html("parameters", rows if len(rows) > 1 else [("all", at) for at in places])
    return f"<div><pre style='background:transparent;color:inherit'>{html.escape(text)}</pre>{table}</div>"


def patches() -> list[tuple[type, str, Any]]:
    """Return the names of torch that show places: class, name and value."""
    module, optimizer = torch.nn.Module, torch.optim.Optimizer
    return [
        (module, "__repr__", with_places(module.__repr__, _module_line)),
        (module, "_repr_html_", _html_of),
        (optimizer, "__repr__", with_places(optimizer.__repr__, _optimizer_line)),
    ]
