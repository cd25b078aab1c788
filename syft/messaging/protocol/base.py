"""What every protocol can do: be uploaded, found, and run by the worker that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.object import AbstractObject
from syft.core.trees import iter_tensors
from syft.exceptions import SyftError, WorkerNotFoundException
from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.transfer import pointer_in
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol

# How many plans a protocol may have: a worker that runs one sends at least one message for each.
MAX_PLANS = 1000


class AbstractProtocol(AbstractObject):
    """Base of protocols. See AbstractObject for the arguments."""

    pointer_kind = "protocol"

    def __init__(
        self, id: ObjectId | None = None, owner: Any = None, tags: Any = None, description: str | None = None
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        self.pointers: dict[Any, PointerProtocol] = {}

    # --- what each kind says --------------------------------------------------------------------------------

    def run_here(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol, led by the local worker."""
        raise NotImplementedError(f"{type(self).__name__} must say how it runs")

    def get(self) -> Any:
        """Say that there is nothing to fetch: this is the protocol itself."""
        raise SyftError("This protocol is here already; what was uploaded is fetched by its pointer: pointer.get().")

    def carried(self) -> Iterator[Any]:
        """Yield the pointers of this protocol; who receives it takes over a claim on each."""
        raise NotImplementedError(f"{type(self).__name__} must name its pointers")

    def check_complete(self) -> None:
        """Raise unless everything that should travel is there."""
        raise NotImplementedError(f"{type(self).__name__} must say when it can travel")

    # --- uploading ------------------------------------------------------------------------------------------

    @property
    def location(self) -> Any:
        """The worker that the protocol was uploaded to last, or None."""
        return next(reversed(self.pointers), None)

    def send(self, location: Any) -> PointerProtocol:
        """Upload the protocol to a worker, so that others can find it there.

        With tags it stays there until it is deleted; without, as long as this protocol or a pointer to it lives.

        Args:
            location: the worker.
        """
        self.check_complete()
        owner = local_worker()
        worker = owner.get_worker(location, fail_hard=True)
        if worker is owner:
            raise ValueError(f"The protocol is at {owner.id!r} already; send it to another worker.")
        self.pointers.pop(worker, None)
        pointer: PointerProtocol = owner.send(self, worker)
        self.pointers[worker] = pointer
        return pointer

    def create_pointer(
        self,
        owner: Any = None,
        garbage_collect_data: bool = False,
        location: Any = None,
        id_at_location: ObjectId | None = None,
        **kwargs: Any,
    ) -> PointerProtocol:
        """Make a pointer to this protocol at a worker that holds it.

        Args:
            owner: the worker the pointer belongs to.
            garbage_collect_data: whether the protocol goes when its pointers go.
            location: the worker that holds it; its owner by default.
            id_at_location: its id there; its own by default.
            **kwargs: taken and ignored, as in earlier releases.
        """
        return PointerProtocol(
            location=location if location is not None else self.owner,
            id_at_location=id_at_location if id_at_location is not None else self.id,
            owner=owner,
            garbage_collect_data=garbage_collect_data,
            tags=self.tags,
            description=self.description,
        )

    # --- running --------------------------------------------------------------------------------------------

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol and return pointers to its results."""
        return self.run_here(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the protocol."""
        return self.run(*args, **kwargs)

    def request_remote_run(self, location: Any, args: Any, kwargs: Any) -> Any:
        """Let a worker that this protocol was sent to run it.

        Args:
            location: the worker.
            args: the arguments: pointers to that worker, or local tensors, which travel there.
            kwargs: the keyword arguments.

        Raises:
            RuntimeError: the protocol was not sent to that worker.
        """
        worker = local_worker().get_worker(location, fail_hard=True)
        pointer = self.pointers.get(worker)
        if pointer is None:
            raise RuntimeError(f"The protocol was not sent to {worker.id!r}; do that first: protocol.send(worker).")
        return pointer.request_remote_run(worker, args, kwargs)

    @staticmethod
    def find_args_location(args: Any) -> Any:
        """Return the worker of the first pointer among the arguments; the local worker if there is none."""
        return next(iter(places_of(args)), None) or local_worker()


def places_of(values: Any) -> dict[Any, None]:
    """Return the workers that the pointers of nested arguments point at, in order."""
    pointers = (pointer_in(leaf) for leaf in iter_tensors(values))
    return {pointer.location: None for pointer in pointers if pointer is not None}


def place_plan(plan: Any, worker: Any) -> Plan | PointerPlan:
    """Return a plan as it is called for arguments at a worker: itself if that is here, else a pointer to it there."""
    if isinstance(plan, PointerPlan):
        return plan
    if not plan.is_built:
        raise RuntimeError(
            f"The plan {plan.name!r} of the protocol is not built; build it with plan.build(*examples), "
            "or give args_shape to func2plan."
        )
    if worker is local_worker():
        checked: Plan = plan
        return checked
    pointer: PointerPlan = plan.send(worker)
    return pointer


def single(pointer: PointerPlan, worker: Any) -> PointerPlan:
    """Return the pointer to a plan at one worker, of a plan that may be at several."""
    for one in pointer.pointers():
        if one.lease.stream.location is worker:
            alone: PointerPlan = one if not one.others else PointerPlan._attach(one.lease, one.owner)
            return alone
    raise RuntimeError(
        f"The protocol has a pointer to a plan that is not at {worker.id!r}; "
        "give it the plan itself, or deploy it where the plan is."
    )


def copy_plan(plan: Any) -> Plan:
    """Return a plan of one's own: a copy of a local one, or of one that a worker has."""
    if isinstance(plan, PointerPlan):
        place = plan.lease.stream.location
        fetched: Plan = local_worker().fetch_plan(plan.lease.obj_id, place, copy=True)
        return fetched
    proxy: Plan = plan.copy()
    return proxy


def plan_name(plan: Any) -> str:
    """Say what a plan is called; of a remote one the id is known."""
    return plan.name if isinstance(plan, Plan) else f"plan {plan.id_at_location}"


def only_pointers(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the pointers among values."""
    for value in values:
        pointer = None if isinstance(value, Plan) else pointer_in(value)
        if pointer is not None:
            yield pointer


def require_worker(place: Any) -> Any:
    """Return the worker that a place stands for: itself, or the one that a pointer points at."""
    pointer = pointer_in(place) if isinstance(place, ObjectPointer) or hasattr(place, "child") else None
    worker = place if pointer is None else pointer.location
    if not hasattr(worker, "stream_to"):
        raise SyftError(
            f"A {type(place).__name__} is no place for a plan; give a worker, or a name to be told later by deploy()."
        )
    return worker


def known_worker(owner: Any, place: Any) -> Any:
    """Return a worker that a received protocol names; whom the receiver knows is nobody else's business."""
    worker = owner if place == owner.id else owner.known(place)
    if worker is None:
        raise WorkerNotFoundException(place, ("not disclosed to peers",))
    return worker
