"""Plans on twins: runs of a plan that is in the vault, or of one of the session process on private data."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowed
from syft.messaging.changes import trains
from syft.messaging.plan.arguments import match
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Program
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.workers.foresight import work_out_plan
from syft.workers.outlines import TensorSpec, frozen
from syft.workers.twin_autograd import Handler
from syft.workers.twin_effects import Effects, TwinCall, TwinResult, effects_of
from syft.workers.twin_objects import PlanTwin, Twin, spec_of, with_gradient
from syft.workers.twin_refusals import not_plain, unknown
from syft.workers.twin_writes import written_values

# How many calls with different specs are remembered for each plan.
_MOST = 64


def _run_plan(call: TwinCall) -> TwinResult:
    plan = call.args[0]
    if not isinstance(plan, Plan | PlanTwin):
        raise CommandNotAllowed(f"Running a {type(plan).__name__} as a plan")
    program = plan.program if isinstance(plan, PlanTwin) or plan.is_built else None
    if program is None:
        raise CommandNotAllowed(f"Running the plan {plan.name!r}", "it was sent before it was built.")
    inputs = _inputs(plan.name, program, call)
    state = plan.state if isinstance(plan, PlanTwin) else [place.child for place in program.state]
    call.given = [*inputs, *state]
    effects = _effects(plan, program, call, len(inputs))
    effects.outcome.raise_error()
    if not effects.outcome.is_known:
        raise unknown(f"The plan {plan.name!r}")
    moves = call.moves(effects)
    if isinstance(plan, Plan) and _has_to_move(program, call, effects, len(inputs)):
        own = call.move(plan, written=bool(effects.written) or trains(program.operations))
        moves = moves if own is None else (own, *moves)
    return TwinResult(moves=moves) if moves else _applied(call, effects)


def _has_to_move(program: Program, call: TwinCall, effects: Effects, first: int) -> bool:
    """Say whether a plan has to move: a plan moves as a whole, since its parameters are part of it."""
    state = range(first, len(call.given))
    connected = any(at in effects.connected and call.given[at].requires_grad for at in state)
    return connected or not effects.written.isdisjoint(state) or trains(program.operations)


def _inputs(name: str, program: Program, call: TwinCall) -> list[Any]:
    """Return the tensors and twins of a call in the order of the program's inputs."""
    standing: dict[int, tuple[torch.Tensor, Any]] = {}

    def stand_in(leaf: Any) -> Any:
        if not isinstance(leaf, Twin):
            return leaf
        made = torch.empty((), device="meta")
        standing[id(made)] = (made, leaf)
        return made

    args, kwargs = map_tensors(stand_in, (call.args[1:], call.kwargs))
    found = match(name, program.arguments, args, kwargs)
    return [standing[id(one)][1] if id(one) in standing else one for one in found]


def _effects(plan: Plan | PlanTwin, program: Program, call: TwinCall, inputs: int) -> Effects:
    forms = [_form(plan.name, one) for one in call.given]
    grad_enabled = call.operation.grad_enabled
    key = (id(program), grad_enabled, torch.get_default_dtype(), inputs, frozen(forms))
    known: dict[Any, Effects] = plan.known if isinstance(plan, PlanTwin) else plan.__dict__.setdefault("_effects", {})
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        outcome = work_out_plan(program, forms[:inputs], forms[inputs:], grad_enabled)
        found = known[key] = effects_of(outcome, _written(program))
    return found


def _form(name: str, one: Any) -> TensorSpec:
    """Return the form of a given tensor, with whether it has a gradient: a plan may look at that."""
    twin_grad = one.grad is not None if isinstance(one, Twin) else one.is_leaf and one.grad is not None
    form = (one.form if one.is_plain else None) if isinstance(one, Twin) else spec_of(one)
    if form is None:
        raise not_plain(f"The plan {name!r}")
    return with_gradient(form) if twin_grad else form


def _written(program: Program) -> frozenset[int]:
    """Return the positions of inputs and state that the program's operations write to by their names."""
    places = {id(place): at for at, place in enumerate((*program.inputs, *program.state))}
    return frozenset(
        places[id(leaf)]
        for operation in program.operations
        for leaf in iter_tensors(written_values(operation.cmd_name, operation.cmd_args, operation.cmd_kwargs))
        if id(leaf) in places
    )


def _applied(call: TwinCall, effects: Effects) -> TwinResult:
    found = call.apply(effects)
    for change in effects.changes:
        twin = call.twin_at(change.position)
        if change.has_grad:
            call.give_gradient(twin)
        elif twin.is_leaf:
            twin.grad = None
    found.bytes = call.size
    return found


def _parameters(call: TwinCall) -> TwinResult:
    plan = call.args[0]
    if not isinstance(plan, PlanTwin) or plan.program is None:
        raise CommandNotAllowed(f"Asking a {type(plan).__name__} for parameters")
    return call.done([call.add(twin) for twin in plan.parameters()])


def _copy(call: TwinCall) -> TwinResult:
    plan = call.args[0]
    if not isinstance(plan, PlanTwin):
        raise CommandNotAllowed(f"Copying a {type(plan).__name__} as a plan")
    return call.done(call.add(plan.copy()))


HANDLERS: dict[str, Handler] = {RUN_PLAN: _run_plan, PLAN_PARAMETERS: _parameters, COPY_PLAN: _copy}
