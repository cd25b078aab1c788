"""Operations from documented commands, pointers from search results, and the wire form of workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.core.id_provider import ID_PROVIDER, ObjectId, is_id
from syft.core.references import ObjectMeta, TensorMeta
from syft.core.tensor import below
from syft.exceptions import PlanCommandUnknownError, SerdeError
from syft.messaging.message import Operation
from syft.pointers.lease import Lease
from syft.pointers.remote_call import pointer_kinds

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker
    from syft.workers.transport.stream import Stream

# The class of workers in this process; `syft.workers.virtual`, which derives from BaseWorker, registers it.
WORKER_CLASSES: dict[str, type[BaseWorker]] = {}


def create_operation(
    command_name: str, command_owner: object = None, return_ids: object = None, *args: object, **kwargs: object
) -> Operation:
    """Build an operation; the method of an object becomes the function of that name."""
    if isinstance(command_owner, str) and command_owner == "self":
        raise PlanCommandUnknownError(f"{command_name} of the worker itself")
    if command_owner is not None:
        args = (command_owner, *args)
        if "." not in command_name:
            command_name = f"torch.Tensor.{command_name}"
    plain = tuple(below(arg) for arg in args)
    ids = tuple(return_ids) if isinstance(return_ids, list | tuple) else (return_ids,)
    return Operation(command_name, None, plain, kwargs, ids if ids != (None,) else (ID_PROVIDER.pop(),))


def found_pointer(
    worker: BaseWorker,
    stream: Stream,
    obj_id: ObjectId,
    meta: TensorMeta | ObjectMeta,
    tags: Iterable[str],
    description: str | None,
) -> Any:
    """Return a pointer to an object that a search found; deleting it deletes no object."""
    kind = meta.kind if isinstance(meta, ObjectMeta) else "tensor"
    pointer = pointer_kinds[kind]._attach(Lease(stream, obj_id, owned=False), worker, meta)
    pointer.tags, pointer.description = set(tags), description
    return pointer.wrap()


def simplify(_worker: BaseWorker, worker: BaseWorker) -> tuple[Any, ...]:
    """Return the wire form of a worker: its id."""
    return (worker.id,)


def detail(worker: BaseWorker | None, worker_tuple: tuple[Any, ...]) -> Any:
    """Return the worker of an id; an unknown id is returned unchanged."""
    return worker.get_worker(worker_tuple[0]) if worker is not None else worker_tuple[0]


def force_simplify(_worker: BaseWorker, worker: BaseWorker) -> tuple[Any, ...]:
    """Return the full form of a worker: its id, its objects and whether it adds itself."""
    return (worker.id, worker._objects.copy(), False)


def force_detail(worker: BaseWorker | None, worker_tuple: tuple[Any, ...]) -> Any:
    """Rebuild a worker of this process, with its objects, from the full form; it is not registered."""
    worker_id, objects, _auto_add = worker_tuple
    if not is_id(worker_id) or type(objects) is not dict or not all(map(is_id, objects)):
        raise SerdeError("The full form of a worker has an id and objects by id.")
    rebuilt = WORKER_CLASSES["in process"](getattr(worker, "hook", None), id=worker_id, auto_add=False)
    rebuilt.object_store.objects.update(objects)
    return rebuilt
