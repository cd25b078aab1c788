"""IdentityMethods: id, owner, labels and location of tensors, added by the hook to torch.Tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syft.core import labels
from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.hook import base
from syft.hook.patches import Computed
from syft.hook.syft_tensor import SyftTensor
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def link_of(tensor: object) -> Any:
    """Return the first link of a chain; None for a plain tensor."""
    return tensor.__dict__.get("child") if isinstance(tensor, SyftTensor) else None


def require_link(tensor: object, verb: str) -> Any:
    """Return the first link of a chain; raises for a local tensor, naming the verb."""
    link = link_of(tensor)
    if link is None:
        raise SyftError(
            f"This tensor is local, so there is nothing to {verb}. Send it to a worker first: ptr = x.send(bob)."
        )
    return link


def _owner_of(tensor: object) -> Any:
    return tensor.__dict__.get(labels.OWNER) or local_worker(required=False)


def _label(name: str, key: str, read_plain: Callable[[Any], Any], doc: str) -> property:
    """Make a property of tensors that is an attribute of the first link, or in the `__dict__` of a plain tensor."""

    def read(self: Any) -> Any:
        link = link_of(self)
        return read_plain(self) if link is None else getattr(link, name)

    def write(self: Any, value: object) -> None:
        link = link_of(self)
        if link is None:
            self.__dict__[key] = value
        else:
            setattr(link, name, value)

    return property(read, write, doc=doc)


class IdentityMethods:
    """Properties and methods of tensors that name and locate them."""

    id = _label("id", labels.ID, labels.id_of, "The id of this tensor, created when it is first read.")
    owner = _label("owner", labels.OWNER, _owner_of, "The worker this tensor (or this pointer) belongs to.")
    description = _label(
        "description",
        labels.DESCRIPTION,
        labels.description_of,
        "The description of this tensor, which searches match.",
    )

    @property
    def tags(self) -> set[str]:
        """The tags of this tensor, which searches match."""
        link = link_of(self)
        return labels.tags_of(self if link is None else link)

    @tags.setter
    def tags(self, tags: Iterable[str] | None) -> None:
        given = labels.tag_set(tags)
        labels.check_tags(*given)
        link = link_of(self)
        if link is None:
            self.__dict__[labels.TAGS] = given
        else:
            link.tags = given

    @property
    def private(self) -> bool:
        """Whether the worker that holds this tensor keeps it from its clients.

        The flag travels with a tensor that is sent. Results computed from the tensor are not private; those of
        `private_tensor(allowed_users=[...])` are.
        """
        link = link_of(self)
        return labels.is_private(self) if link is None else bool(getattr(link, "private", False))

    @private.setter
    def private(self: Any, value: bool) -> None:
        link = link_of(self)
        if link is None:
            labels.set_private(self, value)
        elif isinstance(link, ObjectPointer | MultiPointerTensor):
            link.private = value  # type: ignore[union-attr]
        else:
            raise UnsupportedOperationError(
                "x.private = ...", type(link).__name__, "Use x.private_tensor(allowed_users=[...])."
            )

    @Computed
    def location(self) -> Any:
        """The worker that holds the data; None if it is local."""
        link = link_of(self)
        while link is not None and not isinstance(link, ObjectPointer | MultiPointerTensor):
            link = link.__dict__.get("child") if hasattr(link, "__dict__") else None
        return None if link is None else link.location

    @Computed
    def id_at_location(self) -> ObjectId:
        """The id of the data at the worker that holds it."""
        found: ObjectId = require_link(self, "point at").id_at_location
        return found

    @Computed
    def is_wrapper(self) -> bool:
        """Whether this tensor wraps a chain of links."""
        return isinstance(self, SyftTensor)

    @Computed
    def ptr(self) -> Any:
        """The last pointer made to this tensor, if it is still alive."""
        ref = self.__dict__.get("_syft_ptr")
        return None if ref is None else ref()

    @property
    def garbage_collection(self) -> bool:
        """Whether the remote data is deleted with its last pointer."""
        return bool(require_link(self, "collect").garbage_collect_data)

    @garbage_collection.setter
    def garbage_collection(self, value: bool) -> None:
        require_link(self, "collect").garbage_collect_data = value

    gc = garbage_collection

    @Computed
    def disable_gc(self) -> Any:
        """Keep the remote data after its last pointer is gone; returns this pointer."""
        require_link(self, "keep").garbage_collect_data = False
        return self

    def tag(self, *tags: str) -> Any:
        """Add tags to this tensor (and to the remote one, for a pointer); returns it."""
        link = link_of(self)
        if link is None:
            labels.add_tags(self, *tags)
        else:
            link.tag(*tags)
        return self

    def describe(self, description: str) -> Any:
        """Set the description of this tensor (and of the remote one, for a pointer); returns it."""
        link = link_of(self)
        if link is None:
            labels.set_description(self, description)
        else:
            link.describe(description)
        return self


base.tensor_methods.append(IdentityMethods)
