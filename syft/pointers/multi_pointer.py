"""MultiPointerTensor: several pointers used as one; a call runs at every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from syft.core.dispatch import run
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.references import TensorMeta
from syft.core.tensor import AbstractTensor, below, keep_ids
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError, TensorsNotCollocatedError
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import rebuild_container
from syft.pointers.wrapper_methods import WrapperMethods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from syft.workers.base import BaseWorker

_Tensor: Any = torch.Tensor


class PointerGroup(AbstractTensor):
    """A link to tensors at several workers: its child is a dict of pointers by the id of their worker."""

    def pointers(self) -> list[Any]:
        """Return the pointers, in the order of the workers."""
        return list(self.child.values())

    def values_there(self) -> list[torch.Tensor]:
        """Return the tensors without fetching them (in-process workers only, for debugging)."""
        return [pointer.location._objects[pointer.id_at_location] for pointer in self.pointers()]

    @property
    def garbage_collect_data(self) -> bool:
        """Whether the tensors are deleted with their last pointers."""
        return all(pointer.garbage_collect_data for pointer in self.pointers())

    @garbage_collect_data.setter
    def garbage_collect_data(self, value: bool) -> None:
        self.set_garbage_collect_data(value)

    gc = garbage_collection = garbage_collect_data

    def set_garbage_collect_data(self, value: bool) -> None:
        """Set whether the tensors are deleted with their last pointers."""
        for pointer in self.pointers():
            pointer.garbage_collect_data = value


class MultiPointerTensor(PointerGroup, WrapperMethods):
    """Tensors of the same shape at several workers, used as one.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        children: pointers at different workers, to tensors of the same shape.
    """

    priority: ClassVar[int] = 2

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        children: Any = (),
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description)
        pointers = [below(child) for child in children]
        self.child: dict[object, Any] = {pointer.location.id: pointer for pointer in pointers}
        if len(self.child) != len(pointers):
            raise SyftError(
                "A multi-pointer needs pointers at different workers, but two of these point at the same worker."
            )
        shapes = {tuple(pointer.shape) for pointer in pointers}
        if len(shapes) > 1:
            raise SyftError(f"A multi-pointer needs tensors of one shape, but these have {sorted(shapes)}.")

    def tensor_meta(self) -> TensorMeta:
        """Return the metadata of the first tensor."""
        meta: TensorMeta = next(iter(self.child.values())).tensor_meta()
        return meta

    @property
    def location(self) -> list[Any]:
        """The workers pointed at."""
        return [pointer.location for pointer in self.child.values()]

    @property
    def grad(self) -> Any:
        """The gradients at every worker, or None if there are none."""
        return MultiPointerTensor.handle(_Tensor.grad.__get__, (self,), {})

    def set_grad_of(self, shell: object, value: object) -> None:
        """Set the gradients at every worker."""
        MultiPointerTensor.handle(_Tensor.grad.__set__, (self, below(value)), {})

    @property
    def private(self) -> bool:
        """Whether all tensors were made private: their workers then release them to no client."""
        return all(pointer.private for pointer in self.pointers())

    @private.setter
    def private(self, value: bool) -> None:
        for pointer in self.pointers():
            pointer.private = value

    def get(self, sum_results: bool = False) -> Any:
        """Fetch every tensor: a list of them, or their sum."""
        results = [pointer.get() for pointer in self.child.values()]
        return sum(results[1:], results[0]) if sum_results else results

    def virtual_get(self, sum_results: bool = False) -> Any:
        """Return every tensor without fetching it (in-process workers only, for debugging)."""
        results = self.values_there()
        return sum(results[1:], results[0]) if sum_results else results

    def clone(self, *, memory_format: torch.memory_format | None = None) -> Any:
        """Copy every tensor at its worker; the ids stay the same."""
        copies = [pointer.clone(memory_format=memory_format) for pointer in self.child.values()]
        return keep_ids(self, MultiPointerTensor(children=copies, owner=self._owner))

    @staticmethod
    def dispatch(args: object, worker: object) -> Any:
        """Return arguments with every multi-pointer replaced by its pointer at one worker."""
        worker_id = getattr(worker, "id", worker)
        return map_tensors(lambda t: t.child[worker_id] if isinstance(t, MultiPointerTensor) else t, args)

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call at every worker, and group the results."""
        multis = [leaf for leaf in iter_tensors((args, kwargs)) if isinstance(leaf, MultiPointerTensor)]
        workers = list(multis[0].child)
        for other in multis[1:]:
            if set(other.child) != set(workers):
                raise TensorsNotCollocatedError(
                    "A call on multi-pointers", [f"one is on {sorted(map(str, m.child))}" for m in multis]
                )
        results = [run(function, *cls.dispatch((args, kwargs), worker)) for worker in workers]
        for multi in multis:  # an in-place call returns its own arguments
            if all(result is pointer for result, pointer in zip(results, multi.child.values(), strict=True)):
                multi.reshaped = any(pointer.reshaped for pointer in multi.child.values())
                return multi
        return group_results(results, multis[0]._owner)

    def __repr__(self) -> str:
        return "[MultiPointerTensor]" + "".join(f"\n\t-> {pointer!r}" for pointer in self.child.values())

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description and the pointers."""
        return (tensor.id, tensor.tags, tensor.description, list(tensor.child.values()))

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> MultiPointerTensor:
        """Rebuild a multi-pointer at a worker."""
        obj_id, tags, description, pointers = payload
        check_labels(obj_id, tags, description)
        if not all(isinstance(pointer, ObjectPointer) for pointer in pointers):
            raise TypeError("a multi-pointer is made of pointers to other workers")
        return cls(owner=worker, id=obj_id, tags=tags, description=description, children=pointers)


def group_results(results: list[Any], owner: BaseWorker) -> Any:
    """Group the results of one call at several workers, item by item in containers."""
    first = results[0]
    if isinstance(first, ObjectPointer):
        return MultiPointerTensor(owner=owner, children=results)
    if isinstance(first, tuple | list) and not isinstance(first, torch.Size):
        items = [group_results(list(parts), owner) for parts in zip(*results, strict=True)]
        return rebuild_container(type(first), items)
    if type(first) is dict:
        return {key: group_results([result[key] for result in results], owner) for key in first}
    return None if all(result is None for result in results) else results


def combine_pointers(*pointers: object) -> Any:
    """Group pointers at different workers into one multi-pointer.

    Args:
        *pointers: pointers to tensors of one shape, each at another worker.
    """
    return MultiPointerTensor(children=pointers).wrap()
