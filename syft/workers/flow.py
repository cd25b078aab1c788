"""Flow: where the values of one call come from, and where they go to. Only made where a policy holds.

A result derives from everything that the call was given. So does whatever the call changes in place, with all that
shares its memory; and after a backward pass, whatever got a gradient. What can't be told before the call runs is noted
afterwards, also if the call fails: it may have done half of its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from syft.core.labels import printable
from syft.core.references import Ref
from syft.hook.functions import function_of
from syft.hook.syft_tensor import SyftTensor
from syft.messaging.changes import alters, changes_nothing, trains
from syft.messaging.message import Operation
from syft.messaging.plan.plan import Plan
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.workers.changes import changed_refs, memories
from syft.workers.foresight import Outcome, foresee, given_to
from syft.workers.gradient_calls import Pass
from syft.workers.losing import give_form, is_as_foreseen, laid_out, stand_in
from syft.workers.outlines import leaves_of, shape_of_result
from syft.workers.policy import check_release, may_leave
from syft.workers.provenance import (
    Failure,
    Rights,
    Source,
    known_rights,
    ledger_of,
    rights_of,
    set_rights,
    touch_rights,
    unmark,
    user_of,
)

_GRADIENTS = frozenset({"torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
# A call of our own that fails for large values, and what it gives has the same form for all others.
_ENCODE = "syft.fix_precision"
# Calls of our own that change nothing, and whose results have a form that no value decides.
_PLAIN_COMMANDS = frozenset({"syft.tag", "syft.describe", _ENCODE, "syft.float_precision", COPY_PLAN, PLAN_PARAMETERS})
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


class Flow:
    """The sources of one call.

    Args:
        worker: the worker that runs it.
        session: the client it runs for.
        operation: the call.
    """

    def __init__(self, worker: Any, session: Any, operation: Operation) -> None:
        self.worker = worker
        self.session = session
        self.operation = operation
        self.user = user_of(session)
        self.own = frozenset({ledger_of(worker).of_user(self.user)})
        self.sources: frozenset[Source] = self.own
        # What the call was given: (as it is used, its id or None, its sources)
        self.given: list[tuple[Any, Any, frozenset[Source]]] = []
        # By id: what is held here and was named.
        self.held: dict[Any, Any] = {}
        # Whether all of it is plain tensors, which lead to nobody else.
        self.is_plain = True
        self.changed = () if changes_nothing(operation) else tuple(changed_refs(operation))
        # What was foreseen of a call whose values may not leave; None: they may, or nothing of it depends on them.
        self.outcome: Outcome | None = None
        self._pass: Pass | None = None
        self._tensors: list[torch.Tensor] = []
        self._versions: list[tuple[Any, Any, int]] = []

    # --- what comes in ----------------------------------------------------------------------------------------

    def take(self, ref: Ref, obj: Any, used: Any) -> None:
        """Note an object that the call names, and what of it the call gets (an attribute, or the object itself)."""
        rights = rights_of(self.worker, ref.id, obj)
        self.sources |= rights.sources
        self.held[ref.id] = obj
        self.given.append((used, ref.id, rights.sources))
        if type(used) in _PLAIN_TENSORS:
            self._versions.append((obj, used, used._version))
        else:
            self.is_plain = False

    def bring(self, obj: Any) -> None:
        """Note an object that came along with the call."""
        self.is_plain = self.is_plain and type(obj) in _PLAIN_TENSORS
        self.given.append((obj, None, self.own))

    def check_release(self, how: str) -> None:
        """Raise unless everything that the call was given may be released."""
        for obj, obj_id, sources in self.given:
            if obj is not None:
                check_release(self.worker, self.session, obj, how, obj_id=obj_id, sources=sources)

    def is_open(self) -> bool:
        """Say whether whatever the call computes may be released."""
        if self.sources == self.own and getattr(self.worker.policy, "own_is_open", False):
            return True
        objects = [obj for obj, _, _ in self.given if obj is not None]
        return not objects or may_leave(
            self.worker, self.session, objects[0], self.operation.cmd_name, sources=self.sources, probe=True
        )

    def tells_errors(self) -> bool:
        """Say whether the text of an error of the call may be told."""
        return may_leave(self.worker, self.session, None, "error text", sources=self.sources, probe=True)

    # --- what goes out ----------------------------------------------------------------------------------------

    def foresee(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse a call whose result has a form that would tell values, unless these may be released."""
        name = self.operation.cmd_name
        if self._trains():  # autograd may have kept what was written to since
            self.sources |= ledger_of(self.worker).late(self.user)
        if name in _PLAIN_COMMANDS - {_ENCODE} or name.endswith(".__set__") or self.is_open():
            return
        if name == _ENCODE:
            self.outcome = Outcome(True)
            return
        if name in _GRADIENTS:
            self._pass = Pass(name, args, kwargs)
            self._pass.check()
            if self._pass.makes_graph:  # which leaves that has is not known before
                self.check_release(name)
            self.outcome = Outcome(True)
            return
        found = foresee(name, args, kwargs, self.operation.grad_enabled)
        found.raise_error()
        if found.is_known:
            self.outcome, self._tensors = found, given_to(name, args, kwargs)
        else:
            self.check_release(name)

    def settle(self, result: Any) -> Any:
        """Return the result of a call as it may be looked at: what values decided is refused, or evened out."""
        if self._pass is not None:
            return self._pass.evened_out(result)
        if self.outcome is None or self.outcome.result is None:
            return result
        if not is_as_foreseen(self.outcome.result, result, self._tensors):
            self.check_release(self.operation.cmd_name)
        return laid_out(self.outcome.result, result)

    def check_form(self, result: Any) -> None:
        """Refuse a result of another form than was foreseen: values decided it."""
        known = self.outcome is not None and self._pass is None and self.operation.cmd_name != _ENCODE
        if known and shape_of_result(result) != self.outcome.form:  # type: ignore[union-attr]
            self.check_release(self.operation.cmd_name)

    def check_look(self) -> None:
        """Refuse to tell how tensors lie in memory, or what graphs they have, unless their values may leave."""
        if not self.is_open():
            self.check_release(self.operation.cmd_name)

    def fail(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what stands in for the result of a call that failed, if that may not be told; else raise.

        That it failed although the forms fit is due to values. The result, and what the call may have changed, then
        derives from a failure: who may have it is told instead of getting it.
        """
        if self.outcome is None:
            raise error
        found = None
        if self.operation.cmd_name == _ENCODE:  # it fails for zeros too, unless values are the reason
            found = function_of(_ENCODE)(torch.zeros_like(args[0]), *args[1:], **kwargs)
        text = bounded_text(f"{self.operation.cmd_name}: {type(error).__name__}: {error}")
        self.sources |= {Failure(text)}
        spread(self.worker, self.user, self._changed(), self.sources)
        self._spread_to_leaves()
        if self._pass is not None:
            return self._pass.lose(self._retained())
        for place, form in self.outcome.changed:
            give_form(self._tensors[place], form, self._tensors)
        return found if found is not None else stand_in(self.outcome.result, self._tensors)

    def _retained(self) -> list[torch.Tensor]:
        """Return the results that keep their gradients."""
        held = self.worker.object_store.outlines().values()
        return [
            obj
            for obj in held
            if isinstance(obj, torch.Tensor) and not isinstance(obj, SyftTensor) and obj.retains_grad
        ]

    def rights(self, obj: Any) -> Rights:
        """Return the rights of a result; a result that is held already keeps what it had."""
        before = known_rights(obj)
        if before is None:
            return Rights(self.user, self.sources)
        return Rights(before.owner, before.sources | self.sources)

    # --- what changes -----------------------------------------------------------------------------------------

    def before(self) -> None:
        """Note the sources of what the call is about to change, as far as its name and arguments tell."""
        self._spread_to_leaves()
        spread(self.worker, self.user, self._changed(), self.sources)

    def _trains(self) -> bool:
        name = self.operation.cmd_name
        return name in _GRADIENTS or (name == RUN_PLAN and self._plan_trains())

    def _spread_to_leaves(self) -> None:
        if self._trains():
            spread_memory(self.worker, self.user, set().union(*self._memories_of_leaves()), self.sources)

    def after(self) -> None:
        """Note the sources of what the call has changed without its name saying so."""
        changed = [obj for obj, used, version in self._versions if used._version != version]
        if changed:
            spread(self.worker, self.user, changed, self.sources)

    def _changed(self) -> Iterator[Any]:
        """Yield what the call may change. Of what is lent to it, it changes copies, unless the policy let it."""
        name = self.operation.cmd_name
        if name.startswith(("torch.", "str.")):
            for ref in self.changed:
                yield self.held[ref.id]
        elif name == RUN_PLAN:
            plan = self.held[self.operation.cmd_args[0].id]
            if isinstance(plan, Plan) and alters(plan.operations):
                yield from self._own()
                if trains(plan.operations):
                    yield plan
        elif name not in _PLAIN_COMMANDS:  # a callable that was sent here, a protocol: nobody knows what they change
            yield from self._own()

    def _own(self) -> Iterator[Any]:
        claims = self.worker.object_store.claims
        return (obj for obj_id, obj in self.held.items() if claims.belongs_to(obj_id, self.session))

    def _plan_trains(self) -> bool:
        return any(isinstance(obj, Plan) and trains(obj.operations) for obj in self.held.values())

    def _memories_of_leaves(self) -> Iterator[set[int]]:
        """Yield where the leaves are that a backward pass may give gradients to, and their gradients."""
        tensors = [obj for obj, _, _ in self.given if isinstance(obj, torch.Tensor) and obj.requires_grad]
        if self.operation.cmd_name == "torch.autograd.grad" or not tensors:
            return
        for leaf in leaves_of(tensors):
            yield memories(leaf)
        # A result that keeps its gradient is not found by walking back.
        for obj in self._retained():
            yield memories(obj)


def bounded_text(text: str) -> str:
    """Return a text that can be kept and shown."""
    return printable(text[:1000].encode("utf-8", "replace").decode("utf-8"))


def spread(worker: Any, user: object, objects: Iterable[Any], sources: frozenset[Source]) -> None:
    """Note that objects derive from these sources too, and so does all that shares memory with them."""
    objects = list(objects)
    if ledger_of(worker).marked:
        unmark_written(worker, set().union(*map(memories, objects)), objects)
    grown = [obj for obj in objects if not _grow(worker, obj, sources)]
    if grown:
        ledger_of(worker).note_late(user, sources)
        spread_memory(worker, user, set().union(*map(memories, grown)), sources)


def spread_memory(worker: Any, user: object, changed: set[int], sources: frozenset[Source]) -> None:
    """Note that all objects whose values are at these places derive from these sources too."""
    if not changed:
        return
    if ledger_of(worker).marked:
        unmark_written(worker, changed)
    for obj_id, obj in worker.object_store.outlines().items():
        if changed & memories(obj) and not _grow(worker, obj, sources, obj_id):
            ledger_of(worker).note_late(user, sources)


def unmark_written(worker: Any, changed: set[int], objects: Iterable[Any] = ()) -> None:
    """Take the marks away from what was written to, or may have been: what is granted is what was asked for.

    Args:
        worker: the worker.
        changed: where values were written to.
        objects: what was written to, wherever its values are.
    """
    written = [id(obj) for obj in objects]
    outlines = worker.object_store.outlines()
    for obj_id in list(ledger_of(worker).marked):
        held = outlines.get(obj_id)
        if held is None or id(held) in written or changed & memories(held):
            unmark(worker, obj_id, held)


def _grow(worker: Any, obj: Any, sources: frozenset[Source], obj_id: Any = None) -> bool:
    """Add sources to an object; True if it had them all."""
    rights = rights_of(worker, obj_id, obj)
    if sources <= rights.sources:
        return True
    set_rights(obj, Rights(rights.owner, rights.sources | sources))
    if obj_id is not None:
        touch_rights(worker, obj_id)
    return False
