"""Run one call of the table of allowed functions on objects that a worker holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from syft.core.id_provider import ObjectId
from syft.core.labels import add_tags, set_description
from syft.core.object import AbstractObject
from syft.core.references import ObjectMeta, Ref, SameAs, TensorMeta
from syft.core.string import String
from syft.core.tensor import AbstractTensor
from syft.core.trees import SCALARS, iter_tensors, map_tensors, register_leaf
from syft.exceptions import CommandNotAllowed, GetNotPermittedError, IdNotUniqueError, SyftError
from syft.hook.functions import function_of, register_command
from syft.hook.guards import GUARDS, guard_call
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.changes import trains
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import PLAN_CALLS, RUN_PLAN
from syft.pointers.remote_call import following_id, rebuild_container
from syft.workers.changes import Loan, changed_refs
from syft.workers.policy import ALLOW_ALL, Release, check_change, check_release
from syft.workers.session import Session
from syft.workers.values import copy_tensor, copy_value

register_leaf(Ref)

# Calls that act in the name of the worker, so they are told which worker, and for whom: name -> function(worker,
# session, *args, **kwargs). No plan can name them.
DEPUTIES: dict[str, Callable[..., Any]] = {}

# Attributes of a held tensor that a message may name.
ATTRIBUTES = frozenset({"grad", "data", "T", "H", "mT", "mH", "real", "imag"})
MAX_ATTRIBUTES = 8
# How many numbers the ranges among the arguments of a call may unfold into.
MAX_RANGE = 2**20
# Answers that are about a tensor's form, not its values; they leave without asking the policy.
FORM = frozenset(
    f"torch.Tensor.{name}"
    for name in (
        "is_leaf.__get__ retains_grad.__get__ output_nr.__get__ _version.__get__ stride is_contiguous storage_offset "
        "is_conj is_neg dim size numel nelement element_size is_floating_point is_complex is_signed __len__ "
        "ndimension is_same_size is_set_to can_cast is_inference dim_order"
    ).split()
) | frozenset(
    f"torch.{name}"
    for name in "is_same_size is_conj is_neg result_type can_cast is_signed is_floating_point is_complex numel".split()
)
_FORM_TYPES = (torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)


def resolve(worker: Any, ref: Ref) -> Any:
    """Return the object a reference names."""
    obj = worker.object_store.get(ref.id)
    if ref.attribute is not None:
        names = ref.attribute.split(".", MAX_ATTRIBUTES)
        if len(names) > MAX_ATTRIBUTES:
            raise CommandNotAllowed(f"A walk through more than {MAX_ATTRIBUTES} attributes")
        for name in names:
            # Looking at an attribute of a pointer is a call at another worker, which the policy was not asked about.
            elsewhere = worker.policy is not ALLOW_ALL and isinstance(obj, SyftTensor)
            if name not in ATTRIBUTES or not isinstance(obj, torch.Tensor) or elsewhere:
                raise CommandNotAllowed(f"The attribute {name!r} of a {type(obj).__name__}")
            obj = getattr(obj, name)
    return obj


def execute(worker: Any, session: Session, operation: Operation) -> Any:
    """Run an operation, store its tensors under the ids the sender chose, and describe the result."""
    if operation.cmd_name in PLAN_CALLS:
        _require_held_plan(operation)
    deputy = DEPUTIES.get(operation.cmd_name)
    function = function_of(operation.cmd_name) if deputy is None else partial(deputy, worker, session)

    args = tuple([resolve(worker, arg) if type(arg) is Ref else _localize(worker, arg) for arg in operation.cmd_args])
    kwargs = operation.cmd_kwargs
    if kwargs and not all(type(value) in SCALARS for value in kwargs.values()):
        kwargs = _localize(worker, kwargs)
    loan = None
    if worker.policy is not ALLOW_ALL:
        for ref in changed_refs(operation):
            check_change(worker, session, ref.id, f"change by {operation.cmd_name}")
        _check_training(worker, session, operation, args)
        if deputy is not None or _reaches_others((args, kwargs)):
            _check_deputy(worker, session, operation, (args, kwargs))
        loan = Loan(worker, session, operation)
        args, kwargs = loan.lend(args), loan.lend(kwargs)
    if operation.cmd_name in GUARDS:
        guard_call(operation.cmd_name, args, kwargs)
    try:
        if operation.grad_enabled is torch.is_grad_enabled():
            result = function(*args, **kwargs)
        else:
            with torch.set_grad_enabled(operation.grad_enabled):
                result = function(*args, **kwargs)
    except Exception as error:
        _note_failure(worker, operation)
        raise _told(worker, session, operation, error) from (error if worker.policy is ALLOW_ALL else None)
    if loan is not None:
        result = loan.settle(result, args, kwargs)
    return Registrar(worker, session, operation, args, kwargs).register(result)


def _require_held_plan(operation: Operation) -> None:
    """Refuse to run a plan that comes along with the call: what it may do was not looked at."""
    first = operation.cmd_args[0] if operation.cmd_args else None
    if type(first) is not Ref or first.attribute is not None:
        raise CommandNotAllowed(operation.cmd_name, "it takes a plan that is held here, first of all.")


def _check_training(worker: Any, session: Session, operation: Operation, args: tuple[Any, ...]) -> None:
    """Let a plan of somebody else be trained only if the policy lets it change."""
    if operation.cmd_name == RUN_PLAN and isinstance(args[0], Plan) and trains(args[0].operations):
        check_change(worker, session, operation.cmd_args[0].id, "training")


def _reaches_others(given: Any) -> bool:
    """Say whether a call goes on to other workers: by a pointer that is held here, or one in the state of a plan."""
    for leaf in iter_tensors(given):
        if isinstance(leaf, Plan):
            if _reaches_others(leaf.state.tensors()):
                return True
        elif isinstance(leaf, ObjectPointer | MultiPointerTensor):
            return True
        elif isinstance(leaf, SyftTensor | AbstractTensor) and _reaches_others(leaf.__dict__.get("child")):
            return True
    return False


def _check_deputy(worker: Any, session: Session, operation: Operation, given: Any) -> None:
    """Let a client use the worker as its deputy only if the policy releases all that it is given to act with.

    What a deputy sends to others is seen by them as sent by the worker, so its own policy is the last to ask.
    """
    for obj in iter_tensors(given):
        check_release(worker, session, obj, operation.cmd_name.removeprefix("syft."))


def _localize(worker: Any, value: Any) -> Any:
    """Replace the references of nested arguments by the objects held here."""
    if type(value) in SCALARS:
        return value
    if _unfolded(value) > MAX_RANGE:
        raise CommandNotAllowed("A call with such large ranges", "make them there with torch.arange.")

    def local(leaf: Any) -> Any:
        if type(leaf) is Ref:
            return resolve(worker, leaf)
        return copy_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return map_tensors(local, value)


def _unfolded(value: Any) -> int:
    """Count the numbers that the ranges of nested arguments stand for."""
    kind = type(value)
    if kind is range:
        return max(0, int((value.stop - value.start) // value.step))
    items = value.values() if kind is dict else value if kind is tuple or kind is list else ()
    return sum([_unfolded(item) for item in items if type(item) not in SCALARS])


def _note_failure(worker: Any, operation: Operation) -> None:
    for obj_id in operation.return_ids:
        worker.object_store.note_departure(obj_id, f"the call that should have made it ({operation.cmd_name}) failed")


def _told(worker: Any, session: Session, operation: Operation, error: Exception) -> Exception:
    """Return the error to raise: itself with a note, or without its text if that may not leave."""
    if isinstance(error, SyftError):
        return error
    if worker.policy is ALLOW_ALL or worker.policy.allows(Release(None, session.client_id, "error text")):
        error.add_note(f"This happened on worker {worker.id!r}, running {operation.cmd_name}.")
        return error
    plain = type(error) if type(error).__module__ == "builtins" and type(error) is not KeyError else RuntimeError
    return plain(f"{operation.cmd_name} failed on worker {worker.id!r}; its policy keeps the details there.")


class Registrar:
    """Store the tensors of a result and describe it for the sender.

    Args:
        worker: the worker that ran the operation.
        session: the client it ran for.
        operation: the operation.
        args: its arguments as they were here.
        kwargs: its keyword arguments as they were here.
    """

    __slots__ = ("args", "kept", "kwargs", "next_id", "operation", "session", "worker")

    def __init__(
        self,
        worker: Any,
        session: Session,
        operation: Operation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.worker = worker
        self.session = session
        self.operation = operation
        self.args = args
        self.kwargs = kwargs
        ids = operation.return_ids
        self.next_id: ObjectId | None = ids[0] if ids else None
        self.kept: list[ObjectId] = []

    def register(self, result: Any) -> Any:
        """Return the result with stored objects in place of what must be pointed at: all of them, or none.

        An in-process sender reads the metadata off the tensors themselves; `describe` makes the wire form.
        """
        try:
            return self._register(result)
        except Exception:
            for obj_id in self.kept:
                self.session.release(obj_id)
            raise

    def _register(self, result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            for position, arg in enumerate((*self.args, *self.kwargs.values())):
                if result is arg and type(self._sent(position)) is Ref:
                    return SameAs(position, TensorMeta.of(result))
            self._keep(result)
            return result
        if result is None:
            return None
        if result is NotImplemented:
            kinds = ", ".join(type(arg).__name__ for arg in self.args)
            raise TypeError(f"{self.operation.cmd_name} does not take arguments of type {kinds}.")
        if isinstance(result, AbstractObject):
            self._keep(result)
            return ObjectMeta(kind_of(result))
        if isinstance(result, _FORM_TYPES) or self.operation.cmd_name in FORM:
            return result
        if type(result) is dict:
            return {key: self._register(item) for key, item in result.items()}
        if isinstance(result, tuple | list) and next(iter_tensors(result), None) is not None:
            return rebuild_container(type(result), [self._register(item) for item in result])
        if isinstance(result, tuple) and not result:
            return result
        return self._release(result)

    def _sent(self, position: int) -> Any:
        """Return an argument as it came: only what was held here before can be named to the sender again."""
        args = self.operation.cmd_args
        return args[position] if position < len(args) else [*self.operation.cmd_kwargs.values()][position - len(args)]

    def _keep(self, obj: Any) -> None:
        if self.next_id is None:
            raise SyftError(f"{self.operation.cmd_name} gives a result, but no id was chosen for it.")
        if self.next_id in self.worker.object_store.objects:
            raise IdNotUniqueError(
                f"Worker {self.worker.id!r} already holds an object with id {self.next_id!r}; "
                f"the result of {self.operation.cmd_name} is not kept."
            )
        self.session.keep(self.next_id, obj)
        self.kept.append(self.next_id)
        self.next_id = following_id(self.next_id)

    def _release(self, value: Any) -> Any:
        """Let a Python value leave, if the policy lets every object it was computed from."""
        if not isinstance(value, bool | int | float | complex | str | bytes | list | tuple | np.ndarray | np.generic):
            raise GetNotPermittedError(
                f"{self.operation.cmd_name} gives a {type(value).__name__}, which can't leave {self.worker.id!r}."
            )
        for arg in iter_tensors((self.args, self.kwargs)):
            if isinstance(arg, torch.Tensor | AbstractObject):
                check_release(self.worker, self.session, arg, self.operation.cmd_name)
        return value if isinstance(value, bool | int | float | complex | str | bytes) else copy_value(value)


def describe(response: Any) -> Any:
    """Return the wire form of a result: metadata in place of tensors."""
    return map_tensors(lambda leaf: TensorMeta.of(leaf) if isinstance(leaf, torch.Tensor) else leaf, response)


def kind_of(obj: Any) -> str:
    """Return the kind of pointer an object needs."""
    if isinstance(obj, torch.Tensor):
        return "tensor"
    if isinstance(obj, String):
        return "string"
    return "callable" if isinstance(obj, ObjectWrapper) else getattr(obj, "pointer_kind", "object")


def _call_object(obj: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(obj, ObjectWrapper):
        raise CommandNotAllowed(f"Calling a {type(obj).__name__}")
    return obj(*args, **kwargs)


register_command("syft.call", _call_object)


def _tag_object(obj: Any, *tags: Any) -> None:
    _refuse_unless_text(*tags)
    add_tags(obj, *tags)


def _describe_object(obj: Any, text: Any) -> None:
    _refuse_unless_text(text)
    set_description(obj, text)


def _refuse_unless_text(*labels: Any) -> None:
    """Labels are shown to everybody, so they are what the sender wrote, never made of what is held here."""
    if not all(type(label) is str for label in labels):
        raise CommandNotAllowed("A label that is not a text")


register_command("syft.tag", _tag_object)
register_command("syft.describe", _describe_object)
