"""RayPool: thousands of simulated clients on a few Ray actors."""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from syft.exceptions import FederatedError, SyftError
from syft.federated.server.clients import MAX_RUNS
from syft.federated.server.dispatch import Job, Outcome
from syft.federated.server.ray.actor import bytes_of, pack
from syft.federated.server.ray.scheduler import ActorSlot, RayScheduler
from syft.workers.ray import cluster
from syft.workers.ray.stream import STARTUP_SECONDS

_OURS = frozenset(("concurrency_groups", "get_if_exists", "lifetime", "max_concurrency", "max_restarts"))
_CLOSED = "The simulation is closed. Make a new one: sy.federated.Simulation(..., backend='ray')."


class RayClient:
    """A simulated client that runs in an actor."""

    is_here = False

    def __init__(self, pool: RayPool, number: int, name: str) -> None:
        self.dispatcher, self.number, self.name = pool, number, name

    @property
    def dataset(self) -> Any:
        """Its samples, as a copy in this process."""
        return self.dispatcher.part(self.number)

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Call the client, and wait for its result."""
        for _, outcome in self.dispatcher.run([Job(self, run, name, payload)], timeout):
            if isinstance(outcome, Exception):
                raise outcome
            answer: dict[str, Any] = outcome
            return answer
        raise FederatedError(f"Client {self.name!r} did not answer within {timeout:g} s.")

    def __repr__(self) -> str:
        return f"<RayClient {self.name!r}>"


class RayPool:
    """Actors that run the clients of a simulation: `Simulation(dataset, 1000, backend="ray", actors=4)`.

    The data set is stored once in Ray's object store and read by all actors. A client has no process of its own: any
    actor can run it, but one that keeps state from round to round always runs in the same actor. If an actor dies, its
    work of the round is lost, and it is replaced.

    The cluster is the one that this process is connected to, else the one in RAY_ADDRESS, else a new one that only this
    machine can reach. Needs the extra `ray`.

    Args:
        simulation: the clients.
        actors: number of actors; the number of the cluster's cores by default.
        actor_options: Ray options of each actor, such as `{"num_cpus": 2}`.
        threads: the number of threads that torch uses in each actor.
    """

    def __init__(
        self,
        simulation: Any,
        actors: int | None = None,
        actor_options: Mapping[str, Any] | None = None,
        threads: int = 1,
    ) -> None:
        self._ray = cluster.package()
        if actors is not None and (type(actors) is not int or actors < 1):
            raise ValueError(f"actors must be an integer of at least 1, or None, got {actors!r:.50}.")
        if type(threads) is not int or threads < 1:
            raise ValueError(f"threads must be an integer of at least 1, got {threads!r:.50}.")
        self._options, self._threads = dict(actor_options or {}), threads
        refused = sorted(_OURS & set(self._options))
        if refused:
            raise SyftError(f"actor_options of a simulation do not support {', '.join(refused)}.")
        cluster.start()
        self._connected = cluster.connection()
        cores = self._ray.cluster_resources().get("CPU", 1.0)
        count = min(max(1, int(cores)) if actors is None else actors, len(simulation))
        self._options.setdefault("num_cpus", min(1.0, cores / count))
        self._part = weakref.WeakMethod(simulation.part)
        self._given = self._put(simulation)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        # The actor that holds the state of a client, by run and client index.
        self._homes: OrderedDict[str, dict[int, ActorSlot]] = OrderedDict()
        # Late clients -> their calls.
        self._late: dict[str, Any] = {}
        # Duration of a call, by name.
        self._pace: dict[str, float] = {}
        self._slots: list[ActorSlot] = []
        self.close = weakref.finalize(self, _end, self._ray, self._slots, self._connected)
        self.close.atexit = False  # Ray ends by itself before this would be called
        self._slots += [self._new_slot() for _ in range(count)]

    def _put(self, simulation: Any) -> list[Any]:
        """Put the data set and the row indices of the clients into the object store, each as one array."""
        rows = torch.cat([part.reshape(-1) for part in simulation._rows])
        ends = torch.tensor([len(part) for part in simulation._rows]).cumsum(0)
        tensors = (simulation.data, simulation.targets, rows, ends)
        specs = [(str(tensor.dtype), tuple(tensor.shape)) for tensor in tensors]
        return [
            pack({"specs": specs, "threads": self._threads}),
            *(self._ray.put(bytes_of(tensor)) for tensor in tensors),
        ]

    def _new_slot(self) -> ActorSlot:
        from syft.federated.server.ray.actor import ClientActor

        return ActorSlot(self._ray.remote(ClientActor).options(**self._options).remote(*self._given))

    # --- clients ----------------------------------------------------------------------------------------------

    def client(self, number: int, name: str) -> RayClient:
        """Return the client with an index."""
        return RayClient(self, number, name)

    def part(self, number: int) -> Any:
        """Return the samples of a client; raises if the simulation was garbage-collected."""
        part = self._part()
        if part is None:
            raise FederatedError("The simulation of this client no longer exists.")
        return part(number)

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Outcome]:
        """Yield the name of each client and its result or error, as they arrive; ends at the timeout."""
        reason = self.failure_reason()
        if reason is not None:
            yield from ((job.client.name, FederatedError(reason)) for job in jobs)
        elif jobs:
            yield from RayScheduler(self, jobs, timeout).outcomes()

    def is_busy(self, name: str) -> bool:
        """Return whether an actor is still busy with a call of a client that timed out."""
        call = self._late.get(name)
        if call is None:
            return False
        if self.failure_reason() is None and not self._ray.wait([call], timeout=0)[0]:
            return True
        self._late.pop(name, None)
        return False

    # --- actors -----------------------------------------------------------------------------------------------

    @property
    def actors(self) -> int:
        """The number of actors."""
        return len(self._slots)

    def processes(self) -> list[int]:
        """Return the process ids of the actors, on their machines; waits for those that are starting."""
        if self.failure_reason() is not None:
            return []
        found: list[int] = self._ray.get([slot.hello for slot in self._slots], timeout=STARTUP_SECONDS)
        return found

    def failure_reason(self) -> str | None:
        """Return why no actor can be called any more; None if they can."""
        if not self.close.alive:
            return _CLOSED
        if self._connected != cluster.connection():
            return "Ray was shut down. Make a new simulation: sy.federated.Simulation(..., backend='ray')."
        return None

    def replace(self, slot: ActorSlot) -> ActorSlot | None:
        """Replace a dead actor; returns the new one, or None if it was already replaced."""
        with self._lock:
            if slot not in self._slots or self.failure_reason() is not None:
                return None
            self._slots[self._slots.index(slot)] = made = self._new_slot()
            with contextlib.suppress(Exception):  # it may still be alive
                self._ray.kill(slot.handle)
            for homes in self._homes.values():
                for number in [number for number, home in homes.items() if home is slot]:
                    del homes[number]  # its state is lost
            return made

    def homes(self, run: str) -> dict[int, ActorSlot]:
        """Return the actor of each client with state in a run."""
        with self._lock:
            found = self._homes.setdefault(run, {})
            self._homes.move_to_end(run)
            while len(self._homes) > MAX_RUNS:
                self._homes.popitem(last=False)
            return found

    def record_duration(self, call: str, seconds: float) -> None:
        """Record the duration of a call. The first calls are slow, so a shorter one replaces the estimate at once."""
        known = self._pace.get(call, seconds)
        self._pace[call] = min(seconds, (known + seconds) / 2)

    def __repr__(self) -> str:
        return f"<RayPool of {self.actors} actors>"


def _end(ray: Any, slots: list[ActorSlot], connected: str | None) -> None:
    """Stop all actors."""
    if connected == cluster.connection():
        for slot in slots:
            with contextlib.suppress(Exception):  # it is already gone
                ray.kill(slot.handle)
    slots.clear()
