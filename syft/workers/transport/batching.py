"""BatchingStream: small calls that nobody waits for go together, many in one message.

A call of pointers and numbers whose form is known costs little more than a note in a list. What was gathered goes when
it is enough for a message, before anything else that is sent, or after a moment.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import torch
from torch import get_default_dtype

from syft.core import metrics
from syft.core.callsite import user_line
from syft.core.id_provider import ObjectId
from syft.core.references import SameAs, TensorMeta
from syft.messaging.call_batch import ID_BYTES, MAX_ARGUMENTS, MAX_STEPS, Step, StepsMessage, write_ids
from syft.messaging.message import BatchMessage
from syft.pointers.pointer_tensor import PointerTensor
from syft.workers.transport.gradient_cache import leaves_gradients
from syft.workers.transport.pipelined import Line
from syft.workers.transport.request_codec import is_passing_on, read_answer, write_request
from syft.workers.transport.sequenced import SequencedStream
from syft.workers.transport.shape_inference import WORKERS_DEFAULT, infer

# By call and forms of its arguments (see _key_of): those forms, and the form of the result.
_forms: dict[tuple[Any, ...], tuple[list[TensorMeta], TensorMeta | SameAs]] = {}
_MOST_FORMS = 4096
_LEAST_INT, _MOST_INT = -(2**63), 2**64


class _Unpacked:
    """Who writes without compression: ids are random, so looking whether they shrink takes longer than sending."""

    compression = "none"


class BatchingStream(SequencedStream):
    """A stream that gathers small calls."""

    gathers = True

    def __init__(self, client: Any, location: Any) -> None:
        super().__init__(client, location)
        self._steps: list[Step] = []
        self._lines: list[Line] = []
        metrics.gathering.add(self)

    def abandon(self) -> None:
        """Leave the stream to the process from which this one was forked; what it has gathered, that one sends."""
        super().abandon()
        self._steps, self._lines = [], []

    def release(self, obj_id: ObjectId) -> None:
        """Note an id; it rides along with the next message, if there can be one."""
        if self._lost is None and not self._closed:
            self._gradients.forget(obj_id)
            self._released.append(obj_id)

    def gather(self, name: str, args: tuple[Any, ...], base: ObjectId) -> Any:
        """Note a call to go with others, and return the form of its result; NotImplemented if it goes by itself.

        Args:
            name: the wire name of the call.
            args: its arguments: pointers and numbers.
            base: the id of its result.
        """
        if get_default_dtype() is not WORKERS_DEFAULT:
            return NotImplemented
        grad_enabled = torch.is_grad_enabled()
        key: list[Any] = [name, grad_enabled]
        metas: list[TensorMeta] = []
        try:
            flat = [b"", grad_enabled, name, base.to_bytes(ID_BYTES, "big")]  # type: ignore[union-attr]
            for arg in args:
                kind = type(arg)
                if kind is PointerTensor:
                    meta = arg._meta
                    if meta is None or arg.point_to_attr is not None or arg.location is not self.location:
                        return NotImplemented
                    arg.lease.check()
                    flat.append(arg.id_at_location.to_bytes(ID_BYTES, "big"))
                    metas.append(meta)
                    key.append(id(meta))  # it is kept with the key, so no other will have this id
                elif kind is float or kind is bool or arg is None or (kind is int and _LEAST_INT <= arg < _MOST_INT):
                    flat.append(arg)
                    key += (kind, arg)
                else:
                    return NotImplemented
        except (AttributeError, OverflowError):  # an id that a user chose
            return NotImplemented
        known = _forms.get(tuple(key))
        form = _first_form(name, args, tuple(key), metas) if known is None else known[1]
        if form is None or is_passing_on():  # how often it was passed on is said of each message
            return NotImplemented
        self._add(flat)
        return form

    def _add(self, step: list[Any]) -> None:
        if self._failed is not None:
            self.raise_failure()
        if self._closed:
            self._check_open()
        if self._released:
            step[0] = self._released_bytes()
        line = (*user_line(), None)
        with self._order:
            self._await_room()
            if self._lost is not None:
                raise self.lost_error(self._lost)
            self._steps.append(tuple(step))
            self._lines.append(line)
            count = len(self._steps)
            if count >= MAX_STEPS:  # before anybody else adds to it
                self._enqueue_gathered()
        if count == 1 or count >= MAX_STEPS:
            self._send_enqueued(count == 1)

    def _released_bytes(self) -> bytes:
        """Take the ids that were released; those of another kind go by themselves, before the call."""
        released = self._take_released()
        written = write_ids(released)
        if written is not None:
            return written
        self._put(write_request(self.client, released, BatchMessage(()), False), ("", 0, None), None)
        return b""

    def _enqueue_gathered(self) -> None:
        """Write what was gathered as one request; the caller holds the lock."""
        if not self._steps:
            return
        steps, lines = tuple(self._steps), tuple(self._lines)
        self._steps.clear()
        self._lines.clear()
        packed = self.client if getattr(self.client, "compression", None) is not None else _Unpacked
        request = write_request(packed, (), StepsMessage(steps), False, hops=0)
        metrics.record(self.client.id, self.location.id, len(request), False)
        self._enqueue(request, lines, None)

    def hand_over_gathered(self) -> None:
        """Let what was gathered go now: somebody counts messages from here on, or up to here."""
        with self._order:
            if self._lost is None:
                self._enqueue_gathered()

    def _await_room(self) -> None:
        """Wait while too much is on its way; the caller holds the lock, which others get meanwhile."""
        raise NotImplementedError(f"{type(self).__name__} must say when too much is on its way")

    def _enqueue(self, request: bytes, line: Any, future: Future[Any] | None) -> None:
        """Have a request delivered after those before it; the caller holds the lock."""
        raise NotImplementedError(f"{type(self).__name__} must say how a request is delivered")

    def _send_enqueued(self, is_first: bool) -> None:
        """Have what is waiting sent, without waiting for that.

        Args:
            is_first: whether it is a first call, to which others may be added for a moment.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how to send what is waiting")

    def _note_failure(self, written: Any, line: Any) -> None:
        """Keep the first error of a call that nobody waits for, with its own line where it was one of a row."""
        if not line or type(line[0]) is not tuple:
            super()._note_failure(written, line)
            return
        try:
            read_answer(self.client, self.location, written)
        except Exception as error:
            step = getattr(error, "syft_step", "")
            number = int(step) if step.isdecimal() and len(step) < 4 else 0
            super()._note_failure(written, line[min(number, len(line) - 1)])


def _first_form(
    name: str, args: tuple[Any, ...], key: tuple[Any, ...], metas: list[TensorMeta]
) -> TensorMeta | SameAs | None:
    """Work out the form of a result, and remember it; None if the call is not one to be gathered."""
    if not name.startswith("torch.") or not leaves_gradients(name) or not metas or len(args) > MAX_ARGUMENTS:
        return None
    known, form = infer(name, args, {})
    if not known or not isinstance(form, TensorMeta | SameAs):
        return None
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    _forms[key] = (metas, form)
    return form
