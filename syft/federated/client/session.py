"""ClientSession: runs the rounds of a federated run at a client. It accepts a closed table of calls.

A client is a worker with a data set, or a part of a data set in this process. The same functions serve both; for a
worker a call is one request and one response. A session keeps its state per user and run, so a restarted server
finds it again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

from syft.core.id_provider import is_id
from syft.exceptions import ClientBusyError, SyftError, TrainingError
from syft.federated.client.fit_service import trainer_of
from syft.federated.client.local_round import train
from syft.federated.client.modifiers.dp_sgd import spent
from syft.federated.client.payload import Payload
from syft.federated.client.secure_aggregation import handlers
from syft.federated.client.secure_aggregation.client_policy import check_hidden
from syft.workers.access.policy import ALLOW_ALL, check_release, may_leave
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

CLIENT_CALL = "syft.client"
# Maximum number of runs of one user at one worker; the least recently used is dropped first.
MAX_CLIENT_SESSIONS = 64
MAX_NAME = 200
# Seconds a call waits for an earlier call of the same run, such as one of a server that was killed.
BUSY_SECONDS = 10.0


class ClientCall(NamedTuple):
    """One call that a client session accepts.

    Attributes:
        function: the handler, a function of the client session and the payload.
        derives: whether the result derives from the data, so that the worker's policy must allow it.
        pays: whether a private modifier can pay for the result from a budget.
    """

    function: Callable[[ClientSession, dict[str, Any]], Any]
    derives: bool
    pays: bool = False


CALLS: dict[str, ClientCall] = {
    "train": ClientCall(train, derives=True, pays=True),
    "spent": ClientCall(spent, derives=False),
    "secure.keys": ClientCall(handlers.keys, derives=False),
    "secure.shares": ClientCall(handlers.shares, derives=False),
    "secure.agree": ClientCall(handlers.agree, derives=False),
    "secure.unmask": ClientCall(handlers.unmask, derives=False),
}


class ClientSession:
    """The state of one run at one client; without a worker, a client simulated in this process."""

    def __init__(self, name: str, run: str, dataset: object, worker: BaseWorker | None = None) -> None:
        self.name = name
        self.run = run
        self.worker = worker
        self.session: Session | None = None
        # State that calls of this run keep from round to round.
        self.memory: dict[str, Any] = {}
        # Whether a private modifier paid for the result of the current call.
        self.is_paid = False
        self._dataset = dataset
        # Calls run one at a time: two trainings would overwrite each other's state.
        self._turn = threading.Lock()

    @property
    def dataset(self) -> Any:
        """The data set."""
        return self._dataset

    @property
    def is_guarded(self) -> bool:
        """Whether a policy decides which results leave the client."""
        return self.worker is not None and self.worker.policy is not ALLOW_ALL

    def __len__(self) -> int:
        return len(self.dataset)

    def watch(self) -> Callable[[], None]:
        """Return a function that raises once the requesting client has disconnected. It is called before each batch."""
        return (lambda: None) if self.worker is None else trainer_of(self.worker)._watch(self.session)

    def call(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Run a call and return its result."""
        function, derives, _ = call_of(name)
        if derives:
            check_hidden(self, name, payload.get("modifiers"))
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise ClientBusyError(f"Client {self.name!r} is still busy with an earlier call of this run.")
        try:
            self.is_paid = False
            answer = function(self, payload)
        finally:
            self._turn.release()
        return {} if answer is None else dict(answer)


def call_of(name: object) -> ClientCall:
    """Return the registered call, or raise TrainingError if there is none."""
    found = CALLS.get(name) if type(name) is str else None
    if found is None:
        raise TrainingError(f"The call {str(name)[:50]!r} of a federated run is unknown to this client.")
    return found


# --- client sessions of a worker ------------------------------------------------------------------------------


_Mine = OrderedDict[tuple[Any, ...], ClientSession]


class ClientSessions:
    """The client sessions of one worker, by user, run and data."""

    def __init__(self) -> None:
        self._by_user: dict[Any, _Mine] = {}
        self._lock = threading.Lock()

    def find(self, worker: Any, session: Session, run: str, data: Any) -> ClientSession:
        """Return the session of a user's run; creates it on first use."""
        if type(run) is not str or not 0 < len(run) <= MAX_NAME:
            raise TrainingError(f"The name of a federated run must be a string of 1 to {MAX_NAME} characters.")
        dataset, key = _data_of(worker, data), (run, *data)
        with self._lock:
            # Without user names, knowing the run's id, which is hard to guess, proves that the run is the user's.
            user = None if worker.policy is ALLOW_ALL else session.client_id
            mine = self._by_user.setdefault(user, OrderedDict())
            client = mine.get(key)
            if client is None:
                client = mine[key] = ClientSession(str(worker.id), run, dataset, worker)
            mine.move_to_end(key)
            while len(mine) > MAX_CLIENT_SESSIONS:
                mine.popitem(last=False)
        client._dataset, client.session = dataset, session  # refreshed: the data may have been removed
        return client


def _data_of(worker: BaseWorker, data: object) -> Any:
    """Return the data set named by a key or by the ids of two tensors."""
    if type(data) is tuple and len(data) == 1:
        return trainer_of(worker).dataset(data[0])
    if type(data) is not tuple or len(data) != 2 or not all(map(is_id, data)):
        raise TrainingError("The data of a client must be named by a key, or by the ids of samples and targets.")
    pair = [worker.object_store.get(obj_id) for obj_id in data]
    if not all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in pair) or len(pair[0]) != len(pair[1]):
        raise TrainingError("The data of a client must be a tensor of samples and a tensor of as many targets.")
    return TensorDataset(*pair)


def client_sessions_of(worker: BaseWorker) -> ClientSessions:
    """Return the client sessions of a worker; creates them on first use."""
    found: ClientSessions | None = worker.__dict__.get("_client_sessions")
    if found is None:
        found = worker.__dict__.setdefault("_client_sessions", ClientSessions())
    return found


def _answer(worker: BaseWorker, session: Session, name: str, run: str, data: object, payload: object) -> Payload:
    """Handle a call from a server. A result that may not leave is not computed."""
    call = call_of(name)
    if type(payload) is not Payload:
        raise TrainingError("A call of a federated run needs a Payload.")
    client = client_sessions_of(worker).find(worker, session, run, data)
    if not client.is_guarded:
        return Payload(client.call(name, payload.contents))
    modifiers = payload.contents.get("modifiers")
    is_private = call.pays and type(modifiers) is dict and bool(PRIVATE_MODIFIERS & modifiers.keys())
    if call.derives and not is_private:
        check_release(worker, session, None, f"federated {name}")
    answer = _reported(client, name, payload.contents, is_private and call.derives)
    if is_private and call.derives and not client.is_paid:
        check_release(worker, session, None, f"federated {name}")
    return Payload(answer)


# Modifiers that make the result differentially private: they pay in advance and set `is_paid` of the session.
PRIVATE_MODIFIERS = frozenset({"dp_sgd"})


def _reported(client: ClientSession, name: str, payload: dict[str, Any], is_private: bool) -> dict[str, Any]:
    """Run a call. Error texts that may depend on values are replaced if the policy keeps values here."""
    try:
        return client.call(name, payload)
    except Exception as error:
        keeps = is_private and not may_leave(client.worker, client.session, None, "error text")
        if not keeps or isinstance(error, SyftError):
            raise
        raise TrainingError(
            f"Training failed on worker {client.name!r}. Its policy does not release the details."
        ) from None


WORKER_COMMANDS[CLIENT_CALL] = _answer
