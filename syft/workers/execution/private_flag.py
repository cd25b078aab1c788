"""`x.private = True`: a worker keeps a tensor from its clients, whatever its policy.

Like a release policy, it covers the tensor that a request names, not the results computed from it. A `PrivateTensor`
covers these too, and a node decides by the rights of its users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import set_private
from syft.exceptions import CommandNotAllowedError
from syft.hook.syft_tensor import SyftTensor
from syft.pointers.pointer_tensor import MAKE_PRIVATE
from syft.workers.execution.execute import WORKER_COMMANDS

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

_KEEP = "syft.keep_private"


def keep_private_at(stream: Any, tensor: torch.Tensor, obj_id: ObjectId, published: bool) -> None:
    """Store a private tensor at a worker; it is private there from the start."""
    stream.run(_KEEP, (tensor,), {}, obj_id)
    if published:
        stream.publish(obj_id)


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
