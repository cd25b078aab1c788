"""Protocols between roles: one function that says what every party does, run by the parties."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.trees import iter_tensors
from syft.exceptions import MalformedPlanError, TensorsNotCollocatedException
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan.arguments import example_of
from syft.messaging.plan.plan import Plan
from syft.messaging.plan.program import map_pattern
from syft.messaging.plan.record.build import record
from syft.messaging.protocol.base import (
    AbstractProtocol,
    copy_plan,
    known_worker,
    only_pointers,
    place_plan,
    plan_name,
)
from syft.messaging.protocol.partition import Partitioner
from syft.messaging.protocol.role import Crossings, Role
from syft.messaging.protocol.schedule import Schedule, ScheduledRun, from_rows
from syft.messaging.protocol.transfer import Transfer, pointer_in
from syft.pointers.pointer_plan import PointerPlan
from syft.tensors.placeholder import PlaceHolder


class RoleProtocol(AbstractProtocol):
    """A computation of several roles, recorded from one function. Make one with `@sy.func2protocol(...)`.

    Args:
        function: the function; its parameters are the roles.
        roles: the names of the roles, in the order in which they are given to `deploy` and `run`.
        states: the tensors of the state of each role.
        name: its name.
        id: its id.
        owner: the worker it belongs to.
        tags: words it can be found by.
        description: a text it can be found by.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        roles: Iterable[str] = (),
        states: Mapping[str, Iterable[Any]] | None = None,
        name: str | None = None,
        id: ObjectId | None = None,
        owner: Any = None,
        tags: Any = None,
        description: str | None = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(self).__name__
        self.roles = tuple(roles)
        self.workers: tuple[Any, ...] | None = None
        self._choreography: Schedule | None = None
        self._plans: list[Plan | PointerPlan] = []
        self._declared = [[_own_tensor(t, role) for t in given] for role, given in self._by_role(states, "states")]
        self._state: list[list[Any]] = self._declared

    def _by_role(self, given: Mapping[str, Any] | None, what: str) -> list[tuple[str, Any]]:
        unknown = set(given or ()) - set(self.roles)
        if unknown:
            raise ValueError(
                f"{what} names {', '.join(sorted(map(str, unknown)))}; "
                f"the roles of {self.name} are {', '.join(self.roles)}."
            )
        return [(role, (given or {}).get(role, ())) for role in self.roles]

    # --- building -------------------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """Whether the function is recorded."""
        return self._choreography is not None

    @property
    def choreography(self) -> Schedule:
        """Who runs what and what goes where, as data."""
        if self._choreography is None:
            raise RuntimeError(
                f"The protocol {self.name!r} is not built yet; build it with examples, "
                f"protocol.build({self.roles[0]}=(tensor,), ...), or give args_shape to func2protocol."
            )
        return self._choreography

    @property
    def states(self) -> dict[str, list[Any]]:
        """The state of each role: tensors, or pointers to them once the protocol is deployed."""
        return {role: list(tensors) for role, tensors in zip(self.roles, self._state, strict=True)}

    def build(self, *args: Any, **kwargs: Any) -> RoleProtocol:
        """Record the function with example inputs.

        Args:
            *args: the inputs of each role, in the order of the roles: a tuple of tensors each.
            **kwargs: the inputs of a role, by its name.
        """
        function = self.function
        if function is None:
            raise RuntimeError(f"The protocol {self.name!r} came without its function, so it can't be built anew.")
        if self.workers is not None:
            raise RuntimeError("This protocol is deployed already; build a new one.")
        given = self._inputs_of(args, kwargs)
        counts = tuple(len(tensors) for tensors in given)
        seen: list[Crossings] = []
        constants: dict[tuple[int, int], torch.Tensor] = {}

        def recorded(*tensors: Any) -> Any:
            seen.append(Crossings(constants))
            return function(**self._cast(tensors, counts, seen[-1]))

        placeholders = [PlaceHolder(tags={"#state"}, child=tensor) for part in self._declared for tensor in part]
        recording = record(recorded, placeholders, tuple(t for tensors in given for t in tensors), {})
        declared = [number for number, part in enumerate(self._declared) for _ in part]
        cutter = Partitioner(self.name, self.roles, recording, seen[0], counts, declared)
        choreography, plans, self._state = cutter.cut()
        self._choreography, self._plans = choreography, list(plans)
        return self

    def _cast(self, tensors: tuple[Any, ...], counts: tuple[int, ...], crossings: Crossings) -> dict[str, Role]:
        """Return the roles of one recording, by name."""
        left = iter(tensors)
        cast = {}
        for number, (name, count) in enumerate(zip(self.roles, counts, strict=True)):
            inputs = tuple(next(left) for _ in range(count))
            cast[name] = Role(name, number, inputs, tuple(self._declared[number]), crossings)
        return cast

    def _inputs_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the inputs of each role."""
        if len(args) > len(self.roles):
            raise TypeError(f"The protocol {self.name!r} has {len(self.roles)} roles, not {len(args)}.")
        given = dict(zip(self.roles, args, strict=False))
        twice = given.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"The protocol {self.name!r} got two values for the role {', '.join(sorted(twice))}.")
        found = []
        for role, value in self._by_role({**given, **kwargs}, "the call"):
            inputs = (value,) if isinstance(value, torch.Tensor) else value
            if not isinstance(inputs, tuple | list) or not all(isinstance(item, torch.Tensor) for item in inputs):
                raise TypeError(f"The inputs of the role {role!r} are a tuple of tensors: run({role}=(x, y)).")
            found.append(tuple(inputs))
        return found

    # --- deploying ------------------------------------------------------------------------------------------

    def deploy(self, *workers: Any, **named: Any) -> RoleProtocol:
        """Give each role a worker, and send every worker the plans and the state of its roles.

        A protocol is deployed once. To deploy it at others, copy it: `protocol.copy().deploy(...)`.

        Args:
            *workers: the workers, in the order of the roles.
            **named: the worker of a role, by the name of the role. One worker may have several roles.

        Raises:
            RuntimeError: it is deployed already, it is not built, or a role has no worker.
        """
        if self.workers is not None:
            raise RuntimeError(
                "This protocol is deployed already; for other workers deploy a copy: protocol.copy().deploy(...)."
            )
        choreography = self.choreography
        given = {**dict(zip(self.roles, workers, strict=False)), **named}
        if len(workers) + len(named) != len(self.roles) or given.keys() != set(self.roles):
            raise RuntimeError(
                f"The protocol {self.name!r} needs a worker for each of its roles: {', '.join(self.roles)}."
            )
        owner = local_worker()
        placed = tuple(owner.get_worker(given[role], fail_hard=True) for role in self.roles)
        plans = [place_plan(plan, placed[run.role]) for plan, run in zip(self._plans, choreography.runs(), strict=True)]
        self._state = [_place_state(tensors, worker) for tensors, worker in zip(self._state, placed, strict=True)]
        self._plans, self.workers = plans, placed
        return self

    def copy(self) -> RoleProtocol:
        """Return a protocol with plans and state of its own, to be deployed elsewhere.

        What is at workers is fetched from them; state as it is there now, plans without change.
        """
        proxy = RoleProtocol(self.function, self.roles, None, self.name, tags=self.tags, description=self.description)
        proxy._declared = [[_fetched(tensor) for tensor in part] for part in self._declared]
        proxy._state = [[_fetched(tensor) for tensor in part] for part in self._state]
        proxy._plans = [copy_plan(plan) for plan in self._plans]
        proxy._choreography = self._choreography
        return proxy

    # --- running --------------------------------------------------------------------------------------------

    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol, led by the local worker: one message for each plan, one for each value that crosses.

        Args:
            *args: the inputs of each role, in the order of the roles: a tuple of tensors each. Local ones are sent to
                the worker of the role; pointers must point there.
            **kwargs: the inputs of a role, by its name.

        Returns:
            What the function returned, with pointers to where each result was left.
        """
        choreography = self.choreography
        if self.workers is None:
            raise RuntimeError(
                f"The roles of {self.name!r} have no workers yet; tell them: protocol.deploy({', '.join(self.roles)})."
            )
        carrier = Transfer(self.name)
        values = self._first_values(choreography, carrier, self._inputs_of(args, kwargs))
        last_uses = choreography.last_uses()
        plans = iter(self._plans)
        for number, step in enumerate(choreography.steps):
            worker = self.workers[step.role]
            if isinstance(step, ScheduledRun):
                plan = place_plan(next(plans), worker)
                result = carrier.run(plan, tuple(values[value] for value in step.inputs), {})
                values.update(zip(step.outputs, _results(result, len(step.outputs)), strict=True))
                touched = step.inputs + step.outputs
            else:
                values[step.target] = carrier.bring(values[step.source], worker)
                touched = (step.source, step.target)
            for value in touched:  # what nothing needs any more goes at once
                if last_uses[value] == number:
                    values.pop(value, None)
        return _fill(choreography.outputs, values)

    def _first_values(self, choreography: Schedule, carrier: Transfer, given: list[tuple[Any, ...]]) -> dict[int, Any]:
        values: dict[int, Any] = {}
        for role, tensors in enumerate(given):
            wanted = choreography.inputs[role]
            if len(tensors) != wanted:
                raise TypeError(
                    f"The role {self.roles[role]!r} of {self.name!r} takes {wanted} inputs, not {len(tensors)}."
                )
            _require_here(self.roles[role], tensors, (self.workers or ())[role])
        for role, worker in enumerate(self.workers or ()):
            values.update(zip(choreography.input_numbers(role), carrier.bring(given[role], worker), strict=True))
            values.update(zip(choreography.state_numbers(role), self._state[role], strict=True))
        return values

    # --- travelling -----------------------------------------------------------------------------------------

    def carried(self) -> Iterator[Any]:
        """Yield the pointers to its plans and to its state."""
        yield from only_pointers(self._plans)
        for part in self._state:
            yield from only_pointers(part)

    def check_complete(self) -> None:
        """Raise unless the protocol is built, and led by somebody who is none of its own roles."""
        _ = self.choreography
        for role, worker in zip(self.roles, self.workers or (), strict=False):
            if worker is local_worker():
                raise RuntimeError(
                    f"The role {role!r} is played by {worker.id!r} itself, whose state would not travel; "
                    "deploy it at another worker to send the protocol."
                )

    @staticmethod
    def simplify(worker: Any, protocol: RoleProtocol) -> tuple[Any, ...]:
        """Return id, tags, description, name, choreography, plans, states, and the ids of the workers or None."""
        places = None if protocol.workers is None else tuple(place.id for place in protocol.workers)
        return (
            protocol.id, protocol.tags, protocol.description, protocol.name, protocol.choreography.to_rows(),
            tuple(protocol._plans), tuple(tuple(part) for part in protocol._state), places,
        )  # fmt: skip

    @staticmethod
    def detail(worker: Any, protocol_tuple: tuple[Any, ...]) -> RoleProtocol:
        """Rebuild a protocol that may come from anyone; refuses one whose parts do not fit together."""
        protocol_id, tags, description, name, rows, plans, states, places = protocol_tuple
        check_labels(protocol_id, tags, description)
        if type(name) is not str or len(name) > 1000:
            raise MalformedPlanError("A protocol has a name.")
        choreography = from_rows(rows)
        owner = worker if worker is not None else local_worker()
        protocol = RoleProtocol(None, choreography.roles, None, name, protocol_id, owner, tags, description)
        if places is not None:
            if type(places) is not tuple or len(places) != len(choreography.roles):
                raise MalformedPlanError("A deployed protocol has a worker for each role.")
            protocol.workers = tuple(known_worker(owner, place) for place in places)
        protocol._choreography = choreography
        protocol._plans = _checked_plans(choreography, plans, protocol.workers)
        protocol._state = _checked_state(choreography, states, protocol.workers)
        return protocol

    # --- how it looks ---------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str]]:
        """Return what happens, one row a step."""
        rows = []
        plans = iter(self._plans)
        for step in self._choreography.steps if self._choreography is not None else ():
            if isinstance(step, ScheduledRun):
                rows.append((self.roles[step.role], f"runs {plan_name(next(plans))}"))
            else:
                rows.append((self.roles[step.role], f"receives value {step.target}"))
        return rows

    def _state_of_affairs(self) -> str:
        return "not built" if not self.is_built else "not deployed" if self.workers is None else "deployed"

    def __repr__(self) -> str:
        places = self.workers or (None,) * len(self.roles)
        cast = ", ".join(
            name if worker is None else f"{name} ({worker.id})" for name, worker in zip(self.roles, places, strict=True)
        )
        steps = "".join(f"\n  {role} {what}" for role, what in self._rows())
        return f"<RoleProtocol {self.name} id:{self.id} {self._state_of_affairs()}: {cast}{steps}>"

    def _repr_html_(self) -> str:
        from syft.display import table_html

        return table_html(f"RoleProtocol {self.name} ({self._state_of_affairs()})", self._rows())


class func2protocol:
    """Decorate a function to make it a protocol between roles.

    Args:
        roles: the names of the roles, which are the parameters of the function; these by default.
        args_shape: for each role the shapes of its inputs; the protocol is then built at once. -1 stands for any size,
            and an example tensor may stand in the place of a shape.
        states: for each role the tensors it keeps: `weight, = alice.read()`.

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

    def __init__(self, roles: Any = None, args_shape: Any = None, states: Any = None) -> None:
        self.roles = roles
        self.args_shape = args_shape
        self.states = states

    def __call__(self, function: Callable[..., Any]) -> RoleProtocol:
        """Make the protocol, and build it if shapes were given."""
        parameters = list(inspect.signature(function).parameters)
        roles = parameters if self.roles is None else list(self.roles)
        if not roles or sorted(map(str, roles)) != sorted(parameters):
            raise ValueError(
                f"The parameters of {function.__name__} are its roles: it has ({', '.join(parameters)}), "
                f"and roles= says ({', '.join(map(str, roles))})."
            )
        protocol = RoleProtocol(function, roles, self.states)
        if self.args_shape is not None:
            shapes = protocol._by_role(self.args_shape, "args_shape")
            protocol.build(**{role: tuple(Plan._create_placeholders(given)) for role, given in shapes})
        return protocol


def _require_here(role: str, tensors: tuple[Any, ...], worker: Any) -> None:
    """Refuse an input of a role that is at another worker: data crosses only where the function says so."""
    for leaf in iter_tensors(tensors):
        pointer = pointer_in(leaf)
        if pointer is not None and pointer.location is not worker:
            raise TensorsNotCollocatedException(
                f"The role {role!r}, played by {worker.id!r},",
                [f"this input is on {pointer.location.id!r}"],
                f"If it may go there, move it: x.move({worker.id}).",
            )


def _own_tensor(tensor: Any, role: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
        raise TypeError(f"The state of the role {role!r} is made of local tensors, not of a {type(tensor).__name__}.")
    return example_of(tensor)


def _place_state(tensors: list[Any], worker: Any) -> list[Any]:
    """Send the state of a role to its worker, with one message."""
    owner = local_worker()
    if not tensors or worker is owner:
        return tensors
    return [pointer.wrap() for pointer in owner.send_many(tensors, worker)]


def _fetched(tensor: Any) -> torch.Tensor:
    """Return a tensor of one's own: a copy of what is here or at a worker."""
    if pointer_in(tensor) is None:
        return example_of(tensor)
    fetched: torch.Tensor = tensor.copy().get()
    return fetched


def _results(result: Any, count: int) -> tuple[Any, ...]:
    """Return what a plan gave as a tuple of the tensors it should give."""
    found = (result,) if count == 1 else result
    if count == 0:
        return ()
    if not isinstance(found, tuple | list) or len(found) != count:
        raise MalformedPlanError(f"A plan of the protocol gives another number of results than {count}.")
    if not all(isinstance(item, torch.Tensor) for item in found):
        raise MalformedPlanError("A plan of the protocol gives something else than tensors.")
    return tuple(found)


def _fill(pattern: Any, values: dict[int, Any]) -> Any:
    return map_pattern(lambda ref: values[ref.id], pattern)


def _checked_plans(choreography: Schedule, plans: Any, workers: Any) -> list[Plan | PointerPlan]:
    runs = choreography.runs()
    if type(plans) is not tuple or len(plans) != len(runs):
        raise MalformedPlanError("A protocol has one plan for each run.")
    for plan, run in zip(plans, runs, strict=True):
        at_role = workers is not None and isinstance(plan, PointerPlan) and plan.location is workers[run.role]
        if not isinstance(plan, Plan) and not at_role:
            raise MalformedPlanError(f"A protocol runs plans of its roles, not a {type(plan).__name__}.")
    return list(plans)


def _checked_state(choreography: Schedule, states: Any, workers: Any) -> list[list[Any]]:
    if type(states) is not tuple or [len(part) if type(part) is tuple else -1 for part in states] != [
        *choreography.states
    ]:
        raise MalformedPlanError("A protocol has a state for each role.")
    for role, part in enumerate(states):
        for tensor in part:
            if not isinstance(tensor, torch.Tensor):
                raise MalformedPlanError(f"The state of a role is made of tensors, not of a {type(tensor).__name__}.")
            pointer = pointer_in(tensor)
            if pointer is not None and (workers is None or pointer.location is not workers[role]):
                raise MalformedPlanError("The state of a role is at another worker.")
    return [list(part) for part in states]
