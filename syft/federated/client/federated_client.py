"""FederatedClient: a worker that trains on data sets of its own, for whoever sends it a TrainConfig.

The same methods ask a worker that is elsewhere: see trainer.py for what it does then.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch
from torch.utils.data import default_collate

from syft.config import override
from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER
from syft.core.object_storage import ObjectStorage
from syft.core.references import Ref, TensorMeta
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError
from syft.federated.client.evaluation import Evaluation
from syft.federated.client.fit_loop import AS_TENSORS, Training
from syft.federated.client.fit_service import ADD_DATASET, EVALUATE, FIT, REMOVE_DATASET, FitService, trainer_of
from syft.federated.client.train_config import TrainConfig
from syft.messaging import message as m
from syft.pointers.lease import Lease
from syft.pointers.pointer_tensor import PointerTensor


class FederatedClient(ObjectStorage):
    """Something that holds data sets and trains on them, where they are.

    Args:
        datasets: data sets by key: anything that gives pairs of a sample and its target.
    """

    def __init__(self, datasets: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.__dict__["_trainer"] = FitService(self, datasets)

    @property
    def datasets(self) -> dict[str, Any]:
        """The data sets by key."""
        return trainer_of(self).all()

    @property
    def train_config(self) -> TrainConfig | None:
        """The config that was set here with `set_obj`; those of clients are theirs."""
        own = trainer_of(self).own
        return None if own is None else own.config

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer of that config, once it has trained."""
        own = trainer_of(self).own
        return None if own is None else own.optimizer

    def add_dataset(self, dataset: Any, key: str) -> None:
        """Keep a data set under a key; raises ValueError if the key is taken.

        Args:
            dataset: anything that gives pairs of a sample and its target.
            key: its name.
        """
        trainer_of(self).add(dataset, key)

    def remove_dataset(self, key: str) -> None:
        """Forget a data set; silent if it is not there."""
        trainer_of(self).remove(key)

    def set_obj(self, obj: Any) -> None:
        """Keep an object; a TrainConfig becomes the current one instead, with a new optimizer."""
        if isinstance(obj, TrainConfig):
            trainer_of(self).own = Training(obj)
        else:
            super().set_obj(obj)

    def fit(self, dataset_key: str, device: str = "cpu", **kwargs: Any) -> Any:
        """Train the model of the current config on a data set, in place.

        Args:
            dataset_key: the key of the data set.
            device: where to compute.
            **kwargs: taken and ignored, as in earlier releases.

        Returns:
            The loss of the last batch.
        """
        return trainer_of(self).fit(None, dataset_key, device)

    def evaluate(
        self,
        dataset_key: str,
        return_histograms: bool = False,
        nr_bins: int = -1,
        return_loss: bool = True,
        return_raw_accuracy: bool = True,
        device: str = "cpu",
    ) -> dict[str, Any]:
        """Run the model of the current config over a data set, without changing it.

        Args:
            dataset_key: the key of the data set.
            return_histograms: give `histogram_predictions` and `histogram_target`: how often each class occurs.
            nr_bins: the number of classes; -1 for as many as the model has outputs.
            return_loss: give `loss`, the mean over the samples.
            return_raw_accuracy: give `nr_correct_predictions` and `nr_predictions`. What is predicted is the largest
                output, or with a single one whether it is above one half.
            device: where to compute.
        """
        wanted = Evaluation(return_histograms, nr_bins, return_loss, return_raw_accuracy)
        return trainer_of(self).evaluate(None, dataset_key, device, wanted)


class FederatedCaller:
    """What a client asks of a worker that trains: the methods of FederatedClient, one message out and one back."""

    def fit(self, dataset_key: str, device: str = "cpu", timeout: float | None = None, **kwargs: Any) -> Any:
        """Have the worker train the model of the config that was sent to it, on one of its data sets.

        Args:
            dataset_key: the key of the data set.
            device: where to compute, there.
            timeout: how many seconds to wait at most; None for as long as it takes.
            **kwargs: taken and ignored, as in earlier releases.

        Returns:
            The loss of the last batch; a pointer to it if it may not leave the worker.
        """
        stream = _stream_to(self)
        if stream is None:
            return FederatedClient.fit(self, dataset_key, device)  # type: ignore[arg-type]
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

    async def async_fit(
        self,
        dataset_key: str,
        return_ids: object = None,
        device: str = "cpu",
        timeout: float | None = None,
        **kwargs: object,
    ) -> Any:
        """Have the worker train, while others do too: `await asyncio.gather(alice.async_fit(...), ...)`.

        Args:
            dataset_key: the key of the data set.
            return_ids: kept from earlier releases.
            device: where to compute, there.
            timeout: how many seconds to wait at most; None for as long as it takes.
            **kwargs: taken and ignored, as in earlier releases.
        """
        return await _in_thread(lambda: self.fit(dataset_key, device, timeout))

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
        """Have the worker run the model of the config over one of its data sets; see FederatedClient.evaluate."""
        wanted = (return_histograms, nr_bins, return_loss, return_raw_accuracy)
        stream = _stream_to(self)
        if stream is None:
            return FederatedClient.evaluate(self, dataset_key, *wanted, device)  # type: ignore[arg-type]
        with override(stream_timeout=threading.TIMEOUT_MAX if timeout is None else timeout):
            found: dict[str, Any] = stream.run(EVALUATE, (dataset_key, *wanted, str(device)), {}, None)
        return found


class RemoteFederatedClient(FederatedCaller, FederatedClient):
    """A worker that is elsewhere: its data sets are there too."""

    @property
    def datasets(self) -> dict[str, Any]:
        """Refuse: what is there is not here."""
        raise AttributeError("The data sets of this worker are in another process.")

    def add_dataset(self, dataset: Any, key: str) -> None:
        """Send a data set to the worker, to be kept under a key; its owner alone may do that where a policy holds.

        Args:
            dataset: anything that gives pairs of a sample and its target.
            key: its name.
        """
        as_tensors = AS_TENSORS.get(type(dataset))
        pair = None if as_tensors is None else as_tensors(dataset)
        if pair is None:
            pair = default_collate([dataset[number] for number in range(len(dataset))])
        ids = (ID_PROVIDER.pop(), ID_PROVIDER.pop())
        kept = [m.ObjectMessage(tensor.detach(), i) for tensor, i in zip(pair, ids, strict=True)]
        add = m.Operation(ADD_DATASET, None, (key, *map(Ref, ids)))
        stream = local_worker().stream_to(self)
        claims = [Lease(stream, i) for i in ids]
        stream.post(m.BatchMessage((*kept, add)))
        stream.synchronize()
        claims.clear()  # the data set has the tensors; as objects they go

    def remove_dataset(self, key: str) -> None:
        """Have the worker forget a data set; silent if it is not there."""
        local_worker().stream_to(self).run(REMOVE_DATASET, (key,), {}, None)


def _stream_to(worker: object) -> Any:
    """Return the stream of whoever calls to a worker; None if that is the worker itself."""
    caller = local_worker(required=False)
    return None if caller is None or caller is worker else caller.stream_to(worker)


def _pointer_to(lease: Lease, refused: Exception) -> Any:
    """Return a pointer to a loss that stays at its worker; raise if it was not the loss that was refused."""
    try:
        meta: TensorMeta = lease.stream.describe(Ref(lease.obj_id))
    except ObjectNotFoundError:
        raise refused from None
    return PointerTensor._attach(lease, lease.stream.client, meta).wrap()


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a thread of its own; asyncio's pool has few, and each training holds one for long."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function))
        except Exception as error:
            future.set_exception(error)
        finally:
            future.cancel()  # only if neither has happened

    threading.Thread(target=run, name="syft async_fit", daemon=True).start()
    return await asyncio.wrap_future(future)
