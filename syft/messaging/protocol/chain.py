"""Protocol: plans of several workers that run one after the other, the data moving along."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

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
    only_pointers,
    place_plan,
    places_of,
    plan_name,
    require_worker,
    single,
)
from syft.messaging.protocol.transfer import Transfer
from syft.pointers.pointer_plan import PointerPlan


@dataclasses.dataclass(slots=True)
class ChainStep:
    """One plan of a protocol.

    Attributes:
        name: the name of its worker in this protocol; the worker's id if none was given.
        worker: the worker, None as long as it is only a name.
        plan: the plan, if it is here.
        pointer: the plan at its worker, once it is there.
    """

    name: str
    worker: Any
    plan: Plan | None = None
    pointer: PointerPlan | None = None

    @property
    def callee(self) -> Plan | PointerPlan:
        """What is known of the plan: where it is, if it is there."""
        known = self.pointer if self.pointer is not None else self.plan
        assert known is not None  # noqa: S101  (one of them is set by whoever makes a step)
        return known


class Protocol(AbstractProtocol):
    """Plans that run one after the other, each at its worker; what one returns are the arguments of the next.

    Args:
        plans: pairs of a place and a plan. A place is a worker, or a name to be told by `deploy`; a pointer stands
            for the worker it points at. A plan may be a pointer to a plan that its worker has already.
        id: its id.
        owner: the worker it belongs to.
        tags: words it can be found by.
        description: a text it can be found by.

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
        owner: Any = None,
        tags: Any = None,
        description: str | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.steps = [_step(pair) for pair in plans or ()]
        if len(self.steps) > MAX_PLANS:
            raise ValueError(f"A protocol has at most {MAX_PLANS} plans, not {len(self.steps)}.")
        self._deployed = False

    @property
    def plans(self) -> list[tuple[Any, Any]]:
        """Pairs of a worker (or its name) and a plan (or a pointer to it)."""
        return [(s.name if s.worker is None else s.worker, s.callee) for s in self.steps]

    @property
    def workers_resolved(self) -> bool:
        """Whether every plan has a worker."""
        return all(step.worker is not None for step in self.steps)

    # --- deploying ------------------------------------------------------------------------------------------

    def deploy(self, *workers: Any) -> Protocol:
        """Give each name a worker, in the order the names first appear, and send every plan to its worker.

        A protocol is deployed once. To deploy the same plans at others, copy it: `protocol.copy().deploy(...)`.

        Args:
            *workers: as many workers as there are names.

        Raises:
            RuntimeError: it is deployed already, or the number of workers is wrong.
        """
        if self._deployed:
            raise RuntimeError(
                "This protocol is deployed already; for other workers deploy a copy: protocol.copy().deploy(...)."
            )
        owner = local_worker()
        names = list(dict.fromkeys(step.name for step in self.steps if step.worker is None))
        if len(workers) != len(names):
            named = f" ({', '.join(names)})" if names else ""
            raise RuntimeError(f"This protocol needs {len(names)} workers{named}, not {len(workers)}.")
        given = dict(zip(names, (owner.get_worker(worker, fail_hard=True) for worker in workers), strict=True))
        resolved = [dataclasses.replace(step, worker=step.worker or given[step.name]) for step in self.steps]
        for step in resolved:
            _place(step)
        self.steps = resolved  # only now: a plan that could not be sent leaves the protocol as it was
        self._deployed = True
        return self

    def copy(self) -> Protocol:
        """Return a protocol with the same names and plans of its own, to be deployed elsewhere.

        Workers that had no name go by their id. Plans that are not here are fetched from their workers.
        """
        pairs = [(s.name, copy_plan(s.plan if s.plan is not None else s.pointer)) for s in self.steps]
        return Protocol(pairs, tags=self.tags, description=self.description)

    # --- running --------------------------------------------------------------------------------------------

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the plans, one message each; their results go straight from worker to worker.

        It runs where its arguments are: pointers to a worker that it was sent to make it run there.

        Args:
            *args: the arguments of the first plan: local tensors, which are sent, or pointers. What a pointer
                points at stays; a copy of it moves.
            **kwargs: its keyword arguments.

        Returns:
            Pointers at the last worker.

        Raises:
            RuntimeError: a plan has no worker yet.
        """
        places = list(places_of((args, kwargs)))
        if len(places) == 1 and places[0] in self.pointers:
            return self.request_remote_run(places[0], args, kwargs)
        return self.run_here(*args, **kwargs)

    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol, led by the local worker."""
        if not self.steps:
            raise RuntimeError("This protocol has no plans: sy.Protocol([(worker, plan), ...]).")
        if not self.workers_resolved:
            missing = dict.fromkeys(step.name for step in self.steps if step.worker is None)
            raise RuntimeError(
                f"This protocol has no workers yet for {', '.join(missing)}; tell them: "
                f"protocol.deploy({', '.join(missing)})."
            )
        carrier = Transfer(str(self.id))
        given: Any = (args, kwargs)
        for step in self.steps:
            plan = _place(step)
            given = carrier.bring(given, step.worker)
            result = carrier.run(plan, *given)
            given = (tuple(result) if isinstance(result, tuple | list) else (result,), {})
        return result

    # --- travelling -----------------------------------------------------------------------------------------

    def carried(self) -> Iterator[Any]:
        """Yield the pointers to its plans."""
        return only_pointers(step.callee for step in self.steps)

    def check_complete(self) -> None:
        """Raise unless every plan is built."""
        for step in self.steps:
            if step.plan is not None and not step.plan.is_built:
                raise RuntimeError(f"The plan {step.plan.name!r} needs to be built first: plan.build(*examples).")
            if step.worker is None and step.pointer is not None and step.pointer.others:
                raise RuntimeError(
                    f"The plan of {step.name!r} is at several workers; say which one: protocol.deploy()."
                )

    @staticmethod
    def simplify(worker: Any, protocol: Protocol) -> tuple[Any, ...]:
        """Return id, tags, description, whether the workers are known, pairs of place and plan, and the names."""
        pairs = tuple((step.name if step.worker is None else step.worker.id, step.callee) for step in protocol.steps)
        resolved = protocol.workers_resolved
        if not resolved:  # a name and the id of a worker would be hard to tell apart
            pairs = tuple((step.name, step.callee) for step in protocol.steps)
        names = tuple(step.name for step in protocol.steps)
        return (protocol.id, protocol.tags, protocol.description, resolved, pairs, names)

    @staticmethod
    def detail(worker: Any, protocol_tuple: tuple[Any, ...]) -> Protocol:
        """Rebuild a protocol that may come from anyone; refuses one whose parts do not fit together."""
        protocol_id, tags, description, resolved, pairs, names = protocol_tuple
        protocol = Protocol.create_from_attributes(worker, protocol_id, tags, description, resolved, pairs)
        if type(names) is not tuple or len(names) != len(protocol.steps) or not all(type(n) is str for n in names):
            raise MalformedPlanError("Each plan of a protocol has the name of its worker.")
        for step, name in zip(protocol.steps, names, strict=True):
            step.name = name
        return protocol

    @staticmethod
    def create_from_attributes(
        worker: Any, id: Any, tags: Any, description: Any, workers_resolved: Any, plans_assignments: Any
    ) -> Protocol:
        """Make a protocol at a worker.

        Args:
            worker: the worker it belongs to.
            id: its id.
            tags: words it can be found by.
            description: a text it can be found by.
            workers_resolved: whether the places are ids of workers; otherwise they are names.
            plans_assignments: pairs of a place and a plan, a pointer to a plan, or the id of a plan at that worker.
        """
        check_labels(id, tags, description)
        owner = worker if worker is not None else local_worker()
        pairs = list(plans_assignments) if type(plans_assignments) in (tuple, list) else None
        if pairs is None or len(pairs) > MAX_PLANS or type(workers_resolved) is not bool:
            raise MalformedPlanError(f"A protocol has a flag and at most {MAX_PLANS} pairs of a worker and a plan.")
        steps = [_assigned(owner, pair, workers_resolved) for pair in pairs]
        protocol = Protocol(id=id, owner=owner, tags=tags, description=description)
        protocol.steps = steps
        # A plan that is known by a pointer was deployed by somebody.
        protocol._deployed = workers_resolved and any(step.pointer is not None for step in steps)
        return protocol

    # --- how it looks ---------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        steps = " -> ".join(f"{_place_name(step)}: {plan_name(step.plan or step.pointer)}" for step in self.steps)
        state = "deployed" if self._deployed else "not deployed"
        tags = f" tags: {' '.join(sorted(self.tags))}" if self.tags else ""
        return f"<Protocol id:{self.id} {state}{tags}\n  {steps or 'no plans'}>"

    def _repr_html_(self) -> str:
        from syft.display import table_html

        rows: list[tuple[str, object]] = [(_place_name(s), plan_name(s.plan or s.pointer)) for s in self.steps]
        if self.tags:
            rows.append(("tags", " ".join(sorted(self.tags))))
        return table_html(f"Protocol {self.id} ({'deployed' if self._deployed else 'not deployed'})", rows)


def _step(pair: Any) -> ChainStep:
    try:
        place, plan = pair
    except (TypeError, ValueError):
        raise ValueError("A protocol is made of pairs: sy.Protocol([(worker_or_name, plan), ...]).") from None
    if not isinstance(plan, Plan | PointerPlan):
        raise ValueError(f"A protocol runs plans, not a {type(plan).__name__}; make it one with @sy.func2plan().")
    step = ChainStep(place, None) if isinstance(place, str) else ChainStep("", require_worker(place))
    if step.worker is not None:
        step.name = str(step.worker.id)
    if isinstance(plan, Plan):
        step.plan = plan
    else:
        step.pointer = plan
        if step.worker is not None:
            _place(step)
    return step


def _place(step: ChainStep) -> Plan | PointerPlan:
    """Send the plan of a step to its worker, unless it is there; returns what to call."""
    if step.pointer is not None:
        step.pointer = single(step.pointer, step.worker)
        return step.pointer
    placed = place_plan(step.plan, step.worker)
    if isinstance(placed, PointerPlan):
        step.pointer = placed
    return placed


def _assigned(owner: Any, pair: Any, resolved: bool) -> ChainStep:
    """Read a pair that may come from anyone."""
    if type(pair) not in (tuple, list) or len(pair) != 2 or not is_id(pair[0]):
        raise MalformedPlanError("A protocol pairs the name or the id of a worker with a plan.")
    place, plan = pair
    worker = known_worker(owner, place) if resolved else None
    if is_id(plan) and worker is not None:
        plan = PointerPlan(location=worker, id_at_location=plan, owner=owner, garbage_collect_data=False)
    step = ChainStep(str(place), worker)
    if isinstance(plan, Plan):
        step.plan = plan
    elif isinstance(plan, PointerPlan) and (worker is None or plan.location is worker):
        step.pointer = plan
    else:
        raise MalformedPlanError(f"A protocol runs plans of its workers, not a {type(plan).__name__}.")
    return step


def _place_name(step: ChainStep) -> str:
    if step.worker is None or str(step.worker.id) == step.name:
        return step.name
    return f"{step.name} ({step.worker.id})"
