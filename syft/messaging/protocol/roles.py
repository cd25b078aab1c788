"""RoleProtocol: a protocol recorded from one function of all parties, and run by the parties."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from syft._suggestions import did_you_mean
from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.exceptions import MalformedPlanError
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import map_pattern
from syft.messaging.plan.record.build import record
from syft.messaging.protocol.base import (
    AbstractProtocol,
    copy_plan,
    known_worker,
    plan_at,
    plan_name,
)
from syft.messaging.protocol.partition import Partitioner
from syft.messaging.protocol.role import Crossings, Role, Tensors, local_state_tensor
from syft.messaging.protocol.schedule import Schedule, ScheduledRun, checked_plans, checked_state, from_rows
from syft.messaging.protocol.transfer import Transfer, plan_results, pointer_in, pointers_in, require_at_worker
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


Inputs = torch.Tensor | Tensors | list[torch.Tensor]


class RoleProtocol(AbstractProtocol):
    """A computation of several roles, recorded from one function. Make one with `@sy.func2protocol(...)`.

    Args:
        function: the function; its parameters are the roles.
        roles: the names of the roles, in the order of the arguments of `deploy` and `run`.
        states: the tensors of the state of each role.
        name: its name.
        id: its id.
        owner: the worker it belongs to.
        tags: its tags, which searches match.
        description: its description, which searches match.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        roles: Iterable[str] = (),
        states: Mapping[str, Iterable[torch.Tensor]] | None = None,
        name: str | None = None,
        id: ObjectId | None = None,
        owner: BaseWorker | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(self).__name__
        self.roles = tuple(roles)
        self.workers: tuple[BaseWorker, ...] | None = None
        self._schedule: Schedule | None = None
        self._plans: list[Plan | PointerPlan] = []
        self._declared = [
            [local_state_tensor(t, role) for t in tensors] for role, tensors in self.by_role(states, "states")
        ]
        self._state: list[list[torch.Tensor]] = self._declared

    def by_role(self, values: Mapping[str, Any] | None, what: str) -> list[tuple[str, Any]]:
        """Return the value of each role, () for one that has none; `what` names them in errors."""
        unknown = set(values or ()) - set(self.roles)
        if unknown:
            named = sorted(map(str, unknown))
            raise ValueError(
                f"{what} names {', '.join(named)}; "
                f"the roles of {self.name} are {', '.join(self.roles)}.{did_you_mean(named[0], self.roles)}"
            )
        return [(role, (values or {}).get(role, ())) for role in self.roles]

    # --- building -------------------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """Whether the function is recorded."""
        return self._schedule is not None

    @property
    def schedule(self) -> Schedule:
        """The runs and moves of the protocol."""
        if self._schedule is None:
            raise RuntimeError(
                f"The protocol {self.name!r} is not built yet. Build it with examples, "
                f"protocol.build({self.roles[0]}=(tensor,), ...), or pass args_shape to func2protocol."
            )
        return self._schedule

    @property
    def states(self) -> dict[str, list[torch.Tensor]]:
        """The state of each role: tensors, or pointers to them once the protocol is deployed."""
        return {role: list(tensors) for role, tensors in zip(self.roles, self._state, strict=True)}

    def build(self, *args: Inputs, **kwargs: Inputs) -> RoleProtocol:
        """Record the function with example inputs.

        Args:
            *args: the inputs of each role, in the order of the roles: a tuple of tensors each.
            **kwargs: the inputs of a role, by its name.
        """
        function = self.function
        if function is None:
            raise RuntimeError(f"The protocol {self.name!r} came without its function, so it can't be built again.")
        if self.workers is not None:
            raise RuntimeError("This protocol is deployed already. Build a new one.")
        examples = self._inputs_of(args, kwargs)
        counts = tuple(len(tensors) for tensors in examples)
        recorded: list[Crossings] = []
        constants: dict[tuple[int, int], torch.Tensor] = {}

        def run_roles(*tensors: torch.Tensor) -> Any:
            crossings = Crossings(constants)
            recorded.append(crossings)
            remaining = iter(tensors)
            roles = {}
            for number, (name, count, state) in enumerate(zip(self.roles, counts, self._declared, strict=True)):
                inputs = tuple(itertools.islice(remaining, count))
                roles[name] = Role(name, number, inputs, tuple(state), crossings)
            return function(**roles)

        placeholders = [PlaceHolder(tags={"#state"}, child=tensor) for part in self._declared for tensor in part]
        recording = record(run_roles, placeholders, tuple(t for tensors in examples for t in tensors), {})
        declared = [number for number, part in enumerate(self._declared) for _ in part]
        partitioner = Partitioner(self.name, self.roles, recording, recorded[0], counts, declared)
        schedule, plans, self._state = partitioner.partition()
        self._schedule, self._plans = schedule, list(plans)
        return self

    def _inputs_of(self, args: tuple[Inputs, ...], kwargs: dict[str, Inputs]) -> list[Tensors]:
        """Return the inputs of each role."""
        if len(args) > len(self.roles):
            raise TypeError(f"The protocol {self.name!r} has {len(self.roles)} roles, got the inputs of {len(args)}.")
        positional = dict(zip(self.roles, args, strict=False))
        twice = positional.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"The protocol {self.name!r} got two values for the role {', '.join(sorted(twice))}.")
        found = []
        for role, value in self.by_role({**positional, **kwargs}, "the call"):
            inputs = (value,) if isinstance(value, torch.Tensor) else value
            if not isinstance(inputs, tuple | list) or not all(isinstance(item, torch.Tensor) for item in inputs):
                raise TypeError(f"The inputs of the role {role!r} must be a tuple of tensors: run({role}=(x, y)).")
            found.append(tuple(inputs))
        return found

    # --- deploying ------------------------------------------------------------------------------------------

    def deploy(self, *workers: BaseWorker | ObjectId, **named: BaseWorker | ObjectId) -> RoleProtocol:
        """Assign a worker to each role, and send every worker the plans and the state of its roles.

        A protocol is deployed once. To deploy it at other workers, copy it: `protocol.copy().deploy(...)`.

        Args:
            *workers: the workers, in the order of the roles.
            **named: the worker of a role, by the name of the role. One worker may have several roles.

        Raises:
            RuntimeError: it is deployed already, it is not built, or a role has no worker.
        """
        if self.workers is not None:
            raise RuntimeError(
                "This protocol is deployed already. Deploy a copy at other workers: protocol.copy().deploy(...)."
            )
        schedule = self.schedule
        assigned = {**dict(zip(self.roles, workers, strict=False)), **named}
        if len(workers) + len(named) != len(self.roles) or assigned.keys() != set(self.roles):
            raise RuntimeError(
                f"The protocol {self.name!r} needs a worker for each of its roles: {', '.join(self.roles)}."
            )
        owner = local_worker()
        placed = tuple(owner.get_worker(assigned[role], fail_hard=True) for role in self.roles)
        plans = [
            plan_at(plan, placed[run.role], lasting=False)
            for plan, run in zip(self._plans, schedule.runs(), strict=True)
        ]
        self._state = [_send_state(tensors, worker) for tensors, worker in zip(self._state, placed, strict=True)]
        self._plans, self.workers = plans, placed
        return self

    def copy(self) -> RoleProtocol:
        """Return a protocol with copies of the plans and the state, to be deployed elsewhere.

        Remote plans and the current remote state are fetched from their workers.
        """
        copied = RoleProtocol(self.function, self.roles, None, self.name, tags=self.tags, description=self.description)
        copied._declared = [[_fetched(tensor) for tensor in part] for part in self._declared]
        copied._state = [[_fetched(tensor) for tensor in part] for part in self._state]
        copied._plans = [copy_plan(plan) for plan in self._plans]
        copied._schedule = self._schedule
        return copied

    # --- running --------------------------------------------------------------------------------------------

    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol, led by the local worker: one message for each plan, one for each value that crosses.

        Args:
            *args: the inputs of each role, in the order of the roles: a tuple of tensors each. Local ones are sent to
                the worker of the role; pointers must point there.
            **kwargs: the inputs of a role, by its name.

        Returns:
            The results of the function, as pointers to the workers that hold them.
        """
        schedule = self.schedule
        if self.workers is None:
            raise RuntimeError(
                f"The roles of {self.name!r} have no workers. Assign them: protocol.deploy({', '.join(self.roles)})."
            )
        transfer = Transfer(self.name)
        values = self._initial_values(schedule, transfer, self._inputs_of(args, kwargs))
        last_uses = schedule.last_uses()
        plans = iter(self._plans)
        for number, step in enumerate(schedule.steps):
            worker = self.workers[step.role]
            if isinstance(step, ScheduledRun):
                plan = plan_at(next(plans), worker, lasting=False)
                result = transfer.run(plan, tuple(values[value] for value in step.inputs), {})
                values.update(zip(step.outputs, plan_results(result, len(step.outputs)), strict=True))
                used = step.inputs + step.outputs
            else:
                values[step.target] = transfer.bring(values[step.source], worker)
                used = (step.source, step.target)
            for value in used:  # frees each value after its last use
                if last_uses[value] == number:
                    values.pop(value, None)
        return map_pattern(lambda ref: values[ref.id], schedule.outputs)

    def _initial_values(self, schedule: Schedule, transfer: Transfer, inputs: list[Tensors]) -> dict[int, Any]:
        values: dict[int, Any] = {}
        for role, tensors in enumerate(inputs):
            expected = schedule.inputs[role]
            if len(tensors) != expected:
                raise TypeError(
                    f"The role {self.roles[role]!r} of {self.name!r} takes {expected} inputs, got {len(tensors)}."
                )
            require_at_worker(self.roles[role], tensors, (self.workers or ())[role])
        for role, worker in enumerate(self.workers or ()):
            values.update(zip(schedule.input_numbers(role), transfer.bring(inputs[role], worker), strict=True))
            values.update(zip(schedule.state_numbers(role), self._state[role], strict=True))
        return values

    # --- serialization--------------------------------------------------------------------------------------

    def carried(self) -> Iterator[ObjectPointer]:
        """Yield the pointers to its plans and to its state."""
        return pointers_in((self._plans, self._state))

    def check_complete(self) -> None:
        """Raise unless the protocol is built and none of its roles is the local worker."""
        _ = self.schedule
        for role, worker in zip(self.roles, self.workers or (), strict=False):
            if worker is local_worker():
                raise RuntimeError(
                    f"The role {role!r} belongs to {worker.id!r} itself, whose state can't be sent. "
                    "Deploy the role at another worker to send the protocol."
                )

    @staticmethod
    def simplify(worker: BaseWorker | None, protocol: RoleProtocol) -> tuple[Any, ...]:
        """Return id, tags, description, name, schedule, plans, states, and the ids of the workers or None."""
        worker_ids = None if protocol.workers is None else tuple(worker.id for worker in protocol.workers)
        return (
            protocol.id, protocol.tags, protocol.description, protocol.name, protocol.schedule.to_rows(),
            tuple(protocol._plans), tuple(tuple(part) for part in protocol._state), worker_ids,
        )  # fmt: skip

    @staticmethod
    def detail(worker: BaseWorker | None, protocol_tuple: tuple[Any, ...]) -> RoleProtocol:
        """Rebuild an untrusted protocol; refuses one whose parts are inconsistent."""
        protocol_id, tags, description, name, rows, plans, states, worker_ids = protocol_tuple
        check_labels(protocol_id, tags, description)
        if type(name) is not str or len(name) > 1000:
            raise MalformedPlanError("A protocol has a name.")
        schedule = from_rows(rows)
        owner = worker if worker is not None else local_worker()
        protocol = RoleProtocol(None, schedule.roles, None, name, protocol_id, owner, tags, description)
        if worker_ids is not None:
            if type(worker_ids) is not tuple or len(worker_ids) != len(schedule.roles):
                raise MalformedPlanError("A deployed protocol has a worker for each role.")
            protocol.workers = tuple(known_worker(owner, worker_id) for worker_id in worker_ids)
        protocol._schedule = schedule
        protocol._plans = checked_plans(schedule, plans, protocol.workers)
        protocol._state = checked_state(schedule, states, protocol.workers)
        return protocol

    # --- display ------------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str]]:
        """Return the steps, one row each."""
        rows = []
        plans = iter(self._plans)
        for step in self._schedule.steps if self._schedule is not None else ():
            if isinstance(step, ScheduledRun):
                rows.append((self.roles[step.role], f"runs {plan_name(next(plans))}"))
            else:
                rows.append((self.roles[step.role], f"receives value {step.target}"))
        return rows

    def _status(self) -> str:
        return "not built" if not self.is_built else "not deployed" if self.workers is None else "deployed"

    def __repr__(self) -> str:
        workers = self.workers or (None,) * len(self.roles)
        roles = ", ".join(
            name if worker is None else f"{name} ({worker.id})"
            for name, worker in zip(self.roles, workers, strict=True)
        )
        steps = "".join(f"\n  {role} {what}" for role, what in self._rows())
        return f"<RoleProtocol {self.name} id:{self.id} {self._status()}: {roles}{steps}>"

    def _repr_html_(self) -> str:
        from syft.display import table_html

        return table_html(f"RoleProtocol {self.name} ({self._status()})", self._rows())


class func2protocol:
    """Decorate a function to make it a protocol between roles.

    Args:
        roles: the names of the roles, which are the parameters of the function; these by default.
        args_shape: for each role the shapes of its inputs; the protocol is then built at once. -1 stands for any size;
            an example tensor may replace a shape.
        states: for each role its state tensors: `weight, = alice.read()`.

    Example:
        >>> import torch, syft as sy
        >>> hook = sy.TorchHook(torch)
        >>> @sy.func2protocol(args_shape={"alice": [(1,)], "bob": [(1,)]})
        ... def add(alice, bob):
        ...     x, = alice.inputs
        ...     y, = bob.inputs
        ...     return x.send(bob) + y
        >>> one, two = (sy.VirtualWorker(hook, id=f"roles-{n}") for n in (1, 2))
        >>> add.deploy(alice=one, bob=two).run(alice=torch.ones(1), bob=torch.ones(1)).get()
        tensor([2.])
    """

    def __init__(
        self,
        roles: Iterable[str] | None = None,
        args_shape: Mapping[str, Sequence[Any]] | None = None,
        states: Mapping[str, Iterable[torch.Tensor]] | None = None,
    ) -> None:
        self.roles = roles
        self.args_shape = args_shape
        self.states = states

    def __call__(self, function: Callable[..., Any]) -> RoleProtocol:
        """Make the protocol, and build it if shapes were passed."""
        parameters = list(inspect.signature(function).parameters)
        roles = parameters if self.roles is None else list(self.roles)
        if not roles or sorted(map(str, roles)) != sorted(parameters):
            raise ValueError(
                f"The roles ({', '.join(map(str, roles))}) are not the parameters of {function.__name__}: "
                f"({', '.join(parameters)}). Name one parameter for each role."
            )
        protocol = RoleProtocol(function, roles, self.states)
        if self.args_shape is not None:
            shapes = protocol.by_role(self.args_shape, "args_shape")
            protocol.build(**{role: tuple(Plan._create_placeholders(role_shapes)) for role, role_shapes in shapes})
        return protocol


def _send_state(tensors: list[torch.Tensor], worker: BaseWorker) -> list[torch.Tensor]:
    """Send the state of a role to its worker in one message."""
    owner = local_worker()
    if not tensors or worker is owner:
        return tensors
    return [pointer.wrap() for pointer in owner.send_many(tensors, worker)]


def _fetched(tensor: Any) -> torch.Tensor:
    """Return a local copy of a local or remote tensor."""
    return example_of(tensor) if pointer_in(tensor) is None else tensor.copy().get()
