"""Handlers of a session process for hosted models: the supervisor stores models, program processes run them."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.references import ObjectMeta
from syft.exceptions import ModelError
from syft.grid.isolation.children.worker import SessionWorker, read_value, value_of
from syft.grid.isolation.records.items import write_item
from syft.grid.isolation.session.routes import handles
from syft.grid.storage.interface import Item
from syft.grid.storage.quotas import memory_of
from syft.hosting.server import Hosted, HostedModel, id_of_model
from syft.messaging import hosting as m
from syft.messaging.hosting import check_name
from syft.messaging.plan.plan import Plan
from syft.mpc.serving.server import check_own_key, read_hosted
from syft.serde import deserialize, serialize
from syft.workers.execution.router import OutgoingCopy
from syft.workers.execution.session import Session


def host(worker: SessionWorker, hosted: Hosted) -> None:
    """Store a model at the supervisor."""
    item = Item(
        hosted.id,
        ObjectMeta("model"),
        frozenset(hosted.tags),
        hosted.description,
        memory=sum(memory_of(hosted).values()),
    )
    worker.services.call("host_model", hosted.name, write_item(item), body=serialize(hosted, worker))


@handles(m.HostModelMessage)
def host_model(worker: SessionWorker, session: Session, message: m.HostModelMessage) -> None:
    """Host a model."""
    flags = message.allow_download, message.allow_remote_inference
    host(worker, HostedModel(check_name(message.name), message.contents, *flags, message.inputs))


@handles(m.HostSharesMessage)
def host_shares(worker: SessionWorker, session: Session, message: m.HostSharesMessage) -> None:
    """Host this party's shares of an encrypted model."""
    model = read_hosted(worker, message)
    check_own_key(worker, model, worker.delegations.prover, is_required=True)
    host(worker, model)


@handles(m.SharedInferenceMessage)
def refuse_shared(worker: SessionWorker, session: Session, message: m.SharedInferenceMessage) -> None:
    """Refuse inference with an encrypted model: it needs a connection for that purpose."""
    raise ModelError(
        f"Inference with the encrypted model {message.name!r} needs a connection for that purpose. Use "
        "grid.run_remote_inference(..., mpc=True) of this version."
    )


@handles(m.ModelsMessage)
def list_models(worker: SessionWorker, session: Session, message: m.ModelsMessage) -> list[Any]:
    """List the models that the user may use, or describe one of them."""
    if message.contents is None:
        return list(worker.services.call("models"))
    answer = worker.services.ask("model", message.contents)
    return [{**answer.header, **deserialize(answer.body, worker)}]


@handles(m.DownloadModelMessage)
def download_model(worker: SessionWorker, session: Session, message: m.DownloadModelMessage) -> OutgoingCopy:
    """Send a copy of a model that may be downloaded."""
    value = value_of(worker.services.ask("download_model", message.contents))
    hosted = read_value(worker, value)
    if not isinstance(hosted, HostedModel):
        raise ModelError(f"The model {message.contents!r} may not be downloaded; its owner decides.")
    model = hosted.model
    return OutgoingCopy(model.copy() if isinstance(model, Plan) else model, session, id_of_model(hosted.name), False)


@handles(m.DeleteModelMessage)
def delete_model(worker: SessionWorker, session: Session, message: m.DeleteModelMessage) -> None:
    """Delete a model."""
    worker.services.call("delete_model", message.contents)


@handles(m.InferenceMessage)
def infer(worker: SessionWorker, session: Session, message: m.InferenceMessage) -> OutgoingCopy:
    """Run a model on the values of the message, and send its result."""
    if not all(type(arg) in (torch.Tensor, torch.nn.Parameter) for arg in message.contents):
        raise ModelError("Inference with a hosted model takes plain tensors in the message, not pointers.")
    answer = worker.services.ask("infer", message.name, body=serialize(message.contents, worker))
    return OutgoingCopy(read_value(worker, answer.body), session, id_of_model(message.name), False)
