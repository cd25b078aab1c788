"""Commands of a session process that may concern private data: training, DP queries, federated runs and budgets.

On data that the user may read, they run here as on any worker. On private data they run in a program process or in the
vault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId, is_id
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
from syft.grid.isolation.children.worker import SessionWorker, read_value, value_of
from syft.grid.isolation.proxies.objects import PROXIES, Proxy
from syft.grid.isolation.records.items import plain_lists
from syft.messaging.message import Operation
from syft.serde import serialize
from syft.workers.access.tensor_spec import TensorSpec
from syft.workers.budget_client import BUDGET
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.federated.client.training_loop import Training


def _open_dataset(worker: SessionWorker, key: object) -> bool:
    """Register a data set that the user may read with the trainer of this process; False if it is private."""
    if type(key) is not str:
        raise TrainingError(f"The key of a data set is a string, got a {type(key).__name__}.")
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


def dp_query(
    worker: SessionWorker, session: Session, kind: object = None, data: object = None, **settings: object
) -> Any:
    """Answer a DP query: here if the user may read the data, else in a program process, charged to the budget."""
    match data if type(data) is tuple else ():
        case ("object", obj_id) if is_id(obj_id):
            part = None
        case ("dataset", str() as key, str() as part) if part in handler.PARTS:
            obj_id = f"{DATASET}{key}"
            if _open_dataset(worker, key):
                return handler.answer(worker, session, kind, data, **settings)
        case _:
            raise PrivacyError("DP queries take a pointer, or sy.dp.dataset(worker, key).")
    held = worker.object_store.look(obj_id)
    if not isinstance(held, PROXIES):
        return handler.answer(worker, session, kind, data, **settings)
    if obj_id in worker.object_store.objects:
        raise NotPermittedError(
            "This object was computed from private data, so the rows to protect are unknown. Query the published "
            "data, or request the release of this result: ptr.request(reason=...)."
        )
    try:
        answer = worker.services.ask("dp_query", str(kind), obj_id, part, settings)
    except SerdeError as error:
        raise PrivacyError(f"The arguments of this DP query can't be serialized. {error}") from None
    return read_value(worker, answer.body)


# --- federated runs -----------------------------------------------------------------------------------------------


def federated_call(
    worker: SessionWorker, session: Session, name: str, run: str, data: object, payload: object
) -> Payload:
    """Answer a call of a federated run: here on data that the user may read, else in a program process."""
    if type(payload) is not Payload:
        raise TrainingError(f"A call of a federated run needs a Payload, got a {type(payload).__name__}.")
    if not worker.requires_secure and _data_is_readable(worker, data):
        answer: Payload = client_session._answer(worker, session, name, run, data, payload)
        return answer
    found = read_value(
        worker, worker.services.ask("federated_call", name, run, data, body=serialize(payload, worker)).body
    )
    if not isinstance(found, Payload):
        raise TrainingError("The node did not answer a call of a federated run.")
    return found


def _data_is_readable(worker: SessionWorker, data: object) -> bool:
    match data if type(data) is tuple else ():
        case (str() as key,):
            return _open_dataset(worker, key)
        case (samples, targets) if is_id(samples) and is_id(targets):
            return not any(isinstance(worker.object_store.look(one), PROXIES) for one in (samples, targets))
    raise TrainingError("The data of a client is a key, or the ids of samples and targets.")


# --- TrainConfig --------------------------------------------------------------------------------------------------


def fit(worker: SessionWorker, session: Session, key: str, device: str) -> Any:
    """Train the model of a TrainConfig: here, privately as a program, or in the vault."""
    if worker.requires_secure or _open_dataset(worker, key):
        return fit_service._fit(worker, session, key, device)
    training = trainer_of(worker).training_of(session)
    if training.config.privacy is not None:
        return _fit_privately(worker, session, training, key, device)
    return _fit_in_vault(worker, training, key, device)


def _ids_of(training: Training) -> tuple[ObjectId, ObjectId]:
    """Return the ids of the model and the loss of a training."""
    model_id, loss_id = training.config._model_id, training.config._loss_fn_id
    if model_id is None or loss_id is None:
        raise TrainingError("The TrainConfig has no model or no loss function. Send it together with both.")
    return model_id, loss_id


def _fit_privately(worker: SessionWorker, session: Session, training: Training, key: str, device: str) -> torch.Tensor:
    store, (model_id, loss_id) = worker.object_store, _ids_of(training)
    model, loss = store.get(model_id), store.get(loss_id)
    with training.turn:
        body = serialize((training.config, model, loss, training.spent), worker)
        value, trained, training.spent = read_value(worker, worker.services.ask("fit", key, device, body=body).body)
        trained.id = model_id
        trained.tags, trained.description = model.tags, model.description
        store.objects[model_id] = trained
    result: torch.Tensor = value
    return result


def _fit_in_vault(worker: SessionWorker, training: Training, key: str, device: str) -> VaultResult:
    """Train in the vault: the model moves there, and the loss stays there."""
    vault, config = worker.vault, training.config
    model_id, loss_id = _ids_of(training)
    if not isinstance(worker.object_store.look(model_id), PROXIES):
        vault.move(model_id, f"it is trained on the private data set {key!r}")
    if not training.__dict__.get("_is_in_vault"):
        for obj_id, part in ((loss_id, worker.object_store.look(loss_id)), (config.id, config)):
            if not isinstance(part, PROXIES):
                vault.put_copy(obj_id, part)
        vault.post(Operation(USE_CONFIG, None, (config.id,)))
        training.__dict__["_is_in_vault"] = True
    return VaultResult(Operation(FIT, None, (key, device)), Proxy(TensorSpec((), torch.float32, strides=())))


@dataclasses.dataclass(frozen=True, slots=True)
class VaultResult:
    """The result of a command that runs in the vault: its call, sent once the result has an id, and its proxy.

    Attributes:
        operation: the call, without an id for its result.
        proxy: the proxy of the result.
    """

    operation: Operation
    proxy: Proxy

    def in_vault(self, worker: SessionWorker, session: Session, operation: Operation) -> Any:
        """Run the command in the vault, and describe its result."""
        return worker.vault.keep_result(session, self.operation, self.proxy, operation.return_ids)


def evaluate(worker: SessionWorker, session: Session, key: str, *settings: Any) -> dict[str, Any]:
    """Evaluate the model of a TrainConfig on data that the user may read."""
    if worker.requires_secure or _open_dataset(worker, key):
        return fit_service._evaluate(worker, session, key, *settings)
    raise GetNotPermittedError(
        f"evaluate() would release results of the private data set {key!r:.50}. Compute the metric with pointers and "
        'request it with ptr.request(reason="..."), or ask the owner to allow it as a program.'
    )


def add_dataset(worker: SessionWorker, session: Session, key: str, data: object, targets: object) -> None:
    """Publish a data set, for owners of the node."""
    _require_owner(worker, session)
    fit_service._add_dataset(worker, session, key, data, targets)


def remove_dataset(worker: SessionWorker, session: Session, key: str) -> None:
    """Delete a data set, for owners of the node."""
    _require_owner(worker, session)
    trainer_of(worker).datasets.pop(key, None)
    name = f"{DATASET}{key}"
    if name in worker.object_store.objects:
        worker.object_store.remove(name)
    else:
        worker.services.call("remove", name, None)


def _require_owner(worker: SessionWorker, session: Session) -> None:
    if session.role != "owner":
        raise NotPermittedError(f"Only the owner of worker {worker.id!r} may add and remove its data sets.")


# --- budgets ------------------------------------------------------------------------------------------------------


def budget(worker: SessionWorker, session: Session, action: object = None, *rest: object, **settings: object) -> Any:
    """Forward a call about privacy budgets to the supervisor."""
    if rest:
        raise SyftError("Calls about privacy budgets take keyword arguments only.")
    return plain_lists(worker.services.call("budget", action, settings))


def released(worker: SessionWorker, session: Session, request_id: object) -> Payload:
    """Return the released copy of a request as one object."""
    answer = worker.services.ask("fetch", None, str(request_id))
    if isinstance(answer.header, str):
        raise GetNotPermittedError(answer.header or f"There is no request {str(request_id)[:40]!r} of yours.")
    return Payload({"value": read_value(worker, value_of(answer))})


RELEASED = "syft.released"
COMMANDS: dict[str, Callable[..., Any]] = {
    QUERY: dp_query,
    client_session.CLIENT_CALL: federated_call,
    FIT: fit,
    EVALUATE: evaluate,
    ADD_DATASET: add_dataset,
    REMOVE_DATASET: remove_dataset,
    BUDGET: budget,
    RELEASED: released,
}


def install() -> None:
    """Replace the commands of ordinary workers by these, in this process."""
    WORKER_COMMANDS.update(COMMANDS)
