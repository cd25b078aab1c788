"""FitService: the data sets of a worker, and the handlers for training and evaluation requests.

Each session trains with the config that it sent; the worker itself has one too. Requests arrive through
WORKER_COMMANDS, so they work the same on every kind of worker.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import TensorDataset

from syft._suggestions import did_you_mean
from syft.core.context import local_worker
from syft.core.id_provider import ObjectId, is_id
from syft.exceptions import NotPermittedError, TrainingError
from syft.federated.client.dp_training import prepare, step_seconds_of
from syft.federated.client.evaluation import Evaluation, evaluate
from syft.federated.client.secure_aggregation.client_policy import check_unmasked
from syft.federated.client.stored_dataset import DATASET, find_stored, store_dataset, stored_keys
from syft.federated.client.train_config import USE_CONFIG, TrainConfig
from syft.federated.client.training_loop import Training, pair_of, predict_step, tensors_of, unwrapped
from syft.workers.access.policy import ALLOW_ALL, check_release, pay
from syft.workers.execution.copies import is_plain
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

logger = logging.getLogger("syft.workers")
FIT, EVALUATE = "syft.fit", "syft.evaluate"
ADD_DATASET, REMOVE_DATASET = "syft.add_dataset", "syft.remove_dataset"
# Maximum number of names in an error text.
_SHOWN = 10


class FitService:
    """The data sets of a worker and the trainings of its clients."""

    def __init__(self, worker: object, datasets: dict[str, Any] | None = None) -> None:
        self._worker = weakref.ref(worker)  # the worker holds this service
        self.datasets: dict[str, Any] = dict(datasets or {})
        # The worker's own training, and one for each session, dropped with the session.
        self.own: Training | None = None
        self._by_session: weakref.WeakKeyDictionary[Session, Training] = weakref.WeakKeyDictionary()

    @property
    def worker(self) -> Any:
        """The worker."""
        return self._worker()

    @property
    def _name(self) -> Any:
        return getattr(self.worker, "id", None)

    # --- data sets and configs --------------------------------------------------------------------------------

    def add(self, dataset: object, key: str) -> None:
        """Add a data set under a key. Two tensors are stored on disk if the worker has storage."""
        if type(key) is not str or not key:
            raise TrainingError("The key of a data set must be a non-empty string, such as 'xor'.")
        if self.has(key):
            raise TrainingError(f"The data set {key!r:.50} already exists. Call remove_dataset({key!r:.50}) first.")
        object_manager = getattr(self.worker.object_store, "object_manager", None)
        pair = None if object_manager is None else tensors_of(dataset)
        if pair is not None and all(map(is_plain, pair)):
            store_dataset(self.worker, key, pair)
            return
        if object_manager is not None and object_manager.storage is not None:
            logger.warning(
                "The data set %r is Python code, not two tensors, so it can't be stored: it is lost when the node "
                "stops.",
                key,
            )
        self.datasets[key] = dataset

    def remove(self, key: str) -> None:
        """Remove a data set, also from disk."""
        self.datasets.pop(key, None)
        if type(key) is str and find_stored(self.worker, key) is not None:
            self.worker.object_store.remove(f"{DATASET}{key}")

    def replace_all(self, datasets: dict[str, Any]) -> None:
        """Replace all data sets."""
        if getattr(self.worker.object_store, "object_manager", None) is None:
            self.datasets = datasets
            return
        for key in list(self.all()):
            self.remove(key)
        for key, dataset in datasets.items():
            self.add(dataset, key)

    def has(self, key: str) -> bool:
        """Return whether a data set of this name exists."""
        return key in self.datasets or find_stored(self.worker, key) is not None

    def all(self) -> dict[str, Any]:
        """Return the data sets by key."""
        kept = [] if getattr(self.worker.object_store, "object_manager", None) is None else stored_keys(self.worker)
        return {**{key: self.dataset(key) for key in kept}, **self.datasets} if kept else self.datasets

    def dataset(self, key: str) -> Any:
        """Return a data set, or raise TrainingError if there is none under this key."""
        found = self.datasets.get(key) if type(key) is str else None
        if found is None and type(key) is str:
            kept = find_stored(self.worker, key)
            found = None if kept is None else kept.dataset
        if found is None:
            keys = [*self.datasets, *stored_keys(self.worker)]
            names = ", ".join(map(repr, keys[:_SHOWN])) or "none"
            raise TrainingError(
                f"Worker {self._name!r} has no data set {key!r:.50}; it has: {names}.{did_you_mean(key, keys)} "
                "Its owner adds one with worker.add_dataset(dataset, key)."
            )
        return found

    def use(self, session: Session, config: TrainConfig) -> None:
        """Set the config of a client's session."""
        config.location = self.worker
        self._by_session[session] = Training(config)

    def set_own(self, config: TrainConfig | None) -> None:
        """Set the worker's own config; without a policy its clients use it too, until they send another one."""
        self.own = None if config is None else Training(config)
        if self._is_open():
            self._by_session.clear()

    @property
    def current(self) -> Training | None:
        """The training of the config that the local worker of this process sent; else the worker's own."""
        caller = local_worker(required=False)
        for session, training in list(self._by_session.items()):
            if caller is not None and session.client_id == caller.id and not session.is_closed:
                return training
        return self.own

    def training_of(self, session: Session | None) -> Training:
        """Return the training of a client's session."""
        found = self.own if session is None else self._by_session.get(session)
        if found is None and self._is_open():
            found = self.own
        if found is None:
            raise TrainingError(f"Worker {self._name!r} has no TrainConfig of yours. Call config.send(worker) first.")
        return found

    def _find(self, session: Session | None, key: str) -> tuple[Training, Any]:
        """Return a training and a data set; raises if another user calls and the owner requires masked results."""
        if session is not None:
            check_unmasked(self.worker)
        return self.training_of(session), self.dataset(key)

    # --- training ---------------------------------------------------------------------------------------------

    def fit(self, session: Session | None, key: str, device: str) -> torch.Tensor:
        """Train the model of a client and return the loss of the last batch."""
        training, dataset = self._find(session, key)
        config, watch = training.config, self._watch(session)
        model, loss_fn = self._parts(config)
        if config.privacy is None:
            loss = training.fit(model, loss_fn, dataset, device, watch)
        else:
            guarded = session is not None and not self._is_open()
            if guarded:  # errors that follow from shapes are raised before paying
                training.check(model, loss_fn, device)
                predict_step(model, loss_fn, dataset, config.batch_size)
            with training.turn:
                seconds = step_seconds_of(self.worker) if guarded else None
                parts = unwrapped(model), unwrapped(loss_fn), pair_of(dataset)
                prepared = prepare(*parts, config.privacy, config, training.spent, 1, guarded, seconds)
                if guarded and not pay(self.worker, prepared.event, "fit"):
                    check_release(self.worker, session, model, "fit", obj_id=config._model_id)
                training.spent = prepared.spent.to_dict()  # it counts from here on, even if training fails
                loss = training.fit_privately(prepared, model, device, watch)
        self._touch(config._model_id, session)
        return loss

    def evaluate(self, session: Session | None, key: str, device: str, wanted: Evaluation) -> dict[str, Any]:
        """Run the model of a client over a data set and return the requested results."""
        training, dataset = self._find(session, key)
        if session is not None and not self._is_open():
            check_release(self.worker, session, dataset, "evaluate", obj_id=f"{DATASET}{key}")
        return evaluate(training.config, *self._parts(training.config), dataset, device, wanted)

    def _parts(self, config: TrainConfig) -> tuple[Any, Any]:
        """Return the model and the loss of a config."""
        store = self.worker.object_store
        given = ((config.model, config._model_id, "model"), (config.loss_fn, config._loss_fn_id, "loss_fn"))
        for part, obj_id, role in given:
            if part is None and obj_id is None:
                raise TrainingError(
                    f"The TrainConfig has no {role}. Pass one, TrainConfig({role}=...), or its id at the worker, "
                    f"{role}_id=..., and send the config again."
                )
        model, loss_fn = (store.get(obj_id) if part is None else part for part, obj_id, _ in given)
        return model, loss_fn

    # --- the worker -------------------------------------------------------------------------------------------

    def _touch(self, obj_id: ObjectId | None, session: Session | None) -> None:
        """Notify the storage, if any, that an object has changed."""
        object_manager = self.worker.object_store.object_manager
        if object_manager is not None and obj_id is not None:
            object_manager.touch(obj_id, session)

    def _watch(self, session: Session | None) -> Callable[[], None]:
        """Return a function that raises once the client has disconnected."""
        if session is None or session not in self.worker._sessions:
            return lambda: None

        def check_cancelled() -> None:
            if session not in self.worker._sessions:
                raise TrainingError("The client that requested this training has disconnected.")

        return check_cancelled

    def _is_open(self) -> bool:
        return getattr(self.worker, "policy", ALLOW_ALL) is ALLOW_ALL


def trainer_of(worker: object) -> FitService:
    """Return the FitService of a worker; creates it on first use."""
    found: FitService | None = worker.__dict__.get("_trainer")
    if found is None:
        found = worker.__dict__.setdefault("_trainer", FitService(worker))
    return found


# --- command handlers of a worker -----------------------------------------------------------------------------


def _use_config(worker: Any, session: Session, config_id: Any) -> None:
    config = worker.object_store.get(config_id) if is_id(config_id) else None
    if not isinstance(config, TrainConfig):
        raise TrainingError("The object is not a TrainConfig.")
    trainer_of(worker).use(session, config)


def _fit(worker: BaseWorker, session: Session, key: str, device: str) -> torch.Tensor:
    return trainer_of(worker).fit(session, key, device)


def _evaluate(
    worker: BaseWorker,
    session: Session,
    key: str,
    histograms: bool,
    nr_bins: int,
    loss: bool,
    accuracy: bool,
    device: str,
) -> dict[str, Any]:
    wanted = Evaluation(histograms, nr_bins, loss, accuracy)
    return trainer_of(worker).evaluate(session, key, device, wanted)


def _require_owner(worker: BaseWorker, session: Session) -> None:
    if worker.policy is not ALLOW_ALL and session.role != "owner":
        raise NotPermittedError(f"Only the owner of worker {worker.id!r} may add or remove its data sets.")


def _add_dataset(worker: BaseWorker, session: Session, key: str, data: object, targets: object) -> None:
    _require_owner(worker, session)
    if not isinstance(data, torch.Tensor) or not isinstance(targets, torch.Tensor) or len(data) != len(targets):
        raise TrainingError("A data set must be a tensor of samples and a tensor of as many targets.")
    trainer_of(worker).add(TensorDataset(data.detach(), targets.detach()), key)


def _remove_dataset(worker: BaseWorker, session: Session, key: str) -> None:
    _require_owner(worker, session)
    trainer_of(worker).remove(key)


WORKER_COMMANDS.update(
    {
        USE_CONFIG: _use_config,
        FIT: _fit,
        EVALUATE: _evaluate,
        ADD_DATASET: _add_dataset,
        REMOVE_DATASET: _remove_dataset,
    }
)
