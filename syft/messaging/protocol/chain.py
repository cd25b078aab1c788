"""Protocol: plans of several workers that run one after the other; results move from worker to worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import check_labels
from syft.exceptions import MalformedPlanError
from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.base import (
    MAX_PLANS,
    AbstractProtocol,
    copy_plan,
    known_worker,
    plan_at,
    plan_name,
    pointer_at,
    require_worker,
)
from syft.messaging.protocol.transfer import Transfer, pointers_in
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


@dataclasses.dataclass(slots=True)
class ChainStep:
    """One plan of a protocol."""

    name: str  # the name of its worker in this protocol; the worker's id if none was given
    worker: Any  # the worker; None until deploy() resolves the name
    plan: Plan | None = None  # the plan, if it is local
    pointer: PointerPlan | None = None  # the pointer to the plan at its worker, once it is sent

    shown: tuple[Any, Any] | None = None  # the pair that the user sees

    @property
    def callee(self) -> Any:
        """The pointer to the plan if it was sent, else the plan."""
        return self.pointer if self.pointer is not None else self.plan

    @property
    def pair(self) -> tuple[Any, Any]:
        """The worker (or its name) and the plan (or a pointer to it); the same object as long as they are the same."""
        location = self.name if self.worker is None else self.worker
        if self.shown is None or self.shown[0] is not location or self.shown[1] is not self.callee:
            self.shown = (location, self.callee)
        return self.shown


class Protocol(AbstractProtocol):
    """Plans that run one after the other, each at its worker; the results of one are the arguments of the next.

    Args:
        plans: pairs of a location and a plan. A location is a worker, a name that `deploy` resolves, or a pointer,
            which stands for the worker it points at. A plan may be a pointer to a plan that its worker has already.
        id: its id.
        owner: the worker it belongs to.
        tags: its tags, which searches match.
        description: its description, which searches match.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> a, b = (sy.VirtualWorker(hook, id=f"protocol-{name}") for name in "ab")
        >>> @sy.func2plan(args_shape=[(1,)])
        ... def double(x):
        ...     return x * 2
        >>> protocol = sy.Protocol([("first", double), ("second", double)]).deploy(a, b)
        >>> result = protocol.run(torch.tensor([1.0]))
        >>> result.location is b, result.get()
        (True, tensor([4.]))
    """

    def __init__(
        self,
        plans: Iterable[tuple[Any, Any]] | None = None,
        id: ObjectId | None = None,
        owner: BaseWorker | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        # Pairs of a worker (or its name) and a plan (or a pointer to it); changes of this list count.
        self.plans: list[Any] = list(plans or ())
        self._steps: list[ChainStep] = []
        self._deployed = False
        _ = self.steps  # refuses pairs that are none

    @property
    def steps(self) -> list[ChainStep]:
        """The steps of the protocol, one for each pair of `plans`."""
        before = [step.shown for step in self._steps]
        if len(before) != len(self.plans) or any(a is not b for a, b in zip(before, self.plans, strict=True)):
            if len(self.plans) > MAX_PLANS:
                raise ValueError(f"A protocol has at most {MAX_PLANS} plans, not {len(self.plans)}.")
            known = {id(pair): step for pair, step in zip(before, self._steps, strict=True)}
            self.steps = [known.pop(id(pair)) if id(pair) in known else _step(pair) for pair in self.plans]
        return self._steps

    @steps.setter
    def steps(self, steps: list[ChainStep]) -> None:
        self._steps = steps
        self.plans[:] = [step.pair for step in steps]

    @property
    def workers_resolved(self) -> bool:
        """Whether every plan has a worker."""
        return all(step.worker is not None for step in self.steps)

    # --- deploying ------------------------------------------------------------------------------------------

    def deploy(self, *workers: BaseWorker | ObjectId) -> Protocol:
        """Assign a worker to each name, in the order the names first appear, and send every plan to its worker.

        One worker for each plan may be passed instead.

        A protocol is deployed once. To deploy the same plans at others, copy it: `protocol.copy().deploy(...)`.

        Args:
            *workers: one worker for each name, or for each plan.

        Raises:
            RuntimeError: it is deployed already, or the number of workers is wrong.
        """
        if self._deployed:
            raise RuntimeError(
                "This protocol is deployed already. Deploy a copy at other workers: protocol.copy().deploy(...)."
            )
        owner = local_worker()
        free = [step for step in self.steps if step.worker is None]
        names = list(dict.fromkeys(step.name for step in free))
        if len(workers) not in (len(names), len(free)):
            named = f" ({', '.join(names)})" if names else ""
            each = f", or {len(free)}, one for each plan" if len(free) != len(names) else ""
            raise RuntimeError(f"deploy() needs {len(names)} workers{named}{each}, got {len(workers)}.")
        found = [owner.get_worker(worker, fail_hard=True) for worker in workers]
        by_name = dict(zip(names, found, strict=False)) if len(workers) == len(names) else {}
        by_plan = {id(step): worker for step, worker in zip(free, found, strict=False)}
        resolved = [
            dataclasses.replace(step, worker=step.worker or by_name.get(step.name) or by_plan[id(step)])
            for step in self.steps
        ]
        for step in resolved:
            _send_plan(step)
        self.steps = resolved  # last: if sending a plan fails, the protocol is unchanged
        self._deployed = True
        return self

    def copy(self) -> Protocol:
        """Return a protocol with the same names and copies of the plans, to be deployed elsewhere.

        A worker without a name gets its id as name. Remote plans are fetched from their workers.
        """
        pairs = [(s.name, copy_plan(s.plan if s.plan is not None else s.callee)) for s in self.steps]
        return Protocol(pairs, tags=self.tags, description=self.description)

    # --- running --------------------------------------------------------------------------------------------

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run the plans, one message each; their results go directly from worker to worker.

        If all pointers among the arguments point at one worker that the protocol was sent to, that worker runs it.

        Args:
            *args: the arguments of the first plan: local tensors, which are sent, or pointers. The object
                of a pointer stays where it is; a copy of it moves.
            **kwargs: its keyword arguments.

        Returns:
            Pointers at the last worker.

        Raises:
            RuntimeError: a plan has no worker yet.
        """
        workers = list({pointer.location for pointer in pointers_in((args, kwargs))})
        if len(workers) == 1 and workers[0] in self.pointers:
            return self.request_remote_run(workers[0], args, kwargs)
        return self.run_here(*args, **kwargs)

    def run_here(self, *args: object, **kwargs: object) -> Any:
        """Run the protocol, led by the local worker."""
        if not self.steps:
            raise RuntimeError("This protocol has no plans. Pass them: sy.Protocol([(worker, plan), ...]).")
        if not self.workers_resolved:
            missing = dict.fromkeys(step.name for step in self.steps if step.worker is None)
            raise RuntimeError(
                f"This protocol has no workers yet for {', '.join(missing)}. Assign them: "
                f"protocol.deploy({', '.join(missing)})."
            )
        transfer = Transfer(str(self.id))
        arguments: Any = (args, kwargs)
        for step in self.steps:
            plan = _send_plan(step)
            arguments = transfer.bring(arguments, step.worker)
            result = transfer.run(plan, *arguments)
            arguments = (tuple(result) if isinstance(result, tuple | list) else (result,), {})
        self.steps = self._steps  # shows the pointers to plans that were sent
        return result

    # --- serialization--------------------------------------------------------------------------------------

    def carried(self) -> Iterator[ObjectPointer]:
        """Yield the pointers to its plans."""
        return pointers_in([step.callee for step in self.steps])

    def check_complete(self) -> None:
        """Raise unless every plan is built."""
        for step in self.steps:
            if step.plan is not None:
                _ = step.plan.program  # raises unless it is built
            if step.worker is None and step.pointer is not None and step.pointer.others:
                raise RuntimeError(
                    f"The plan of {step.name!r} is at several workers. Choose one with protocol.deploy()."
                )

    @staticmethod
    def simplify(worker: BaseWorker | None, protocol: Protocol) -> tuple[Any, ...]:
        """Return id, tags, description, whether the workers are known, pairs of location and plan, and the names."""
        resolved = protocol.workers_resolved  # otherwise a name could be mistaken for the id of a worker
        pairs = tuple((step.worker.id if resolved else step.name, step.callee) for step in protocol.steps)
        names = tuple(step.name for step in protocol.steps)
        return (protocol.id, protocol.tags, protocol.description, resolved, pairs, names)

    @staticmethod
    def detail(worker: BaseWorker | None, protocol_tuple: tuple[Any, ...]) -> Protocol:
        """Rebuild an untrusted protocol; refuses one whose parts are inconsistent."""
        protocol_id, tags, description, resolved, pairs, names = protocol_tuple
        protocol = Protocol.create_from_attributes(worker, protocol_id, tags, description, resolved, pairs)
        if type(names) is not tuple or len(names) != len(protocol.steps) or not all(type(n) is str for n in names):
            raise MalformedPlanError("Each plan of a protocol has the name of its worker.")
        for step, name in zip(protocol.steps, names, strict=True):
            step.name = name
        return protocol

    @staticmethod
    def create_from_attributes(
        worker: BaseWorker | None,
        id: ObjectId,
        tags: Iterable[str],
        description: str | None,
        workers_resolved: bool,
        plans_assignments: object,
    ) -> Protocol:
        """Make a protocol at a worker.

        Args:
            worker: the worker it belongs to.
            id: its id.
            tags: its tags, which searches match.
            description: its description, which searches match.
            workers_resolved: whether the locations are ids of workers; otherwise they are names.
            plans_assignments: pairs of a location and a plan, a pointer to a plan, or the id of a plan at that worker.
        """
        check_labels(id, tags, description)
        owner = worker if worker is not None else local_worker()
        pairs = list(plans_assignments) if isinstance(plans_assignments, tuple | list) else None
        if pairs is None or len(pairs) > MAX_PLANS or type(workers_resolved) is not bool:
            raise MalformedPlanError(f"A protocol has a flag and at most {MAX_PLANS} pairs of a worker and a plan.")
        steps = [_assigned(owner, pair, workers_resolved) for pair in pairs]
        protocol = Protocol(id=id, owner=owner, tags=tags, description=description)
        protocol.steps = steps
        # A plan behind a pointer was deployed before.
        protocol._deployed = workers_resolved and any(step.pointer is not None for step in steps)
        return protocol

    # --- display ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        steps = " -> ".join(f"{_display_name(step)}: {plan_name(step.plan or step.callee)}" for step in self.steps)
        state = "deployed" if self._deployed else "not deployed"
        tags = f" tags: {' '.join(sorted(self.tags))}" if self.tags else ""
        return f"<Protocol id:{self.id} {state}{tags}\n  {steps or 'no plans'}>"

    def _repr_html_(self) -> str:
        from syft.display import table_html

        rows: list[tuple[str, object]] = [(_display_name(s), plan_name(s.plan or s.callee)) for s in self.steps]
        if self.tags:
            rows.append(("tags", " ".join(sorted(self.tags))))
        return table_html(f"Protocol {self.id} ({'deployed' if self._deployed else 'not deployed'})", rows)


def _step(pair: tuple[Any, Any]) -> ChainStep:
    try:
        location, plan = pair
    except (TypeError, ValueError):
        raise ValueError("A protocol needs pairs: sy.Protocol([(worker_or_name, plan), ...]).") from None
    if not isinstance(plan, Plan | PointerPlan):
        raise ValueError(f"A protocol needs plans, got a {type(plan).__name__}. Make a plan with @sy.func2plan().")
    worker = None if isinstance(location, str) else require_worker(location)
    name = location if worker is None else str(worker.id)
    if isinstance(plan, Plan):
        return ChainStep(name, worker, plan)
    return ChainStep(name, worker, pointer=plan if worker is None else pointer_at(plan, worker))


def _send_plan(step: ChainStep) -> Plan | PointerPlan:
    """Send the plan of a step to its worker, unless it is there; returns the callable."""
    if step.pointer is not None:
        step.pointer = pointer_at(step.pointer, step.worker)
        return step.pointer
    placed = plan_at(step.callee, step.worker)
    if isinstance(placed, PointerPlan):
        step.pointer = placed
    return placed


def _assigned(owner: BaseWorker, pair: Any, resolved: bool) -> ChainStep:
    """Read an untrusted pair."""
    if type(pair) not in (tuple, list) or len(pair) != 2 or not is_id(pair[0]):
        raise MalformedPlanError("A protocol pairs the name or the id of a worker with a plan.")
    location, plan = pair
    worker = known_worker(owner, location) if resolved else None
    if is_id(plan) and worker is not None:
        plan = PointerPlan(location=worker, id_at_location=plan, owner=owner, garbage_collect_data=False)
    if isinstance(plan, Plan):
        return ChainStep(str(location), worker, plan)
    if isinstance(plan, PointerPlan) and (worker is None or plan.location is worker):
        return ChainStep(str(location), worker, pointer=plan)
    raise MalformedPlanError(f"A protocol runs plans of its workers, not a {type(plan).__name__}.")


def _display_name(step: ChainStep) -> str:
    if step.worker is None or str(step.worker.id) == step.name:
        return step.name
    return f"{step.name} ({step.worker.id})"
