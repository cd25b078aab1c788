"""Suggestions for misspelt attributes of plain tensors, modules and optimizers.

torch's own classes stay as they are: a `__getattr__` would make each call of a tensor method slower. So the suggestion
is added when an error is about to be printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from syft._suggestions import no_attribute

_KINDS = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)


def add_suggestion(error: BaseException) -> None:
    """Add a suggestion to the error for a misspelt attribute of an object of torch."""
    obj, name = getattr(error, "obj", None), getattr(error, "name", None)
    if type(error) is not AttributeError or not isinstance(obj, _KINDS) or not isinstance(name, str):
        return
    if str(error) != f"{type(obj).__name__!r} object has no attribute {name!r}":
        return  # a text of somebody who knows better
    parts = (part for table in ("_parameters", "_buffers", "_modules") for part in obj.__dict__.get(table, ()))
    error.args = (str(no_attribute(obj, name, also=type("", (), dict.fromkeys(parts)))),)
    error.name = None  # or Python would add a suggestion of its own


def install() -> Callable[[], None]:
    """Add suggestions to errors that nobody catches, in Python and in IPython; returns the function that undoes it."""
    before = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        add_suggestion(error)
        before(kind, error, traceback)

    sys.excepthook = excepthook
    undo_shell = _install_in_ipython()

    def undo() -> None:
        if sys.excepthook is excepthook:
            sys.excepthook = before
        undo_shell()

    return undo


def _install_in_ipython() -> Callable[[], None]:
    module = sys.modules.get("IPython")
    shell: Any = None if module is None else module.get_ipython()
    if shell is None or getattr(shell, "custom_exceptions", None) != ():  # the user has a handler
        return lambda: None

    def show(self: Any, kind: Any, error: BaseException, traceback: Any, tb_offset: int | None = None) -> None:
        add_suggestion(error)
        self.showtraceback((kind, error, traceback), tb_offset=tb_offset)

    shell.set_custom_exc((AttributeError,), show)

    def undo() -> None:
        if shell.custom_exceptions == (AttributeError,):
            shell.custom_exceptions = ()

    return undo
