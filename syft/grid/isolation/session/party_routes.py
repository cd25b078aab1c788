"""A party process: one party of a hosted encrypted model, or a dealer, for one user. It runs no calls of the user.

The model's shares are here and in no process that runs the user's calls. The user can introduce other nodes, ask the
model, and fetch the shares of the answer; nothing else.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

from syft.exceptions import CommandNotAllowed, ModelError
from syft.messaging import message as m
from syft.messaging.hosting import SharedInferenceMessage
from syft.mpc.serving.server import EncryptedModel, infer_shared
from syft.serde import deserialize
from syft.workers.delegation.grants import ADMIT, KEY, MEET
from syft.workers.execution import router
from syft.workers.execution.execute import execute
from syft.workers.execution.router import Handler
from syft.workers.execution.session import Session

_COMMANDS = frozenset({ADMIT, KEY, MEET})


def _introduce(worker: Any, session: Session, operation: m.Operation) -> Any:
    """Make other nodes known to this process."""
    if operation.cmd_name not in _COMMANDS:
        raise CommandNotAllowed(operation.cmd_name)
    return execute(worker, session, operation)


def party_routes() -> dict[type, Handler]:
    """Return what a party process does with each type of message."""
    return {
        m.Operation: _introduce,
        m.BatchMessage: router.run_batch,
        m.ObjectRequestMessage: _give_share,
        m.ReleaseMessage: router.release_objects,
        SharedInferenceMessage: infer_shared,
    }


def _give_share(worker: Any, session: Session, message: m.ObjectRequestMessage) -> Any:
    """Give the user a share of an answer; the model itself is never given."""
    if isinstance(worker.object_store.objects.get(message.contents[0]), EncryptedModel):
        raise ModelError("An encrypted model is not given to anybody.")
    return router.give_object(worker, session, message)


def hold_model(worker: Any, obj_id: Any, fd: int) -> None:
    """Take over this party's part of a model."""
    try:
        value = memoryview(mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY))
    finally:
        os.close(fd)
    model = deserialize(value, worker, max_message_bytes=1 << 62, owns_buffer=True)
    if not isinstance(model, EncryptedModel):
        raise ModelError("This model is not encrypted: ask it with mpc=False.")
    worker.spend_request = lambda name, version, limit: worker.services.call("spend_request", name, version, limit)
    dict.__setitem__(worker.object_store.objects, obj_id, model)
