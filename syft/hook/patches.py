"""Patches: names added to torch, each remembered so that all can be taken back."""

from __future__ import annotations

from typing import Any

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

    def __init__(self, getter: Any) -> None:
        self.getter = getter
        self.__doc__ = getter.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.getter(instance)
