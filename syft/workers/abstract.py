"""AbstractWorker: the base class of all workers."""

from __future__ import annotations

import inspect
from abc import ABC
from types import ModuleType
from typing import ClassVar

import torch

from syft.codes import TENSOR_SERIALIZATION
from syft.exceptions import SyftError


class AbstractWorker(ABC):
    """A party that holds objects and responds to messages."""

    __signature__: ClassVar[inspect.Signature]
    # The format of the values of tensors that it sends: one of TENSOR_SERIALIZATION.
    serializer: str = TENSOR_SERIALIZATION.RAW
    # Whether it takes quantized tensors. Nodes do not: their checks of calls are for plain tensors.
    takes_quantized_tensors = True
    # Whether `recv_msg` serves clients without a session. The workers of a node serve connected clients only.
    serves_unknown_clients = True
    _framework: ModuleType | None = torch

    @property
    def framework(self) -> ModuleType | None:
        """The framework of its tensors: torch, or None to send their values in a form for any framework ("all")."""
        return self._framework

    @framework.setter
    def framework(self, framework: ModuleType | None) -> None:
        if framework is None:
            self.serializer = TENSOR_SERIALIZATION.ALL
        elif framework != torch:
            raise SyftError(f"The framework of a worker is torch or None, not {framework!r}.")
        elif self.serializer == TENSOR_SERIALIZATION.ALL:
            self.serializer = TENSOR_SERIALIZATION.RAW
        self._framework = framework

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Show the arguments of __init__, also where __new__ returns a worker that is registered already."""
        super().__init_subclass__(**kwargs)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(parameters)
