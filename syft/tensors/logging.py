"""LoggingTensor: prints each call and passes it on. An example for links of your own.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = sy.LoggingTensor().on(torch.tensor([1.0, 2.0]))
    >>> y = x.add(x)
    Log method add
    >>> y.child.child
    tensor([2., 4.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch as _torch

from syft.core.dispatch import run
from syft.core.id_provider import ObjectId
from syft.core.tensor import AbstractTensor
from syft.hook.overload import overloaded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.workers.base import BaseWorker


def _log(text: str) -> None:
    """Print a line of the log."""
    LoggingTensor.out(text)


class LoggingTensor(AbstractTensor):
    """A link that prints each call, then runs it on the tensor below.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        child: the tensor or link below it.
    """

    unregistered: ClassVar[str] = "forward"
    # Receives each line of the log; replace it to collect the lines.
    out: ClassVar[Callable[[str], None]] = print

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        child: object = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)

    @overloaded.method
    def add(self, _self: object, *args: object, **kwargs: object) -> Any:
        """Print, then add the tensors below: the decorator unwraps the arguments and wraps the result."""
        _log("Log method add")
        return run(_torch.Tensor.add, (_self, *args), kwargs)

    def manual_add(self, other: object, **options: object) -> Any:
        """The same as `add`, without the decorator."""
        _log("Log method manual_add")
        below = other.child if isinstance(other, LoggingTensor) else other
        return LoggingTensor().on(run(_torch.Tensor.add, (self.child, below), options), wrap=False)

    @staticmethod
    @overloaded.module
    def torch(module: Any) -> None:
        """Print for three functions of torch."""

        @overloaded.function
        def add(*args: object, **kwargs: object) -> Any:
            _log("Log function torch.add")
            return run(_torch.add, args, kwargs)

        module.add = add

        @overloaded.function
        def mul(*args: object, **kwargs: object) -> Any:
            _log("Log function torch.mul")
            return run(_torch.mul, args, kwargs)

        module.mul = mul

        @overloaded.module
        def nn(module: Any) -> None:
            @overloaded.module
            def functional(module: Any) -> None:
                @overloaded.function
                def relu(*args: object, **kwargs: object) -> Any:
                    _log("Log function torch.nn.functional.relu")
                    return run(_torch.nn.functional.relu, args, kwargs)

                module.relu = relu

            module.functional = functional

        module.nn = nn

    @classmethod
    def on_function_call(cls, *args: Any) -> None:
        """Print the name of any other call."""
        _log(f"Default log {args[0][0]}")
