"""WrapperMethods: a bare pointer has the methods that the hook adds to torch.Tensor: fix_precision, share, send, ...

The method of the wrapper does the work. Links in, links out: the result is the link that the wrapper would contain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.providers import providers
from syft.core.tensor import AbstractTensor, below
from syft.core.trees import map_tensors


class WrapperMethods(AbstractTensor):
    """A link that also has the methods of its wrapper."""

    def __getattr__(self, name: str) -> Any:
        if name in _OF_LINKS:
            return _OF_LINKS[name](self)
        attribute = None if name.startswith("_") else getattr(torch.Tensor, name, None)
        # Methods of the hook only: the properties of a wrapper read its link.
        if not str(getattr(attribute, "__module__", "")).startswith("syft.") or not callable(attribute):
            return super().__getattr__(name)
        return _method(self, name, attribute)


def _link_in(value: object) -> Any:
    return below(value) if isinstance(value, providers.wrapper) else value


def _method(link: Any, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: object, **kwargs: object) -> Any:
        shell = link.wrap()
        result = function(shell, *args, **kwargs)
        if not name.endswith("_"):
            return map_tensors(_link_in, result)
        return _become(link, _link_in(shell))

    method.__name__, method.__doc__ = name, function.__doc__
    return method


def _become(link: Any, other: Any) -> Any:
    """Let a pointer point at the result of an in-place call; a result of another kind is returned."""
    if type(other) is not type(link):
        return other
    if other is not link:
        link.__dict__.clear()
        link.__dict__.update(other.__dict__)
        link.reshaped = True
    return link


def _kept(link: Any) -> Any:
    link.garbage_collect_data = False
    return link


# Attributes of wrappers that a link answers itself.
_OF_LINKS: dict[str, Callable[[Any], Any]] = {
    "is_wrapper": lambda link: False,
    "ptr": lambda link: None,
    "disable_gc": _kept,
}
