"""The actor of a RayWorker: serves one worker, to clients and to other actors, until it is ended.

Ray runs the methods below in one event loop, which never blocks: every client has a thread of its own for its
requests. So a worker that waits for another one, in a run or behind a pointer, does not delay other clients.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from syft.config import current
from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import ProtocolError, SerdeError, SyftError, WorkerLostError
from syft.workers.base import BaseWorker
from syft.workers.peer import PeerWorker
from syft.workers.process.child import ChildProcess, ServedWorker, address_of
from syft.workers.ray.cluster import explain, package, this_node
from syft.workers.ray.stream import Frame, RayStream, pack, unpack
from syft.workers.transport import handshake
from syft.workers.transport.framing import AFTER, ANSWER, REQUEST
from syft.workers.transport.handshake import Address
from syft.workers.transport.pipelined import pass_on_releases
from syft.workers.transport.request_codec import answer

logger = logging.getLogger("syft.workers")


class WorkerActor:
    """The class of the Ray actor; its first order, serialized, names the worker to serve."""

    def __init__(self, order: bytes) -> None:
        self._process = ActorProcess(handshake.listen(), package().get_runtime_context().current_actor)
        self._process.follow(1, order)
        self._orders = Reorderer(self._follow, first=2)
        self._visits: dict[bytes, ActorSession] = {}
        self._gone = asyncio.Event()

    async def where(self) -> tuple[str, int, int]:
        """Return the machine as Ray names it, the process, and the port for admitted clients."""
        listener = self._process.listener
        return this_node(), os.getpid(), listener.port if listener is not None else 0

    async def watch(self) -> None:
        """Never return: a caller that waits for it is informed when this actor is gone, with the reason."""
        await self._gone.wait()

    async def order(self, number: int, *item: object) -> None:
        """Execute an order of the maker."""
        self._orders.take(number, item)

    def _follow(self, number: int, item: tuple[Any, ...]) -> None:
        try:
            self._process.follow(number, *item)
        except Exception:  # the next order may succeed
            logger.exception("An order could not be executed")

    async def open(self, key: bytes, client_id: ObjectId, client: Any = None) -> None:
        """Begin a session; `client` is the handle of the client's own actor, if it is in one."""
        worker = self._process.worker
        if not is_id(client_id) or key in self._visits or worker is None:
            raise SerdeError("This session can't begin: its client has no valid id, or its key is in use.")
        self._visits[key] = visit = ActorSession(worker, client_id)
        if client is not None:
            visit.watcher = asyncio.ensure_future(self._close_after(key, client))

    async def _close_after(self, key: bytes, client: Any) -> None:
        """End a session when the actor of its client is gone."""
        try:
            await client.watch.remote()
        except Exception as error:
            logger.info("A session ended with its client: %s", explain(error))
        await self.close(key)

    async def deliver(self, key: bytes, number: int, head: bytes, *large: object) -> Any:
        """Respond to the requests of a call, in order."""
        visit = self._visits.get(key)
        if visit is None:
            raise SyftError("it was restarted by Ray, without its objects")
        done: Future[Any] = Future()
        visit.calls.take(number, (head, large, done))
        return await asyncio.wrap_future(done)

    async def close(self, key: bytes) -> None:
        """End a session."""
        visit = self._visits.pop(key, None)
        if visit is not None:
            visit.end()
            await asyncio.get_running_loop().run_in_executor(None, visit.thread.join, current().stream_timeout)


class Reorderer:
    """Passes items on in the order of their numbers, from `first`: Ray guarantees no order."""

    def __init__(self, then: Callable[[int, Any], None], first: int = 1) -> None:
        self._then = then
        self._next = first
        self._early: dict[int, Any] = {}

    def take(self, number: int, item: object) -> None:
        """Add an item; called by one thread."""
        self._early[number] = item
        while self._next in self._early:
            number, self._next = self._next, self._next + 1
            self._then(number, self._early.pop(number))


class ActorSession:
    """The session of a client, with a thread that responds to its requests in order."""

    def __init__(self, worker: ServedWorker, client_id: ObjectId) -> None:
        self._worker = worker
        self._session = worker.open_session(client_id)
        self._session.may_wait = True
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.calls = Reorderer(lambda _, call: self._queue.put(call))
        self.watcher: asyncio.Future[None] | None = None
        self.thread = threading.Thread(target=self._answer_all, name=f"syft {client_id}", daemon=True)
        self.thread.start()

    def end(self) -> None:
        """End the session after the requests that have arrived; called by the thread of the event loop."""
        if self.watcher is not None:
            self.watcher.cancel()
        self._queue.put(None)

    def _answer_all(self) -> None:
        while (call := self._queue.get()) is not None:
            head, large, done = call
            del call
            try:
                done.set_result(self._answer(head, large))
            except Exception as error:  # a caller that is not a stream
                done.set_exception(error)
            del head, large, done  # releases memory that is shared with the client
        self._session.close()

    def _answer(self, head: bytes, large: Sequence[Any]) -> Any:
        answers: list[Frame] = []
        for kind, number, contents in unpack(head, large):
            if kind == AFTER:
                self._worker.await_orders(number)
                continue
            if kind != REQUEST:
                raise SerdeError("An actor received a frame that is not a request.")
            written = answer(self._worker, self._session, contents)
            if written:
                answers.append((ANSWER, number, written))
        pass_on_releases(self._worker)
        packed, apart = pack(answers)
        return (packed, *apart) if apart else packed


class ActorProcess(ChildProcess):
    """The contents of an actor's process."""

    def __init__(self, listener: socket.socket, mine: Any) -> None:
        super().__init__(listener)
        self._mine = mine
        self._orders["meet"] = self._meet_process
        self._orders["meet actor"] = self._meet_actor

    def _meet_process(self, worker_id: ObjectId, port: int, token: bytes, proof: bytes, node: str) -> None:
        """Register a worker that is not in an actor; only its own machine reaches it."""
        if node == this_node():
            self._meet(worker_id, port, token, proof)
        else:
            self._know(UnreachableWorker(worker_id))

    def _meet_actor(self, worker_id: ObjectId, token: bytes, proof: bytes, host: Any) -> None:
        self._know(RayPeer(worker_id, host, address_of(worker_id, 0, token, proof), self._mine))

    def _know(self, worker: BaseWorker) -> None:
        if self.worker is not None:
            self.worker.add_worker(worker)


class RayPeer(PeerWorker):
    """A worker in another actor; `mine` is the handle of the actor that connects to it."""

    lost_reason = "its actor can't be reached."

    def __init__(self, id: ObjectId, host: Any, address: Address, mine: Any) -> None:
        super().__init__(id)
        self._host = host
        self._address = address
        self._mine = mine

    def open_stream(self, client: BaseWorker) -> RayStream:
        """Open a stream to it: one actor calls the other."""
        return RayStream(client, self, self._host, self._mine)

    def connect(self, purpose: str = "") -> socket.socket:
        """Open a connection to it, for runs on shares, which need a socket."""
        ray = package()
        try:
            node, _, port = ray.get(self._host.where.remote(), timeout=current().stream_timeout)
        except Exception as error:
            raise WorkerLostError(self.id, explain(error)) from None
        if node != this_node():
            raise ProtocolError(
                f"Worker {self.id!r} is on another machine of the cluster than a worker it computes on shares with. "
                "Use actor_options that place both RayWorkers on one machine."
            )
        try:
            there = Address(port, self._address.token, self._address.proof)
            return handshake.connect(there, purpose, timeout=current().stream_timeout)
        except OSError:
            raise WorkerLostError(self.id, self.why_lost()) from None

    def reaches(self, destination: BaseWorker) -> bool:
        """Return True: it decides by itself which workers it reaches."""
        return True


class UnreachableWorker(PeerWorker):
    """A worker in the process of a client on another machine, which an actor can't reach."""

    def open_stream(self, client: BaseWorker) -> Any:
        """Raise an error that explains the alternative."""
        raise SyftError(
            f"Worker {client.id!r} is on another machine of the cluster and does not reach {self.id!r}, which is in "
            "a process of a client. Fetch the object and send it on: x.get().send(worker)."
        )
