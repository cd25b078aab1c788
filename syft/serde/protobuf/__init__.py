"""The protobuf format. google.protobuf is imported at the first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft._lazy import lazy_names
from syft.core.providers import providers

if TYPE_CHECKING:
    from syft.serde.protobuf.serde import deserialize as deserialize
    from syft.serde.protobuf.serde import serialize as serialize
    from syft.workers.base import BaseWorker

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__, {"serde": ("deserialize", "serialize")}, ("proto", "serde", "torch_serde")
    )


def _bufferize(worker: BaseWorker | None, obj: object) -> Any:
    from syft.serde.protobuf.serde import bufferize

    return bufferize(worker, obj)


def _unbufferize(cls: type, worker: BaseWorker | None, message: object) -> Any:
    from syft.serde.protobuf.serde import unbufferize

    return unbufferize(cls, worker, message)


providers.bufferize, providers.unbufferize = _bufferize, _unbufferize
