"""Messages about hosted models in a session process: the supervisor keeps models, programs answer for them."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import ObjectMeta
from syft.exceptions import ModelError
from syft.grid.isolation.children.worker import value_of
from syft.grid.isolation.records.items import write_item
from syft.grid.isolation.session.routes import answers
from syft.grid.storage.interface import Item
from syft.grid.storage.quotas import memory_of
from syft.hosting.server import Hosted, HostedModel, id_of_model
from syft.messaging import hosting as m
from syft.messaging.hosting import check_name
from syft.messaging.plan.plan import Plan
from syft.mpc.serving.server import EncryptedModel
from syft.serde import deserialize, serialize
from syft.workers.execution.router import OutgoingCopy
from syft.workers.execution.session import Session

_NO_LIMIT = 1 << 62


def host(worker: Any, hosted: Hosted) -> None:
    """Have the supervisor store a model."""
    item = Item(
        hosted.id,
        ObjectMeta("model"),
        frozenset(hosted.tags),
        hosted.description,
        memory=sum(memory_of(hosted).values()),
    )
    worker.services.call("host_model", hosted.name, write_item(item), body=serialize(hosted, worker))


@answers(m.HostModelMessage)
def host_model(worker: Any, session: Session, message: m.HostModelMessage) -> None:
    """Host a model."""
    flags = message.allow_download, message.allow_remote_inference
    host(worker, HostedModel(check_name(message.name), message.contents, *flags, message.inputs))


@answers(m.HostSharesMessage)
def host_shares(worker: Any, session: Session, message: m.HostSharesMessage) -> None:
    """Host this party's part of an encrypted model."""
    model = EncryptedModel.detail(worker, (message.name, message.allow_remote_inference, message.contents))
    if worker.id not in model.parties:
        raise ModelError(f"Worker {worker.id!r} is not one of the parties of the model {model.name!r}.")
    if not model.keys:
        raise ModelError(
            f"Node {worker.id!r} hosts encrypted models only if the keys of all parties and of the dealer come "
            "along. Host the model with grid.serve_model(..., mpc=True) of this version."
        )
    if model.keys[model.parties.index(worker.id)] != worker.acquaintances.prover.key.fingerprint:
        raise ModelError(f"The key that the model {model.name!r} names for node {worker.id!r} is not its own.")
    host(worker, model)


@answers(m.SharedInferenceMessage)
def refuse_shared(worker: Any, session: Session, message: m.SharedInferenceMessage) -> None:
    """Refuse a question to an encrypted model: it is asked over a connection of its own."""
    raise ModelError(
        f"The encrypted model {message.name!r} is asked over a connection for that purpose. Ask it with "
        "grid.run_remote_inference(..., mpc=True) of this version."
    )


@answers(m.ModelsMessage)
def list_models(worker: Any, session: Session, message: m.ModelsMessage) -> list[Any]:
    """List the models that the user may use, or say everything that may be known of one."""
    if message.contents is None:
        return list(worker.services.call("models"))
    answer = worker.services.ask("model", message.contents)
    return [{**answer.header, **deserialize(answer.body, worker)}]


@answers(m.DownloadModelMessage)
def download_model(worker: Any, session: Session, message: m.DownloadModelMessage) -> OutgoingCopy:
    """Give a copy of a model that may be downloaded."""
    value = value_of(worker.services.ask("download_model", message.contents))
    hosted = deserialize(value, worker, max_message_bytes=_NO_LIMIT, owns_buffer=True)
    if not isinstance(hosted, HostedModel):
        raise ModelError(f"The model {message.contents!r} may not be downloaded; its owner decides.")
    model = hosted.model
    return OutgoingCopy(model.copy() if isinstance(model, Plan) else model, session, id_of_model(hosted.name), False)


@answers(m.DeleteModelMessage)
def delete_model(worker: Any, session: Session, message: m.DeleteModelMessage) -> None:
    """Host a model no longer."""
    worker.services.call("delete_model", message.contents)


@answers(m.InferenceMessage)
def infer(worker: Any, session: Session, message: m.InferenceMessage) -> OutgoingCopy:
    """Ask a model with the values that came along, and give its answer."""
    if not all(type(arg) in (torch.Tensor, torch.nn.Parameter) for arg in message.contents):
        raise ModelError("A hosted model is asked with plain tensors that come along, not with what is held here.")
    answer = worker.services.ask("infer", message.name, body=serialize(message.contents, worker))
    result = deserialize(answer.body, worker, max_message_bytes=_NO_LIMIT, owns_buffer=True)
    return OutgoingCopy(result, session, id_of_model(message.name), False)
