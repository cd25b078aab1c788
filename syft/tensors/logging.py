"""LoggingTensor: prints each call and passes it on. The example to copy when writing a link of one's own.

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


def _say(text: str) -> None:
    """Print a line of the log."""
    LoggingTensor.out(text)


class LoggingTensor(AbstractTensor):
    """A link that prints each call, then runs it on what is below.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: words it can be found by.
        description: a text it can be found by.
        child: what is below it.
    """

    unregistered: ClassVar[str] = "forward"
    # Where the log goes; replace it to collect the lines instead.
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
        """Print, then add what is below: the decorator unwraps the arguments and wraps the result."""
        _say("Log method add")
        return run(_torch.Tensor.add, (_self, *args), kwargs)

    def manual_add(self, *args: object, **kwargs: object) -> Any:
        """Do what `add` does without the decorator, to show what it hides."""
        _say("Log method manual_add")
        below = [arg.child if isinstance(arg, LoggingTensor) else arg for arg in args]
        return LoggingTensor().on(run(_torch.Tensor.add, (self.child, *below), kwargs), wrap=False)

    @staticmethod
    @overloaded.module
    def torch(module: Any) -> None:
        """Print for three functions of torch."""

        @overloaded.function
        def add(*args: object, **kwargs: object) -> Any:
            _say("Log function torch.add")
            return run(_torch.add, args, kwargs)

        module.add = add

        @overloaded.function
        def mul(*args: object, **kwargs: object) -> Any:
            _say("Log function torch.mul")
            return run(_torch.mul, args, kwargs)

        module.mul = mul

        @overloaded.module
        def nn(module: Any) -> None:
            @overloaded.module
            def functional(module: Any) -> None:
                @overloaded.function
                def relu(*args: object, **kwargs: object) -> Any:
                    _say("Log function torch.nn.functional.relu")
                    return run(_torch.nn.functional.relu, args, kwargs)

                module.relu = relu

            module.functional = functional

        module.nn = nn

    @classmethod
    def on_function_call(cls, *args: Any) -> None:
        """Print the name of any other call."""
        _say(f"Default log {args[0][0]}")
