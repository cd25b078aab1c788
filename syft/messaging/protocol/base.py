"""AbstractProtocol: upload, search and remote runs, common to all protocols."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.object import AbstractObject
from syft.exceptions import SyftError, WorkerNotFoundError
from syft.messaging.plan.plan import Plan
from syft.messaging.protocol.transfer import pointer_in, pointers_in
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_plan import PointerPlan
from syft.pointers.pointer_protocol import PointerProtocol

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# The maximum number of plans: a worker that runs a protocol sends at least one message for each.
MAX_PLANS = 1000


class AbstractProtocol(AbstractObject):
    """Base of protocols. See AbstractObject for the arguments."""

    pointer_kind = "protocol"
    is_lasting = True

    @functools.cached_property
    def pointers(self) -> dict[BaseWorker, PointerProtocol]:
        """Pointers to the uploaded copies of the protocol, by worker."""
        return {}

    # --- for subclasses -------------------------------------------------------------------------------------

    def run_here(self, *args: object, **kwargs: object) -> Any:
        """Run the protocol, led by the local worker."""
        raise NotImplementedError(f"{type(self).__name__} must implement run_here()")

    def get(self) -> Any:
        """Refuse: the protocol is local, so there is nothing to fetch."""
        raise SyftError("This protocol is local already. Fetch an uploaded one through its pointer: pointer.get().")

    def carried(self) -> Iterator[ObjectPointer]:
        """Yield the pointers of this protocol; its receiver takes over a claim on each."""
        raise NotImplementedError(f"{type(self).__name__} must implement carried()")

    def check_complete(self) -> None:
        """Raise unless the protocol can be sent."""
        raise NotImplementedError(f"{type(self).__name__} must implement check_complete()")

    # --- uploading ------------------------------------------------------------------------------------------

    @property
    def location(self) -> BaseWorker | None:
        """The worker that the protocol was uploaded to last, or None."""
        return next(reversed(self.pointers), None)

    def send(self, location: BaseWorker | ObjectId) -> PointerProtocol:
        """Upload the protocol to a worker, so that other clients can find it there.

        It stays there until it is deleted. At a node one without tags is private, and ends with the connection.

        Args:
            location: the worker.
        """
        self.check_complete()
        owner = local_worker()
        worker = owner.get_worker(location, fail_hard=True)
        if worker is owner:
            raise ValueError(f"The protocol is at {owner.id!r} already. Send it to another worker.")
        self.pointers.pop(worker, None)
        pointer: PointerProtocol = owner.send(self, worker)
        self.pointers[worker] = pointer
        return pointer

    def create_pointer(
        self,
        owner: BaseWorker | None = None,
        garbage_collect_data: bool = False,
        location: BaseWorker | None = None,
        id_at_location: ObjectId | None = None,
        **kwargs: object,
    ) -> PointerProtocol:
        """Make a pointer to this protocol at a worker that holds it."""
        return PointerProtocol(
            location=location if location is not None else self.owner,
            id_at_location=id_at_location if id_at_location is not None else self.id,
            owner=owner,
            garbage_collect_data=garbage_collect_data,
            tags=self.tags,
            description=self.description,
        )

    # --- running --------------------------------------------------------------------------------------------

    def run(self, *args: object, **kwargs: object) -> Any:
        """Run the protocol and return pointers to its results."""
        return self.run_here(*args, **kwargs)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the protocol."""
        return self.run(*args, **kwargs)

    def request_remote_run(self, location: BaseWorker | ObjectId, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run this protocol at a worker that it was sent to.

        Args:
            location: the worker.
            args: the arguments: pointers to that worker, or local tensors, which are sent there.
            kwargs: the keyword arguments.

        Raises:
            RuntimeError: the protocol was not sent to that worker.
        """
        worker = local_worker().get_worker(location, fail_hard=True)
        pointer = self.pointers.get(worker)
        if pointer is None:
            raise RuntimeError(f"The protocol was not sent to {worker.id!r}. Send it first: protocol.send(worker).")
        return pointer.request_remote_run(worker, args, kwargs)

    @staticmethod
    def find_args_location(args: object) -> Any:
        """Return the worker of the first pointer among the arguments; the local worker if there is none."""
        return next((pointer.location for pointer in pointers_in(args)), local_worker())


def plan_at(plan: Plan | PointerPlan, worker: BaseWorker, lasting: bool = True) -> Plan | PointerPlan:
    """Return the callable for arguments at a worker: the plan itself if the worker is local, else a pointer to it.

    A plan that is not `lasting` is deleted there with its pointers.
    """
    if isinstance(plan, PointerPlan):
        return plan
    _ = plan.program  # raises unless it is built
    if worker is local_worker():
        return plan
    return plan._pointer_at(local_worker(), worker, lasting)


def pointer_at(pointer: PointerPlan, worker: BaseWorker) -> PointerPlan:
    """Return the pointer to a plan at one of the workers that have it."""
    for one in pointer.pointers():
        if one.lease.stream.location is worker:
            alone: PointerPlan = one if not one.others else PointerPlan._attach(one.lease, one.owner)
            return alone
    raise RuntimeError(
        f"The protocol has a pointer to a plan that is not at {worker.id!r}. "
        "Pass the plan itself, or deploy the protocol where the plan is."
    )


def copy_plan(plan: Plan | PointerPlan) -> Plan:
    """Return a local copy of a local or remote plan."""
    if isinstance(plan, PointerPlan):
        location = plan.lease.stream.location
        fetched: Plan = local_worker().fetch_plan(plan.lease.obj_id, location, copy=True)
        return fetched
    return plan.copy()


def plan_name(plan: Plan | PointerPlan) -> str:
    """Return the name of a plan, or the id of a remote one."""
    return plan.name if isinstance(plan, Plan) else f"plan {plan.id_at_location}"


def require_worker(location: Any) -> Any:
    """Return a worker, or the worker that a pointer points at."""
    pointer = pointer_in(location) if isinstance(location, ObjectPointer) or hasattr(location, "child") else None
    worker = location if pointer is None else pointer.location
    if not hasattr(worker, "stream_to"):
        raise SyftError(
            f"A plan can't be assigned to a {type(location).__name__}. Pass a worker, or a name that deploy() resolves."
        )
    return worker


def known_worker(owner: BaseWorker, worker_id: ObjectId) -> Any:
    """Return a worker that a received protocol names, without a list of known workers in the error."""
    worker = owner if worker_id == owner.id else owner.known(worker_id)
    if worker is None:
        raise WorkerNotFoundError(worker_id, ("not disclosed to peers",))
    return worker
