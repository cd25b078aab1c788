"""Plans on proxies: runs of a plan in the vault, or of a plan of the session process on private data."""

from __future__ import annotations

from typing import Any

import torch

from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import CommandNotAllowedError
from syft.grid.isolation.proxies.autograd import Handler
from syft.grid.isolation.proxies.effects import Effects, ProxyCall, ProxyResult, effects_of, written_values
from syft.grid.isolation.proxies.objects import PlanProxy, Proxy, spec_of, with_gradient
from syft.grid.isolation.proxies.refusals import not_plain, unknown
from syft.messaging.mutation import trains
from syft.messaging.plan.arguments import match
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import Program
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.workers.access.fake_execution import work_out_plan
from syft.workers.access.tensor_spec import TensorSpec, frozen

# Maximum number of calls with different specs in the cache of each plan.
_MAX_REMEMBERED = 64


def _run_plan(call: ProxyCall) -> ProxyResult:
    plan = call.args[0]
    if not isinstance(plan, Plan | PlanProxy):
        raise CommandNotAllowedError(f"Running a {type(plan).__name__} as a plan")
    program = plan.program if isinstance(plan, PlanProxy) or plan.is_built else None
    if program is None:
        raise CommandNotAllowedError(f"Running the plan {plan.name!r}", "it was sent before it was built.")
    inputs = _inputs(plan.name, program, call)
    state = plan.state if isinstance(plan, PlanProxy) else [placeholder.child for placeholder in program.state]
    call.given = [*inputs, *state]
    effects = _effects(plan, program, call, len(inputs))
    effects.prediction.raise_error()
    if not effects.prediction.is_known:
        raise unknown(f"The plan {plan.name!r}")
    moves = call.moves(effects)
    if isinstance(plan, Plan) and _has_to_move(program, call, effects, len(inputs)):
        own = call.move(plan, written=bool(effects.written) or trains(program.operations))
        moves = moves if own is None else (own, *moves)
    return ProxyResult(moves=moves) if moves else _applied(call, effects)


def _has_to_move(program: Program, call: ProxyCall, effects: Effects, first: int) -> bool:
    """Return whether a plan must move: a plan moves as a whole, since its parameters are part of it."""
    state = range(first, len(call.given))
    connected = any(at in effects.connected and call.given[at].requires_grad for at in state)
    return connected or not effects.written.isdisjoint(state) or trains(program.operations)


def _inputs(name: str, program: Program, call: ProxyCall) -> list[Any]:
    """Return the tensors and proxies of a call in the order of the program's inputs."""
    standing: dict[int, tuple[torch.Tensor, Proxy]] = {}

    def stand_in(leaf: object) -> object:
        if not isinstance(leaf, Proxy):
            return leaf
        made = torch.empty((), device="meta")
        standing[id(made)] = (made, leaf)
        return made

    args, kwargs = map_tensors(stand_in, (call.args[1:], call.kwargs))
    found = match(name, program.arguments, args, kwargs)
    return [standing[id(one)][1] if id(one) in standing else one for one in found]


def _effects(plan: Plan | PlanProxy, program: Program, call: ProxyCall, inputs: int) -> Effects:
    specs = [_spec(plan.name, one) for one in call.given]
    grad_enabled = call.operation.grad_enabled
    key = (id(program), grad_enabled, torch.get_default_dtype(), inputs, frozen(specs))
    known: dict[Any, Effects] = (
        plan.effects if isinstance(plan, PlanProxy) else plan.__dict__.setdefault("_effects", {})
    )
    found = known.get(key)
    if found is None:
        if len(known) >= _MAX_REMEMBERED:
            known.clear()
        prediction = work_out_plan(program, specs[:inputs], specs[inputs:], grad_enabled)
        found = known[key] = effects_of(prediction, _written(program))
    return found


def _spec(name: str, one: Proxy | torch.Tensor) -> TensorSpec:
    """Return the spec of an argument, with `has_grad`: a plan may read the gradient."""
    has_grad = one.grad is not None if isinstance(one, Proxy) else one.is_leaf and one.grad is not None
    spec = (one.spec if one.is_plain else None) if isinstance(one, Proxy) else spec_of(one)
    if spec is None:
        raise not_plain(f"The plan {name!r}")
    return with_gradient(spec) if has_grad else spec


def _written(program: Program) -> frozenset[int]:
    """Return the positions of inputs and state that the program's operations write to by their names."""
    positions = {id(placeholder): at for at, placeholder in enumerate((*program.inputs, *program.state))}
    return frozenset(
        positions[id(leaf)]
        for operation in program.operations
        for leaf in iter_tensors(written_values(operation.cmd_name, operation.cmd_args, operation.cmd_kwargs))
        if id(leaf) in positions
    )


def _applied(call: ProxyCall, effects: Effects) -> ProxyResult:
    found = call.apply(effects)
    for position, spec in effects.prediction.changed:
        proxy = call.proxy_at(position)
        if spec.has_grad:
            call.give_gradient(proxy)
        elif proxy.is_leaf:
            proxy.grad = None
    found.bytes = call.size
    return found


def _parameters(call: ProxyCall) -> ProxyResult:
    plan = call.args[0]
    if not isinstance(plan, PlanProxy) or plan.program is None:
        raise CommandNotAllowedError(f"Asking a {type(plan).__name__} for parameters")
    return call.done([call.add(proxy) for proxy in plan.parameters()])


def _copy(call: ProxyCall) -> ProxyResult:
    plan = call.args[0]
    if not isinstance(plan, PlanProxy):
        raise CommandNotAllowedError(f"Copying a {type(plan).__name__} as a plan")
    return call.done(call.add(plan.copy()))


HANDLERS: dict[str, Handler] = {RUN_PLAN: _run_plan, PLAN_PARAMETERS: _parameters, COPY_PLAN: _copy}
