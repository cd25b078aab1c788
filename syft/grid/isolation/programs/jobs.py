"""The jobs of program processes: library code on private data whose output may leave the node."""

from __future__ import annotations

import socket
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]
import torch

from syft.core.id_provider import ObjectId
from syft.core.references import Ref
from syft.core.trees import map_tensors
from syft.dp.queries.estimators import QUESTIONS
from syft.dp.queries.handler import PARTS, compute
from syft.dp.queries.table_view import TableFormat
from syft.exceptions import ModelError, NotPermittedError, PrivacyError, SerdeError
from syft.federated.client import session
from syft.federated.client.fit_service import trainer_of
from syft.federated.client.stored_dataset import StoredDataset
from syft.federated.client.train_config import TrainConfig
from syft.grid.isolation.children.worker import NO_LIMIT
from syft.grid.isolation.processes.channel import Channel
from syft.grid.isolation.processes.progress import ProgressPage
from syft.grid.isolation.programs.process import ProgramProcess, job
from syft.grid.isolation.programs.review import job as _review  # noqa: F401  (registers the job)
from syft.grid.isolation.records.call_codec import operation_of
from syft.grid.isolation.records.items import tuples
from syft.grid.isolation.records.record_reader import read_call, read_slice
from syft.grid.isolation.records.replay import describe_copy, describe_plan, replay
from syft.hosting.server import Hosted, HostedModel, failed_inference
from syft.messaging.plan.plan import Plan
from syft.serde import deserialize, serialize


def _value(process: ProgramProcess, body: bytearray) -> Any:
    """Return the object that a user sent with a job."""
    return deserialize(body, process.worker, max_message_bytes=len(body) * 64 + (1 << 20))


@job("dp_query")
def dp_query(
    process: ProgramProcess, body: bytearray, kind: str, obj_id: ObjectId, part: str, settings: dict[str, Any]
) -> bytes:
    """Answer a query with noise. The budget was charged before this process got the data."""
    found = process.data[obj_id]
    tensor = found.contents()[PARTS[part]] if isinstance(found, StoredDataset) else found
    if not isinstance(tensor, torch.Tensor):
        raise PrivacyError(f"DP queries need a tensor, got a {type(tensor).__name__}.")
    settings = {name: tuples(value) for name, value in settings.items()}
    return serialize(compute(QUESTIONS[kind](TableFormat.of(tensor), **settings), tensor), process.worker)


@job("federated_call")
def federated_call(
    process: ProgramProcess,
    body: bytearray,
    name: str,
    run: str,
    data: tuple[ObjectId, ...],
    readable: tuple[ObjectId, ...],
) -> bytes:
    """Answer a call of a federated run."""
    process.note_readable(readable)
    answer = session._answer(process.worker, process.session, name, run, data, _value(process, body))
    return serialize(answer, process.worker)


@job("fit")
def fit_privately(
    process: ProgramProcess, body: bytearray, key: str, device: str, readable: tuple[ObjectId, ...]
) -> bytes:
    """Train a model with differential privacy, and return the loss and the model."""
    process.note_readable(readable)
    config, model, loss, spent = _value(process, body)
    if not isinstance(config, TrainConfig):
        raise SerdeError(f"Training needs a TrainConfig, got a {type(config).__name__}.")
    if config.privacy is None:
        raise NotPermittedError("Only training with differential privacy runs as a program.")
    objects, model_id, loss_id = process.worker.object_store.objects, config._model_id, config._loss_fn_id
    if model_id is None or loss_id is None:
        raise SerdeError("Training needs a TrainConfig with a model and a loss.")
    process.session.keep(model_id, model)
    process.session.keep(loss_id, loss)
    trainer = trainer_of(process.worker)
    trainer.use(process.session, config)
    trainer.training_of(process.session).spent = spent
    value = trainer.fit(process.session, key, device)
    spent = trainer.training_of(process.session).spent
    return serialize((value.detach(), objects[model_id], spent), process.worker)


@job("plan")
def run_plan(process: ProgramProcess, body: bytearray, max_outputs: int, size: int) -> bytes:
    """Run an allowed plan: the owner's copy, on data sets and on values of the user."""
    view = memoryview(body)
    plan = deserialize(view[:size], process.worker, max_message_bytes=1 << 40)
    if not isinstance(plan, Plan):
        raise SerdeError("An allowed program is a plan.")
    operation = operation_of(read_call(view[size:]), process.worker)

    def local(leaf: object) -> object:
        if type(leaf) is not Ref:
            return leaf
        if leaf.attribute is not None or leaf.id not in process.data:
            raise SerdeError("An allowed program reads only the data sets of its rule, unchanged.")
        return process.data[leaf.id]

    args, kwargs = map_tensors(local, operation.cmd_args[1:]), map_tensors(local, operation.cmd_kwargs)
    result = map_tensors(lambda leaf: leaf.detach(), plan(*args, **kwargs))
    count = _count(result)
    if count > max_outputs:
        raise NotPermittedError(f"The program gives {count} numbers, and its rule allows {max_outputs}.")
    return serialize(result, process.worker)


def _count(result: object) -> int:
    """Return how many numbers the output of a program holds."""
    if isinstance(result, torch.Tensor):
        return result.numel() * (2 if result.is_complex() else 1)
    if isinstance(result, dict):
        return sum(map(_count, result.values()))
    if isinstance(result, tuple | list):
        return sum(map(_count, result))
    if result is None or isinstance(result, bool | int | float):
        return 1
    raise SerdeError(f"An allowed program gives tensors and numbers, not a {type(result).__name__}.")


@job("describe_plan")
def describe(process: ProgramProcess, body: bytearray) -> bytes:
    """Return the hash and the code of a plan."""
    packed: bytes = msgpack.packb(describe_plan(bytes(body)))
    return packed


@job("describe_copy")
def describe_sealed(process: ProgramProcess, body: bytearray) -> bytes:
    """Return the shape of a sealed tensor, and a description of each object in a sealed copy."""
    packed: bytes = msgpack.packb(describe_copy(body))
    return packed


@job("replay")
def replay_calls(process: ProgramProcess, body: bytearray, *ids: ObjectId) -> bytes:
    """Run recorded calls again, and return the sealed copy of their result."""
    return replay(read_slice(body), ids, process.data)


@job("infer")
def ask_model(process: ProgramProcess, body: bytearray, obj_id: ObjectId, may_download: bool) -> bytes:
    """Run a hosted model on values of the user. Users who may download the model may read every error."""
    hosted = process.data[obj_id]
    if not isinstance(hosted, HostedModel):
        raise SerdeError("This model is encrypted. Use mpc=True.")
    args = tuple(_value(process, body))
    try:
        return serialize(hosted.run(args), process.worker)
    except ModelError:
        raise
    except Exception as error:
        raise failed_inference(process.worker, hosted, args, error, may_download) from None


@job("model_details")
def describe_model(process: ProgramProcess, body: bytearray, obj_id: ObjectId) -> bytes:
    """Return the public details of a hosted model, with the model itself if it may be downloaded."""
    hosted = process.data[obj_id]
    if not isinstance(hosted, Hosted):
        raise SerdeError("This is not a hosted model.")
    return serialize(hosted.details(), process.worker)


def main(fds: list[int], settings: dict[str, Any]) -> None:
    """Serve the supervisor until it closes the channel."""
    channel, page = fds
    ProgramProcess(Channel(socket.socket(fileno=channel), NO_LIMIT), ProgressPage(page), settings).run()
