"""`x.private = True`: a worker keeps a tensor from its clients, whatever its policy.

Like a release policy, it covers the tensor that a request names, not the results computed from it. A `PrivateTensor`
covers these too, and a node decides by the rights of its users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import is_private, set_private, tags_of
from syft.exceptions import CommandNotAllowedError
from syft.hook.syft_tensor import SyftTensor
from syft.pointers.pointer_tensor import MAKE_PRIVATE
from syft.workers.execution.execute import WORKER_COMMANDS

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

_KEEP = "syft.keep_private"


def store(stream: Any, obj: Any, obj_id: ObjectId, published: bool, claimant: ObjectId | None = None) -> None:
    """Store an object at a worker; a private tensor is private there from the start."""
    if not is_private(obj):
        stream.store(obj, obj_id, published, claimant)
        return
    stream.run(_KEEP, (obj,), {}, obj_id)
    if published:
        stream.publish(obj_id)


def store_many(stream: Any, objects: list[tuple[Any, ObjectId]]) -> None:
    """Store several objects at a worker: private tensors one after the other, the others with one message."""
    for obj, obj_id in objects:
        if is_private(obj):
            store(stream, obj, obj_id, published=False)
    stream.store_many([pair for pair in objects if not is_private(pair[0])])


def label(pointer: Any, obj: Any) -> None:
    """Give a pointer to a sent object its tags, its description, and whether it is private."""
    pointer.tags, pointer.description = set(tags_of(obj)), getattr(obj, "description", None)
    if is_private(obj):
        pointer._is_private = True


def _check(worker: BaseWorker, tensor: object) -> Any:
    if worker.vault is not None or worker.object_store.object_manager is not None:
        raise CommandNotAllowedError(
            "x.private = True",
            "a node decides by the rights of its users. Name them: x.private_tensor(allowed_users=[...]).send(node).",
        )
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, SyftTensor):
        raise CommandNotAllowedError(
            f"x.private = True for a {type(tensor).__name__}", "use x.private_tensor(allowed_users=[...])."
        )
    return tensor


def _keep_private(worker: BaseWorker, session: object, tensor: object) -> Any:
    kept = _check(worker, tensor)
    set_private(kept, True)
    return kept


def _make_private(worker: BaseWorker, session: object, tensor: object) -> None:
    set_private(_check(worker, tensor), True)


WORKER_COMMANDS[_KEEP] = _keep_private
WORKER_COMMANDS[MAKE_PRIVATE] = _make_private
