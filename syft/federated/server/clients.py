"""Clients: who has the data of a federated run, as the server sees them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

import torch
from torch.utils.data import TensorDataset

from syft.config import override
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.payload import Payload
from syft.federated.client.session import STATION, ClientSession
from syft.federated.dataset import BaseDataset, FederatedDataset
from syft.messaging import message as m
from syft.pointers.lease import Lease
from syft.workers.abstract import AbstractWorker
from syft.workers.virtual import VirtualWorker

# How many runs the clients of this process remember something of.
MAX_RUNS = 16


class Client(Protocol):
    """Somebody with data.

    Attributes:
        name: what it is called, once in a run.
        is_here: whether its calls are computed in this process, so that threads would make nothing quicker.
    """

    name: str
    is_here: bool

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Ask something of the client, and wait for its answer.

        Args:
            run: the id of the run.
            name: the name of the call.
            payload: what goes along: plain values, tensors and plans by name.
            timeout: how many seconds to wait at most.
        """
        ...


class WorkerClient:
    """A worker and a data set there.

    Args:
        worker: the worker.
        data: the key of the data set there, or pointers to samples and targets.
    """

    def __init__(self, worker: Any, data: Any) -> None:
        self.worker = worker
        self.name = str(worker.id)
        # A pointer keeps what it points at.
        self._pointers = None if isinstance(data, str) else data
        self._data = (data,) if isinstance(data, str) else tuple(pointer.id_at_location for pointer in data)
        self.is_here = type(worker) is VirtualWorker and not worker.is_threaded

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Ask something of the worker: one message out and one back."""
        stream = local_worker().stream_to(self.worker)
        base = ID_PROVIDER.pop()
        ask = m.Operation(STATION, None, (name, run, self._data, Payload(payload)), {}, (base,))
        lease = Lease(stream, base)
        with override(stream_timeout=threading.TIMEOUT_MAX if timeout is None else timeout):
            _, parcel = stream.ask(m.BatchMessage((ask, m.ObjectRequestMessage((base, None, "")))))
        lease.spend("it was the answer to a call of a federated run")
        contents: dict[str, Any] = parcel.contents
        return contents

    def __repr__(self) -> str:
        return f"<WorkerClient {self.name!r}>"


class ClientStateCache:
    """What clients of this process remember from round to round, by run and name."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[str, ClientSession]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    def find(self, run: str, name: str) -> ClientSession | None:
        """Return the station of a client, if it remembers something."""
        return self._runs.get(run, {}).get(name)

    def keep(self, station: ClientSession) -> None:
        """Keep a station that remembers something; most runs need none, and then thousands leave nothing behind."""
        if not station.memory:
            self._runs.get(station.run, {}).pop(station.name, None)
            return
        self._runs.setdefault(station.run, {})[station.name] = station
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)


class LocalClient:
    """A client whose data is in this process, to try things out with.

    Args:
        name: its name.
        dataset: its samples and targets.
        memories: what clients remember from round to round; common to those of a simulation.
    """

    is_here = True

    def __init__(self, name: str, dataset: object, memories: ClientStateCache | None = None) -> None:
        self.name = name
        self.dataset: Any = dataset
        self._memories = ClientStateCache() if memories is None else memories

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Answer here."""
        station = self._memories.find(run, self.name)
        if station is None:
            station = ClientSession(self.name, run, self.dataset)
        try:
            return station.call(name, payload)
        finally:
            self._memories.keep(station)

    def __repr__(self) -> str:
        return f"<LocalClient {self.name!r}, {len(self.dataset)} samples>"


class ClientList(Sequence[Any]):
    """Clients that were given one by one.

    Args:
        clients: the clients.
    """

    def __init__(self, clients: list[Any]) -> None:
        names = [client.name for client in clients]
        double, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise FederatedError(f"Two clients are called {double!r}. Each client takes part once.")
        self._clients = clients

    def __len__(self) -> int:
        return len(self._clients)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._clients[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._clients)


def as_clients(given: object, dataset: str | None) -> Sequence[Any]:
    """Return the clients that somebody means.

    Args:
        given: workers, a federated data set, data sets, clients, or anything that gives clients by number.
        dataset: the key of the data set at each worker, if workers are given.
    """
    if isinstance(given, FederatedDataset):
        parts = [given[name] for name in given.workers]
        return ClientList([WorkerClient(part.location, (part.data, part.targets)) for part in parts])
    if isinstance(given, Sequence) and not isinstance(given, list | tuple | str):
        if not len(given):
            raise FederatedError("There are no clients to train with.")
        return given
    if isinstance(given, str | Mapping | torch.Tensor) or not hasattr(given, "__iter__"):
        raise TypeError("clients are workers, a FederatedDataset, a Simulation, or a list of clients.")
    made = [_as_client(number, one, dataset) for number, one in enumerate(given)]
    if not made:
        raise FederatedError("There are no clients to train with.")
    return ClientList(made)


def _as_client(number: int, one: Any, dataset: str | None) -> Any:
    if isinstance(one, AbstractWorker):
        if dataset is None:
            raise TrainingError(
                "Say which data set of the workers to train on: run(..., dataset='key'), the key that its owner gave "
                "it with worker.add_dataset(data, 'key')."
            )
        return WorkerClient(one, dataset)
    if isinstance(one, BaseDataset) and one.location is not None:
        return WorkerClient(one.location, (one.data, one.targets))
    if hasattr(one, "call") and hasattr(one, "name"):
        return one
    if isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(part, torch.Tensor) for part in one):
        place = getattr(one[0], "location", None)
        return (
            LocalClient(f"client-{number}", TensorDataset(*one)) if place is None else WorkerClient(place, tuple(one))
        )
    if hasattr(one, "__len__") and hasattr(one, "__getitem__"):
        return LocalClient(f"client-{number}", one)
    raise TypeError(f"A {type(one).__name__} is no client: give a worker, a data set, or something with name and call.")
