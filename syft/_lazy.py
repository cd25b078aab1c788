"""Public names of a package: imported at their first use, listed by `dir`, and named by their public path.

Importing the library stays quick, and a package can offer names of modules that import the package itself.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from syft._suggestions import no_name, suggest_in_constructor

__all__ = ["lazy_names", "missing_name", "publish"]


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
            publish(package, {name: found}, [name])
            setattr(sys.modules[package], name, found)
            return found
        if name in public:
            return importlib.import_module(f"{package}.{name}")
        raise no_name(package, name, __dir__())

    def __dir__() -> list[str]:
        return sorted({*home_of, *public})

    return __getattr__, __dir__


def missing_name(package: str) -> Callable[[str], Any]:
    """Make `__getattr__` of a package without lazy names: the error for a name that it does not have."""

    def __getattr__(name: str) -> Any:
        raise no_name(package, name, dir(sys.modules[package]))

    return __getattr__


def publish(package: str, namespace: Mapping[str, object], names: Iterable[str]) -> None:
    """Set `__module__` of public classes and functions to the package that users import them from.

    The repr, tracebacks and pickles then name the path that the documentation names. A name of a shorter public path
    keeps that path: `sy.federated.FederatedDataset` is `syft.FederatedDataset`. Constructors answer misspelt keywords.
    """
    for name in names:
        found = namespace[name]
        if isinstance(found, type | FunctionType) and found.__qualname__ == name:
            if found.__module__.startswith(f"{package}."):
                _homes.setdefault(found, found.__module__)
                line = vars(found).get("__firstlineno__")
                found.__module__ = package
                if line is not None:  # Python 3.13 forgets it with the module; inspect.getsource needs it
                    type.__setattr__(found, "__firstlineno__", line)
                if isinstance(found, type):
                    suggest_in_constructor(found)


# Published class or function -> the module that defines it.
_homes: dict[type | FunctionType, str] = {}
_getfile = inspect.getfile


def _file_of(object: Any) -> str:
    """Return the file that defines an object; `inspect` itself looks for a class in the module that it names."""
    home = _homes.get(object) if isinstance(object, type) else None
    return _getfile(object if home is None else sys.modules[home])


inspect.getfile = _file_of  # as torch.package does for its classes
