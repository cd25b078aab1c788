"""The process of a ProcessWorker: serves one worker until its maker's connection closes, and then ends at once.

Started with `<control> <listener>` as its arguments, two sockets handed down: one to the process
that made it, which alone may say whom this worker serves and knows, and one that listens.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.config import current
from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import SerdeError, WorkerLostError
from syft.federated.client.federated_client import FederatedClient
from syft.hook.torch_hook import TorchHook
from syft.serde import deserialize
from syft.workers.base import BaseWorker
from syft.workers.transport import handshake
from syft.workers.transport.framing import CONTROL, FramedConnection
from syft.workers.transport.handshake import TOKEN_BYTES, Address
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import SERVED, Listener, SocketStream

if TYPE_CHECKING:
    from syft.workers.transport.pipe import Bytes

logger = logging.getLogger("syft.workers")
MAX_ORDER = 1 << 16
# How often the process looks whether its maker is still its parent, in seconds.
_LOOK = 2.0
# How long a request waits for an order that its client says has been given, in seconds.
_PATIENCE = 10.0


class ServedWorker(BaseWorker, FederatedClient):
    """The worker that a process serves."""

    def __init__(self, id: ObjectId, *, verbose: bool = False) -> None:
        self._orders_followed = 0
        self._order_followed = threading.Condition()
        super().__init__(None, id, verbose=verbose, auto_add=False)

    def note_order(self, count: int) -> None:
        """Take note of how many orders of the maker were followed."""
        with self._order_followed:
            self._orders_followed = count
            self._order_followed.notify_all()

    def await_orders(self, count: int) -> None:
        """Wait until so many orders of the maker were followed; not for long, since anybody can say a number."""
        with self._order_followed:
            self._order_followed.wait_for(lambda: self._orders_followed >= count, _PATIENCE)


class PeerWorker(BaseWorker):
    """A worker that is reached by an address its maker told.

    Args:
        id: the name of the worker.
        address: how it is reached.
    """

    def __init__(self, id: ObjectId, address: Address) -> None:
        super().__init__(None, id, auto_add=False)
        self.address = address

    def connect(self, purpose: str = "") -> socket.socket:
        """Open a connection to it."""
        try:
            # One that has just been made answers when it is up; one that is gone refuses at once.
            return handshake.connect(self.address, purpose, timeout=current().stream_timeout)
        except OSError:
            raise WorkerLostError(self.id, self.why_lost()) from None

    def open_stream(self, client: BaseWorker) -> SocketStream:
        """Open a stream to it."""
        return SocketStream(client, self, self.connect())

    def why_lost(self) -> str:
        """Say what is known of why it can't be reached."""
        return "its process can't be reached."

    def _may_hold(self, obj_id: ObjectId) -> bool:
        """Say yes: what is held there is not known here."""
        return True


class ChildProcess:
    """What runs in the process of a worker: the worker, and a listener for those that its maker admits.

    Args:
        listener: the socket that listens.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._socket = listener
        self._orders: dict[str, Callable[..., None]] = {
            "serve": self._serve,
            "admit": self._admit,
            "dismiss": self._dismiss,
            "meet": self._meet,
        }
        self.worker: ServedWorker | None = None
        self.listener: Listener | None = None

    def run(self, control: FramedConnection) -> None:
        """Follow the orders of a connection until it closes."""
        while (frame := control.read()) is not None:
            kind, number, contents = frame
            if kind != CONTROL:
                raise SerdeError("The maker of this process sent something that is not an order.")
            self.follow(number, contents)

    def follow(self, number: int, written: Bytes, *more: object) -> None:
        """Follow an order.

        Args:
            number: the how-manieth it is.
            written: the order, as bytes.
            *more: what came with it and is not bytes.
        """
        order = deserialize(written)
        if type(order) is not tuple or not order or order[0] not in self._orders:
            raise SerdeError("The maker of this process sent something that is not an order.")
        self._orders[order[0]](*order[1:], *more)
        if self.worker is not None:
            self.worker.note_order(number)

    def _serve(self, worker_id: ObjectId, threads: int, verbose: bool) -> None:
        torch.set_num_threads(threads)
        self.worker = ServedWorker(worker_id, verbose=verbose)
        TorchHook(torch, local_worker=self.worker)
        for prepare in SERVED:
            prepare(self.worker)
        self.listener = Listener(self._socket)

    def _admit(self, client_id: ObjectId, token: bytes, proof: bytes, purpose: str | None = None) -> None:
        if self.listener is None or self.worker is None:
            raise SerdeError("This process serves nobody yet.")
        self.listener.announce(self.worker, client_id, address_of(client_id, 0, token, proof), purpose)

    def _dismiss(self, client_id: ObjectId, token: bytes, proof: bytes) -> None:
        if self.listener is not None:
            self.listener.dismiss(address_of(client_id, 0, token, proof))

    def _meet(self, worker_id: ObjectId, port: int, token: bytes, proof: bytes) -> None:
        if self.worker is None:
            raise SerdeError("This process serves nobody yet.")
        self.worker.add_worker(PeerWorker(worker_id, address_of(worker_id, port, token, proof)))


def address_of(worker_id: Any, port: Any, token: Any, proof: Any) -> Address:
    """Return what an order says of how a worker is reached, after a look at its parts."""
    secrets = all(type(secret) is bytes and len(secret) == TOKEN_BYTES for secret in (token, proof))
    if not is_id(worker_id) or type(port) is not int or not 0 <= port < 2**16 or not secrets:
        raise SerdeError("This is not an address.")
    return Address(port, token, proof)


def _watch(parent: int) -> None:
    """End this process when its maker is gone, even if somebody else has a copy of its end of the connection."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK)
    os._exit(0)


def main(control: int, listener: int) -> None:
    """Serve until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the maker is interrupted, and decides
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    code = 1
    try:
        ChildProcess(socket.socket(fileno=listener)).run(
            FramedConnection(SocketPipe(socket.socket(fileno=control)), MAX_ORDER)
        )
        code = 0
    except Exception:
        logger.exception("The process of a worker ends")
    finally:
        os._exit(code)  # whatever else runs: nothing is left to be done for anybody


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
