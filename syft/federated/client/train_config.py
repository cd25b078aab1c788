"""TrainConfig: the settings with which a worker trains a model on its own data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from syft._suggestions import one_of
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId, is_id, short_id
from syft.core.object import AbstractObject
from syft.display.facts import FactList, Shown
from syft.exceptions import SerdeError, TrainingError
from syft.federated.client.dp_settings import SampleSettings, settings_from
from syft.messaging import message as m
from syft.messaging.plan.optimizers import KINDS
from syft.messaging.plan.plan import Plan
from syft.pointers.lease import Lease
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.remote_call import pointer_kinds
from syft.serde import register
from syft.workers.execution.copies import prepare_transfer
from syft.workers.execution.execute import kind_of

if TYPE_CHECKING:
    from syft.workers.abstract import AbstractWorker
    from syft.workers.base import BaseWorker

# The command that selects a config for a session; see fit_service.py.
USE_CONFIG = "syft.use_train_config"
_SCRIPTS = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
_NUMBERS = (bool, int, float, type(None))
# The worker decides how torch computes a step.
_NOT_SETTINGS = frozenset({"params", "foreach", "fused", "capturable", "differentiable", "param_names"})
MAX_COUNT = 2**31 - 1
# Settings that are part of a round of a federated run, in the order of the wire format.
ROUND_SETTINGS = ("batch_size", "epochs", "optimizer", "optimizer_args", "max_nr_batches", "shuffle")
MAX_SETTINGS = 32


def _named(optimizer: Any) -> Any:
    """Return the name of an optimizer class of torch.optim; other values unchanged."""
    is_of_torch = isinstance(optimizer, type) and getattr(torch.optim, optimizer.__name__, None) is optimizer
    return optimizer.__name__ if is_of_torch else optimizer


class Sent(NamedTuple):
    """Pointers to the parts of a config at one worker; None for a part that was there before."""

    config: Any
    model: Any
    loss_fn: Any


class TrainConfig(Shown, AbstractObject):
    """A model, a loss and training settings. Once sent to a worker, `worker.fit(key)` trains with them.

    The model and the loss are plans, which every worker accepts, or script modules and functions, which are code and
    need `worker.trusts_script_modules`. The loss receives the model's output and the target: an argument named
    `target` receives the target; otherwise the order is output, target.

    Args:
        model: a built plan, or a script module; None if `model_id` names one at the worker.
        loss_fn: a built plan, or a script module or function; None if `loss_fn_id` names one at the worker.
        owner: the worker it belongs to.
        batch_size: number of samples in a batch.
        epochs: number of passes over the data set.
        optimizer: the name of an optimizer of `torch.optim`, or its class.
        optimizer_args: the optimizer's settings, plain numbers by name.
        id: its id.
        max_nr_batches: maximum number of batches over all epochs; -1 for no limit.
        shuffle: whether to draw a new order of the samples for each epoch.
        loss_fn_id: the id of the loss at the worker; set by `send`.
        model_id: the id of the model at the worker; set by `send`.
        privacy: a `sy.dp.SamplePrivacy` for differentially private training (DP-SGD); None for none. `fit` then
            returns NaN instead of a loss, and batches are drawn at random, regardless of `shuffle`.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> alice = sy.VirtualWorker(hook, id="config-alice")
        >>> data, target = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [3.0]])
        >>> alice.add_dataset(sy.BaseDataset(data, target), "line")
        >>> model = torch.nn.Linear(1, 1)
        >>> plan = sy.Plan(forward_func=model).build(data)
        >>> loss = sy.Plan(forward_func=torch.nn.MSELoss()).build(target, target)
        >>> config = sy.TrainConfig(plan, loss, batch_size=2, epochs=200, optimizer_args={"lr": 0.5})
        >>> pointer = config.send(alice)
        >>> bool(alice.fit("line") < 0.01)
        True
        >>> trained = config.get_model()
    """

    pointer_kind = "train_config"

    def __init__(
        self,
        model: object = None,
        loss_fn: object = None,
        owner: object = None,
        batch_size: int = 32,
        epochs: int = 1,
        optimizer: str | type[torch.optim.Optimizer] = "SGD",
        optimizer_args: dict[str, Any] | None = None,
        id: ObjectId | None = None,
        max_nr_batches: int = -1,
        shuffle: bool = True,
        loss_fn_id: ObjectId | None = None,
        model_id: ObjectId | None = None,
        privacy: SampleSettings | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner)
        self.model = model
        self.loss_fn = loss_fn
        self.batch_size = batch_size
        self.epochs = epochs
        # The name is sent: a class would be code.
        self.optimizer = _named(optimizer)
        self.optimizer_args = {"lr": 0.1} if optimizer_args is None else dict(optimizer_args)
        self.max_nr_batches = max_nr_batches
        self.shuffle = shuffle
        self.privacy = privacy
        self._model_id = model_id
        self._loss_fn_id = loss_fn_id
        # The worker that has the config; None before it is sent.
        self.location: Any = None
        # By worker, so that one config can train at several at once. `model_ptr` points to the last one.
        self._sent: dict[ObjectId, Sent] = {}
        self._last: Sent | None = None

    @property
    def model_ptr(self) -> Any:
        """The pointer to the model where the config was sent last; None before that."""
        return None if self._last is None else self._last.model

    @property
    def loss_fn_ptr(self) -> Any:
        """The pointer to the loss where the config was sent last; None before that."""
        return None if self._last is None else self._last.loss_fn

    def check(self) -> None:
        """Raise if the settings are invalid."""
        for name, least in (("batch_size", 1), ("epochs", 1), ("max_nr_batches", -1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= MAX_COUNT:
                raise TrainingError(
                    f"{name} of a TrainConfig must be an integer of at least {least}, got {value!r:.50}."
                )
        if type(self.shuffle) is not bool:
            raise TrainingError("shuffle of a TrainConfig must be True or False.")
        if type(self.optimizer) is not str or self.optimizer not in KINDS:
            raise TrainingError(
                f"The optimizer {self.optimizer!r:.50} is unknown. {one_of(self.optimizer, sorted(KINDS))}"
            )
        settings = self.optimizer_args
        if type(settings) is not dict or len(settings) > MAX_SETTINGS or not all(map(_is_setting, settings.items())):
            raise TrainingError("optimizer_args of a TrainConfig must be plain numbers by name, such as {'lr': 0.1}.")
        if self.privacy is not None and not isinstance(self.privacy, SampleSettings):
            raise TrainingError("privacy of a TrainConfig must be None or sy.dp.SamplePrivacy(noise_multiplier=1.0).")

    # --- sending --------------------------------------------------------------------------------------------

    def send(self, location: AbstractWorker) -> Any:
        """Send the model, the loss and the settings to a worker and select them for training there.

        The model and the loss stay there, as plans and ObjectWrappers do, until they are fetched. Sending again starts
        over, with the local model and a new optimizer; the worker then deletes the earlier model and loss.

        Args:
            location: the worker.

        Returns:
            A pointer to the config there.
        """
        self.check()
        owner = local_worker()
        place = owner.get_worker(location, fail_hard=True)
        stream = owner.stream_to(place)
        parts = [
            None if part is None else _sendable(part, role)
            for part, role in ((self.model, "model"), (self.loss_fn, "loss_fn"))
        ]
        known = (self._model_id if self.model is None else None, self._loss_fn_id if self.loss_fn is None else None)
        ids = [old if part is None else ID_PROVIDER.pop() for part, old in zip(parts, known, strict=True)]
        settings = self._settings(*ids)
        config_id = owner._id_for(self, place)
        objects = [(part, i) for part, i in zip(parts, ids, strict=True) if part is not None] + [(settings, config_id)]
        # Claims are created first, so that objects that arrived are released if a later one fails.
        pointers = {i: pointer_kinds[kind_of(obj)]._attach(Lease(stream, i), owner) for obj, i in objects}
        for obj, _ in objects:
            prepare_transfer(obj, place)
        use = m.Operation(USE_CONFIG, None, (config_id,))
        stream.post(m.BatchMessage((*(m.ObjectMessage(obj, i) for obj, i in objects), use)))
        stream.synchronize()  # a refusal of script modules is raised here, not at the next call
        self._model_id, self._loss_fn_id = ids
        self.location = place
        self._last = Sent(pointers[config_id], *(None if i is None else pointers.get(i) for i in ids))
        earlier = self._sent.get(place.id)
        self._sent[place.id] = self._last
        for sent, is_owned in ((earlier, True), (self._last, False)):
            for part in () if sent is None else (sent.model, sent.loss_fn):
                if part is not None and part.lease.spent is None:
                    part.lease.owned, part.lease.kept = is_owned, not is_owned
        return self._last.config

    def _settings(self, model_id: ObjectId | None, loss_fn_id: ObjectId | None) -> TrainConfig:
        """Return the config to send: the settings and the ids of the model and the loss at the worker."""
        return TrainConfig(
            id=self.id, model_id=model_id, loss_fn_id=loss_fn_id, privacy=self.privacy, **self.round_settings()
        )

    def round_settings(self) -> dict[str, Any]:
        """Return the settings of each round of a federated run, by name."""
        return {name: getattr(self, name) for name in ROUND_SETTINGS}

    def get(self, location: AbstractWorker) -> TrainConfig:  # type: ignore[override]
        """Fetch the settings from a worker, which then no longer has the config.

        Args:
            location: the worker.
        """
        owner = local_worker()
        place = owner.get_worker(location, fail_hard=True)
        sent = self._sent.get(place.id)
        found: TrainConfig = owner.request_obj(self.id, place) if sent is None else sent.config.get()
        return found

    def get_model(self, location: Any = None) -> Any:
        """Fetch the trained model: a plan, or a wrapper with the module as `.obj`; None if there is none.

        Args:
            location: the worker; None for the one that the config was sent to last.
        """
        return self._fetched(self.model, "model", location)

    def get_loss_fn(self, location: Any = None) -> Any:
        """Fetch the loss; None if there is none.

        Args:
            location: the worker; None for the one that the config was sent to last.
        """
        return self._fetched(self.loss_fn, "loss_fn", location)

    def _fetched(self, part: object, name: str, location: AbstractWorker) -> Any:
        if part is None:
            return None
        sent = self._last
        if location is not None:
            sent = self._sent.get(local_worker().get_worker(location, fail_hard=True).id)
        if sent is None:
            raise TrainingError("This TrainConfig was not sent to that worker. Call config.send(worker) first.")
        return getattr(sent, name).get()

    def _facts(self) -> FactList:
        yield from (("id", short_id(self.id)), ("epochs", self.epochs), ("batch_size", self.batch_size))
        settings = ", ".join(f"{name}={value}" for name, value in self.optimizer_args.items())
        yield "optimizer", f"{self.optimizer}({settings})"
        if self.max_nr_batches >= 0:
            yield "max_nr_batches", self.max_nr_batches
        yield from (("shuffle", self.shuffle), ("privacy", None if self.privacy is None else repr(self.privacy)))
        for name, part, there in (("model", self.model, self._model_id), ("loss_fn", self.loss_fn, self._loss_fn_id)):
            kind = getattr(part, "name", None) or type(part).__name__
            yield name, kind if part is not None else None if there is None else f"at the worker, {short_id(there)}"
        yield "sent to", ", ".join(map(str, self._sent))

    def __repr__(self) -> str:
        return (
            f"<TrainConfig id:{self.id} epochs:{self.epochs} batch_size:{self.batch_size} "
            f"optimizer:{self.optimizer} {self.optimizer_args}>"
        )

    # --- serialization --------------------------------------------------------------------------------------

    @staticmethod
    def simplify(worker: BaseWorker, train_config: TrainConfig) -> tuple[Any, ...]:
        """Return the settings and the ids of the model and the loss, which are sent separately."""
        settings = train_config.round_settings().values()
        parts = (train_config._model_id, train_config._loss_fn_id, *settings, train_config.id)
        # Privacy is appended only if set: workers of earlier releases accept the other parts.
        return parts if train_config.privacy is None else (*parts, train_config.privacy.to_dict())

    @staticmethod
    def detail(worker: BaseWorker, train_config_tuple: tuple[Any, ...]) -> TrainConfig:
        """Rebuild a config from untrusted parts; raises SerdeError or TrainingError if it is invalid."""
        parts, rest = train_config_tuple[:9], train_config_tuple[9:]
        model_id, loss_fn_id, *values, own_id = parts
        settings = dict(zip(ROUND_SETTINGS, values, strict=True))
        if len(rest) > 1:
            raise SerdeError("A TrainConfig has too many parts.")
        if not all(part is None or is_id(part) for part in (model_id, loss_fn_id)) or not is_id(own_id):
            raise SerdeError("A TrainConfig must name itself, its model and its loss by their ids.")
        if type(settings["optimizer_args"]) is not dict:
            raise SerdeError("The optimizer_args of a TrainConfig must be numbers by name.")
        privacy = settings_from(rest[0]) if rest else None
        config = TrainConfig(
            owner=worker, id=own_id, model_id=model_id, loss_fn_id=loss_fn_id, privacy=privacy, **settings
        )
        config.check()
        return config


def _is_setting(item: tuple[Any, Any]) -> bool:
    name, value = item
    parts = value if type(value) in (tuple, list) else (value,)
    return (
        type(name) is str and name not in _NOT_SETTINGS and len(parts) <= 8 and all(type(p) in _NUMBERS for p in parts)
    )


def _sendable(part: object, role: str) -> AbstractObject:
    """Return a model or a loss as an object that can be sent."""
    if isinstance(part, Plan):
        if not part.is_built:
            raise TrainingError(f"The {role} is a plan that is not built. Call plan.build(example) first.")
        return part
    if isinstance(part, ObjectWrapper):
        return part
    if isinstance(part, _SCRIPTS):
        return ObjectWrapper(part)
    raise TrainingError(
        f"The {role} is a {type(part).__name__}, Python code that can't be sent. Record it as a plan: "
        f"sy.Plan(forward_func={role}).build(example), or trace it: torch.jit.trace({role}, example)."
    )


pointer_kinds[TrainConfig.pointer_kind] = ObjectPointer
register(TrainConfig, code=163)
