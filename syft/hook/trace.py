"""Trace: record (call, response) pairs while a `with` block runs, in this thread or task only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

from syft.core.dispatch import function_name


class _Recorder(TorchFunctionMode):
    def __init__(self, logs: list[Any]) -> None:
        super().__init__()
        self.logs = logs

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        response = func(*args, **(kwargs or {}))
        self.logs.append(((function_name(func), None, args, kwargs or {}), response))
        return response


class Trace:
    """A recording of torch calls."""

    def __init__(self) -> None:
        self.logs: list[Any] = []
        self.active = False

    def clear(self) -> None:
        """Forget what was recorded."""
        self.logs = []
        self.active = False

    @contextmanager
    def enabled(self) -> Iterator[Trace]:
        """Record inside a `with` block."""
        self.active = True
        try:
            with _Recorder(self.logs):
                yield self
        finally:
            self.active = False


def tracer(func_name: str | None = None, method_name: str | None = None) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing: calls are recorded where they are made. Kept from 0.2."""
    return lambda function: function
