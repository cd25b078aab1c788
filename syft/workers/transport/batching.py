"""CallBatch: small calls that no caller waits for, which are sent together in one message.

A call on pointers and numbers whose result spec is known costs little more than an entry in a list. A batch is sent
when it is full, before anything else is sent, or after a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import get_default_dtype

from syft.core.id_provider import ObjectId
from syft.core.references import SameAs, TensorMeta
from syft.messaging.call_batch import ID_BYTES, MAX_ARGUMENTS, MAX_STEPS, Step, StepsMessage
from syft.pointers.pointer_tensor import PointerTensor
from syft.serde.compression import UNCOMPRESSED
from syft.workers.transport.gradient_cache import leaves_gradients
from syft.workers.transport.request_codec import is_passing_on, write_request
from syft.workers.transport.shape_inference import WORKERS_DEFAULT, infer

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.transport.pipelined import Line, Lines

ResultSpec = TensorMeta | SameAs
# By call and specs of its arguments: those specs, and the spec of the result.
_specs: dict[tuple[object, ...], tuple[list[TensorMeta], ResultSpec]] = {}
_MAX_SPECS = 4096
_MIN_INT, _MAX_INT = -(2**63), 2**64


class CallBatch:
    """The calls of one stream that wait to be sent together; its stream holds the lock."""

    def __init__(self, client: BaseWorker) -> None:
        self._client = client
        self._steps: list[Step] = []
        self._lines: list[Line] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: Step, line: Line) -> None:
        """Add a call, with the line that issued it."""
        self._steps.append(step)
        self._lines.append(line)

    @property
    def is_full(self) -> bool:
        """Whether it must be sent before another call is added."""
        return len(self._steps) >= MAX_STEPS

    def take(self) -> tuple[bytes, Lines]:
        """Empty the batch; returns it as a request, and the lines of its calls."""
        steps, lines = tuple(self._steps), tuple(self._lines)
        self.clear()
        # Ids are random, so trying to compress them takes longer than sending.
        writer = UNCOMPRESSED if getattr(self._client, "compression", None) is None else self._client
        return write_request(writer, (), StepsMessage(steps), False, hops=0), lines

    def clear(self) -> None:
        """Drop the calls."""
        self._steps.clear()
        self._lines.clear()


def encode_call(
    location: BaseWorker, name: str, args: tuple[Any, ...], base: ObjectId
) -> tuple[list[Any], ResultSpec] | None:
    """Encode a call for a batch; returns the entry and the spec of its result, or None if it must be sent alone."""
    if get_default_dtype() is not WORKERS_DEFAULT:
        return None
    grad_enabled = torch.is_grad_enabled()
    key: list[Any] = [name, grad_enabled]
    metas: list[TensorMeta] = []
    try:
        flat: list[Any] = [b"", grad_enabled, name, base.to_bytes(ID_BYTES, "big")]  # type: ignore[union-attr]
        for arg in args:
            kind = type(arg)
            if kind is PointerTensor:
                meta = arg._meta
                if meta is None or arg.point_to_attr is not None or arg.location is not location:
                    return None
                arg.lease.check()
                flat.append(arg.id_at_location.to_bytes(ID_BYTES, "big"))
                metas.append(meta)
                key.append(id(meta))  # it is kept with the key, so no other object gets this id
            elif kind is float or kind is bool or arg is None or (kind is int and _MIN_INT <= arg < _MAX_INT):
                flat.append(arg)
                key += (kind, arg)
            else:
                return None
    except (AttributeError, OverflowError):  # an id that a user chose
        return None
    cached = _specs.get(tuple(key))
    spec = _infer_spec(name, args, tuple(key), metas) if cached is None else cached[1]
    if spec is None or is_passing_on():  # the hop count is written once per message
        return None
    return flat, spec


def _infer_spec(
    name: str, args: tuple[Any, ...], key: tuple[Any, ...], metas: list[TensorMeta]
) -> TensorMeta | SameAs | None:
    """Infer the spec of a result, and cache it; None if the call can't be batched."""
    if not name.startswith("torch.") or not leaves_gradients(name) or not metas or len(args) > MAX_ARGUMENTS:
        return None
    known, spec = infer(name, args, {})
    if not known or not isinstance(spec, TensorMeta | SameAs):
        return None
    if len(_specs) >= _MAX_SPECS:
        _specs.clear()
    _specs[key] = (metas, spec)
    return spec
