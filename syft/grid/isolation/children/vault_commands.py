"""Commands that only a vault runs; session processes send them with objects that move there."""

from __future__ import annotations

import torch

from syft.exceptions import CommandNotAllowedError
from syft.messaging.plan.plan import Plan
from syft.workers.base import BaseWorker
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

# Stores a part of an object that moved: its gradient, or a tensor of a plan's state by its index.
PART = "syft.vault_part"


def _part(worker: BaseWorker, session: Session, whole: object, part: object) -> object:
    if part == "grad" and isinstance(whole, torch.Tensor):
        return whole.grad
    if isinstance(whole, Plan) and type(part) is int:
        return list(whole.state.tensors())[part]
    raise CommandNotAllowedError(PART)


WORKER_COMMANDS[PART] = _part
