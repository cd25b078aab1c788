"""Commands that only a vault runs, sent by session processes along with objects that move there."""

from __future__ import annotations

from typing import Any

from syft.exceptions import CommandNotAllowed
from syft.messaging.plan.plan import Plan
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.session import Session

# Name a part of an object that moved: its gradient, or a tensor of a plan's state by its index.
PART = "syft.vault_part"


def _part(worker: Any, session: Session, whole: Any, part: Any) -> Any:
    if part == "grad":
        return whole.grad
    if isinstance(whole, Plan) and type(part) is int:
        return list(whole.state.tensors())[part]
    raise CommandNotAllowed(PART)


WORKER_COMMANDS[PART] = _part
