"""Clients: the holders of data in a federated run, as seen by the server.

A client has a `name` that is unique in the run, `is_here`, whether its calls run in this process, so that threads would
not help, and `call(run, name, payload, timeout)`, which makes a call of `syft.federated.client.session` and returns its
result.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import TensorDataset

from syft.config import override
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER
from syft.display.facts import FactList, Shown, rows_of
from syft.exceptions import FederatedError, TrainingError
from syft.federated.client.payload import Payload
from syft.federated.client.session import CLIENT_CALL, ClientSession
from syft.federated.dataset import BaseDataset, FederatedDataset
from syft.messaging import message as m
from syft.pointers.lease import Lease
from syft.workers.abstract import AbstractWorker
from syft.workers.virtual import VirtualWorker

# Maximum number of runs for which local clients keep state.
MAX_RUNS = 16


class WorkerClient(Shown):
    """A worker and a data set at it: its key, or pointers to samples and targets."""

    def __init__(self, worker: Any, data: Any) -> None:
        self.worker = worker
        self.name = str(worker.id)
        # A pointer keeps its object alive.
        self._pointers = None if isinstance(data, str) else data
        self._data = (data,) if isinstance(data, str) else tuple(pointer.id_at_location for pointer in data)
        self.is_here = type(worker) is VirtualWorker and not worker.is_threaded

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Call the worker: one request and one response."""
        stream = local_worker().stream_to(self.worker)
        base = ID_PROVIDER.pop()
        ask = m.Operation(CLIENT_CALL, None, (name, run, self._data, Payload(payload)), {}, (base,))
        lease = Lease(stream, base)
        with override(stream_timeout=threading.TIMEOUT_MAX if timeout is None else timeout):
            _, answer = stream.ask(m.BatchMessage((ask, m.ObjectRequestMessage((base, None, "")))))
        lease.spend("it was the answer to a call of a federated run")
        contents: dict[str, Any] = answer.contents
        return contents

    def __repr__(self) -> str:
        return f"<WorkerClient {self.name!r}, {self._data_text()}>"

    def _data_text(self) -> str:
        if self._pointers is None:
            return f"data set {self._data[0]!r}"
        count = rows_of(self._pointers[0])
        return "pointers to its data" if count is None else f"{count} samples"

    def _facts(self) -> FactList:
        return (("name", self.name), ("worker", repr(self.worker)), ("data", self._data_text()))


class ClientStateCache:
    """State of local clients from round to round, by run and name."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[str, ClientSession]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    def find(self, run: str, name: str) -> ClientSession | None:
        """Return the session of a client, if it has state."""
        return self._runs.get(run, {}).get(name)

    def keep(self, session: ClientSession) -> None:
        """Store a session that has state. Most runs need none, so thousands of clients use no memory."""
        if not session.memory:
            self._runs.get(session.run, {}).pop(session.name, None)
            return
        self._runs.setdefault(session.run, {})[session.name] = session
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)


class LocalClient(Shown):
    """A client whose data is in this process, for simulations and tests.

    The clients of a simulation share `memories`, their state from round to round.
    """

    is_here = True

    def __init__(self, name: str, dataset: object, memories: ClientStateCache | None = None) -> None:
        self.name = name
        self.dataset: Any = dataset
        self._memories = ClientStateCache() if memories is None else memories

    def call(self, run: str, name: str, payload: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Run the call in this process."""
        session = self._memories.find(run, self.name)
        if session is None:
            session = ClientSession(self.name, run, self.dataset)
        try:
            return session.call(name, payload)
        finally:
            self._memories.keep(session)

    def _facts(self) -> FactList:
        kind = type(self.dataset).__name__
        return (("name", self.name), ("samples", len(self.dataset)), ("data", kind), ("place", "this process"))

    def __repr__(self) -> str:
        return f"<LocalClient {self.name!r}, {len(self.dataset)} samples>"


def _distinct(clients: list[Any]) -> list[Any]:
    """Return clients; raises if two have the same name."""
    double, times = Counter(client.name for client in clients).most_common(1)[0]
    if times > 1:
        raise FederatedError(f"Two clients are named {double!r}. Each client can take part once.")
    return clients


def as_clients(given: object, dataset: str | None) -> Sequence[Any]:
    """Return the clients for the `clients` argument of `run`."""
    if isinstance(given, FederatedDataset):
        parts = [given[name] for name in given.workers]
        return _distinct([WorkerClient(part.location, (part.data, part.targets)) for part in parts])
    if isinstance(given, Sequence) and not isinstance(given, list | tuple | str):
        if not len(given):
            raise FederatedError("There are no clients to train with.")
        return given
    if isinstance(given, str | Mapping | torch.Tensor) or not hasattr(given, "__iter__"):
        raise TypeError("clients must be workers, a FederatedDataset, a Simulation, or a list of clients.")
    made = [_as_client(number, one, dataset) for number, one in enumerate(given)]
    if not made:
        raise FederatedError("There are no clients to train with.")
    return _distinct(made)


def _as_client(number: int, one: Any, dataset: str | None) -> Any:
    if isinstance(one, AbstractWorker):
        if dataset is None:
            raise TrainingError(
                "Training at workers needs the key of a data set. Pass run(..., dataset='key') with the key from "
                "worker.add_dataset(data, 'key')."
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
    raise TypeError(
        f"{type(one).__name__} is not a client type. Pass a worker, a data set, or an object with name and call."
    )
