"""Handlers of protocols: run them on behalf of the worker, return copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.codes import PLAN_CMDS
from syft.core.context import acting_as
from syft.core.id_provider import ID_PROVIDER
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError
from syft.messaging.protocol.base import AbstractProtocol
from syft.pointers.pointer_protocol import RUN_PROTOCOL
from syft.workers.execution.copies import copy_of_held
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.plan_handlers import find_for_fetch
from syft.workers.execution.router import PLAN_COMMANDS, OutgoingCopy
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def run_protocol(worker: BaseWorker, session: Session, protocol: Any, *args: object, **kwargs: object) -> Any:
    """Run a protocol that is held here, on behalf of this worker.

    A protocol runs plans, and a worker that runs a plan runs nothing else, so no protocol leads to another one and no
    cycle is possible.

    Args:
        worker: the worker.
        session: the session of the client; the policy approved it and every argument.
        protocol: the protocol.
        *args: its arguments.
        **kwargs: its keyword arguments.
    """
    if not isinstance(protocol, AbstractProtocol):
        raise CommandNotAllowedError(f"Running a {type(protocol).__name__} as a protocol")
    with acting_as(worker):
        result = protocol.run_here(*args, **kwargs)
    # A result that is an argument would look like an argument changed in place, which may have been sent by value.
    given = {id(leaf) for leaf in iter_tensors((args, kwargs))}
    return map_tensors(lambda leaf: _again(leaf) if id(leaf) in given else leaf, result)


def _again(leaf: object) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def fetch_protocol(worker: Any, session: Session, *contents: Any) -> OutgoingCopy:
    """Return a copy of a protocol; the original stays here.

    Args:
        worker: the worker that holds it.
        session: the session of the client.
        *contents: its id, and whether the copy gets a new id.
    """
    protocol, copied = find_for_fetch(worker, session, contents, AbstractProtocol, PLAN_CMDS.FETCH_PROTOCOL)
    # The copy gets claims of its own on the plans that the protocol points at.
    proxy = copy_of_held(worker, protocol)
    if copied:
        proxy.id = ID_PROVIDER.pop()
    return OutgoingCopy(proxy, session, contents[0], published=False)


WORKER_COMMANDS[RUN_PROTOCOL] = run_protocol
PLAN_COMMANDS[PLAN_CMDS.FETCH_PROTOCOL] = fetch_protocol
