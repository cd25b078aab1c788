"""TorchTensor: the methods and properties that the hook adds to torch.Tensor.

They work on plain tensors and on chains alike; `self.child` exists on chains only.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from syft.core import labels
from syft.core.context import local_worker
from syft.core.dispatch import run
from syft.core.id_provider import ObjectId
from syft.core.object import _serializer
from syft.core.tensor import AbstractTensor
from syft.exceptions import InvalidTensorForRemoteGet, SyftError, UnsupportedOperation
from syft.hook import base
from syft.hook.patches import Computed
from syft.hook.syft_tensor import SyftTensor, swap
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import refuse_own_parties
from syft.tensors.private import PrivateTensor, check_private, private_link


def default_pytorch_maximum_precision() -> int:
    """Return how many bits a fixed-precision value has room for."""
    return 62


def _chain(tensor: Any) -> Any:
    """Return the link below a shell, or None for a plain tensor."""
    return tensor.__dict__.get("child") if isinstance(tensor, SyftTensor) else None


def _pointer(tensor: Any, verb: str) -> Any:
    """Return the link that a verb for remote tensors is meant for, or say that the tensor is local."""
    link = _chain(tensor)
    if link is None:
        raise SyftError(
            f"This tensor is local, so there is nothing to {verb}. "
            "Send it to a worker first: ptr = x.send(bob), then use the pointer."
        )
    return link


class TorchTensor:
    """A stand-in for torch.Tensor: its public names are copied onto the real one."""

    @property
    def id(self) -> ObjectId:
        """The id of this tensor, drawn when first asked for."""
        link = _chain(self)
        return labels.id_of(self) if link is None else link.id

    @id.setter
    def id(self, value: ObjectId) -> None:
        link = _chain(self)
        labels.set_id(self if link is None else link, value)

    @property
    def owner(self) -> Any:
        """The worker this tensor (or this pointer) belongs to."""
        link = _chain(self)
        if link is not None:
            return link.owner
        return self.__dict__.get(labels.OWNER) or local_worker(required=False)

    @owner.setter
    def owner(self, worker: Any) -> None:
        link = _chain(self)
        if link is None:
            self.__dict__[labels.OWNER] = worker
        else:
            link.owner = worker

    @property
    def tags(self) -> set[str]:
        """The words this tensor can be found by."""
        link = _chain(self)
        return labels.tags_of(self if link is None else link)

    @tags.setter
    def tags(self, tags: Any) -> None:
        labels.check_tags(*(tags or ()))
        link = _chain(self)
        if link is None:
            self.__dict__[labels.TAGS] = set(tags or ())
        else:
            link.tags = set(tags or ())

    @property
    def description(self) -> str | None:
        """The text this tensor can be found by."""
        link = _chain(self)
        return labels.description_of(self if link is None else link)

    @description.setter
    def description(self, text: str | None) -> None:
        link = _chain(self)
        if link is None:
            self.__dict__[labels.DESCRIPTION] = text
        else:
            link.description = text

    @Computed
    def location(self) -> Any:
        """The worker that holds the data; None if it is here."""
        link = _chain(self)
        while link is not None and not isinstance(link, ObjectPointer | MultiPointerTensor):
            link = link.__dict__.get("child") if hasattr(link, "__dict__") else None
        return None if link is None else link.location

    @Computed
    def id_at_location(self) -> ObjectId:
        """The id of the data at the worker that holds it."""
        found: ObjectId = _pointer(self, "point at").id_at_location
        return found

    @Computed
    def is_wrapper(self) -> bool:
        """Whether this is the shell of a chain."""
        return isinstance(self, SyftTensor)

    @Computed
    def ptr(self) -> Any:
        """The last pointer made to this tensor, if it is still alive."""
        ref = self.__dict__.get("_syft_ptr")
        return None if ref is None else ref()

    @property
    def garbage_collection(self) -> bool:
        """Whether the remote data goes when its pointers go."""
        return bool(_pointer(self, "collect").garbage_collect_data)

    @garbage_collection.setter
    def garbage_collection(self, value: bool) -> None:
        _pointer(self, "collect").garbage_collect_data = value

    @property
    def gc(self) -> bool:
        """Short form of `garbage_collection`."""
        return bool(_pointer(self, "collect").garbage_collect_data)

    @gc.setter
    def gc(self, value: bool) -> None:
        _pointer(self, "collect").garbage_collect_data = value

    @Computed
    def disable_gc(self) -> Any:
        """Keep the remote data when its pointers go, and return this pointer."""
        _pointer(self, "keep").garbage_collect_data = False
        return self

    def has_child(self) -> bool:
        """Say whether this is a chain."""
        return _chain(self) is not None

    def tag(self, *tags: str) -> Any:
        """Add words this tensor (and the remote one, for a pointer) can be found by; returns it."""
        link = _chain(self)
        if link is None:
            labels.add_tags(self, *tags)
        else:
            link.tag(*tags)
        return self

    def describe(self, description: str) -> Any:
        """Set the text this tensor (and the remote one, for a pointer) can be found by; returns it."""
        link = _chain(self)
        if link is None:
            labels.set_description(self, description)
        else:
            link.describe(description)
        return self

    def send(
        self: Any,
        *location: Any,
        inplace: bool = False,
        user: object = None,
        local_autograd: bool = False,
        preinitialize_grad: bool = False,
        no_wrap: bool = False,
        garbage_collect_data: bool | None = None,
        requires_grad: bool | None = None,
    ) -> Any:
        """Send this tensor to a worker and return a pointer to it, or to several and return a multi-pointer.

        Args:
            *location: the worker or workers; each gets a copy.
            inplace: become the pointer instead of returning a new one (one worker only).
            user: on whose behalf, for a private tensor; a node knows who sends from the connection.
            local_autograd: not offered: gradients are computed where the data is.
            preinitialize_grad: give the tensor a gradient of zeros first.
            no_wrap: return the bare PointerTensor.
            garbage_collect_data: whether the remote tensor goes when its pointers go; by default it does, unless
                it carries tags.
            requires_grad: overrides whether autograd follows the remote tensor.
        """
        if not location:
            raise SyftError("send() needs a worker: x.send(bob).")
        taken = _taken(self, location)
        if taken is not None:
            return taken
        if local_autograd:
            raise UnsupportedOperation(
                "send(local_autograd=True)",
                "torch.Tensor",
                "Autograd runs where the data is: call loss.backward().",
            )
        if preinitialize_grad and self.grad is None:
            self.grad = torch.zeros_like(self)
        refuse_own_parties(_chain(self), _flatten(location))
        private = private_link(self)
        if private is not None:
            private.check_send(user)
        owner = local_worker()
        pointers = [
            owner.send(self, worker, garbage_collect_data=garbage_collect_data) for worker in _flatten(location)
        ]
        for pointer in pointers:
            self.__dict__["_syft_ptr"] = weakref.ref(pointer)
        if len(pointers) > 1:
            if inplace:
                raise SyftError("send_() takes one worker; use send() for several.")
            multi = MultiPointerTensor(children=pointers)
            return multi if no_wrap else multi.wrap()
        if no_wrap:
            return pointers[0]
        shell = pointers[0].wrap()
        if requires_grad is not None:
            shell.requires_grad_(requires_grad)
        if isinstance(self, torch.nn.Parameter):
            shell._is_param = True
        if not inplace:
            return shell
        swap(self, shell)
        return self

    def send_(self: Any, *location: Any, **kwargs: Any) -> Any:
        """Become a pointer to a copy of this tensor at a worker."""
        return self.send(*location, inplace=True, **kwargs)

    def get(self: Any, *args: Any, inplace: bool = False, user: Any = None, reason: str = "", **kwargs: Any) -> Any:
        """Fetch what this pointer points at; it is no longer at its worker afterwards.

        Args:
            *args: passed on to the link below.
            inplace: become the fetched tensor instead of returning it.
            user: who asks, for a private tensor; a node knows that from the connection.
            reason: a text for the log of the worker.
            **kwargs: passed on to the link below.
        """
        link = _pointer(self, "get")
        if isinstance(link, ObjectPointer | PrivateTensor):
            fetched = link.get(user=user, reason=reason, **kwargs)
        else:
            check_private(self, user)
            fetched = link.get(*args, **kwargs)
        if isinstance(fetched, AbstractTensor):
            fetched = fetched.wrap()
            if self.requires_grad and self.is_leaf:
                fetched.requires_grad_()
        if not inplace:
            return fetched
        swap(self, fetched)
        return self

    def get_(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Become what this pointer points at."""
        return self.get(*args, inplace=True, **kwargs)

    def move(self: Any, location: Any, requires_grad: bool | None = None) -> Any:
        """Make the remote data travel to another worker; returns a pointer to it there."""
        taken = _taken(self, (location,))
        if taken is not None:
            return taken
        link = _pointer(self, "move")
        if not isinstance(link, PointerTensor):
            raise UnsupportedOperation("move", type(link).__name__, "Only pointers move.")
        moved = link.move(location)
        if moved is link:
            return self
        result = moved.wrap() if isinstance(moved, PointerTensor) else moved
        return result if requires_grad is None else result.requires_grad_(requires_grad)

    def move_(self: Any, location: Any) -> Any:
        """Move the remote data to another worker; this pointer then points there."""
        moved = self.move(location)
        if moved is not self:
            swap(self, moved)
        return self

    def remote_send(self, location: Any, change_location: bool = False) -> Any:
        """Make the holder send the data on; this then points at a pointer (or at the data)."""
        link = _pointer(self, "send on").remote_send(location, change_location=change_location)
        return self if link is _chain(self) else link.wrap()

    def remote_get(self) -> Any:
        """Make the pointer that this pointer points at fetch its data, there."""
        link = _chain(self)
        if not isinstance(link, PointerTensor):
            raise InvalidTensorForRemoteGet(self)
        link.remote_get()
        return self

    def mid_get(self) -> Any:
        """Same as `remote_get`."""
        return self.remote_get()

    def delete(self) -> None:
        """Delete the remote data now, whoever else points at it."""
        _pointer(self, "delete").delete()

    def copy(self: Any) -> Any:
        """Return a copy with an id of its own, here or where the data is."""
        return self.clone()

    def attr(self, attr_name: str) -> Any:
        """Return an attribute of this tensor, or a pointer to that of the remote one."""
        link = _chain(self)
        if link is None:
            return getattr(self, attr_name)
        found = link.attr(attr_name) if isinstance(link, PointerTensor) else getattr(link, attr_name)
        return found.wrap() if isinstance(found, PointerTensor) else found

    def combine(self, *pointers: Any) -> Any:
        """Group this pointer with others at other workers into a multi-pointer."""
        return MultiPointerTensor(children=(self, *pointers)).wrap()

    def create_pointer(
        self,
        location: Any = None,
        id_at_location: ObjectId | None = None,
        register: bool = False,
        owner: Any = None,
        ptr_id: ObjectId | None = None,
        garbage_collect_data: bool | None = None,
        shape: Any = None,
        **kwargs: Any,
    ) -> PointerTensor:
        """Make a pointer to this tensor, which `location` holds (its owner by default)."""
        return PointerTensor.create_pointer(
            self, location, id_at_location, register, owner, ptr_id, garbage_collect_data, shape
        )

    def wrap(self, *args: Any, **kwargs: Any) -> Any:
        """Return this tensor: it needs no shell."""
        return self

    def on(self, tensor: Any, wrap: bool = True) -> Any:
        """Refuse: a plain tensor is the bottom of a chain, not a link of one."""
        raise UnsupportedOperation("on()", "a plain tensor", "Put a link on it instead: sy.LoggingTensor().on(x).")

    def refresh(self) -> Any:
        """Re-randomise the shares below, if there are any."""
        link = _chain(self)
        if link is not None:
            link.refresh()
        return self

    def serialize(self, *args: Any, **kwargs: Any) -> bytes:
        """Return this tensor as bytes."""
        return bytes(_serializer[0](self, *args, **kwargs))

    def ser(self, *args: Any, **kwargs: Any) -> bytes:
        """Return this tensor as bytes (short form of `serialize`)."""
        return bytes(_serializer[0](self, *args, **kwargs))

    def torch_type(self: Any) -> str:
        """Return the name of the type of the tensor at the bottom."""
        name: str = torch.empty(0, dtype=self.dtype).type()
        return name

    def get_class_attributes(self) -> dict[str, Any]:
        """Return what results inherit: nothing, for a plain tensor."""
        return {}

    @classmethod
    def on_function_call(cls, *args: Any) -> None:
        """Hear of each function call: nothing to do for a plain tensor."""

    @classmethod
    def handle_func_command(cls, command: tuple[Any, ...]) -> Any:
        """Run a command `(function or dotted name, self or None, args, kwargs)` on any tensors."""
        from syft.core.dispatch import resolve

        name, self, args, kwargs = command
        function = resolve(name, self is not None) if isinstance(name, str) else name
        return run(function, args if self is None else (self, *args), kwargs)

    @classmethod
    def rgetattr(cls, obj: Any, attr: str, *args: Any) -> Any:
        """Walk a dotted attribute path."""
        for name in attr.split("."):
            obj = getattr(obj, name, *args)
        return obj


def _taken(tensor: Any, location: tuple[Any, ...]) -> Any:
    """Give a tensor to a role of a protocol that is being recorded; None if the place is a worker."""
    take = getattr(location[0], "take_recorded", None)
    return take(tensor) if take is not None and len(location) == 1 else None


def _flatten(location: tuple[Any, ...]) -> list[Any]:
    return [worker for entry in location for worker in (entry if isinstance(entry, list | tuple) else (entry,))]


base.tensor_methods.insert(0, TorchTensor)
