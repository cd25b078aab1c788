"""PlanBase: the state of a plan, the copies of it at workers, and the methods that it forwards to its owner."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch

from syft.core.context import local_worker
from syft.core.id_provider import ObjectId
from syft.core.labels import id_of
from syft.core.object import AbstractObject
from syft.core.object_storage import ObjectStorage
from syft.core.trees import map_tensors
from syft.exceptions import (
    GetNotPermittedError,
    MalformedPlanError,
    NotPermittedError,
    ObjectNotFoundError,
    PlanMismatchError,
    SyftError,
)
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.message import ForceObjectDeleteMessage
from syft.messaging.plan import optimizers as plan_optimizers
from syft.messaging.plan.interpreter import ResultInference, Specs
from syft.messaging.plan.program import Program, map_pattern
from syft.messaging.plan.record.module_binding import ModuleBinding
from syft.messaging.plan.state import State
from syft.messaging.plan.translation.store import Translatable, Translations
from syft.pointers.pointer_plan import PointerPlan
from syft.tensors.placeholder import PlaceHolder

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker


class PlanBase(AbstractObject, ObjectStorage, Translatable):
    """The state of a plan (set by attributes, read by name, encoded, shared, fetched), and its copies at workers."""

    is_lasting = True
    state: State
    pointers: dict[Any, PointerPlan]
    optimizers: list[Any]
    _lines: list[tuple[str, int]]
    _binding: ModuleBinding
    _placeholders: dict[Any, PlaceHolder]
    _program: Program | None
    _sent_to: dict[Any, ObjectId]  # worker -> the id of the copy that was sent last
    _input_specs: Specs  # of the examples that it was built with

    @property
    def is_built(self) -> bool:
        """Whether the operations are recorded."""
        return self._program is not None

    @property
    def program(self) -> Program:
        """The recorded program."""
        if self._program is None:
            raise RuntimeError(
                f"The plan {self.name!r} is not built. Build it first: plan.build(*examples), or pass args_shape to "
                "func2plan."
            )
        return self._program

    def _discard_program(self) -> None:
        self.__dict__.update(_program=None, _compiled=None, pointers={}, _input_specs=(), _translations=Translations())

    # --- state ----------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; tensors and modules become part of the state."""
        if isinstance(value, torch.Tensor | torch.nn.Module):
            self.state.remove(name)
            self._declare(name, value)
            self._discard_program()
        object.__setattr__(self, name, value)

    def _declare(self, name: str, value: torch.Tensor | torch.nn.Module) -> None:
        """Add the tensors of an attribute to the state."""
        if isinstance(value, torch.Tensor):
            self.state.add(value, name)
            self._register(value)
            return
        prefix = _prefix(name)
        for inner, parameter in value.named_parameters():
            self.state.add(parameter, prefix + inner, "#parameter")
            self._register(parameter)
        for inner, buffer in value.named_buffers():
            self.state.add(buffer, prefix + inner, "#buffer")

    def _declare_again(self) -> None:
        """Bring the state up to date with modules whose tensors were replaced after they became attributes."""
        for name, module in list(self.__dict__.items()):
            if isinstance(module, torch.nn.Module):
                prefix = _prefix(name)
                held = {prefix + n: t for n, t in (*module.named_parameters(), *module.named_buffers())}
                parts = tuple(f"{prefix}{part}." for part in (*module._modules, *module._parameters, *module._buffers))
                self.state.state_placeholders = [
                    p
                    for p in self.state.state_placeholders
                    if not f"{p.description}.".startswith(parts) or held.get(str(p.description)) is p.child
                ]
                self._declare(name, module)

    def _register(self, tensor: torch.Tensor) -> None:
        owner = self.owner
        if owner is not None:
            owner.register_obj(tensor)

    def parameters(self) -> list[Any]:
        """Return the tensors that training changes, as nn.Module.parameters does."""
        return self.state.parameters()

    def state_dict(self, of: str | None = None) -> dict[str, Any]:
        """Return the tensors of the state by name, as nn.Module.state_dict does.

        Args:
            of: return only the tensors of one variable of the function, without its name:
                `model.load_state_dict(plan.state_dict(of="model"))`.
        """
        self._binding.update()
        prefix = "" if of is None else f"{of}."
        found = self.state.state_dict()
        return {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Copy values by name, in place: the modules that the plan was made of change too.

        Args:
            state: the result of `state_dict` of this plan, or of one fetched from a worker.
        """
        mine = self.state_dict()
        if mine.keys() != state.keys():
            others = sorted(mine.keys() ^ state.keys())[:10]
            raise PlanMismatchError(f"load_state_dict() needs the names of this plan; the names differ in {others}.")
        for name, tensor in mine.items():
            if not isinstance(state[name], torch.Tensor) or state[name].shape != tensor.shape:
                raise PlanMismatchError(
                    f"load_state_dict() needs shape {tuple(tensor.shape)} for {name}. Nothing was changed."
                )
        with torch.no_grad():
            for name, tensor in mine.items():
                tensor.copy_(state[name])
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch the modules that are attributes of this plan to train or eval mode; build it again after that."""
        for value in list(self.__dict__.values()):
            if isinstance(value, torch.nn.Module):
                value.train(mode)
        if any(part.training is not training for part, training in self._binding.modes):
            self._discard_program()
        return self

    def eval(self) -> Self:
        """Switch the modules that are attributes of this plan to eval mode; build it again after that."""
        return self.train(False)

    def _bind(self, modules: list[torch.nn.Module]) -> None:
        """Record where modules hold the tensors of the state."""
        self._binding = self.state.binding = ModuleBinding(modules, self.state.state_placeholders)

    def _bind_attributes(self) -> Self:
        """Let the attributes hold the tensors of the state, after those have changed; returns the plan."""
        for placeholder in self.state.state_placeholders:
            name = placeholder.description
            if isinstance(self.__dict__.get(name), torch.Tensor):  # type: ignore[arg-type]
                self.__dict__[str(name)] = placeholder.child
        return self

    def get_(self) -> Self:
        """Fetch the remote tensors of the state, such as shares; returns the plan."""
        self.state.get_()
        return self._bind_attributes()

    get = get_

    def fix_precision_(self, *args: object, **kwargs: object) -> Self:
        """Encode the state in fixed precision; returns the plan."""
        self._check_built("encoded")
        self.state.fix_precision_(*args, **kwargs)
        return self._bind_attributes()

    fix_precision = fix_prec_ = fix_prec = fix_precision_

    def float_precision_(self) -> Self:
        """Decode the state; returns the plan."""
        self.state.float_precision_()
        return self._bind_attributes()

    float_precision = float_prec_ = float_prec = float_precision_

    def share_(self, *args: object, **kwargs: object) -> Self:
        """Share the state among workers; returns the plan, which then runs with one message to each worker.

        Autograd records operations on the state only with `requires_grad=True`, which sends each one separately.
        """
        self._check_built("shared")
        self.state.share_(*args, **kwargs)
        return self._bind_attributes()

    share = share_

    def _check_built(self, what: str) -> None:
        """Raise unless this plan is built: building reads the unencrypted tensors of its modules."""
        if not self.is_built:
            raise SyftError(
                f"A plan must be built before it is {what}: plan.build(...).fix_precision_().share_(alice, bob)."
            )

    # --- placeholders of operations that were not recorded ---------------------------------------------------

    @property
    def placeholders(self) -> dict[Any, PlaceHolder]:
        """The placeholders by id."""
        return self._placeholders

    def add_placeholder(self, tensor: torch.Tensor, node_type: str | None = None) -> PlaceHolder:
        """Return the placeholder of a tensor, made at its first use and tagged with its number.

        Args:
            tensor: the tensor.
            node_type: "input" or "output", to tag it `#input-0`, `#output-0` and so on.
        """
        if node_type not in (None, "input", "output"):
            raise ValueError(f"node_type must be 'input', 'output' or None, got {node_type!r}.")
        key = id_of(tensor)
        if key not in self._placeholders:
            self._placeholders[key] = PlaceHolder(owner=self._owner, tags={f"#{len(self._placeholders)}"}, child=tensor)
        placeholder = self._placeholders[key]
        if node_type is not None and not any(tag.startswith(f"#{node_type}-") for tag in placeholder.tags):
            placeholder.tags.add(f"#{node_type}-{len(self.find_placeholders(f'#{node_type}-'))}")
        return placeholder

    def replace_with_placeholders(self, obj: Any, **kw: Any) -> Any:
        """Return nested arguments with tensors replaced by placeholders.

        Args:
            obj: the arguments.
            **kw: passed to `add_placeholder`.
        """
        replaced = map_tensors(lambda t: self.add_placeholder(t, **kw) if isinstance(t, torch.Tensor) else t, obj)
        try:
            return map_pattern(lambda placeholder: placeholder, replaced)
        except MalformedPlanError as error:
            raise TypeError(str(error)) from error

    def find_placeholders(self, *search_tags: str) -> list[PlaceHolder]:
        """Return the placeholders with a tag that contains one of these texts."""
        return [p for p in self._placeholders.values() if any(s in tag for s in search_tags for tag in p.tags)]

    # --- copies at workers -----------------------------------------------------------------------------------

    def send(
        self, *locations: BaseWorker | ObjectId | Sequence[BaseWorker | ObjectId], force: bool = False
    ) -> PointerPlan:
        """Send the plan to workers and return one pointer to all of them.

        It stays there until it is deleted, and has its id there, if that is free. A plan that is there already is
        sent again only if it has changed here, in place of the earlier copy; otherwise it keeps its remote state.

        Args:
            *locations: the workers.
            force: send it even if it is not built.
        """
        if not force:
            _ = self.program  # raises unless it is built
        owner = local_worker()
        workers = list(dict.fromkeys(owner.get_worker(location, fail_hard=True) for location in _flat(locations)))
        if not workers:
            raise ValueError("send() needs a worker: plan.send(bob).")
        pointers = [self._pointer_at(owner, worker) for worker in workers]
        return pointers[0] if len(pointers) == 1 else PointerPlan.joined(pointers)

    def _pointer_at(self, owner: BaseWorker, worker: BaseWorker, lasting: bool = True) -> PointerPlan:
        self._binding.update()
        version = (self.state.fingerprint(), [plan_optimizers.fingerprint(optimizer) for optimizer in self.optimizers])
        sent = self.pointers.get(worker)
        if sent is not None and sent.lease.spent is None and sent.version == version and _is_held(sent):
            return sent
        self._delete_copy(owner, worker)
        pointer: PointerPlan = owner.send(self, worker, garbage_collect_data=None if lasting else True)
        self._sent_to[worker] = pointer._id_at_location
        pointer.version, pointer.lines = version, self._lines
        # The shapes of a remote state would need messages.
        if self._program is not None and not any(isinstance(p.child, SyftTensor) for p in self._program.state):
            pointer.inference = ResultInference(self.name, self._program)
        self.pointers[worker] = pointer
        return pointer

    def _delete_copy(self, owner: BaseWorker, worker: BaseWorker) -> None:
        """Delete the copy that was sent to a worker before: the next one takes its place and its id."""
        earlier = self._sent_to.pop(worker, None)
        if earlier is not None:
            with contextlib.suppress(ObjectNotFoundError, NotPermittedError, GetNotPermittedError):
                owner.stream_to(worker).ask(ForceObjectDeleteMessage(earlier))
                worker._note_release(earlier, is_gone=True)

    def get_pointers(self) -> dict[Any, PointerPlan]:
        """Return the pointers to the plan, by worker."""
        return {worker: pointer for worker, pointer in self.pointers.items() if pointer.lease.spent is None}

    def create_pointer(
        self,
        owner: object,
        garbage_collect_data: bool,
        location: BaseWorker | None = None,
        id_at_location: ObjectId | None = None,
        **kwargs: Any,
    ) -> PointerPlan:
        """Make a pointer to this plan at a worker that holds it."""
        return PointerPlan(
            location=location if location is not None else self.owner,
            id_at_location=id_at_location if id_at_location is not None else self.id,
            owner=owner,
            garbage_collect_data=garbage_collect_data,
            tags=self.tags,
            description=self.description,
        )

    @property
    def location(self) -> Any:
        """Refuse: only a pointer to a plan has a location."""
        raise AttributeError("A plan has no location. plan.get_pointers() lists the workers it was sent to.")

    @property
    def _known_workers(self) -> Any:
        return self.owner._known_workers

    def send_msg(self, *args: object, **kwargs: object) -> Any:
        """Send a message as the plan's owner."""
        return self.owner.send_msg(*args, **kwargs)

    def request_obj(self, *args: object, **kwargs: object) -> Any:
        """Fetch an object from another worker as the plan's owner."""
        return self.owner.request_obj(*args, **kwargs)

    def respond_to_obj_req(self, obj_id: ObjectId) -> Any:
        """Return an object of the plan's store and remove it there."""
        obj = self.get_obj(obj_id)
        self.de_register_obj(obj)
        return obj


def _prefix(name: str) -> str:
    """Return the prefix of the names of an attribute's tensors in the state."""
    return "" if name == "forward_func" else f"{name}."


def _is_held(pointer: PointerPlan) -> bool:
    """Say whether a plan is still at its worker; another client may have fetched or deleted it."""
    return pointer._id_at_location in pointer._location._objects


def _flat(locations: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for location in locations:
        found += _flat(location) if isinstance(location, tuple | list) else [location]
    return found
