"""VirtualWorker: a party inside this process, for tutorials, tests and simulations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.federated.client.federated_client import FederatedCaller, FederatedClient
from syft.workers.base import BaseWorker
from syft.workers.sent_ids import SentIds
from syft.workers.transport.in_process import BytesStream, ThreadStream
from syft.workers.transport.stream import InlineStream, close_incoming
from syft.workers.wire_form import WORKER_CLASSES

if TYPE_CHECKING:
    import torch

    from syft.hook.torch_hook import TorchHook


class VirtualWorker(FederatedCaller, BaseWorker, FederatedClient):
    """A worker in this process, with value semantics: sent objects are copied.

    A worker of an id that is already registered is returned again, so that a notebook cell can be run twice.

    Args:
        hook: the TorchHook.
        id: the name of the worker.
        data: tensors to hold from the start.
        is_client_worker: whether it only sends and never stores.
        log_msgs: keep every message received in `msg_history`.
        verbose: log every message.
        auto_add: register it and the workers known to the local worker with each other.
        serialize: serialize every message.
        threaded: like `serialize`, and deliver from a thread of its own, so that callers do not wait.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> bob = sy.VirtualWorker(hook, id="virtual-bob")
        >>> x = torch.tensor([1.0, 2.0]).send(bob)
        >>> (x + x).get()
        tensor([2., 4.])
    """

    returns_registered = True

    def __init__(
        self,
        hook: TorchHook | None = None,
        id: ObjectId = 0,
        data: Iterable[torch.Tensor] | None = None,
        is_client_worker: bool = False,
        log_msgs: bool = False,
        verbose: bool = False,
        auto_add: bool = True,
        serialize: bool = False,
        threaded: bool = False,
    ) -> None:
        if "object_store" in self.__dict__:
            self.load_data(data or ())
            return
        self._sent_ids = SentIds()
        self._stream_type = ThreadStream if threaded else BytesStream if serialize else InlineStream
        super().__init__(hook, id, data, is_client_worker, log_msgs, verbose, auto_add)
        # Bytes never leave the process, so a script module in them comes from the user.
        self.trusts_script_modules = True

    @property
    def is_threaded(self) -> bool:
        """Whether it serves requests in a thread of its own."""
        return self._stream_type is ThreadStream

    def _may_hold(self, obj_id: ObjectId) -> bool | None:
        """Return whether it holds an object of an id; None if its thread may not have released the object yet."""
        for stream in self._incoming:
            if isinstance(stream, BytesStream):
                stream.flush()
        held = super()._may_hold(obj_id)
        return self._sent_ids.holds(obj_id, held) if self.is_threaded else held

    def _reserve(self, obj_id: ObjectId) -> None:
        """Record the id of an object that is being sent, which its thread may not store at once."""
        if self.is_threaded:
            self._sent_ids.add(obj_id)

    def _note_release(self, obj_id: ObjectId, is_gone: bool) -> None:
        """Record that an object was released, or that it is gone."""
        if self.is_threaded:
            self._sent_ids.note_release(obj_id, is_gone)

    def open_stream(self, client: BaseWorker) -> Any:
        """Open a stream from a client of this process."""
        stream = self._stream_type(client, self)
        self._incoming.append(stream)
        return stream

    @property
    def _objects(self) -> dict[ObjectId, Any]:
        """The objects held, by id, after pending requests are done."""
        self._settle()
        return self.object_store.objects

    @_objects.setter
    def _objects(self, objects: dict[ObjectId, Any]) -> None:
        self._settle()
        BaseWorker._objects.fset(self, objects)  # type: ignore[attr-defined]

    def _settle(self) -> None:
        """Wait until pending requests are done."""
        for stream in self._incoming:
            if isinstance(stream, ThreadStream) and not stream._closed:
                stream.synchronize()
            if isinstance(stream, BytesStream | ThreadStream):
                stream.flush()

    def stop(self) -> None:
        """Close the streams to and from this worker; then raise the unreported error of an earlier call."""
        try:
            close_incoming(self)
        finally:
            self.close()


WORKER_CLASSES["in process"] = VirtualWorker
