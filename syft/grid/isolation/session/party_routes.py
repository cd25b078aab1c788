"""Handlers of a party process: one party of a hosted encrypted model, or a dealer, for one user.

It runs no calls of the user, and no process that runs such calls holds the model's shares. The user can introduce other
nodes, run the model, and fetch the shares of the result; nothing else.
"""

from __future__ import annotations

from typing import Any

from syft.core.id_provider import ObjectId
from syft.exceptions import CommandNotAllowedError, ModelError
from syft.grid.isolation.children.worker import SessionWorker, map_file, read_value
from syft.messaging import message as m
from syft.messaging.hosting import SharedInferenceMessage
from syft.mpc.serving.server import EncryptedModel, infer_shared
from syft.workers.delegation.grants import ADMIT, KEY, MEET
from syft.workers.execution import router
from syft.workers.execution.execute import execute
from syft.workers.execution.router import Handler
from syft.workers.execution.session import Session

_COMMANDS = frozenset({ADMIT, KEY, MEET})


def _introduce(worker: SessionWorker, session: Session, operation: m.Operation) -> Any:
    """Introduce other nodes to this process."""
    if operation.cmd_name not in _COMMANDS:
        raise CommandNotAllowedError(operation.cmd_name)
    return execute(worker, session, operation)


def party_routes() -> dict[type, Handler]:
    """Return the handlers of a party process by type of message."""
    return {
        m.Operation: _introduce,
        m.BatchMessage: router.run_batch,
        m.ObjectRequestMessage: _give_share,
        m.ReleaseMessage: router.release_objects,
        SharedInferenceMessage: infer_shared,
    }


def _give_share(worker: SessionWorker, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Send a share of a result to the user, and never the model itself."""
    if isinstance(worker.object_store.objects.get(message.contents[0]), EncryptedModel):
        raise ModelError("An encrypted model can't be fetched.")
    return router.give_object(worker, session, message)


def hold_model(worker: SessionWorker, obj_id: ObjectId, fd: int) -> None:
    """Store this party's shares of a model."""
    model = read_value(worker, map_file(fd))
    if not isinstance(model, EncryptedModel):
        raise ModelError("This model is not encrypted. Use mpc=False.")
    worker.spend_request = lambda name, version, limit: worker.services.call("spend_request", name, version, limit)
    dict.__setitem__(worker.object_store.objects, obj_id, model)
