"""Public names of a package that are imported when they are first used.

Importing the library stays quick, and a package can offer names of modules that need the package itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a package.

    Args:
        package: the name of the package.
        homes: module, relative to the package -> its public names.
        modules: public modules of the package.

    Returns:
        The two functions. `__dir__` lists the public names alone.
    """
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}
    public = frozenset(modules)

    def __getattr__(name: str) -> Any:
        if name in home_of:
            found = getattr(importlib.import_module(home_of[name]), name)
            setattr(sys.modules[package], name, found)
            return found
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def __dir__() -> list[str]:
        return sorted({*home_of, *public})

    return __getattr__, __dir__
