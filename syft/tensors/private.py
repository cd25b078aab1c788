"""PrivateTensor: a tensor that computes like any other, and is released only to the users it names.

Results are private too: to the users that all private operands have in common. Its text never shows values. In this
process the name of a user is self-declared, as the user can read all memory anyway. A node removes the link and
enforces the named users by its own policy, which identifies them by their tokens.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> x = torch.tensor([1.0, 2.0]).private_tensor(allowed_users=["alice"])
    >>> (x + x).allow("alice"), (x + x).allow("bob")
    (True, False)
    >>> (x + x).get(user="alice")
    tensor([2., 4.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch

from syft.core.dispatch import forward, function_name, run
from syft.core.id_provider import ObjectId, is_id
from syft.core.labels import add_tags, check_labels, description_of, set_description, tags_of
from syft.core.tensor import AbstractTensor, below
from syft.core.trees import iter_tensors
from syft.display.facts import FactList
from syft.exceptions import GetNotPermittedError, SendNotPermittedError, SyftError
from syft.hook import base
from syft.hook.attributes import FrameworkAttributes
from syft.hook.syft_tensor import METADATA, SyftTensor
from syft.pointers.object_pointer import ObjectPointer

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

Users = ObjectId | Iterable[ObjectId]
# Maximum number of users of one tensor.
MAX_USERS = 10_000
_WITHOUT_VALUES = (
    torch.Tensor, AbstractTensor, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


def users_of(users: Users | None) -> tuple[ObjectId, ...]:
    """Return the names of users without duplicates. A string is the name of one user."""
    if users is None:
        return ()
    if isinstance(users, str) or not isinstance(users, Iterable):
        users = (users,)
    found = list(users)
    if len(found) > MAX_USERS or not all(is_id(user) for user in found):
        raise TypeError(f'allowed_users needs at most {MAX_USERS} names of users: allowed_users=["alice", "bob"].')
    return tuple(dict.fromkeys(found))


class PrivateTensor(AbstractTensor):
    """A link that allows computation on its child, and releases it only to some users.

    Args:
        owner: the worker it belongs to.
        id: its id.
        tags: its tags, which searches match.
        description: its description, which searches match.
        allowed_users: the users it is released to; a string is one user.
        parents: the tensors it was computed from, if declared.
        command: the call it was computed by, if declared.
        child: the tensor or link below it.
    """

    unregistered: ClassVar[str] = "forward"
    # Above every other link, so that no call reaches the values without it.
    priority: ClassVar[int] = 50
    carries_labels: ClassVar[bool] = True

    def __init__(
        self,
        owner: BaseWorker | None = None,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
        allowed_users: Users = (),
        parents: tuple[Any, ...] = (),
        command: str | None = None,
        child: object = None,
    ) -> None:
        super().__init__(id=id, owner=owner, tags=tags, description=description, child=child)
        self.allowed_users = users_of(allowed_users)
        self.parents = tuple(parents)
        self.command = command

    def get_class_attributes(self) -> dict[str, Any]:
        """Return the attributes that results inherit."""
        return {"allowed_users": self.allowed_users}

    def allow(self, user: object) -> bool:
        """Say whether a user may fetch the child."""
        return is_id(user) and user in self.allowed_users

    def register_credentials(self, users: Users = ()) -> PrivateTensor:
        """Allow more users to fetch the child; returns this link."""
        self.allowed_users = users_of((*self.allowed_users, *users_of(users)))
        return self

    def get(self, user: ObjectId | None = None, reason: str = "", **kwargs: Any) -> Any:
        """Return the child to an allowed user; a remote child is fetched, and stays private."""
        self.check_get(user)
        below = self.child
        if isinstance(below, ObjectPointer):
            fetched = below.get(user=user, reason=reason, **kwargs)
            return type(self)(**self.get_class_attributes()).on(fetched, wrap=False)
        return below

    def check_get(self, user: object) -> None:
        """Raise unless a user may fetch the child."""
        if not self.allow(user):
            raise GetNotPermittedError(
                f"This tensor is private, and not released to {_name(user)}. {_hint('get', self)}"
            )

    def check_send(self, user: object) -> None:
        """Raise unless a user may send this tensor."""
        if not self.allow(user):
            raise SendNotPermittedError(
                f"This tensor is private, and can't be sent by {_name(user)}. {_hint('send', self)}"
            )

    def float_precision(self) -> Any:
        """Decode the child; it stays private."""
        decoded = self.child.float_precision()
        return type(self)(**self.get_class_attributes()).on(below(decoded), wrap=False)

    float_prec = float_precision

    @classmethod
    def handle(cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call on the children, and make its results private to the users that all operands allow."""
        if function in _DISPLAYS:
            return _DISPLAYS[function](*args, **kwargs)
        links = [leaf for leaf in iter_tensors((args, kwargs)) if isinstance(leaf, PrivateTensor)]
        users = _common(links)
        written = _written(function, args, kwargs)
        _refuse_open(function, written)
        result = forward(cls, function, args, kwargs)
        if function not in METADATA and not _reveals_nothing(function, result):
            raise GetNotPermittedError(
                f"{function_name(function)} returns values of a private tensor. {_hint('get', links[0])}"
            )
        for leaf in iter_tensors((result, written)):
            if not any(leaf is link for link in links) or any(leaf is link for link in written):
                leaf.allowed_users = users
        return result

    def _facts(self) -> FactList:
        """Yield what a table shows of this link."""
        yield "allowed users", ", ".join(map(str, self.allowed_users)) or "nobody"

    def __repr__(self) -> str:
        """Show the allowed users, the shape and the dtype, never the values."""
        if "child" not in self.__dict__:
            return "PrivateTensor"
        below = f">{self.child!r}" if isinstance(self.child, ObjectPointer) else ""
        meta = self.tensor_meta()
        users = ", ".join(map(repr, self.allowed_users[:5])) + (", ..." if len(self.allowed_users) > 5 else "")
        return f"PrivateTensor[{tuple(meta.shape)}, {meta.dtype}; for {users or 'nobody'}]{below}"

    __str__ = __repr__

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickle: a reader of the file would not be checked."""
        raise TypeError("A private tensor can't be pickled. Send it to a worker, or fetch it first: x.get(user=...).")

    @staticmethod
    def simplify(worker: BaseWorker | None, tensor: AbstractTensor) -> tuple[Any, ...]:
        """Return id, users, tags, description and the child."""
        users = tensor.__dict__["allowed_users"]
        return (tensor.id, users, tensor.tags, tensor.description, tensor.__dict__.get("child"))

    @classmethod
    def detail(cls, worker: BaseWorker | None, payload: tuple[Any, ...]) -> PrivateTensor:
        """Rebuild an untrusted link."""
        obj_id, users, tags, description, child = payload
        check_labels(obj_id, tags, description)
        if type(users) is not tuple or not isinstance(child, torch.Tensor | AbstractTensor):
            raise TypeError("a private tensor has users and a child")
        return cls(owner=worker, id=obj_id, tags=tags, description=description, allowed_users=users, child=child)


def _name(user: object) -> str:
    return "an unnamed user" if user is None else repr(user)


def _hint(verb: str, link: PrivateTensor) -> str:
    if not link.allowed_users:
        return "It has no allowed users. Its owner can add some: x.child.register_credentials(['alice'])."
    call = f"x.{verb}(user='alice')" if verb == "get" else f"x.{verb}(worker, user='alice')"
    return f"Name an allowed user: {call}; or request it from its owner."


def _common(links: list[PrivateTensor]) -> tuple[ObjectId, ...]:
    """Return the users that all links allow."""
    rest = [set(link.allowed_users) for link in links[1:]]
    return tuple(user for user in links[0].allowed_users if all(user in users for users in rest))


def _reveals_nothing(function: Callable[..., Any], result: Any) -> bool:
    """Say whether a result consists of tensors and metadata only."""
    if result is None or isinstance(result, _WITHOUT_VALUES):
        return True
    if isinstance(result, tuple | list):
        return all(_reveals_nothing(function, item) for item in result)
    return function in _METADATA_READS


def _written(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors and links that a call writes into."""
    last = function_name(function).rpartition(".")[2]
    first = last in ("__setitem__", "__set__") or FrameworkAttributes.is_inplace_method(last) or kwargs.get("inplace")
    return list(iter_tensors((args[:1] if first else (), kwargs.get("out"))))


def _refuse_open(function: Callable[..., Any], written: list[Any]) -> None:
    """Refuse to write private values into a public tensor."""
    if not all(isinstance(leaf, PrivateTensor) for leaf in written):
        raise GetNotPermittedError(
            f"{function_name(function)} would write a private tensor into a public one. "
            "Make that one private too: y.private_tensor(allowed_users=[...])."
        )


_Tensor: Any = torch.Tensor
_METADATA_READS = frozenset(
    {
        _Tensor.is_leaf.__get__, _Tensor.retains_grad.__get__, _Tensor.output_nr.__get__, _Tensor._version.__get__,
        _Tensor.stride, _Tensor.is_contiguous, _Tensor.storage_offset, _Tensor.is_conj, _Tensor.is_neg,
        _Tensor.is_same_size, _Tensor.is_set_to, torch._has_compatible_shallow_copy_type,
    }
)  # fmt: skip
_DISPLAYS: dict[Any, Any] = {
    _Tensor.__repr__: lambda link, **_: repr(link),
    _Tensor.__format__: lambda link, spec: format(f"(Wrapper)>{link!r}", spec),
    _Tensor.type: lambda link, *args, **kwargs: (
        run(_Tensor.to, (link, *args), kwargs) if args or kwargs else torch.empty(0, dtype=link.dtype).type()
    ),
}


def private_link(tensor: object) -> PrivateTensor | None:
    """Return the private link of a chain, if there is one."""
    link = tensor.__dict__.get("child") if isinstance(tensor, SyftTensor) else tensor
    while isinstance(link, AbstractTensor):
        if isinstance(link, PrivateTensor):
            return link
        link = link.__dict__.get("child")
    return None


def check_private(obj: object, user: object) -> None:
    """Raise if an object is private and the named user is not allowed."""
    link = private_link(obj) if isinstance(obj, SyftTensor | AbstractTensor) else None
    if link is not None:
        link.check_get(user)


def opened(obj: object) -> tuple[Any, tuple[ObjectId, ...]]:
    """Return an object received by a node without its private link, and the allowed users."""
    link = obj.__dict__.get("child") if isinstance(obj, SyftTensor) else obj
    if not isinstance(link, PrivateTensor):
        return obj, ()
    below = link.child
    below = below.wrap() if isinstance(below, AbstractTensor) else below
    for labelled in (link, obj):
        add_tags(below, *tags_of(labelled))
        if description_of(labelled) is not None:
            set_description(below, description_of(labelled) or "")
    return below, link.allowed_users


class PrivateMethods:
    """Methods of tensors; the hook adds them to torch.Tensor."""

    def private_tensor(self: Any, *args: Users, allowed_users: Users = (), no_wrap: bool = False, **kwargs: Any) -> Any:
        """Make this tensor private: it computes as before, and is released only to the named users.

        Args:
            *args: further users.
            allowed_users: the users it is released to; a string is one user.
            no_wrap: return the bare link.
            **kwargs: further arguments of PrivateTensor.
        """
        users = users_of((*users_of(allowed_users), *(user for arg in args for user in users_of(arg))))
        link = PrivateTensor(allowed_users=users, **kwargs)
        if not isinstance(self, SyftTensor):
            link.tags, link.description = set(tags_of(self)), description_of(self)
        return link.on(self, wrap=not no_wrap)

    def register_credentials(self: Any, users: Users = ()) -> Any:
        """Allow more users to fetch this private tensor; returns it."""
        link = private_link(self)
        if link is None:
            raise TypeError("This tensor is not private. Make it private: x.private_tensor(allowed_users=['alice']).")
        link.register_credentials(users)
        return self

    def allow(self, user: object = None) -> bool:
        """Say whether a user may fetch this tensor; True for one that is not private."""
        link = private_link(self)
        return True if link is None else link.allow(user)

    def request(self: Any, reason: str = "") -> Any:
        """Request the release of this tensor from the owner of its worker; returns the request.

        Args:
            reason: the purpose, for the owner.
        """
        link = self.__dict__.get("child") if isinstance(self, SyftTensor) else None
        if not isinstance(link, ObjectPointer):
            raise SyftError("request() needs a pointer: ptr.request(reason=...).")
        return link.request(reason)


base.tensor_methods.append(PrivateMethods)
