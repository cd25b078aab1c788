"""FederatedClient: a worker that trains on its own data sets with the TrainConfig of a client.

The same methods call a remote worker; fit_service.py handles those calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

from syft.config import override
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER
from syft.core.object_storage import ObjectStorage
from syft.core.references import Ref, TensorMeta
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError, TrainingError
from syft.federated.client.evaluation import Evaluation
from syft.federated.client.fit_service import ADD_DATASET, EVALUATE, FIT, REMOVE_DATASET, FitService, trainer_of
from syft.federated.client.train_config import TrainConfig
from syft.federated.client.training_loop import pair_of
from syft.messaging import message as m
from syft.pointers.lease import Lease
from syft.pointers.pointer_tensor import PointerTensor


class FederatedClient(ObjectStorage):
    """Holds data sets and trains on them locally.

    Args:
        datasets: data sets by key. Each yields pairs of a sample and its target.
    """

    def __init__(self, datasets: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.__dict__["_trainer"] = FitService(self, datasets)

    @property
    def datasets(self) -> dict[str, Any]:
        """The data sets by key; they can be assigned."""
        return trainer_of(self).all()

    @datasets.setter
    def datasets(self, datasets: dict[str, Any] | None) -> None:
        trainer_of(self).replace_all({} if datasets is None else datasets)

    @property
    def train_config(self) -> TrainConfig | None:
        """The config that was assigned, or that this process sent here. Assigning one begins with a new optimizer."""
        current = trainer_of(self).current
        return None if current is None else current.config

    @train_config.setter
    def train_config(self, config: TrainConfig | None) -> None:
        if config is not None and not isinstance(config, TrainConfig):
            raise TrainingError(f"train_config must be a TrainConfig or None, got a {type(config).__name__}.")
        self._check_assignable("train_config", "Send the config to it: config.send(worker).")
        trainer_of(self).set_own(config)

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer of `train_config`; None before the first training. If it is set to None, `fit` builds one."""
        current = trainer_of(self).current
        return None if current is None else current.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: torch.optim.Optimizer | None) -> None:
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise TrainingError(f"optimizer must be a torch.optim.Optimizer or None, got a {type(optimizer).__name__}.")
        self._check_assignable("optimizer", "Name one in the config: TrainConfig(..., optimizer='Adam').")
        current = trainer_of(self).current
        if current is not None:
            current.assign(optimizer)
        elif optimizer is not None:
            raise TrainingError("An optimizer belongs to a TrainConfig. Assign client.train_config first.")

    def _check_assignable(self, name: str, advice: str) -> None:
        """Raise AttributeError if the training state is in another process."""

    def add_dataset(self, dataset: Any, key: str) -> None:
        """Add a data set under a key; raises ValueError if the key exists.

        Args:
            dataset: yields pairs of a sample and its target.
            key: its name.
        """
        trainer_of(self).add(dataset, key)

    def remove_dataset(self, key: str) -> None:
        """Remove a data set; does nothing if it does not exist."""
        trainer_of(self).remove(key)

    def set_obj(self, obj: Any) -> None:
        """Store an object. A TrainConfig becomes the current config instead, with a new optimizer."""
        if isinstance(obj, TrainConfig):
            trainer_of(self).set_own(obj)
        else:
            super().set_obj(obj)

    def fit(self, dataset_key: str, device: str = "cpu", timeout: float | None = None, **kwargs: Any) -> Any:
        """Train the model of the current config on a data set of the worker, in place.

        Args:
            dataset_key: the key of the data set.
            device: the device to compute on, at the worker.
            timeout: maximum seconds to wait for a remote worker; None for no limit.
            **kwargs: accepted and ignored, as in earlier releases.

        Returns:
            The loss of the last batch, or a pointer to it if it may not leave the worker.
        """
        stream = self._training_stream()
        if stream is None:
            return trainer_of(self).fit(None, dataset_key, device)
        base = ID_PROVIDER.pop()
        operation = m.Operation(FIT, None, (dataset_key, str(device)), {}, (base,))
        lease = Lease(stream, base)
        try:
            with override(stream_timeout=threading.TIMEOUT_MAX if timeout is None else timeout):
                _, loss = stream.ask(m.BatchMessage((operation, m.ObjectRequestMessage((base, None, "")))))
        except GetNotPermittedError as refused:
            return _pointer_to(lease, refused)
        lease.spend("it was the loss of a training")
        return loss

    def evaluate(
        self,
        dataset_key: str,
        return_histograms: bool = False,
        nr_bins: int = -1,
        return_loss: bool = True,
        return_raw_accuracy: bool = True,
        device: str = "cpu",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Evaluate the model of the current config on a data set of the worker, without changing the model.

        Args:
            dataset_key: the key of the data set.
            return_histograms: return `histogram_predictions` and `histogram_target`, the counts of each class.
            nr_bins: the number of classes; -1 for as many as the model has outputs.
            return_loss: return `loss`, the mean over the samples.
            return_raw_accuracy: return `nr_correct_predictions` and `nr_predictions`. The prediction is the largest
                output, or for a single output whether it is above one half.
            device: the device to compute on.
            timeout: maximum seconds to wait for a remote worker; None for no limit.
        """
        wanted = (return_histograms, nr_bins, return_loss, return_raw_accuracy)
        stream = self._training_stream()
        if stream is None:
            return trainer_of(self).evaluate(None, dataset_key, device, Evaluation(*wanted))
        with override(stream_timeout=threading.TIMEOUT_MAX if timeout is None else timeout):
            found: dict[str, Any] = stream.run(EVALUATE, (dataset_key, *wanted, str(device)), {}, None)
        return found

    def _training_stream(self) -> Any:
        """Return the caller's stream to this client; None if it trains here."""
        return None


class FederatedCaller:
    """Sends the requests of FederatedClient to a worker: one request and one response each."""

    def _training_stream(self) -> Any:
        caller = local_worker(required=False)
        return None if caller is None or caller is self else caller.stream_to(self)

    async def async_fit(
        self,
        dataset_key: str,
        return_ids: object = None,
        device: str = "cpu",
        timeout: float | None = None,
        **kwargs: object,
    ) -> Any:
        """Train concurrently with other workers: `await asyncio.gather(alice.async_fit(...), ...)`.

        Args:
            dataset_key: the key of the data set.
            return_ids: ignored, as in earlier releases.
            device: the device to compute on, at the worker.
            timeout: maximum seconds to wait; None for no limit.
            **kwargs: accepted and ignored, as in earlier releases.
        """
        return await _in_thread(lambda: self.fit(dataset_key, device, timeout))  # type: ignore[attr-defined]


class RemoteFederatedClient(FederatedCaller, FederatedClient):
    """A remote worker, whose data sets are remote too."""

    @property
    def datasets(self) -> dict[str, Any]:
        """Raise AttributeError: the data sets are at the worker."""
        raise AttributeError("The data sets of this worker are in another process.")

    @datasets.setter
    def datasets(self, datasets: dict[str, Any] | None) -> None:
        raise AttributeError("The data sets of this worker are in another process. Call worker.add_dataset(...).")

    def _check_assignable(self, name: str, advice: str) -> None:
        raise AttributeError(f"The {name} of this worker is in another process. {advice}")

    def add_dataset(self, dataset: Any, key: str) -> None:
        """Send a data set to the worker and add it under a key. If a policy is set, only the owner may do this.

        Args:
            dataset: yields pairs of a sample and its target.
            key: its name.
        """
        pair = pair_of(dataset)
        ids = (ID_PROVIDER.pop(), ID_PROVIDER.pop())
        kept = [m.ObjectMessage(tensor.detach(), i) for tensor, i in zip(pair, ids, strict=True)]
        add = m.Operation(ADD_DATASET, None, (key, *map(Ref, ids)))
        stream = local_worker().stream_to(self)
        claims = [Lease(stream, i) for i in ids]
        stream.post(m.BatchMessage((*kept, add)))
        stream.synchronize()
        claims.clear()  # the data set holds the tensors; the separate objects are not needed

    def remove_dataset(self, key: str) -> None:
        """Remove a data set at the worker; does nothing if it does not exist."""
        local_worker().stream_to(self).run(REMOVE_DATASET, (key,), {}, None)


def _pointer_to(lease: Lease, refused: Exception) -> Any:
    """Return a pointer to a loss that stays at its worker; reraise if something else was refused."""
    try:
        meta: TensorMeta = lease.stream.describe(Ref(lease.obj_id))
    except ObjectNotFoundError:
        raise refused from None
    return PointerTensor._attach(lease, lease.stream.client, meta).wrap()


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in its own thread: trainings would exhaust asyncio's small thread pool."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function))
        except Exception as error:
            future.set_exception(error)
        finally:
            future.cancel()  # does nothing if the future is done

    threading.Thread(target=run, name="syft async_fit", daemon=True).start()
    return await asyncio.wrap_future(future)
