"""The methods that the hook adds to nn.Module: parameters and buffers of a model travel in one message each way.

All methods work in place and keep the identity of each parameter, so existing optimizers keep working.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch

from syft._suggestions import one_of, suggests_keywords
from syft.core.context import local_worker
from syft.exceptions import GetNotPermittedError, SpentPointerError, SyftError, UnsupportedOperationError
from syft.hook import base
from syft.hook.autograd_mark import ZERO_GRADIENT, AutogradMark, carry_marks, mark
from syft.hook.optimizers import note_movement
from syft.hook.patches import Computed
from syft.hook.syft_tensor import SyftTensor, swap_all


def tensors_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return every parameter and buffer of a module, shared ones once."""
    return [*module.parameters(), *module.buffers()]


@contextmanager
def swapping(module: torch.nn.Module) -> Iterator[None]:
    """Allow in-place changes of a module's tensors, which the weak references of recurrent layers would forbid."""
    recurrent: list[Any] = [part for part in module.modules() if hasattr(part, "_flat_weight_refs")]
    for part in recurrent:
        part._flat_weight_refs = []
    try:
        yield
    finally:
        for part in recurrent:
            part._init_flat_weights()
        note_movement()


def check_swappable(pointers: list[Any]) -> None:
    """Raise if a pointer can't change in place; called before anything is fetched."""
    if any(weakref.getweakrefcount(pointer) for pointer in pointers):
        raise SyftError(
            "A parameter can't change in place, because a weak reference to it exists. Delete the reference first."
        )


def location_of(module: torch.nn.Module) -> Any:
    """Return the worker that holds a module; None if it is here, or has no tensors."""
    for tensor in tensors_of(module):
        return tensor.location  # type: ignore[attr-defined]
    return None


def _converted(module: Any, method: str, chosen: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Replace some tensors of a module, with their gradients, by the results of one of their methods: all or none."""
    tensors = [tensor for tensor in tensors_of(module) if chosen(tensor)]
    with swapping(module):
        check_swappable(tensors)
        swap_all([(tensor, _follower(tensor, method, args, kwargs)) for tensor in tensors])
    return module


def _notify_watchers(module: torch.nn.Module, encrypted: bool) -> Any:
    """Call the watchers of modules, and return the module."""
    for watcher in base.module_watchers:
        watcher(module, encrypted)
    return module


def _follower(tensor: torch.Tensor, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a method of a tensor, with its gradient converted too."""
    made = getattr(tensor, method)(*args, **kwargs)
    if tensor.grad is not None:
        made.grad = getattr(tensor.grad, method)(*args, **kwargs)
    return made


def _fetched(remote: list[Any]) -> list[Any]:
    """Fetch tensors: pointers with one message per worker, shared tensors one after the other."""
    if all(tensor.location is not None for tensor in remote):
        return list(local_worker().get_many([tensor.__dict__["child"] for tensor in remote]))
    fetched: list[Any] = []
    try:
        for tensor in remote:
            gradient = tensor.grad
            fetched.append(tensor.get())
            if gradient is not None:
                with suppress(SpentPointerError):  # it was fetched before
                    fetched[-1].grad = gradient.get()
    except Exception:
        swap_all(list(zip(remote[: len(fetched)], fetched, strict=True)))  # the fetched tensors are not lost
        raise
    return fetched


_PROTOCOLS = ("mpc", "beaver", "snn", "fss")
_ENCODING = ("base", "precision_fractional", "field", "kappa")


class ModuleMethods:
    """The methods; the hook copies its public names to nn.Module. Modules always change in place: `send_` is `send`."""

    @suggests_keywords
    def send(
        self,
        *dest: object,
        force_send: bool = False,
        local_autograd: bool = False,
        preinitialize_grad: bool = False,
        garbage_collect_data: bool | None = None,
    ) -> Any:
        """Send every parameter and buffer to a worker, in place, with one message.

        A parameter without a gradient has one of zeros when your code reads it. Optimizers still skip it.

        Args:
            *dest: the worker.
            force_send: kept from earlier releases.
            local_autograd: put an AutogradTensor over the pointer of each parameter.
            preinitialize_grad: give each parameter a gradient of zeros first, if it has none.
            garbage_collect_data: as for tensors.
        """
        module: Any = self
        kwargs: Any = {} if garbage_collect_data is None else {"garbage_collect_data": garbage_collect_data}
        if isinstance(module, torch.jit.ScriptModule):
            return local_worker().send(module, dest[0] if len(dest) == 1 else dest, **kwargs)
        if len(dest) != 1:
            raise SyftError("A module is sent to one worker: model.send(bob). Use model.copy().send(...) for others.")
        owner = local_worker()
        destination = owner.get_worker(dest[0], fail_hard=True)
        here = location_of(module)
        if here is not None:
            if here is destination:
                return module
            raise SyftError(
                f"This module is on {here.id!r} already. Move it with model.move({destination.id}), "
                "or bring it back first with model.get()."
            )
        tensors = tensors_of(module)
        parameters = [tensor for tensor in module.parameters() if tensor.requires_grad]
        if preinitialize_grad:
            for parameter in parameters:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        pointers = owner.send_many(tensors, destination, **kwargs)
        with swapping(module):
            swap_all([(tensor, pointer.wrap()) for tensor, pointer in zip(tensors, pointers, strict=True)])
        for parameter in parameters:
            parameter.__dict__[ZERO_GRADIENT] = True
            if local_autograd:
                mark(parameter, AutogradMark(preinitialize_grad=preinitialize_grad))
        return module

    send_ = send

    def get(self) -> Any:
        """Fetch every parameter and buffer, in place, with one message."""
        module: Any = self
        tensors = tensors_of(module)
        remote = [tensor for tensor in tensors if isinstance(tensor, SyftTensor)]
        if tensors and not remote:
            raise SyftError("This module is local, so there is nothing to get. Send it first: model.send(bob).")
        with swapping(module):
            check_swappable(remote)
            try:
                fetched = _fetched(remote)
            except GetNotPermittedError as refused:  # the advice is about a pointer, which the user does not have
                refused.args = (str(refused).replace("ptr.request(", "model.request("),)
                raise
            swap_all(list(zip(remote, fetched, strict=True)))
        return _notify_watchers(module, False)

    get_ = get

    def request(self, reason: str = "") -> Any:
        """Ask the owner of the worker that holds the module to release it, with one request; returns the request.

        After the approval `model.get()` returns the parameters as they were at the request.

        Args:
            reason: the purpose; the owner reads it.
        """
        remote = [tensor for tensor in tensors_of(self) if isinstance(tensor, SyftTensor)]  # type: ignore[arg-type]
        if not remote:
            raise SyftError("This module is local, so there is nothing to request. Send it first: model.send(bob).")
        return local_worker().request_many([tensor.__dict__["child"] for tensor in remote], str(reason))

    def fix_precision(self, *args: Any, **kwargs: Any) -> Any:
        """Encode every parameter and every buffer of floats in fixed precision, in place; arguments as for tensors."""
        encoded = _converted(self, "fix_precision", lambda tensor: tensor.is_floating_point(), args, kwargs)
        return _notify_watchers(encoded, True)

    def float_precision(self) -> Any:
        """Decode every parameter and buffer, in place."""
        return _notify_watchers(
            _converted(self, "float_precision", lambda tensor: isinstance(tensor, SyftTensor), (), {}), False
        )

    def share(self, *args: Any, **kwargs: Any) -> Any:
        """Share every parameter and buffer among workers, in place; arguments as for tensors."""
        floats = [tensor for tensor in tensors_of(self) if tensor.is_floating_point()]  # type: ignore[arg-type]
        if floats and not isinstance(floats[0], SyftTensor):
            raise SyftError("Only encoded numbers can be shared. Encode first: model.fix_precision().share(...).")
        follow = kwargs.pop("requires_grad", False)
        if follow and location_of(self) is not None:  # type: ignore[arg-type]
            kwargs["requires_grad"] = True  # for the worker that shares them
        shared = _notify_watchers(
            _converted(self, "share", lambda tensor: isinstance(tensor, SyftTensor), args, kwargs), True
        )
        if follow and not any(parameter.requires_grad for parameter in shared.parameters()):
            shared.requires_grad_()  # otherwise frozen parameters stay frozen
        if follow:
            for parameter in shared.parameters():
                mark(parameter)
        return shared

    fix_precision_ = fix_prec = fix_prec_ = fix_precision
    float_precision_ = float_prec = float_prec_ = float_precision
    share_ = share

    def encrypt(
        self, inplace: bool = True, protocol: str = "mpc", workers: Sequence[object] = (), **options: Any
    ) -> Any:
        """Encode and share every parameter and buffer in one call; `decrypt` is the reverse.

        Args:
            inplace: encrypt this module; otherwise a copy of it.
            protocol: "mpc", or the comparison protocol: "beaver", "snn", "fss".
            workers: the parties, two workers or more.
            **options: those of `fix_precision` and of `share`.
        """
        if not workers:
            raise SyftError("encrypt() needs workers: model.encrypt(workers=[alice, bob], crypto_provider=carol).")
        if protocol not in _PROTOCOLS:
            raise UnsupportedOperationError(f"encrypt(protocol={protocol!r})", "a module", one_of(protocol, _PROTOCOLS))
        module: Any = self if inplace else copy.deepcopy(self)
        encoding = {name: options.pop(name) for name in _ENCODING if name in options}
        chosen = {} if protocol == "mpc" else {"protocol": protocol}
        return module.fix_precision(**encoding).share(*workers, **chosen, **options)

    def decrypt(self, inplace: bool = True) -> Any:
        """Fetch and decode every parameter and buffer.

        Args:
            inplace: decrypt this module; otherwise a copy of it.
        """
        module: Any = self if inplace else copy.deepcopy(self)
        return module.get().float_precision()

    def move(self, destination: object) -> Any:
        """Move the remote module to another worker, in place."""
        module: Any = self
        if location_of(module) is None:
            raise SyftError("This module is local, so there is nothing to move. Send it first: model.send(bob).")
        tensors: list[Any] = tensors_of(module)
        with swapping(module):
            check_swappable(tensors)
            moved = [carry_marks(tensor, tensor.move(destination)) for tensor in tensors]
            swap_all([(old, new) for old, new in zip(tensors, moved, strict=True) if new is not old])
        return module

    def copy(self) -> Any:
        """Return a deep copy, where the module is."""
        return copy.deepcopy(self)

    @Computed
    def owner(self: Any) -> Any:
        """The worker the module's tensors (or its pointers) belong to."""
        for tensor in tensors_of(self):
            return tensor.owner  # type: ignore[attr-defined]
        return local_worker(required=False)

    @Computed
    def location(self: Any) -> Any:
        """The worker that holds the module; None if it is here."""
        return location_of(self)


base.module_methods[:] = [ModuleMethods]
