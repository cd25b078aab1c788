"""AbstractWorker: the base class of all workers."""

from __future__ import annotations

import inspect
from abc import ABC
from typing import ClassVar


class AbstractWorker(ABC):
    """A party that holds objects and responds to messages."""

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Show the arguments of __init__, also where __new__ returns a worker that is registered already."""
        super().__init_subclass__(**kwargs)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(parameters)
