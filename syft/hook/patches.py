"""Patches: names added to torch, with a record by which all can be removed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.nn import Module

_MISSING = object()


class Patches:
    """A record of added names.

    Adding a name that exists is an error unless `replace` is set: the hook adds to torch and changes none of it.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def add(self, target: Any, name: str, value: object, replace: bool = False) -> None:
        """Set a new attribute of a class or module."""
        before = target.__dict__.get(name, _MISSING)
        if before is not _MISSING and not replace:
            raise RuntimeError(f"{target.__name__}.{name} already exists; the hook only adds names.")
        self._undo.append((target, name, before))
        setattr(target, name, value)

    def undo(self) -> None:
        """Undo everything, last first."""
        while self._undo:
            target, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(target, name)
            else:
                setattr(target, name, before)


class Computed:
    """A property that an instance attribute of the same name overrides, so users' own names keep working."""

    # A link without its outer tensor has no such attribute.
    of_shell = True

    def __init__(self, getter: Callable[[Any], Any]) -> None:
        self.getter = getter
        self.__doc__ = getter.__doc__

    def __get__(self, instance: Any, owner: object = None) -> Any:
        return self if instance is None else self.getter(instance)


class OfModule:
    """A method or attribute added to Module that a parameter, buffer or submodule of the same name overrides."""

    # These refuse a name that a module has already; names that the hook added are exempt.
    _REGISTERING = frozenset(
        method.__code__ for method in (Module.register_parameter, Module.register_buffer, Module.add_module)
    )

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self.__doc__ = value.__doc__

    def __get__(self, instance: Any, owner: object = None) -> Any:
        if instance is not None:
            if sys._getframe(1).f_code in self._REGISTERING:
                raise AttributeError(self.name)
            for part in ("_parameters", "_buffers", "_modules"):
                named = instance.__dict__.get(part)
                if named and self.name in named:
                    return named[self.name]
        return self.value.__get__(instance, owner)
