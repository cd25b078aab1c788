"""Bufferizable: gives a class `bufferize` and `unbufferize`, its way to and from a protobuf message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.providers import providers

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker


class Bufferizable:
    """Base of classes whose objects have a protobuf message. The class needs a wire code, and nothing else."""

    __slots__ = ()

    @staticmethod
    def bufferize(worker: AbstractWorker, obj: object) -> Any:
        """Return the protobuf message of an object.

        Args:
            worker: the worker that sends it; chooses the format of tensors.
            obj: the object; its own class says which message it gets.
        """
        return providers.bufferize(worker, obj)

    @classmethod
    def unbufferize(cls, worker: AbstractWorker, message: object) -> Any:
        """Rebuild an object of this class from its protobuf message.

        Args:
            worker: the worker that receives it.
            message: what `bufferize` returned, here or elsewhere.
        """
        return providers.unbufferize(cls, worker, message)
