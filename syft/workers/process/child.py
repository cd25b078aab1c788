"""The process of a ProcessWorker: serves one worker until its maker's connection closes, and then exits at once.

Its arguments `<control> <listener>` are two inherited sockets: one to the process that made it, which alone decides
which clients and peers this worker has, and one that listens.
"""

from __future__ import annotations

import importlib
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
from syft.workers.peer import PeerWorker
from syft.workers.transport import handshake
from syft.workers.transport.framing import CONTROL, FramedConnection
from syft.workers.transport.handshake import TOKEN_BYTES, Address
from syft.workers.transport.pipe import SocketPipe
from syft.workers.transport.socket_stream import SERVED, Listener, SocketStream

if TYPE_CHECKING:
    from syft.workers.transport.pipe import Bytes

logger = logging.getLogger("syft.workers")
MAX_ORDER = 1 << 16
# Seconds between checks whether the maker is still the parent of this process.
_LOOK = 2.0
# Seconds that a request waits for an order that, according to its client, was given.
_ORDER_TIMEOUT = 10.0


class ServedWorker(BaseWorker, FederatedClient):
    """The worker that a process serves."""

    def __init__(self, id: ObjectId, *, verbose: bool = False) -> None:
        self._orders_followed = 0
        self._order_followed = threading.Condition()
        super().__init__(None, id, verbose=verbose, auto_add=False)

    def note_order(self, count: int) -> None:
        """Record how many orders of the maker were executed."""
        with self._order_followed:
            self._orders_followed = count
            self._order_followed.notify_all()

    def await_orders(self, count: int) -> None:
        """Wait until a number of orders were executed; for a limited time, since the number is the client's claim."""
        with self._order_followed:
            self._order_followed.wait_for(lambda: self._orders_followed >= count, _ORDER_TIMEOUT)


class ProcessPeer(PeerWorker):
    """A worker that is reached by an address that its maker supplied."""

    lost_reason = "its process can't be reached."

    def __init__(self, id: ObjectId, address: Address) -> None:
        super().__init__(id)
        self.address = address

    def connect(self, purpose: str = "") -> socket.socket:
        """Open a connection to it."""
        try:
            # A process that is starting answers when it is up; one that is gone refuses at once.
            return handshake.connect(self.address, purpose, timeout=current().stream_timeout)
        except OSError:
            raise WorkerLostError(self.id, self.why_lost()) from None

    def open_stream(self, client: BaseWorker) -> SocketStream:
        """Open a stream to it."""
        return SocketStream(client, self, self.connect())


class ChildProcess:
    """The contents of a worker's process: the worker, and a listener for the clients that its maker admits."""

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
        """Execute the orders of a connection until it closes."""
        while (frame := control.read()) is not None:
            kind, number, contents = frame
            if kind != CONTROL:
                raise SerdeError("The maker of this process sent a frame that is not an order.")
            self.follow(number, contents)

    def follow(self, number: int, written: Bytes, *more: object) -> None:
        """Execute a serialized order by its number, from 1; further arguments are not serialized."""
        order = deserialize(written)
        if type(order) is not tuple or not order or order[0] not in self._orders:
            raise SerdeError("The maker of this process sent a frame that is not an order.")
        self._orders[order[0]](*order[1:], *more)
        if self.worker is not None:
            self.worker.note_order(number)

    def _serve(
        self, worker_id: ObjectId, threads: int, verbose: bool, modules: tuple[str, ...], path: tuple[str, ...]
    ) -> None:
        torch.set_num_threads(threads)
        sys.path.extend(entry for entry in path if entry not in sys.path)
        for name in modules:
            importlib.import_module(name)
        self.worker = ServedWorker(worker_id, verbose=verbose)
        TorchHook(torch, local_worker=self.worker)
        for prepare in SERVED:
            prepare(self.worker)
        self.listener = Listener(self._socket)

    def _admit(self, client_id: ObjectId, token: bytes, proof: bytes, purpose: str | None = None) -> None:
        if self.listener is None or self.worker is None:
            raise SerdeError("This process has no worker yet.")
        self.listener.announce(self.worker, client_id, address_of(client_id, 0, token, proof), purpose)

    def _dismiss(self, client_id: ObjectId, token: bytes, proof: bytes) -> None:
        if self.listener is not None:
            self.listener.dismiss(address_of(client_id, 0, token, proof))

    def _meet(self, worker_id: ObjectId, port: int, token: bytes, proof: bytes) -> None:
        if self.worker is None:
            raise SerdeError("This process has no worker yet.")
        self.worker.add_worker(ProcessPeer(worker_id, address_of(worker_id, port, token, proof)))


def address_of(worker_id: Any, port: Any, token: Any, proof: Any) -> Address:
    """Return the address of a worker, as an order gives it, after validation."""
    secrets = all(type(secret) is bytes and len(secret) == TOKEN_BYTES for secret in (token, proof))
    if not is_id(worker_id) or type(port) is not int or not 0 <= port < 2**16 or not secrets:
        raise SerdeError("This is not an address.")
    return Address(port, token, proof)


def _watch(parent: int) -> None:
    """Exit when the maker of this process is gone, even if another process has a copy of its end of the connection."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK)
    os._exit(0)


def main(control: int, listener: int) -> None:
    """Serve until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the maker is interrupted, too, and decides
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
        os._exit(code)  # at once, whatever else runs


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
