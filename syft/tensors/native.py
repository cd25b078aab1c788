"""TorchTensor: the methods that the hook adds to torch.Tensor.

They work on plain tensors and on chains alike; `self.child` exists on chains only.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syft._suggestions import suggests_keywords
from syft.core.context import local_worker
from syft.core.dispatch import resolve, run
from syft.core.id_provider import ObjectId
from syft.core.labels import copy_labels, id_of
from syft.core.object import AbstractObject
from syft.core.providers import providers
from syft.core.tensor import AbstractTensor
from syft.exceptions import InvalidTensorForRemoteGetError, SyftError, UnsupportedOperationError
from syft.hook import base
from syft.hook.autograd_mark import carry_marks, mark, mark_of
from syft.hook.syft_tensor import refresh, swap
from syft.pointers.moves import Move, check_differentiable, local_root
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.pointer_tensor import PointerTensor
from syft.tensors.additive_shared import refuse_own_parties
from syft.tensors.autograd import AutogradTensor
from syft.tensors.identity import link_of, require_link
from syft.tensors.private import PrivateTensor, check_private, private_link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syft.workers.base import BaseWorker

    Location: TypeAlias = BaseWorker | ObjectId


def default_pytorch_maximum_precision() -> int:
    """Return the number of bits of a fixed-precision value."""
    return 62


class TorchTensor:
    """Methods of tensors; the hook copies its public names to torch.Tensor."""

    def has_child(self) -> bool:
        """Say whether this is a chain."""
        return link_of(self) is not None

    @suggests_keywords
    def send(
        self: Any,
        *location: Location | Sequence[Location],
        inplace: bool = False,
        user: ObjectId | None = None,
        local_autograd: bool = False,
        preinitialize_grad: bool = False,
        no_wrap: bool = False,
        garbage_collect_data: bool | None = None,
        requires_grad: bool = False,
    ) -> Any:
        """Send this tensor to a worker and return a pointer to it, or to several and return a multi-pointer.

        Args:
            *location: the worker or workers; each receives a copy.
            inplace: become the pointer instead of returning a new one (one worker only).
            user: the user who sends, for a private tensor; a node reads it from the connection.
            local_autograd: put an AutogradTensor over the pointer; gradients are still computed where the data is.
            preinitialize_grad: give the tensor a gradient of zeros first.
            no_wrap: return the bare PointerTensor.
            garbage_collect_data: whether the remote tensor is deleted with its last pointer; by default it is, unless
                it has tags.
            requires_grad: whether gradients flow back through the send: the remote tensor requires a gradient, and
                backward passes there continue at this tensor.
        """
        if not location:
            raise SyftError("send() needs a worker: x.send(bob).")
        recorded = _sent_to_role(self, location)
        if recorded is not None:
            return recorded
        if preinitialize_grad and self.grad is None:
            self.grad = torch.zeros_like(self)
        refuse_own_parties(link_of(self), _flatten(location))
        private = private_link(self)
        if private is not None:
            private.check_send(user)
        owner = local_worker()
        body = _differentiable_copy(self) if requires_grad else self
        if requires_grad and self.requires_grad and not inplace:
            self.retain_grad()  # it has a gradient afterwards, also if it is a result
        pointers = [
            owner.send(body, worker, garbage_collect_data=garbage_collect_data) for worker in _flatten(location)
        ]
        for pointer in pointers:
            if requires_grad and not inplace:
                Move(self, pointer, local_root(self))
            self.__dict__["_syft_ptr"] = weakref.ref(pointer)
        if len(pointers) > 1:
            if inplace:
                raise SyftError("send_() takes one worker; use send() for several.")
            multi = MultiPointerTensor(children=pointers)
            return multi if no_wrap else multi.wrap()
        if no_wrap:
            return AutogradTensor(pointers[0]) if local_autograd else pointers[0]
        shell = pointers[0].wrap()
        if local_autograd:
            shell = AutogradTensor(preinitialize_grad=preinitialize_grad).on(shell)
        if isinstance(self, torch.nn.Parameter):
            shell._is_param = True
        if not inplace:
            return shell
        former = swap(self, shell)
        if requires_grad and not former.is_leaf:
            Move(former, pointers[0], local_root(former))
        return self

    def send_(self: Any, *location: Location | Sequence[Location], **kwargs: object) -> Any:
        """Become a pointer to a copy of this tensor at a worker."""
        return self.send(*location, inplace=True, **kwargs)

    def get(
        self: Any, *args: Any, inplace: bool = False, user: ObjectId | None = None, reason: str = "", **kwargs: Any
    ) -> Any:
        """Fetch the data of this pointer; it is removed from its worker.

        Args:
            *args: passed to the link below.
            inplace: become the fetched tensor instead of returning it.
            user: the user who fetches, for a private tensor; a node reads it from the connection.
            reason: a text for the log of the worker.
            **kwargs: passed to the link below.
        """
        link = require_link(self, "get")
        noted = mark_of(self)
        if noted is not None and noted.is_gradient:
            link = link.copy()  # the tensor keeps its gradient
        if isinstance(link, AutogradTensor):
            fetched = link.child.get(*args, user=user, reason=reason, **kwargs)
        elif isinstance(link, ObjectPointer | PrivateTensor):
            fetched = link.get(user=user, reason=reason, **kwargs)
        else:
            check_private(self, user)
            fetched = link.get(*args, **kwargs)
        if isinstance(fetched, AbstractTensor):
            fetched = fetched.wrap()
            if self.requires_grad and self.is_leaf:
                fetched.requires_grad_()
            if noted is not None:
                mark(fetched)
        if not inplace:
            return fetched
        swap(self, fetched)
        return self

    def get_(self: Any, *args: object, **kwargs: object) -> Any:
        """Become the data of this pointer."""
        return self.get(*args, inplace=True, **kwargs)

    def move(self: Any, location: Location, requires_grad: bool = False) -> Any:
        """Move the remote data to another worker; returns a pointer to it there.

        Args:
            location: the receiving worker.
            requires_grad: whether gradients flow back through the move: this tensor stays, its copy requires a
                gradient, and backward passes at the new worker continue at this one.
        """
        recorded = _sent_to_role(self, (location,))
        if recorded is not None:
            return recorded
        link = require_link(self, "move")
        if not isinstance(link, PointerTensor):
            raise UnsupportedOperationError("move", type(link).__name__, "Only pointers can be moved.")
        moved = link.move(location, requires_grad)
        if moved is link:
            if link.reshaped:
                refresh(self)
            return self
        return carry_marks(self, moved.wrap()) if isinstance(moved, PointerTensor) else moved

    def move_(self: Any, location: Location, requires_grad: bool = False) -> Any:
        """Move the remote data to another worker; this pointer then points there."""
        moved = self.move(location, requires_grad)
        if moved is not self:
            swap(self, moved)
        return self

    def remote_send(self, location: Location, change_location: bool = False) -> Any:
        """Make the worker of this pointer send the data on; this then points at a pointer (or at the data)."""
        link = require_link(self, "send on").remote_send(location, change_location=change_location)
        return self if link is link_of(self) else link.wrap()

    def remote_get(self) -> Any:
        """Make the pointer that this pointer points at fetch its data, there."""
        link = link_of(self)
        if not isinstance(link, PointerTensor):
            raise InvalidTensorForRemoteGetError(self)
        link.remote_get()
        return self

    mid_get = remote_get

    def delete(self) -> None:
        """Delete the remote data now, even if other clients have pointers to it."""
        require_link(self, "delete").delete()

    def copy(self: Any) -> Any:
        """Return a copy with a new id, at the worker that holds the data."""
        return torch.Tensor.clone(self)

    def attr(self, attr_name: str) -> Any:
        """Return an attribute of this tensor, or a pointer to the attribute of the remote one."""
        link = link_of(self)
        if link is None:
            return getattr(self, attr_name)
        found = link.attr(attr_name) if isinstance(link, PointerTensor) else getattr(link, attr_name)
        return found.wrap() if isinstance(found, PointerTensor) else found

    def combine(self, *pointers: torch.Tensor | PointerTensor) -> Any:
        """Group this pointer with others at other workers into a multi-pointer."""
        return MultiPointerTensor(children=(self, *pointers)).wrap()

    def create_pointer(
        self,
        location: BaseWorker | None = None,
        id_at_location: ObjectId | None = None,
        register: bool = False,
        owner: BaseWorker | None = None,
        ptr_id: ObjectId | None = None,
        garbage_collect_data: bool | None = None,
        shape: torch.Size | None = None,
        **kwargs: Any,
    ) -> PointerTensor:
        """Make a pointer to this tensor; arguments as for `PointerTensor.create_pointer`."""
        return PointerTensor.create_pointer(
            self, location, id_at_location, register, owner, ptr_id, garbage_collect_data, shape, **kwargs
        )

    def wrap(self, *args: object, **kwargs: object) -> Any:
        """Return this tensor: a plain tensor needs no wrapper."""
        return self

    def on(self, tensor: torch.Tensor, wrap: bool = True) -> Any:
        """Refuse: a plain tensor is the bottom of a chain, not a link of one."""
        raise UnsupportedOperationError("on()", "a plain tensor", "Put a link on it instead: sy.LoggingTensor().on(x).")

    def refresh(self) -> Any:
        """Re-randomise the shares below, if there are any."""
        link = link_of(self)
        if link is not None:
            link.refresh()
        return self

    def serialize(self, *args: object, **kwargs: object) -> bytes:
        """Return this tensor as bytes."""
        return bytes(providers.serialize(self, *args, **kwargs))

    ser = serialize

    def torch_type(self: Any) -> str:
        """Return the name of the type of the tensor at the bottom."""
        name: str = torch.empty(0, dtype=self.dtype).type()
        return name

    get_class_attributes = AbstractObject.get_class_attributes

    @classmethod
    def on_function_call(cls, *args: object) -> None:
        """Do nothing: only links observe function calls."""

    @classmethod
    def handle_func_command(cls, command: tuple[Any, ...]) -> Any:
        """Run a command `(function or dotted name, self or None, args, kwargs)` on any tensors."""
        name, self, args, kwargs = command
        function = resolve(name, self is not None) if isinstance(name, str) else name
        return run(function, args if self is None else (self, *args), kwargs)

    @classmethod
    def rgetattr(cls, obj: object, attr: str, *args: object) -> Any:
        """Walk a dotted attribute path."""
        for name in attr.split("."):
            obj = getattr(obj, name, *args)
        return obj


def _sent_to_role(tensor: torch.Tensor, location: tuple[Any, ...]) -> Any:
    """Send a tensor to a role of a protocol that is being recorded; None if the location is a worker."""
    receive = getattr(location[0], "take_recorded", None)
    return receive(tensor) if receive is not None and len(location) == 1 else None


def _differentiable_copy(tensor: Any) -> torch.Tensor:
    """Return a leaf with the values and labels of a tensor, to be sent."""
    link = link_of(tensor)
    if link is not None:
        hint = "Use move()." if isinstance(link, PointerTensor) else "Send the plain tensor."
        raise UnsupportedOperationError("send(requires_grad=True)", type(link).__name__, hint)
    check_differentiable(tensor, "send")
    id_of(tensor)
    leaf = tensor.detach()
    leaf = torch.nn.Parameter(leaf) if isinstance(tensor, torch.nn.Parameter) else leaf.requires_grad_()
    copy_labels(tensor, leaf)
    return leaf


def _flatten(location: tuple[Any, ...]) -> list[Any]:
    return [worker for entry in location for worker in (entry if isinstance(entry, list | tuple) else (entry,))]


base.tensor_methods.insert(0, TorchTensor)
