"""Trainer: the data sets of a worker, and what it does when a client asks it to train or to evaluate.

Whoever asks trains with the config that they sent: each session has its own, and the worker itself has one. All of it
goes through the table of DEPUTIES, so it is the same for every kind of worker.

Where a policy holds, a model is trained in a copy that takes its place and derives from the data set too: what a client
got hold of before, such as pointers to its parameters, stays as it was.
"""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import TensorDataset

from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import id_of
from syft.exceptions import NotPermittedError, TrainingError
from syft.messaging.plan.plan import Plan
from syft.pointers.object_wrapper import ObjectWrapper
from syft.workers.evaluation import Evaluation, evaluate
from syft.workers.execution import DEPUTIES, _reaches_others
from syft.workers.flow import bounded_text
from syft.workers.kept_dataset import DATASET, keep, kept_at, kept_keys
from syft.workers.policy import ALLOW_ALL, charge, check_release, may_leave
from syft.workers.private import pair_of, prepare
from syft.workers.provenance import Failure, Rights, Source, known_rights, ledger_of, rights_of, set_rights, user_of
from syft.workers.secure.guard import check_unmasked
from syft.workers.session import Session
from syft.workers.train_config import USE_CONFIG, TrainConfig
from syft.workers.training import AS_TENSORS, Foreseen, Training, foresee_step, unwrapped
from syft.workers.values import is_plain
from syft.workers.visibility import find

logger = logging.getLogger("syft.workers")
FIT, EVALUATE = "syft.fit", "syft.evaluate"
ADD_DATASET, REMOVE_DATASET = "syft.add_dataset", "syft.remove_dataset"
# How many names an error lists.
_SHOWN = 10


class Trainer:
    """The data sets of a worker, and what each client trains with.

    Args:
        worker: the worker, or anything that holds objects.
        datasets: data sets by key.
    """

    def __init__(self, worker: Any, datasets: dict[str, Any] | None = None) -> None:
        self._worker = weakref.ref(worker)  # which holds this trainer
        self.datasets: dict[str, Any] = dict(datasets or {})
        # The worker's own, and one for each session; that of a session goes with it.
        self.own: Training | None = None
        self._by_session: weakref.WeakKeyDictionary[Session, Training] = weakref.WeakKeyDictionary()
        # What stands for a data set in the rights of all that derives from it.
        self._sources: dict[str, Source] = {}

    @property
    def worker(self) -> Any:
        """The worker."""
        return self._worker()

    # --- data sets and configs --------------------------------------------------------------------------------

    def add(self, dataset: Any, key: str) -> None:
        """Keep a data set under a key; for good where the worker has a store, if it is made of two tensors."""
        if type(key) is not str or not key:
            raise TrainingError("The key of a data set is a name, such as 'xor'.")
        if self.has(key):
            raise TrainingError(f"There is a data set {key!r:.50} already; remove_dataset({key!r:.50}) first.")
        keeper = getattr(self.worker.object_store, "keeper", None)
        pair = None if keeper is None else _tensors_of(dataset)
        if pair is not None and all(map(is_plain, pair)):
            # A source of its own: what was said of an earlier one of this name was not said of this one.
            fresh = frozenset({ledger_of(self.worker).source(f"{DATASET}{key}", None)})
            keep(self.worker, key, pair, Rights(None, self._held_sources(pair) or fresh))
            return
        if keeper is not None and keeper.storage is not None:
            logger.warning(
                "The data set %r is Python code, not two tensors, so the store can't keep it: it is gone when the node "
                "stops.",
                key,
            )
        self.datasets[key] = dataset

    def remove(self, key: str) -> None:
        """Forget a data set, on disk too; what derives from it stays restricted."""
        self.datasets.pop(key, None)
        if type(key) is str and kept_at(self.worker, key) is not None:
            self.worker.object_store.remove(f"{DATASET}{key}")

    def has(self, key: str) -> bool:
        """Say whether there is a data set of this name."""
        return key in self.datasets or kept_at(self.worker, key) is not None

    def all(self) -> dict[str, Any]:
        """Return the data sets by key."""
        kept = [] if getattr(self.worker.object_store, "keeper", None) is None else kept_keys(self.worker)
        return {**{key: self.dataset(key) for key in kept}, **self.datasets} if kept else self.datasets

    def dataset(self, key: str) -> Any:
        """Return a data set."""
        found = self.datasets.get(key) if type(key) is str else None
        if found is None and type(key) is str:
            kept = kept_at(self.worker, key)
            found = None if kept is None else kept.dataset
        if found is None:
            keys = [*self.datasets, *kept_keys(self.worker)]
            names = ", ".join(map(repr, keys[:_SHOWN])) or "none"
            raise TrainingError(
                f"Worker {self._name()!r} has no data set {key!r:.50}; it has: {names}. "
                "Its owner adds one with worker.add_dataset(dataset, key)."
            )
        return found

    def use(self, session: Session, config: TrainConfig) -> None:
        """Let a client train with a config from now on."""
        self._by_session[session] = Training(config)

    def training_of(self, session: Session | None) -> Training:
        """Return what a client trains with."""
        found = self.own if session is None else self._by_session.get(session)
        if found is None and self._is_open():
            found = self.own
        if found is None:
            raise TrainingError(f"Worker {self._name()!r} has no TrainConfig of yours: config.send(worker) first.")
        return found

    # --- training ---------------------------------------------------------------------------------------------

    def fit(self, session: Session | None, key: str, device: str) -> torch.Tensor:
        """Train the model of a client, and return the loss of the last batch."""
        self._check_guard(session)
        training, dataset = self.training_of(session), self.dataset(key)
        is_private = training.config.privacy is not None
        if session is not None and not self._is_open():
            fit = self._fit_paid if is_private else self._fit_guarded
            return fit(session, training, key, device)
        model, loss_fn = self._parts(training.config)
        if is_private:
            with training.turn:
                prepared = _prepared(training, model, loss_fn, dataset)
                training.spent = prepared.spent.to_dict()
                loss = training.fit_privately(prepared, model, device, self._watch(session))
            self._touch(training.config._model_id, session)
            return loss
        loss = training.fit(model, loss_fn, dataset, device, self._watch(session))
        self._touch(training.config._model_id, session)
        return loss

    def _fit_paid(self, session: Session, training: Training, key: str, device: str) -> torch.Tensor:
        """Train with differential privacy where a policy holds: the result may leave if the budget was charged."""
        dataset, config = self.dataset(key), training.config
        model, loss_fn = self._parts_of(session, config)
        owner = rights_of(self.worker, config._model_id, model).owner
        trained, judge = _twin(model, config._model_id), _twin(loss_fn)
        training.check(trained, judge, device)
        try:
            foresee_step(trained, judge, dataset, config.batch_size)
        except Foreseen as mistake:
            raise mistake.error from None
        protected = self._dataset_sources(key)
        with training.turn:
            prepared = _prepared(training, trained, judge, dataset, apart=True)
            charged = charge(self.worker, session, protected, prepared.event, "fit")
            training.spent = prepared.spent.to_dict()  # it counts from here on, whatever happens
            loss = training.fit_privately(prepared, trained, device, self._watch(session), instead_of=model)
        parts = [rights_of(self.worker, None, part).sources for part in (model, loss_fn)]
        sources = (protected - charged).union(*parts)
        self._replace(session, config._model_id, model, trained, Rights(owner, sources))
        set_rights(loss, Rights(user_of(session), sources))
        return loss

    def _fit_guarded(self, session: Session, training: Training, key: str, device: str) -> torch.Tensor:
        dataset = self.dataset(key)
        model, loss_fn = self._parts_of(session, training.config)
        model_id = training.config._model_id
        owner, sources = rights_of(self.worker, model_id, model).owner, self._sources_of(key, model, loss_fn)
        trained, judge = _twin(model, model_id), _twin(loss_fn)
        training.check(trained, judge, device)
        try:
            foresee_step(trained, judge, dataset, training.config.batch_size)
            loss = training.fit(trained, judge, dataset, device, self._watch(session), instead_of=model)
        except Foreseen as mistake:
            raise mistake.error from None
        except Exception as error:
            # Whether it fails may be due to values: that is told to those who may have them.
            if may_leave(self.worker, session, model, "error text", sources=sources, probe=True):
                raise
            text = bounded_text(f"{FIT}: {type(error).__name__}: {error}")
            loss, sources = torch.zeros(()), sources | {Failure(text)}
        self._replace(session, model_id, model, trained, Rights(owner, sources))
        set_rights(loss, Rights(user_of(session), sources))
        return loss

    def _replace(self, session: Session, model_id: Any, model: Any, trained: Any, rights: Rights) -> None:
        """Let a trained model take the place of the one that was sent."""
        objects = self.worker.object_store.objects
        if objects.get(model_id) is not model:
            raise TrainingError("The model was fetched or deleted while it was trained.")
        set_rights(trained, rights)
        objects[model_id] = trained
        self._touch(model_id, session)

    def evaluate(self, session: Session | None, key: str, device: str, wanted: Evaluation) -> dict[str, Any]:
        """Run the model of a client over a data set, and return what is wanted to be known."""
        self._check_guard(session)
        training, dataset = self.training_of(session), self.dataset(key)
        if session is None or self._is_open():
            parts = self._parts(training.config)
        else:
            parts = self._parts_of(session, training.config)
            sources = self._sources_of(key, *parts)
            # Of the data, not of the model: whoever may have the model may not have what it tells of the data.
            check_release(self.worker, session, None, "evaluate", sources=sources)
            parts = (_twin(parts[0]), _twin(parts[1]))
        return evaluate(training.config, *parts, dataset, device, wanted)

    def _parts(self, config: TrainConfig) -> tuple[Any, Any]:
        """Return the model and the loss of a config where everything may leave anyway."""
        store = self.worker.object_store
        given = ((config.model, config._model_id, "model"), (config.loss_fn, config._loss_fn_id, "loss_fn"))
        for part, obj_id, role in given:
            if part is None and obj_id is None:
                raise TrainingError(f"The TrainConfig has no {role}.")
        model, loss_fn = (store.get(obj_id) if part is None else part for part, obj_id, _ in given)
        return model, loss_fn

    def _parts_of(self, session: Session, config: TrainConfig) -> tuple[Any, Any]:
        """Return the model and the loss of a client where a policy holds: those that are its own."""
        parts = []
        for obj_id in (config._model_id, config._loss_fn_id):
            if obj_id is None:
                raise TrainingError("The TrainConfig has no model or no loss_fn.")
            part = find(self.worker, session, obj_id)
            if rights_of(self.worker, obj_id, part).owner != user_of(session):
                raise TrainingError("The model or the loss is of somebody else; send one of your own.")
            if _reaches_others(part):
                raise TrainingError("The model or the loss holds pointers, and data of this worker stays here.")
            parts.append(part)
        return parts[0], parts[1]

    # --- what derives from a data set -------------------------------------------------------------------------

    def _sources_of(self, key: str, *parts: Any) -> frozenset[Source]:
        """Return what everything derives from that is computed from a data set with a model and a loss."""
        found = self._dataset_sources(key)
        for part in parts:
            found |= rights_of(self.worker, None, part).sources
        return found

    def _dataset_sources(self, key: str) -> frozenset[Source]:
        """Return the sources of a data set: those of tensors that are held as objects too, or one of its own."""
        if key not in self.datasets and (kept := kept_at(self.worker, key)) is not None:
            return rights_of(self.worker, kept.id, kept).sources
        held = self._held_sources(_tensors_of(self.datasets[key]) or ())
        if held:
            return held
        source = self._sources.get(key)
        if source is None:
            ledger, name = ledger_of(self.worker), f"{DATASET}{key}"
            source = ledger.known(name)
            if source is None or source.owner is not None:
                source = ledger.source(name, None)
            self._sources[key] = source
        return frozenset({source})

    def _held_sources(self, pair: tuple[Any, ...]) -> frozenset[Source]:
        """Return the sources of tensors that are held as objects too; none if one of them is not."""
        objects = self.worker.object_store.objects
        held = [t for t in pair if known_rights(t) is not None or objects.get(id_of(t)) is t]
        if len(held) < len(pair):
            return frozenset()
        return frozenset().union(*(rights_of(self.worker, id_of(t), t).sources for t in held))

    # --- the worker -------------------------------------------------------------------------------------------

    def _touch(self, obj_id: ObjectId | None, session: Session | None) -> None:
        """Say that an object has changed, to whoever keeps objects on a disk."""
        keeper = self.worker.object_store.keeper
        if keeper is not None and obj_id is not None:
            keeper.touch(obj_id, session)

    def _watch(self, session: Session | None) -> Callable[[], None]:
        """Return what raises when a client that was connected is so no longer."""
        if session is None or session not in self.worker._sessions:
            return lambda: None

        def go_on() -> None:
            if session not in self.worker._sessions:
                raise TrainingError("The client that asked for this training is gone.")

        return go_on

    def _check_guard(self, session: Session | None) -> None:
        """Raise if somebody else asks, and the owner wants all that leaves to be masked."""
        if session is not None:
            check_unmasked(self.worker)

    def _is_open(self) -> bool:
        return getattr(self.worker, "policy", ALLOW_ALL) is ALLOW_ALL

    def _name(self) -> Any:
        return getattr(self.worker, "id", None)


def _tensors_of(dataset: Any) -> tuple[Any, Any] | None:
    """Return the two tensors that a data set is made of; None if it is something else."""
    as_tensors = AS_TENSORS.get(type(dataset))
    return None if as_tensors is None else as_tensors(dataset)


def trainer_of(worker: Any) -> Trainer:
    """Return the trainer of a worker, made when first needed."""
    found: Trainer | None = worker.__dict__.get("_trainer")
    if found is None:
        found = worker.__dict__.setdefault("_trainer", Trainer(worker))
    return found


def _prepared(training: Training, model: Any, loss_fn: Any, dataset: Any, apart: bool = False) -> Any:
    """Return a private training with a config, checked, with its price; no sample was looked at."""
    config = training.config
    if config.privacy is None:
        raise TrainingError("This TrainConfig does not train with differential privacy.")
    parts = unwrapped(model), unwrapped(loss_fn), pair_of(dataset)
    return prepare(*parts, config.privacy, config, training.spent, apart=apart)


def _twin(part: Any, obj_id: ObjectId | None = None) -> Any:
    """Return a copy of a model or a loss, with the labels of the original."""
    if isinstance(part, Plan):
        twin = part.copy()
        if obj_id is not None:
            twin.id = obj_id
        return twin
    if not isinstance(part, ObjectWrapper):
        raise TrainingError(f"A {type(part).__name__} is neither a model nor a loss.")
    return ObjectWrapper(copy.deepcopy(part.obj), obj_id, part.tags, part.description, part._owner)


# --- what a worker does when it is asked ----------------------------------------------------------------------


def _use_config(worker: Any, session: Session, config_id: Any) -> None:
    config = find(worker, session, config_id) if is_id(config_id) else None
    if not isinstance(config, TrainConfig):
        raise TrainingError("This is not a TrainConfig.")
    trainer_of(worker).use(session, config)


def _fit(worker: Any, session: Session, key: str, device: str) -> torch.Tensor:
    return trainer_of(worker).fit(session, key, device)


def _evaluate(
    worker: Any, session: Session, key: str, histograms: bool, nr_bins: int, loss: bool, accuracy: bool, device: str
) -> dict[str, Any]:
    wanted = Evaluation(histograms, nr_bins, loss, accuracy)
    return trainer_of(worker).evaluate(session, key, device, wanted)


def _require_owner(worker: Any, session: Session) -> None:
    if worker.policy is not ALLOW_ALL and session.role != "owner":
        raise NotPermittedError(f"The data sets of worker {worker.id!r} are its owner's to add and to remove.")


def _add_dataset(worker: Any, session: Session, key: str, data: Any, targets: Any) -> None:
    _require_owner(worker, session)
    if not isinstance(data, torch.Tensor) or not isinstance(targets, torch.Tensor) or len(data) != len(targets):
        raise TrainingError("A data set is a tensor of samples and one of as many targets.")
    trainer_of(worker).add(TensorDataset(data.detach(), targets.detach()), key)


def _remove_dataset(worker: Any, session: Session, key: str) -> None:
    _require_owner(worker, session)
    trainer_of(worker).remove(key)


DEPUTIES.update(
    {
        USE_CONFIG: _use_config,
        FIT: _fit,
        EVALUATE: _evaluate,
        ADD_DATASET: _add_dataset,
        REMOVE_DATASET: _remove_dataset,
    }
)
