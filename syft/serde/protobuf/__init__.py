"""The protobuf format. google.protobuf is imported at the first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syft.core.providers import providers

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

if TYPE_CHECKING:
    from syft.serde.protobuf.serde import deserialize as deserialize
    from syft.serde.protobuf.serde import serialize as serialize

_FUNCTIONS = frozenset({"deserialize", "serialize"})
_MODULES = frozenset({"proto", "serde", "torch_serde"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"{__name__}.serde"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _bufferize(worker: BaseWorker | None, obj: object) -> Any:
    from syft.serde.protobuf.methods import bufferize

    return bufferize(worker, obj)


def _unbufferize(cls: type, worker: BaseWorker | None, message: object) -> Any:
    from syft.serde.protobuf.methods import unbufferize

    return unbufferize(cls, worker, message)


providers.bufferize, providers.unbufferize = _bufferize, _unbufferize
