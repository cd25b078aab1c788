"""Handlers of plans and protocols: run them, return pointers to parameters of plans, return copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.codes import PLAN_CMDS
from syft.core.context import acting_as
from syft.core.id_provider import ID_PROVIDER, is_id
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError, ObjectNotFoundError, SerdeError
from syft.hook.allowed_functions import register_command
from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.base import AbstractProtocol
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.pointers.pointer_protocol import RUN_PROTOCOL
from syft.workers.access.policy import check_release
from syft.workers.execution.copies import copy_of_held
from syft.workers.execution.execute import WORKER_COMMANDS
from syft.workers.execution.router import PLAN_COMMANDS, OutgoingCopy
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def run_plan(plan: Plan, /, *args: object, **kwargs: object) -> Any:
    """Run a plan that is held here."""
    return require_plan(plan)(*args, **kwargs)


def plan_parameters(plan: Plan) -> list[torch.Tensor]:
    """Return the parameters of a plan; the client gets pointers to them."""
    return list(require_plan(plan).parameters())


def copy_plan(plan: Plan) -> Plan:
    """Return a copy of a plan; the original stays here."""
    if not isinstance(plan, Plan):
        raise CommandNotAllowedError(f"Copying a {type(plan).__name__} as a plan")
    return plan.copy()


def require_plan(plan: Plan) -> Plan:
    """Return a plan that can run, or refuse."""
    if not isinstance(plan, Plan):
        raise CommandNotAllowedError(f"Running a {type(plan).__name__} as a plan")
    if not plan.is_built:
        raise CommandNotAllowedError(f"Running the plan {plan.name!r}", "it was sent before it was built.")
    return plan


def fetch_plan(worker: BaseWorker, session: Session, *contents: object) -> Plan:
    """Return a copy of a plan; the original stays here. The contents are its id, and whether the copy gets a new id."""
    plan, copied = find_for_fetch(worker, session, contents, Plan, PLAN_CMDS.FETCH_PLAN)
    proxy: Plan = plan.copy()
    if not copied:
        proxy.id = plan.id
    return proxy


def find_for_fetch(
    worker: BaseWorker, session: Session, contents: tuple[Any, ...], kind: type, how: str
) -> tuple[Any, bool]:
    """Return the object that a command names, if the policy releases it, and whether its copy gets a new id."""
    if len(contents) != 2 or not is_id(contents[0]) or type(contents[1]) is not bool:
        raise SerdeError(f"{how} requires an id and whether the copy gets a new id.")
    obj_id, copied = contents
    obj = worker.object_store.get(obj_id)
    if not isinstance(obj, kind):
        raise ObjectNotFoundError(obj_id, worker.id, f"it is not a {how.removeprefix('fetch_')}")
    check_release(worker, session, obj, how, obj_id=obj_id)
    return obj, copied


def run_protocol(worker: BaseWorker, session: Session, protocol: Any, *args: object, **kwargs: object) -> Any:
    """Run a protocol that is held here, on behalf of this worker.

    A protocol runs plans, and a worker that runs a plan runs nothing else, so no protocol leads to another one and no
    cycle is possible. The policy approved the client and every argument.
    """
    if not isinstance(protocol, AbstractProtocol):
        raise CommandNotAllowedError(f"Running a {type(protocol).__name__} as a protocol")
    with acting_as(worker):
        result = protocol.run_here(*args, **kwargs)
    # A result that is an argument would look like an argument changed in place, which may have been sent by value.
    given = {id(leaf) for leaf in iter_tensors((args, kwargs))}
    return map_tensors(
        lambda leaf: leaf.clone() if id(leaf) in given and isinstance(leaf, torch.Tensor) else leaf, result
    )


def fetch_protocol(worker: Any, session: Session, *contents: Any) -> OutgoingCopy:
    """Return a copy of a protocol; the original stays here. The contents are those of `fetch_plan`."""
    protocol, copied = find_for_fetch(worker, session, contents, AbstractProtocol, PLAN_CMDS.FETCH_PROTOCOL)
    # The copy gets claims of its own on the plans that the protocol points at.
    proxy = copy_of_held(worker, protocol)
    if copied:
        proxy.id = ID_PROVIDER.pop()
    return OutgoingCopy(proxy, session, contents[0], published=False)


register_command(RUN_PLAN, run_plan)
register_command(PLAN_PARAMETERS, plan_parameters)
register_command(COPY_PLAN, copy_plan)
PLAN_COMMANDS[PLAN_CMDS.FETCH_PLAN] = fetch_plan
WORKER_COMMANDS[RUN_PROTOCOL] = run_protocol
PLAN_COMMANDS[PLAN_CMDS.FETCH_PROTOCOL] = fetch_protocol
