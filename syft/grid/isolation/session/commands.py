"""Commands of a session process that may concern private data: training, DP queries, federated runs and budgets.

On data that the user may read, they run here as on any worker. On private data they run as a program of the library
in a process of its own, or in the vault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syft.core.id_provider import is_id
from syft.dp.queries import QUERY, handler
from syft.exceptions import (
    GetNotPermittedError,
    NotPermittedError,
    ObjectNotFoundError,
    PrivacyError,
    SerdeError,
    SyftError,
    TrainingError,
)
from syft.federated.client import fit_service
from syft.federated.client import session as client_session
from syft.federated.client.fit_service import ADD_DATASET, EVALUATE, FIT, REMOVE_DATASET, trainer_of
from syft.federated.client.payload import Payload
from syft.federated.client.stored_dataset import DATASET, StoredDataset
from syft.federated.client.train_config import USE_CONFIG
from syft.grid.isolation.children.worker import value_of
from syft.grid.isolation.proxies.calls import ObjectProxy, Proxy
from syft.grid.isolation.records.items import plain_lists
from syft.messaging.message import Operation
from syft.serde import deserialize, serialize
from syft.workers.access.tensor_spec import TensorSpec
from syft.workers.budget_client import BUDGET
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

_PROXIES = (Proxy, ObjectProxy)
_NO_LIMIT = 1 << 62


def _read(worker: Any, body: Any) -> Any:
    return deserialize(body, worker, max_message_bytes=_NO_LIMIT, owns_buffer=True)


def _is_readable(worker: Any, *ids: Any) -> bool:
    return not any(isinstance(worker.object_store.look(obj_id), _PROXIES) for obj_id in ids)


def _open_dataset(worker: Any, key: Any) -> bool:
    """Make a data set that the user may read known to the trainer of this process; False if it is private."""
    if type(key) is not str:
        raise TrainingError("A data set is named by its key.")
    own = trainer_of(worker)
    try:
        held = worker.object_store.look(f"{DATASET}{key}")
    except ObjectNotFoundError:
        own.datasets.pop(key, None)
        names = ", ".join(map(repr, worker.services.call("datasets")[:10])) or "none"
        raise TrainingError(
            f"Worker {worker.id!r} has no data set {key!r:.50}; it has: {names}. Its owner adds one with "
            "worker.add_dataset(dataset, key)."
        ) from None
    if isinstance(held, StoredDataset):
        own.datasets[key] = held.dataset
        return True
    own.datasets.pop(key, None)
    return False


# --- DP queries ---------------------------------------------------------------------------------------------------


def dp_query(worker: Any, session: Session, kind: Any = None, data: Any = None, **settings: Any) -> Any:
    """Answer a question about data: here if the user may read it, else with noise that the owner's budget pays for."""
    match data if type(data) is tuple else ():
        case ("object", obj_id) if is_id(obj_id):
            part = None
        case ("dataset", str() as key, str() as part) if part in handler.PARTS:
            obj_id = f"{DATASET}{key}"
            if _open_dataset(worker, key):
                return handler.answer(worker, session, kind, data, **settings)
        case _:
            raise PrivacyError("Questions are about a pointer, or sy.dp.dataset(worker, key).")
    held = worker.object_store.look(obj_id)
    if not isinstance(held, _PROXIES):
        return handler.answer(worker, session, kind, data, **settings)
    if obj_id in worker.object_store.objects:
        raise NotPermittedError(
            "This is computed from private data, so the rows it protects are not known. Ask about the published data "
            "itself, or have this result released: ptr.request(reason=...)."
        )
    try:
        answer = worker.services.ask("dp_query", str(kind), obj_id, part, settings)
    except SerdeError as error:
        raise PrivacyError(f"The arguments of this question can't be passed on. {error}") from None
    return _read(worker, answer.body)


# --- federated runs -----------------------------------------------------------------------------------------------


def federated_call(worker: Any, session: Session, name: str, run: str, data: Any, parcel: Any) -> Payload:
    """Answer a call of a federated run: here on data that the user may read, else in a process of the library."""
    if type(parcel) is not Payload:
        raise TrainingError("A call of a federated run comes with a parcel.")
    if not worker.requires_secure and _data_is_readable(worker, data):
        answer: Payload = client_session._answer(worker, session, name, run, data, parcel)
        return answer
    found = _read(worker, worker.services.ask("station", name, run, data, body=serialize(parcel, worker)).body)
    if not isinstance(found, Payload):
        raise TrainingError("The node did not answer a call of a federated run.")
    return found


def _data_is_readable(worker: Any, data: Any) -> bool:
    match data if type(data) is tuple else ():
        case (str() as key,):
            return _open_dataset(worker, key)
        case (samples, targets) if is_id(samples) and is_id(targets):
            return _is_readable(worker, samples, targets)
    raise TrainingError("The data of a client is named by a key, or by the ids of samples and targets.")


# --- TrainConfig --------------------------------------------------------------------------------------------------


def fit(worker: Any, session: Session, key: str, device: str) -> Any:
    """Train the model of a TrainConfig: here, privately as a program, or in the vault."""
    if worker.requires_secure or _open_dataset(worker, key):
        return fit_service._fit(worker, session, key, device)
    training = trainer_of(worker).training_of(session)
    if training.config.privacy is not None:
        return _fit_privately(worker, session, training, key, device)
    return _fit_in_vault(worker, training, key, device)


def _fit_privately(worker: Any, session: Session, training: Any, key: str, device: str) -> torch.Tensor:
    config, store = training.config, worker.object_store
    model, loss = store.get(config._model_id), store.get(config._loss_fn_id)
    with training.turn:
        body = serialize((config, model, loss, training.spent), worker)
        value, trained, training.spent = _read(worker, worker.services.ask("fit", key, device, body=body).body)
        trained.id = config._model_id
        trained.tags, trained.description = model.tags, model.description
        store.objects[config._model_id] = trained
    result: torch.Tensor = value
    return result


def _fit_in_vault(worker: Any, training: Any, key: str, device: str) -> Any:
    """Train in the vault: the model moves there, and the loss stays there too."""
    vault, config = worker.vault, training.config
    model = worker.object_store.look(config._model_id)
    if not isinstance(model, _PROXIES):
        vault.move(config._model_id, f"it is trained on the private data set {key!r}")
    if not training.__dict__.get("_is_in_vault"):
        for obj_id, part in ((config._loss_fn_id, worker.object_store.look(config._loss_fn_id)), (config.id, config)):
            if not isinstance(part, _PROXIES):
                vault.put_copy(obj_id, part)
        vault.post(Operation(USE_CONFIG, None, (config.id,)))
        training.__dict__["_is_in_vault"] = True
    return VaultResult(Operation(FIT, None, (key, device)), Proxy(TensorSpec((), torch.float32, strides=())))


class VaultResult:
    """The result of a command that runs in the vault: the call to send, once the result has an id, and its proxy.

    Args:
        operation: the call, without an id for its result.
        proxy: the proxy of the result.
    """

    def __init__(self, operation: Operation, proxy: Proxy) -> None:
        self.operation = operation
        self.proxy = proxy

    def in_vault(self, worker: Any, session: Session, operation: Operation) -> Any:
        """Have the command run in the vault, and describe its result."""
        return worker.vault.keep_result(session, self.operation, self.proxy, operation.return_ids)


def evaluate(worker: Any, session: Session, key: str, *wanted: Any) -> dict[str, Any]:
    """Evaluate the model of a TrainConfig on data that the user may read."""
    if worker.requires_secure or _open_dataset(worker, key):
        return fit_service._evaluate(worker, session, key, *wanted)
    raise GetNotPermittedError(
        f"evaluate() would release what the model does on the private data set {key!r:.50}. Compute the figure with "
        'pointers and ask for it with ptr.request(reason="..."), or ask the owner to allow it as a program.'
    )


def add_dataset(worker: Any, session: Session, key: str, data: Any, targets: Any) -> None:
    """Publish a data set, for owners of the node."""
    _require_owner(worker, session)
    fit_service._add_dataset(worker, session, key, data, targets)


def remove_dataset(worker: Any, session: Session, key: str) -> None:
    """Delete a data set, for owners of the node."""
    _require_owner(worker, session)
    trainer_of(worker).datasets.pop(key, None)
    name = f"{DATASET}{key}"
    if name in worker.object_store.objects:
        worker.object_store.remove(name)
    else:
        worker.services.call("remove", name, None)


def _require_owner(worker: Any, session: Session) -> None:
    if session.role != "owner":
        raise NotPermittedError(f"The data sets of worker {worker.id!r} are its owner's to add and to remove.")


# --- budgets ------------------------------------------------------------------------------------------------------


def budget(worker: Any, session: Session, action: Any = None, *rest: Any, **settings: Any) -> Any:
    """Pass a question about privacy budgets on to the supervisor."""
    if rest:
        raise SyftError("A question about privacy budgets has named arguments only.")
    return plain_lists(worker.services.call("budget", action, settings))


def released(worker: Any, session: Session, request_id: Any) -> Any:
    """Return the released copy of a request, as one object whatever it holds."""
    answer = worker.services.ask("fetch", None, str(request_id))
    if isinstance(answer.header, str):
        raise GetNotPermittedError(answer.header or f"There is no request {str(request_id)[:40]!r} of yours.")
    return Payload({"value": _read(worker, value_of(answer))})


RELEASED = "syft.released"
COMMANDS: dict[str, Callable[..., Any]] = {
    QUERY: dp_query,
    client_session.STATION: federated_call,
    FIT: fit,
    EVALUATE: evaluate,
    ADD_DATASET: add_dataset,
    REMOVE_DATASET: remove_dataset,
    BUDGET: budget,
    RELEASED: released,
}


def install() -> None:
    """Let these commands take the place of those of ordinary workers, in this process."""
    WORKER_COMMANDS.update(COMMANDS)
