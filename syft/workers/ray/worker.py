"""RayWorker: a worker in an actor of Ray, with the API of any other worker, for the cluster of one owner."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError, WorkerLostError
from syft.serde import serialize
from syft.workers.ray import cluster
from syft.workers.ray.stream import STARTUP_SECONDS, RayStream
from syft.workers.spawned import SpawnedWorker

if TYPE_CHECKING:
    import torch

    from syft.hook.torch_hook import TorchHook
    from syft.workers.base import BaseWorker

# Options that this library sets: other values would lose or repeat requests, or make them wait for each other.
_OURS = frozenset(("concurrency_groups", "get_if_exists", "lifetime", "max_concurrency", "max_task_retries"))
# Seconds that an actor may take to end, and that its end may take to be noticed.
_GRACE = 5.0
_DOUBT = 2.0


class RayWorker(SpawnedWorker):
    """A worker in an actor of Ray: it computes where Ray finds room, on this machine or on another of the cluster.

    It is for the cluster of one owner. Any client that reaches Ray's own ports can run any code there, so they must be
    closed to others; for data of other owners use nodes. Needs the extra `ray`.

    The cluster is the one that this process is connected to, or else the one that RAY_ADDRESS names, or else a new one
    on this machine, which only this machine reaches. RayWorkers reach each other directly. They reach workers of this
    process, ProcessWorkers, and each other for computing on shares, if they are on the same machine.

    A worker of an id that is already registered is returned again, so that a notebook cell can be run twice;
    one whose actor is gone is replaced.

    Args:
        hook: the TorchHook.
        id: the name of the worker.
        data: tensors to hold from the start.
        actor_options: Ray's options of the actor, such as `{"num_cpus": 1, "resources": {"gpu-box": 1}}`.
        verbose: log every message there.
        auto_add: register it and the workers known to the local worker with each other.
        threads: the number of threads that torch uses there.

    Example:
        >>> hook = sy.TorchHook(torch)  # doctest: +SKIP
        >>> bob = sy.RayWorker(hook, id="ray-bob", actor_options={"num_cpus": 1})  # doctest: +SKIP
        >>> x = torch.tensor([1.0, 2.0]).send(bob)  # doctest: +SKIP
        >>> (x + x).get()  # doctest: +SKIP
        tensor([2., 4.])
        >>> bob.stop()  # doctest: +SKIP
    """

    def __init__(
        self,
        hook: TorchHook | None = None,
        id: ObjectId = 0,
        data: Iterable[torch.Tensor] | None = None,
        actor_options: Mapping[str, Any] | None = None,
        verbose: bool = False,
        auto_add: bool = True,
        threads: int = 1,
    ) -> None:
        if "_handle" in self.__dict__:
            self.load_data(data or ())
            return
        self._handle: Actor = Actor(id, threads, verbose, dict(actor_options or {}))
        super().__init__(hook, id, data, verbose=verbose, auto_add=auto_add)

    # --- the actor --------------------------------------------------------------------------------------------

    @property
    def actor(self) -> Any:
        """Ray's handle of the actor."""
        return self._handle.handle

    @property
    def node_id(self) -> str:
        """Ray's name of the machine that the actor is on."""
        return self._place[0]

    @property
    def pid(self) -> int:
        """The id of the actor's process, on its machine."""
        return self._place[1]

    @property
    def port(self) -> int:
        """The port at which the actor's process listens, for processes of its machine."""
        if not self.is_on_this_machine():
            raise SyftError(f"Worker {self.id!r} is on another machine of the cluster, where only RayWorkers reach it.")
        return self._place[2]

    @property
    def _place(self) -> tuple[str, int, int]:
        place = self._handle.place()
        if place is None:
            raise WorkerLostError(self.id, self.why_lost())
        return place

    def _can_be_reused(self) -> bool:
        if not self.is_alive():
            self._end()  # Ray may have restarted it, without its objects
            return False
        return True

    def is_on_this_machine(self) -> bool:
        """Return whether the actor is on this machine."""
        place = self._handle.place()
        return place is not None and place[0] == cluster.this_node()

    def reaches(self, destination: BaseWorker) -> bool:
        """Return whether the actor reaches another worker by itself."""
        return isinstance(destination, RayWorker) or self.is_on_this_machine()

    def open_stream(self, client: BaseWorker) -> RayStream:
        """Open a stream from a client of this process."""
        if not self.is_alive():
            raise WorkerLostError(self.id, self.why_lost())
        stream: RayStream = self._arrives(RayStream(client, self, self._handle.handle))
        return stream

    def _introduce(self, worker: BaseWorker) -> None:
        """Inform the actor how to reach another worker: by its own actor, or on the machine of this process."""
        if isinstance(worker, RayWorker):
            if not worker._handle.is_connected():  # Ray crashes on a handle of a cluster that has ended
                return
            secrets = worker._secrets_for(self.id)
            self._handle.control(("meet actor", worker.id, secrets.token, secrets.proof), worker._handle.handle)
            return
        address = self._way_to(worker)
        if address is not None:
            node = cluster.this_node()
            self._control(("meet", worker.id, address.port, address.token, address.proof, node))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} id:{self.id}{'' if self.is_alive() else ' (its actor ended)'}>"


class Actor:
    """The actor of a worker, as seen by the process that made it."""

    def __init__(self, worker_id: ObjectId, threads: int, verbose: bool, options: dict[str, Any]) -> None:
        refused = sorted(_OURS & set(options))
        if refused:
            raise SyftError(f"actor_options of a RayWorker can't have {', '.join(refused)}: leave it out.")
        self._ray = cluster.package()
        cluster.start()
        from syft.workers.ray.actor import WorkerActor  # late, since it imports the main module of processes

        self._connected = cluster.connection()
        self._wanted = {name: options[name] for name in ("num_cpus", "num_gpus", "resources") if name in options}
        made = self._ray.remote(WorkerActor)
        self.handle = made.options(**options).remote(serialize(("serve", worker_id, threads, verbose, (), ())))
        self._watch = self.handle.watch.remote()
        self._asked = self.handle.where.remote()
        self._found: tuple[str, int, int] | None = None
        self.orders = 1
        self._order = threading.Lock()
        self.end = weakref.finalize(self, _end, self._ray, self.handle, self._watch, self._connected)
        self.end.atexit = False  # Ray ends by itself, before this would be called

    def control(self, order: tuple[Any, ...], *more: object) -> None:
        """Send an order to the actor; one that is gone receives nothing."""
        written = serialize(order)
        with self._order:
            if self.is_connected():
                self.handle.order.remote(self.orders + 1, written, *more)
                self.orders += 1

    def place(self) -> tuple[str, int, int] | None:
        """Return the machine, the process and the port of the actor once it has started; None if it does not start."""
        if self._found is None and self.is_connected():
            with contextlib.suppress(Exception):  # `why_lost` reports the reason
                self._found = self._ray.get(self._asked, timeout=STARTUP_SECONDS)
        return self._found

    def is_alive(self) -> bool:
        """Return whether the actor is alive, or starting."""
        return self.is_connected() and not self._is_gone(0)

    def why_lost(self) -> str:
        """Return how the actor ended, or that it does not answer."""
        if not self.is_connected():
            return "Ray was shut down."
        if not self._is_gone(_DOUBT):
            is_up = bool(self._ray.wait([self._asked], timeout=0)[0])
            return "its actor does not answer." if is_up else self._why_not_up()
        try:
            self._ray.get(self._watch)
        except Exception as error:
            return cluster.explain(error)
        return "its actor ended."

    def is_connected(self) -> bool:
        """Return whether this process is still connected to the actor's cluster."""
        return self._connected is not None and self._connected == cluster.connection()

    def _is_gone(self, timeout: float) -> bool:
        return bool(self._ray.wait([self._watch], timeout=timeout)[0])

    def _why_not_up(self) -> str:
        free = self._ray.available_resources()
        named = {name: free.get(name, 0) for name in ("CPU", "GPU", *self._wanted.get("resources", {}))}
        return f"Ray has not started its actor. It asks for {self._wanted}, and free are {named}."


def _end(ray: Any, handle: Any, watch: Any, connected: str | None) -> None:
    """End an actor, and wait until it is gone."""
    if connected == cluster.connection():
        with contextlib.suppress(Exception):  # it is gone already
            ray.kill(handle)
            ray.wait([watch], timeout=_GRACE)
