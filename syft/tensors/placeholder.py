"""PlaceHolder: stands for a tensor (or a number) in the operations of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core.dispatch import forward
from syft.core.id_provider import ObjectId
from syft.core.labels import check_labels
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError

if TYPE_CHECKING:
    from collections.abc import Callable

    from syft.workers.base import BaseWorker


class PlaceHolder(AbstractTensor):
    """A value of a plan: an input, an output, a tensor of the state, or something in between.

    Its tags say which: `#input-0`, `#output-0`, `#state`, `#inner`, and `#<n>`, its number in the plan.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: a text; for a state tensor, its name in its module.
    """

    unregistered = "forward"

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: set[str] | None = None,
        description: str | None = None,
        child: object = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)

    def instantiate(self, tensor: object) -> PlaceHolder:
        """Set the tensor of this placeholder; a wrapped placeholder is unwrapped first."""
        if isinstance(tensor, providers.wrapper) and isinstance(tensor.__dict__["child"], PlaceHolder):
            tensor = tensor.__dict__["child"]
        self.child = tensor.child if isinstance(tensor, PlaceHolder) else tensor
        return self

    def copy(self) -> PlaceHolder:
        """Return a placeholder with the same tags and the same tensor."""
        return PlaceHolder(owner=self._owner, tags=self.tags, description=self.description, child=self._tensor())

    def _tensor(self) -> Any:
        return self.__dict__.get("child")

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call on the tensors of the placeholders."""
        for leaf in (*args, *kwargs.values()):
            if isinstance(leaf, PlaceHolder) and leaf._tensor() is None:
                raise SyftError(f"{leaf!r} is empty. Set its tensor first: placeholder.instantiate(tensor).")
        return forward(cls, function, args, kwargs)

    def __repr__(self) -> str:
        tags = " ".join(sorted(self.tags))
        inside = self._tensor()
        return f"PlaceHolder[{tags}]" + (f">{tuple(inside.shape)}" if hasattr(inside, "shape") else "")

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, tags, description and the tensor."""
        return (tensor.id, tensor.tags, tensor.description, tensor.__dict__.get("child"))

    @classmethod
    def detail(cls, worker: BaseWorker | None, tensor_tuple: tuple[Any, ...]) -> PlaceHolder:
        """Rebuild a placeholder."""
        obj_id, tags, description, child = tensor_tuple
        check_labels(obj_id, tags, description)
        return PlaceHolder(owner=worker, id=obj_id, tags=tags, description=description, child=child)


def tag_sort(keyword: str) -> Callable[[Any], int]:
    """Return a sort key for placeholders, or pairs that end with one: the number in their tag `#<keyword>-<number>`."""
    start = f"#{keyword}-"

    def position(item: Any) -> int:
        placeholder = item[-1] if isinstance(item, tuple) else item
        return min((int(tag[len(start) :]) for tag in placeholder.tags if tag.startswith(start)), default=0)

    return position
