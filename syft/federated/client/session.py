"""ClientSession: runs the rounds of a federated run at a client. It accepts a closed table of calls.

A client is a worker with a data set, or a part of a data set in this process. Either way the same functions answer;
for a worker a call is one message out and one back. What a station remembers is kept by user and run, so that a server
that was restarted finds it again.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

from syft.core.id_provider import is_id
from syft.exceptions import ClientBusyError, SyftError, TrainingError
from syft.federated.client.fit_loop import AS_TENSORS, Pair, batches
from syft.federated.client.fit_service import trainer_of
from syft.federated.client.payload import Payload
from syft.federated.client.secure_aggregation.client_policy import check_hidden
from syft.workers.access.policy import ALLOW_ALL, check_release, may_leave
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

STATION = "syft.station"
# How many runs a user can have going on at one worker: what was used longest ago is forgotten first.
MAX_STATIONS = 64
MAX_NAME = 200
# How long a call waits for an earlier one of the same run, such as one of a server that was killed meanwhile.
BUSY_SECONDS = 10.0


class ClientCall(NamedTuple):
    """One thing that can be asked of a station.

    Attributes:
        function: what answers: a function of the station and what came along.
        derives: whether the answer derives from the data, so that the policy of a worker is asked.
        pays: whether a private term among its terms pays for the answer from a budget.
    """

    function: Callable[[ClientSession, dict[str, Any]], Any]
    derives: bool
    pays: bool


CALLS: dict[str, ClientCall] = {}
# Calls whose module is loaded when one of them is first asked for.
HOMES: dict[str, str] = {
    "train": "syft.federated.client.local_training",
    "spent": "syft.federated.client.modifiers.dp_sgd",
    **dict.fromkeys(
        ("secure.keys", "secure.shares", "secure.agree", "secure.unmask"),
        "syft.federated.client.secure_aggregation.handlers",
    ),
}


def answers(name: str, derives: bool = True, pays: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function answer the call of this name.

    Args:
        name: the name.
        derives: whether what it returns derives from the data of the client.
        pays: whether a private term pays for what it returns; any other call needs a grant.
    """

    def take(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in CALLS:
            raise ValueError(f"There is a call {name!r} already.")
        CALLS[name] = ClientCall(function, derives, pays)
        return function

    return take


class ClientSession:
    """A client of one run, as the client itself sees it.

    Args:
        name: what the client is called in the run.
        run: the id of the run.
        dataset: anything that gives pairs of a sample and its target, or a function that returns it.
        worker: the worker it is at; None for a client that is simulated in this process.
    """

    def __init__(self, name: str, run: str, dataset: object, worker: BaseWorker | None = None) -> None:
        self.name = name
        self.run = run
        self.worker = worker
        self.session: Session | None = None
        # What a call of this run wants to remember from round to round.
        self.memory: dict[str, Any] = {}
        # Whether a private term paid for the answer of the call under way.
        self.is_paid = False
        self._dataset = dataset
        # One call after the other: two trainings would step over each other.
        self._turn = threading.Lock()

    @property
    def dataset(self) -> Any:
        """The data set."""
        return self._dataset

    @property
    def is_guarded(self) -> bool:
        """Whether a policy decides what leaves."""
        return self.worker is not None and self.worker.policy is not ALLOW_ALL

    def __len__(self) -> int:
        return len(self.dataset)

    def watch(self) -> Callable[[], None]:
        """Return what raises when whoever asked is gone: called before each batch."""
        return _nothing if self.worker is None else trainer_of(self.worker)._watch(self.session)

    def tensors(self) -> Pair:
        """Return the samples and the targets as two tensors."""
        as_tensors = AS_TENSORS.get(type(self.dataset))
        pair = None if as_tensors is None else as_tensors(self.dataset)
        if pair is not None:
            return pair[0].detach(), pair[1].detach()
        found = list(batches(self.dataset, max(1, len(self.dataset)), shuffle=False))
        if not found:
            raise TrainingError(f"Client {self.name!r} has no samples.")
        return found[0]

    def batches(self, batch_size: int, shuffle: bool, generator: torch.Generator | None = None) -> Iterator[Pair]:
        """Yield the batches of one epoch, as copies.

        Args:
            batch_size: how many samples are in a batch.
            shuffle: whether the order is another one each time.
            generator: what decides the order; torch's own if None.
        """
        return batches(self.dataset, batch_size, shuffle, generator)

    def call(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Answer a call.

        Args:
            name: the name of the call.
            payload: what came along with it.
        """
        function, derives, _ = call_of(name)
        if derives:
            check_hidden(self, name, payload.get("terms"))
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise ClientBusyError(f"Client {self.name!r} is still busy with an earlier call of this run.")
        try:
            self.is_paid = False
            answer = function(self, payload)
        finally:
            self._turn.release()
        return {} if answer is None else dict(answer)

    def __repr__(self) -> str:
        return f"<Station of {self.name!r} in run {self.run[:8]}>"


def _nothing() -> None:
    """Do nothing."""


def call_of(name: object) -> ClientCall:
    """Return what answers a call, or refuse it."""
    if type(name) is str and name not in CALLS and name in HOMES:
        importlib.import_module(HOMES[name])
    found = CALLS.get(name) if type(name) is str else None
    if found is None:
        raise TrainingError(f"A client does not know the call {str(name)[:50]!r} of a federated run.")
    return found


# --- stations of a worker -------------------------------------------------------------------------------------


_Mine = OrderedDict[tuple[Any, ...], ClientSession]


class ClientSessions:
    """The stations of one worker, by user, run and data."""

    def __init__(self) -> None:
        self._by_user: dict[Any, _Mine] = {}
        self._lock = threading.Lock()

    def find(self, worker: Any, session: Session, run: str, data: Any) -> ClientSession:
        """Return the station of a user's run, made when it is first asked for."""
        if type(run) is not str or not 0 < len(run) <= MAX_NAME:
            raise TrainingError("A federated run has a name.")
        dataset, key = _data_of(worker, data), (run, *data)
        with self._lock:
            # Where clients have no names, the id of the run, which is hard to guess, shows that it is theirs.
            user = None if worker.policy is ALLOW_ALL else session.client_id
            mine = self._by_user.setdefault(user, OrderedDict())
            station = mine.get(key)
            if station is None:
                station = mine[key] = ClientSession(str(worker.id), run, dataset, worker)
            mine.move_to_end(key)
            while len(mine) > MAX_STATIONS:
                mine.popitem(last=False)
        station._dataset, station.session = dataset, session  # as they are now: data can be removed
        return station


def _data_of(worker: BaseWorker, data: object) -> Any:
    """Return the data set that a client names, by a key or by the ids of two tensors."""
    if type(data) is tuple and len(data) == 1:
        return trainer_of(worker).dataset(data[0])
    if type(data) is not tuple or len(data) != 2 or not all(map(is_id, data)):
        raise TrainingError("The data of a client is named by a key, or by the ids of samples and targets.")
    pair = [worker.object_store.get(obj_id) for obj_id in data]
    if not all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in pair) or len(pair[0]) != len(pair[1]):
        raise TrainingError("The data of a client is a tensor of samples and one of as many targets.")
    return TensorDataset(*pair)


def stations_of(worker: BaseWorker) -> ClientSessions:
    """Return the stations of a worker, made when first needed."""
    found: ClientSessions | None = worker.__dict__.get("_stations")
    if found is None:
        found = worker.__dict__.setdefault("_stations", ClientSessions())
    return found


def _answer(worker: BaseWorker, session: Session, name: str, run: str, data: object, parcel: object) -> Payload:
    """Answer a call of a client; an answer that may not leave is not even computed."""
    call = call_of(name)
    if type(parcel) is not Payload:
        raise TrainingError("A call of a federated run comes with a parcel.")
    station = stations_of(worker).find(worker, session, run, data)
    if not station.is_guarded:
        return Payload(station.call(name, parcel.contents))
    terms = parcel.contents.get("terms")
    is_private = call.pays and type(terms) is dict and bool(PRIVATE_TERMS & terms.keys())
    if call.derives and not is_private:
        check_release(worker, session, None, f"federated {name}")
    answer = _reported(station, name, parcel.contents, is_private and call.derives)
    if is_private and call.derives and not station.is_paid:
        check_release(worker, session, None, f"federated {name}")
    return Payload(answer)


# Terms that make the answer differentially private: they pay for it before, and set `station.is_paid`.
PRIVATE_TERMS = frozenset({"dp_sgd"})


def _reported(station: ClientSession, name: str, payload: dict[str, Any], is_private: bool) -> dict[str, Any]:
    """Answer a call; the text of an error that values may have caused stays here if they do."""
    try:
        return station.call(name, payload)
    except Exception as error:
        keeps = is_private and not may_leave(station.worker, station.session, None, "error text")
        if not keeps or isinstance(error, SyftError):
            raise
        raise TrainingError(
            f"Training failed on worker {station.name!r}; its policy keeps the details there."
        ) from None


WORKER_COMMANDS[STATION] = _answer
