"""Patches: names added to torch, each remembered so that all can be taken back."""

from __future__ import annotations

import sys
from typing import Any

from torch.nn import Module

_MISSING = object()


class Patches:
    """What was added where.

    Adding a name that is already there is a mistake unless it is said to replace it: the hook adds to torch and
    changes nothing of it.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def add(self, target: Any, name: str, value: Any, replace: bool = False) -> None:
        """Set a new attribute of a class or module."""
        before = target.__dict__.get(name, _MISSING)
        if before is not _MISSING and not replace:
            raise RuntimeError(f"{target.__name__}.{name} already exists; the hook only adds names.")
        self._undo.append((target, name, before))
        setattr(target, name, value)

    def take_back(self) -> None:
        """Undo everything, last first."""
        while self._undo:
            target, name, before = self._undo.pop()
            if before is _MISSING:
                delattr(target, name)
            else:
                setattr(target, name, before)


class Computed:
    """A property that an instance attribute of the same name wins over, so users' own names keep working."""

    # A link without its shell has no such attribute.
    of_shell = True

    def __init__(self, getter: Any) -> None:
        self.getter = getter
        self.__doc__ = getter.__doc__

    def __get__(self, instance: Any, owner: object = None) -> Any:
        return self if instance is None else self.getter(instance)


class OfModule:
    """A name added to Module that a parameter, buffer or submodule of the same name wins over.

    Args:
        name: the name.
        value: the method, or the computed attribute.
    """

    # These refuse a name that a module has already; what the hook added does not count.
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
