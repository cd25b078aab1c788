"""Checks of what a protocol between roles is given: inputs, state, results of its plans, and parts from a wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from syft.core.trees import iter_tensors
from syft.exceptions import MalformedPlanError, TensorsNotCollocatedError
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.schedule import Schedule
from syft.messaging.protocol.transfer import pointer_in
from syft.pointers.pointer_plan import PointerPlan

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


def local_state_tensor(tensor: object, role: str) -> torch.Tensor:
    """Return a copy of a declared state tensor; refuses anything but local tensors."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
        raise TypeError(f"The state of the role {role!r} must be local tensors, got a {type(tensor).__name__}.")
    return example_of(tensor)


def require_at_worker(role: str, tensors: tuple[torch.Tensor, ...], worker: BaseWorker) -> None:
    """Refuse an input of a role that is at another worker: data crosses only where the function sends it."""
    for leaf in iter_tensors(tensors):
        pointer = pointer_in(leaf)
        if pointer is not None and pointer.location is not worker:
            raise TensorsNotCollocatedError(
                f"The role {role!r}, assigned to {worker.id!r},",
                [f"this input is on {pointer.location.id!r}"],
                f"If it may go there, move it: x.move({worker.id}).",
            )


def plan_results(result: object, count: int) -> tuple[torch.Tensor, ...]:
    """Return the results of a plan as a tuple of `count` tensors; anything else is refused."""
    found = (result,) if count == 1 else result
    if count == 0:
        return ()
    if not isinstance(found, tuple | list) or len(found) != count:
        raise MalformedPlanError(f"A plan of the protocol did not return {count} results.")
    if not all(isinstance(item, torch.Tensor) for item in found):
        raise MalformedPlanError("A plan of the protocol returned something other than tensors.")
    return tuple(found)


def checked_plans(
    schedule: Schedule, plans: object, workers: tuple[BaseWorker, ...] | None
) -> list[Plan | PointerPlan]:
    """Return the received plans of a protocol, one for each run."""
    runs = schedule.runs()
    if not isinstance(plans, tuple) or len(plans) != len(runs):
        raise MalformedPlanError("A protocol has one plan for each run.")
    for plan, run in zip(plans, runs, strict=True):
        at_role = workers is not None and isinstance(plan, PointerPlan) and plan.location is workers[run.role]
        if not isinstance(plan, Plan) and not at_role:
            raise MalformedPlanError(f"A protocol runs plans of its roles, got a {type(plan).__name__}.")
    return list(plans)


def checked_state(
    schedule: Schedule, states: object, workers: tuple[BaseWorker, ...] | None
) -> list[list[torch.Tensor]]:
    """Return the received state of each role."""
    counts = [len(part) if type(part) is tuple else -1 for part in states] if isinstance(states, tuple) else None
    if not isinstance(states, tuple) or counts != list(schedule.states):
        raise MalformedPlanError("A protocol has a state for each role.")
    for role, part in enumerate(states):
        for tensor in part:
            if not isinstance(tensor, torch.Tensor):
                raise MalformedPlanError(f"The state of a role must be tensors, got a {type(tensor).__name__}.")
            pointer = pointer_in(tensor)
            if pointer is not None and (workers is None or pointer.location is not workers[role]):
                raise MalformedPlanError("The state of a role is at another worker.")
    return [list(part) for part in states]
