"""DeployMixin: sends plans to workers, and forwards a few methods to the owner of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId
from syft.core.object import AbstractObject
from syft.core.object_storage import ObjectStorage
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.plan import optimizers as plan_optimizers
from syft.messaging.plan.program import Program
from syft.messaging.plan.record.module_binding import ModuleBinding
from syft.messaging.plan.state import State
from syft.pointers.pointer_plan import PointerPlan

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class DeployMixin(AbstractObject, ObjectStorage):
    """The methods of a plan that send it to workers."""

    name: str
    state: State
    pointers: dict[Any, PointerPlan]
    optimizers: list[Any]
    _lines: list[tuple[str, int]]
    _binding: ModuleBinding
    _program: Program | None
    _sent_to: set[Any]

    @property
    def is_built(self) -> bool:
        """Whether the operations are recorded."""
        raise NotImplementedError("Plan defines is_built")

    def send(
        self, *locations: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId], force: bool = False
    ) -> PointerPlan:
        """Send the plan to workers and return one pointer to all of them.

        A plan that is there already is sent again only if it has changed here; otherwise it keeps its remote state.

        Args:
            *locations: the workers.
            force: send it even if it is not built.
        """
        if not self.is_built and not force:
            raise RuntimeError(
                f"The plan {self.name!r} is not built. Build it before it is sent: plan.build(*examples), "
                "or pass args_shape to func2plan."
            )
        owner = local_worker()
        workers = list(dict.fromkeys(owner.get_worker(location, fail_hard=True) for location in _flat(locations)))
        if not workers:
            raise ValueError("send() needs a worker: plan.send(bob).")
        pointers = [self._pointer_at(owner, worker) for worker in workers]
        return pointers[0] if len(pointers) == 1 else PointerPlan.joined(pointers)

    def _pointer_at(self, owner: BaseWorker, worker: BaseWorker) -> PointerPlan:
        self._binding.update()
        version = (self.state.fingerprint(), [plan_optimizers.fingerprint(optimizer) for optimizer in self.optimizers])
        sent = self.pointers.get(worker)
        if sent is not None and sent.lease.spent is None and sent.version == version and _is_held(sent):
            return sent
        # An earlier copy may still be arriving or being deleted under the id of the plan.
        sent_before = worker in self._sent_to and not self.tags
        self._sent_to.add(worker)
        pointer: PointerPlan = (
            owner.send_object(self, worker, ID_PROVIDER.pop(), published=False)
            if sent_before
            else owner.send(self, worker)
        )
        pointer.version, pointer.lines = version, self._lines
        pointer.inference = _inference(self.name, self._program)
        self.pointers[worker] = pointer
        return pointer

    def get_pointers(self) -> dict[Any, PointerPlan]:
        """Return the pointers to the plan, by worker."""
        return {worker: pointer for worker, pointer in self.pointers.items() if pointer.lease.spent is None}

    def create_pointer(
        self,
        owner: object,
        garbage_collect_data: bool,
        location: BaseWorker | None = None,
        id_at_location: ObjectId | None = None,
        **kwargs: Any,
    ) -> PointerPlan:
        """Make a pointer to this plan at a worker that holds it."""
        return PointerPlan(
            location=location if location is not None else self.owner,
            id_at_location=id_at_location if id_at_location is not None else self.id,
            owner=owner,
            garbage_collect_data=garbage_collect_data,
            tags=self.tags,
            description=self.description,
        )

    @property
    def location(self) -> Any:
        """Refuse: only a pointer to a plan has a location."""
        raise AttributeError("A plan has no location. plan.get_pointers() lists the workers it was sent to.")

    @property
    def _known_workers(self) -> Any:
        return self.owner._known_workers

    def send_msg(self, *args: object, **kwargs: object) -> Any:
        """Send a message as the plan's owner."""
        return self.owner.send_msg(*args, **kwargs)

    def request_obj(self, *args: object, **kwargs: object) -> Any:
        """Fetch an object from another worker as the plan's owner."""
        return self.owner.request_obj(*args, **kwargs)

    def respond_to_obj_req(self, obj_id: ObjectId) -> Any:
        """Return an object of the plan's store and remove it there."""
        obj = self.get_obj(obj_id)
        self.de_register_obj(obj)
        return obj


def _inference(name: str, program: Program | None) -> Any:
    """Return the inference of results; None if the state is remote, whose shapes would need messages."""
    if program is None or any(isinstance(placeholder.child, SyftTensor) for placeholder in program.state):
        return None
    from syft.messaging.plan.result_inference import ResultInference

    return ResultInference(name, program)


def _is_held(pointer: PointerPlan) -> bool:
    """Say whether a plan is still at its worker; another client may have fetched or deleted it."""
    return pointer._id_at_location in pointer._location._objects


def _flat(locations: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for location in locations:
        found += _flat(location) if isinstance(location, tuple | list) else [location]
    return found
