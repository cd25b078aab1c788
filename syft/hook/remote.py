"""Remote: make tensors directly at a worker, `worker.remote.torch.zeros(3)`."""

from __future__ import annotations

from typing import Any

from syft._suggestions import did_you_mean
from syft.core.context import local_worker
from syft.exceptions import RemoteNameError
from syft.hook.allowed_functions import CONSTRUCTORS


class Remote:
    """The makers of tensors of a worker."""

    def __init__(self, worker: object, framework_name: str = "torch") -> None:
        self._worker = worker
        self.frameworks = [framework_name]
        setattr(self, framework_name, RemoteTorch(worker))

    @staticmethod
    def register_framework(cls: Any) -> Any:
        """Kept from earlier releases: torch is the framework."""
        return cls


class RemoteTorch:
    """`worker.remote.torch`: what makes a new tensor, run at the worker."""

    def __init__(self, worker: object) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        wire_name = f"torch.{name}"
        if wire_name not in CONSTRUCTORS:
            if name.startswith("__"):
                raise AttributeError(name)
            makers = ", ".join(sorted(CONSTRUCTORS))
            hint = f"worker.remote makes tensors with: {makers}.{did_you_mean(name, dir(self))}"
            raise RemoteNameError(wire_name, hint)

        def make(*args: object, **kwargs: object) -> Any:
            return local_worker().send_command(self._worker, (wire_name, None, args, kwargs)).wrap()

        make.__name__ = name
        make.__doc__ = f"Run `{wire_name}` at the worker and return a pointer to the new tensor."
        return make

    def __dir__(self) -> list[str]:
        return sorted(name.removeprefix("torch.") for name in CONSTRUCTORS)
