"""Run one call of the table of allowed functions on objects that a worker holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from syft.core.labels import add_tags, set_description
from syft.core.references import Ref
from syft.core.tensor import AbstractTensor
from syft.core.trees import SCALARS, iter_tensors, map_tensors, register_leaf
from syft.exceptions import CommandNotAllowedError, SyftError
from syft.exceptions.notebook import hide_library
from syft.hook.allowed_functions import function_of, register_command
from syft.hook.guards import GUARDS, guard_call, is_quantized
from syft.hook.size_bounds import bound_size_tensors, bound_sizes
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.pointers.multi_pointer import MultiPointerTensor
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.object_wrapper import ObjectWrapper
from syft.pointers.pointer_plan import PLAN_CALLS
from syft.pointers.pointer_tensor import MAKE_PRIVATE
from syft.workers.access.policy import ALLOW_ALL, may_leave, releases_all
from syft.workers.execution.copies import copy_tensor
from syft.workers.execution.results import ResultStore as ResultStore
from syft.workers.execution.results import check_given
from syft.workers.execution.results import describe as describe
from syft.workers.execution.results import kind_of as kind_of
from syft.workers.execution.results import meta_of as meta_of
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

register_leaf(Ref)

# Calls that act on behalf of the worker, so they receive the worker and the session: name -> function(worker,
# session, *args, **kwargs). No plan can name them.
WORKER_COMMANDS: dict[str, Callable[..., Any]] = {}

# Attributes of a held tensor that a message may name.
ATTRIBUTES = frozenset({"grad", "data", "T", "H", "mT", "mH", "real", "imag"})
MAX_ATTRIBUTES = 8
# Largest number of elements that the ranges among the arguments of a call may have.
MAX_RANGE = 2**20
# Calls on quantized tensors that workers run: they copy or label them.
_OF_QUANTIZED = frozenset(
    {"torch.clone", "torch.Tensor.clone", "torch.detach", "torch.Tensor.detach"}
    | {"syft.tag", "syft.describe", "syft.keep_private", MAKE_PRIVATE}
)


def resolve(worker: BaseWorker, ref: Ref) -> Any:
    """Return the object that a reference names, or its attribute."""
    obj = worker.object_store.get(ref.id)
    if ref.attribute is not None:
        names = ref.attribute.split(".", MAX_ATTRIBUTES)
        if len(names) > MAX_ATTRIBUTES:
            raise CommandNotAllowedError(f"A path of more than {MAX_ATTRIBUTES} attributes")
        for name in names:
            # Reading an attribute of a pointer is a call at another worker, which the policy did not check.
            elsewhere = worker.policy is not ALLOW_ALL and isinstance(obj, SyftTensor)
            if name not in ATTRIBUTES or not isinstance(obj, torch.Tensor) or elsewhere:
                raise CommandNotAllowedError(f"The attribute {name!r} of a {type(obj).__name__}")
            obj = getattr(obj, name)
    return obj


def execute(worker: BaseWorker, session: Session, operation: Operation) -> Any:
    """Run an operation, store its tensors under the ids that the client chose, and describe the result."""
    if operation.cmd_owner is not None:
        operation = operation.owner_first()
    if operation.cmd_name in PLAN_CALLS:
        _require_held_plan(operation)
    if worker.vault is not None:
        worker.progress.write(operation.cmd_name)
        if worker.vault.takes(operation):
            return worker.vault.execute(session, operation)
    command = WORKER_COMMANDS.get(operation.cmd_name)
    function = function_of(operation.cmd_name) if command is None else partial(command, worker, session)
    args = tuple([resolve(worker, arg) if type(arg) is Ref else _localize(worker, arg) for arg in operation.cmd_args])
    kwargs = operation.cmd_kwargs
    if kwargs and not all(type(value) in SCALARS for value in kwargs.values()):
        kwargs = _localize(worker, kwargs)
    _refuse_quantized(operation.cmd_name, args, kwargs)
    if not releases_all(worker) and (command is not None or _reaches_others((args, kwargs))):
        check_given(worker, session, operation, operation.cmd_name.removeprefix("syft."))
    bound_sizes(operation.cmd_name, args, kwargs)
    bound_size_tensors(operation.cmd_name, args, kwargs)
    if operation.cmd_name in GUARDS:
        guard_call(operation.cmd_name, args, kwargs)
    if worker.object_store.object_manager is not None:
        worker.object_store.object_manager.check_result_size(session, operation, args, kwargs)
    try:
        result = run_function(function, args, kwargs, operation.grad_enabled)
    except Exception as error:
        _note_failure(worker, session, operation)
        reported = _reported(worker, session, operation, error)
        if reported is error:
            raise
        raise reported from None
    if worker.object_store.object_manager is not None:
        worker.object_store.object_manager.record_changes(session, operation)
    if command is not None and hasattr(result, "in_vault"):
        return result.in_vault(worker, session, operation)
    return ResultStore(worker, session, operation, args, kwargs).register(result)


def _refuse_quantized(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call on quantized tensors, other than to copy or label them: the guards are for plain tensors."""
    for arg in args:
        kind = type(arg)
        if kind in SCALARS or (kind is torch.Tensor and not arg.is_quantized):
            continue
        if kind is list or kind is tuple or kind is dict:
            _refuse_quantized(name, tuple(iter_tensors(arg)), {})
        elif is_quantized(arg) and name not in _OF_QUANTIZED:
            raise CommandNotAllowedError(name, "an argument is a quantized tensor. Send x.dequantize() instead.")
    if kwargs:
        _refuse_quantized(name, tuple(kwargs.values()), {})


def run_function(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], grad_enabled: bool
) -> Any:
    """Call a function in a mode of autograd."""
    if grad_enabled is torch.is_grad_enabled():
        return function(*args, **kwargs)
    with torch.set_grad_enabled(grad_enabled):
        return function(*args, **kwargs)


def _require_held_plan(operation: Operation) -> None:
    """Refuse a plan that is sent along with the call: its operations were not checked."""
    first = operation.cmd_args[0] if operation.cmd_args else None
    if type(first) is not Ref or first.attribute is not None:
        raise CommandNotAllowedError(operation.cmd_name, "its first argument must be a plan that is held here.")


def _reaches_others(given: object) -> bool:
    """Return whether a call reaches other workers: by a pointer that is held here, or one in the state of a plan."""
    for leaf in iter_tensors(given):
        if isinstance(leaf, Plan):
            if _reaches_others(leaf.state.tensors()):
                return True
        elif isinstance(leaf, ObjectPointer | MultiPointerTensor):
            return True
        elif isinstance(leaf, SyftTensor | AbstractTensor) and _reaches_others(leaf.__dict__.get("child")):
            return True
    return False


def _localize(worker: BaseWorker, value: object) -> Any:
    """Replace the references of nested arguments by the objects held here."""
    if type(value) in SCALARS:
        return value
    if _unfolded(value) > MAX_RANGE:
        raise CommandNotAllowedError("A call with such large ranges", "make them there with torch.arange.")

    def local(leaf: object) -> Any:
        if type(leaf) is Ref:
            return resolve(worker, leaf)
        return copy_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    return map_tensors(local, value)


def _unfolded(value: Any) -> int:
    """Return the number of elements of the ranges in nested arguments."""
    kind = type(value)
    if kind is range:
        return max(0, int((value.stop - value.start) // value.step))
    items = value.values() if kind is dict else value if kind is tuple or kind is list else ()
    return sum([_unfolded(item) for item in items if type(item) not in SCALARS])


def _note_failure(worker: BaseWorker, session: Session, operation: Operation) -> None:
    if worker.object_store.object_manager is not None:
        worker.object_store.object_manager.record_changes(session, operation, failed=True)
    for obj_id in operation.return_ids:
        cause = f"the call that should have made it ({operation.cmd_name}) failed"
        worker.object_store.note_departure(obj_id, cause)


def _reported(worker: BaseWorker, session: Session, operation: Operation, error: Exception) -> Exception:
    """Return the error to raise: itself with a note, or without its text if the policy does not release it."""
    if isinstance(error, SyftError):
        return error
    name = operation.cmd_name
    if may_leave(worker, session, None, "error text"):
        error.add_note(f"This happened on worker {worker.id!r}, running {name}.")
        hide_library(error)
        return error
    plain = type(error) if type(error).__module__ == "builtins" and type(error) is not KeyError else RuntimeError
    return plain(f"{name} failed on worker {worker.id!r}; its policy keeps the details there.")


def _call_object(obj: object, *args: object, **kwargs: object) -> Any:
    if not isinstance(obj, ObjectWrapper):
        raise CommandNotAllowedError(f"Calling a {type(obj).__name__}")
    return obj(*args, **kwargs)


register_command("syft.call", _call_object)


def _tag_object(obj: Any, *tags: Any) -> None:
    _refuse_unless_text(*tags)
    add_tags(obj, *tags)


def _describe_object(obj: Any, text: Any) -> None:
    _refuse_unless_text(text)
    set_description(obj, text)


def _refuse_unless_text(*labels: object) -> None:
    """Labels are visible to everybody, so they must be texts of the client, never values that are held here."""
    if not all(type(label) is str for label in labels):
        raise CommandNotAllowedError("A label that is not a text")


register_command("syft.tag", _tag_object)
register_command("syft.describe", _describe_object)
