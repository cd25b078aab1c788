"""PointerPlan: a reference to a plan at one or several workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from syft.core.callsite import describe_line
from syft.core.id_provider import ObjectId, short_id
from syft.core.tensor import below
from syft.core.trees import iter_tensors, map_tensors
from syft.exceptions import SyftError
from syft.exceptions.remote_traceback import add_fact, facts_of
from syft.pointers.multi_pointer import MultiPointerTensor, group_results
from syft.pointers.object_pointer import ObjectPointer
from syft.pointers.remote_call import call_by_name, pointer_kinds, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syft.messaging.plan.interpreter import ResultInference
    from syft.workers.base import BaseWorker

RUN_PLAN = "syft.run_plan"
PLAN_PARAMETERS = "syft.plan_parameters"
COPY_PLAN = "syft.copy_plan"
PLAN_CALLS = frozenset({RUN_PLAN, PLAN_PARAMETERS, COPY_PLAN})


class PointerPlan(ObjectPointer):
    """A pointer to a plan; calling it runs the plan where its arguments are, with one message.

    Args:
        location: the worker that holds the plan, or a list of workers.
        id_at_location: its id there, or a list of ids.
        owner: the worker this pointer belongs to.
        garbage_collect_data: whether the plan is deleted with its last pointer.
        id: the id of the pointer itself.
        tags: its tags, which searches match.
        description: its description, which searches match.
    """

    # Pointers to the plan at further workers.
    others: tuple[PointerPlan, ...] = ()
    # A fingerprint of the state when the plan was sent.
    version: Any = None
    # The line of the user's code of each operation, if the plan was built here.
    lines: Sequence[tuple[str, int]] = ()
    # Infers the results of a call before it runs, if the plan was sent from here.
    inference: ResultInference | None = None

    def __init__(
        self,
        location: Any = None,
        id_at_location: Any = None,
        owner: object = None,
        garbage_collect_data: bool = True,
        id: ObjectId | None = None,
        tags: Iterable[str] | None = None,
        description: str | None = None,
    ) -> None:
        locations = list(location) if isinstance(location, tuple | list) else [location]
        ids = list(id_at_location) if isinstance(id_at_location, tuple | list) else [id_at_location] * len(locations)
        if len(locations) != len(ids) or not locations:
            raise ValueError("A pointer to a plan at several workers needs as many ids as workers.")
        super().__init__(
            location=locations[0],
            id_at_location=ids[0],
            owner=owner,
            id=id,
            garbage_collect_data=garbage_collect_data,
            tags=tags,
            description=description,
        )
        self.others = tuple(
            PointerPlan(other, other_id, owner, garbage_collect_data)
            for other, other_id in zip(locations[1:], ids[1:], strict=True)
        )

    @property
    def may_differentiate(self) -> bool:
        """Whether a call of the plan may run a backward pass, as far as this client knows."""
        known = self.inference
        return known is None or any(op.cmd_name.endswith("backward") for op in known.program.operations)

    @classmethod
    def joined(cls, pointers: list[PointerPlan]) -> PointerPlan:
        """Return one pointer to the workers of several; each keeps its claim alive."""
        first = pointers[0]
        joined = first._alone()
        joined.others = tuple(pointers[1:])
        joined.tags, joined.description = set(first.tags), first.description
        return joined

    def pointers(self) -> tuple[PointerPlan, ...]:
        """Return a pointer for each worker."""
        return (self, *self.others)

    @property
    def location(self) -> Any:
        """The worker that holds the plan, or the list of them."""
        return self._location if not self.others else [self._location, *(other._location for other in self.others)]

    @location.setter
    def location(self, worker: BaseWorker) -> None:
        self._location = worker

    @property
    def id_at_location(self) -> Any:
        """The id of the plan at its worker, or the list of ids."""
        return self._id_at_location if not self.others else [p._id_at_location for p in self.pointers()]

    @id_at_location.setter
    def id_at_location(self, obj_id: ObjectId) -> None:
        self._id_at_location = obj_id

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the plan where its arguments are; returns pointers to its results.

        Local tensors among the arguments are sent in the same message.
        """
        for leaf in iter_tensors((args, kwargs)):
            link = below(leaf)
            if isinstance(link, MultiPointerTensor):
                return self._run_at_each(link, map_tensors(_unwrapped, (args, kwargs)))
            if isinstance(link, ObjectPointer):
                return self._at(link.location)._run((args, kwargs))
        if self.others:
            workers = ", ".join(str(worker.id) for worker in self.location)
            raise SyftError(f"The plan is at {workers}. Pass an argument at one of them to choose it.")
        return self._run((args, kwargs))

    def _run_at_each(self, multi: MultiPointerTensor, arguments: object) -> Any:
        """Run the plan at each worker of a multi-pointer, and group the results."""
        results = []
        for pointer in multi.child.values():
            arguments_there = MultiPointerTensor.dispatch(arguments, pointer.location)
            results.append(map_tensors(_unwrapped, self._at(pointer.location)._run(arguments_there)))
        return map_tensors(lambda leaf: leaf.wrap(), group_results(results, self._owner))

    def _at(self, location: BaseWorker) -> PointerPlan:
        for pointer in self.pointers():
            if pointer._location is location:
                return pointer
        raise RuntimeError(
            f"The plan is not at {location.id!r}, where its arguments are. Send it there too: plan.send({location.id})."
        )

    def _run(self, arguments: object) -> Any:
        args, kwargs = map_tensors(_unwrapped, arguments)
        single = self._single()
        try:
            result = call_by_name(RUN_PLAN, (single, *args), kwargs, carries_local=True)
        except Exception as error:
            self._add_line(error)
            raise
        return map_tensors(wrapped, result)

    def _single(self) -> PointerPlan:
        """Return the pointer to the plan at its first worker only."""
        return self._alone() if self.others else self

    def _alone(self) -> PointerPlan:
        alone = PointerPlan._attach(self.lease, self._owner)
        alone.lines, alone.inference = self.lines, self.inference
        return alone

    def _add_line(self, error: Exception) -> None:
        """Add the line of the user's code to an error of a worker."""
        text = f"{error}\n{facts_of(error)}"
        found = re.search(r"operation (\d+) of the plan", text)
        if found is not None and int(found[1]) < len(self.lines):
            add_fact(error, f"It was recorded from {describe_line(self.lines[int(found[1])])}")

    def request_run_plan(
        self, location: BaseWorker | ObjectId, response_ids: object, *args: object, **kwargs: object
    ) -> Any:
        """Run the plan at a worker.

        Args:
            location: the worker.
            response_ids: ignored, for compatibility.
            *args: the arguments.
            **kwargs: the keyword arguments.

        Raises:
            RuntimeError: the plan is not at that worker.
        """
        return self._at(self._owner.get_worker(location, fail_hard=True))._run((args, kwargs))

    def parameters(self) -> list[Any]:
        """Return pointers to the parameters of the plan, which stay part of it."""
        if self.others:
            raise RuntimeError(
                "A plan at several workers has parameters at each. Use the pointer of one worker: plan.send(worker)."
            )
        return [wrapped(pointer) for pointer in call_by_name(PLAN_PARAMETERS, (self,), {})]

    def copy(self) -> PointerPlan:
        """Copy the plan at its worker and return a pointer to the copy: `pointer.copy().get()` leaves it there."""
        copied: PointerPlan = call_by_name(COPY_PLAN, (self._single(),), {})
        return copied

    def get(self, user: Any = None, reason: str = "", deregister_ptr: bool = True) -> Any:
        """Fetch the plan and remove it from its worker; a list of plans if it is at several workers."""
        if not self.others:
            return super().get(user, reason, deregister_ptr)
        plans = [pointer.get(user, reason, deregister_ptr) for pointer in (self._single(), *self.others)]
        if deregister_ptr:
            self._deregister()
        return plans

    @staticmethod
    def simplify(worker: BaseWorker | None, ptr: ObjectPointer) -> tuple[Any, ...]:
        """Return the fields another worker needs; a pointer to several workers is refused."""
        if isinstance(ptr, PointerPlan) and ptr.others:
            raise SyftError("A pointer to a plan at several workers can't be sent. Send plan.get_pointers()[worker].")
        return ObjectPointer.simplify(worker, ptr)

    def __repr__(self) -> str:
        if not self.others:
            return super().__repr__()
        targets = ", ".join(f"{p._location.id}:{short_id(p._id_at_location)}" for p in self.pointers())
        return f"[PointerPlan | {getattr(self._owner, 'id', None)}:{short_id(self.id)} -> {targets}]"

    __str__ = __repr__


def _unwrapped(leaf: object) -> Any:
    """Return the link in a wrapper; a local tensor is detached."""
    link = below(leaf)
    if link is not leaf or not isinstance(leaf, torch.Tensor):
        return link
    if leaf.requires_grad and torch.is_grad_enabled():
        raise SyftError(
            "A local tensor that requires a gradient can't be an argument: it would get no gradient. "
            "Pass x.detach(), or send it first: x.send(worker)."
        )
    return leaf.detach() if type(leaf) is torch.nn.Parameter or leaf.requires_grad else leaf


pointer_kinds["plan"] = PointerPlan
