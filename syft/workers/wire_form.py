"""Operations from documented commands, pointers from search results, and the wire form of workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syft.core.context import local_worker
from syft.core.id_provider import ID_PROVIDER, ObjectId, is_id
from syft.core.references import ObjectMeta, TensorMeta
from syft.exceptions import SerdeError
from syft.messaging.message import Operation
from syft.messaging.operands import owner_first, unwrapped
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
    name, given = owner_first(command_name, command_owner, tuple(map(unwrapped, args)))
    ids = tuple(return_ids) if isinstance(return_ids, list | tuple) else (return_ids,)
    return Operation(name, None, given, kwargs, ids if ids != (None,) else (ID_PROVIDER.pop(),))


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
    """Return the worker of an id, as the receiver or else the local worker knows it; an unknown id unchanged."""
    (worker_id,) = worker_tuple
    if not is_id(worker_id):
        raise SerdeError("A worker is sent as its id.")
    receiver = local_worker(required=False) if worker is None else worker
    return worker_id if receiver is None else receiver.get_worker(worker_id)


def force_simplify(_worker: BaseWorker, worker: BaseWorker) -> tuple[Any, ...]:
    """Return the full form of a worker: its id, its objects and whether it was made known to others."""
    return (worker.id, worker._objects.copy(), worker.auto_add)


def force_detail(worker: BaseWorker | None, worker_tuple: tuple[Any, ...]) -> Any:
    """Rebuild a worker of this process, with its objects, from the full form; it is not registered."""
    worker_id, objects, auto_add = worker_tuple
    if not is_id(worker_id) or type(objects) is not dict or not all(map(is_id, objects)) or type(auto_add) is not bool:
        raise SerdeError("The full form of a worker has an id, objects by id, and a flag.")
    rebuilt = WORKER_CLASSES["in process"](getattr(worker, "hook", None), id=worker_id, auto_add=False)
    rebuilt.object_store.objects.update(objects)
    rebuilt.auto_add = auto_add
    return rebuilt
