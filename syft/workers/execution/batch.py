"""Run a row of small calls for a client.

Most of such a row is arithmetic on small tensors, and most of its results are gone before the row ends:
they are never stored. What that needs is checked for each call (`Row._run`); a call of any other kind takes the long
way of `execute`, so both ways give the same results, the same errors, and let the same things leave.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import IdNotUniqueError
from syft.hook.functions import function_of
from syft.hook.guards import GUARDS
from syft.messaging.call_batch import HEAD, Step, StepsMessage, operation_of, read_id, read_ids
from syft.workers.execution.execute import execute
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Calls on one or two tensors that make a new tensor, of their common shape, and change and share nothing.
_NAMES = (
    "neg abs exp log sqrt rsqrt square sin cos tanh sigmoid relu sign floor ceil round "
    "add sub mul div multiply subtract divide true_divide pow eq ne lt le gt ge maximum minimum atan2"
).split()
_OPERATORS = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"
).split()
CALM = frozenset(f"torch.{name}" for name in _NAMES) | {f"torch.Tensor.{name}" for name in _NAMES + _OPERATORS}
# Elements of a small tensor. The result of a calm call on two small ones is small enough not to be asked for before.
FEW = 256


@handles(StepsMessage)
def take_steps(worker: BaseWorker, session: Session, message: StepsMessage) -> None:
    """Run the calls of a row. All are tried; the error of the first that failed is raised, and says which it was."""
    BatchExecutor(worker, session).take(message.contents)


class BatchExecutor:
    """A row of calls, with what they made that is not stored yet.

    Args:
        worker: the worker that runs them.
        session: the client they run for.
    """

    def __init__(self, worker: BaseWorker, session: Session) -> None:
        self.worker = worker
        self.session = session
        self.store = worker.object_store
        self.made: dict[int, tuple[torch.Tensor, int]] = {}
        self.failure: Exception | None = None

    def take(self, steps: tuple[Step, ...]) -> None:
        """Run the calls."""
        number = 0
        while number < len(steps):
            number = self._take_short(steps, number)
            if number < len(steps):
                self._take_long(steps[number], number)
                number += 1
        # Nothing here may keep the error: its frames would keep what the call had computed.
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    def _take_short(self, steps: tuple[Step, ...], number: int) -> int:
        """Run calls in the short way and store what is left of them; returns the first that needs the long way."""
        while number < len(steps):
            step = steps[number]
            if step[0]:
                self._release(step[0])
            if not self._run(step, number):
                break
            number += 1
        self._settle()
        return number

    def _take_long(self, step: Step, number: int) -> None:
        self.session.check_stay()  # it may take its time, and others follow
        try:
            execute(self.worker, self.session, operation_of(step))
        except Exception as error:
            self._fail(error, number)

    def _release(self, written: bytes) -> None:
        for obj_id in read_ids(written):
            if self.made.pop(obj_id, None) is None:
                self.session.release(obj_id)

    def _run(self, step: Step, number: int) -> bool:
        """Run a call in the short way; False if it can't be, and nothing has happened."""
        name = step[2]
        if name not in CALM or name in GUARDS:
            return False
        args: list[Any] = []
        for value in step[HEAD:]:
            if type(value) is bytes:
                tensor = self._small(read_id(value))
                if tensor is None:
                    return False
                args.append(tensor)
            else:
                args.append(value)
        result_id = read_id(step[3])
        if len(args) > 2 or result_id in self.made or result_id in self.store.objects:
            return False
        try:
            if step[1] is torch.is_grad_enabled():
                result = function_of(name)(*args)
            else:
                with torch.set_grad_enabled(step[1]):
                    result = function_of(name)(*args)
        except Exception:  # the long way tells it as it should be told: the call has changed nothing
            return False
        if type(result) is not torch.Tensor:
            return False
        self.made[result_id] = (result, number)
        if result.numel() > FEW:
            self._settle()  # so that it is counted before more is made
        return True

    def _small(self, obj_id: int) -> torch.Tensor | None:
        """Return a small tensor of the store; None if the object is of any other kind."""
        made = self.made.get(obj_id)
        if made is not None:
            return made[0] if made[0].numel() <= FEW else None
        held = dict.get(self.store.objects, obj_id)
        if type(held) is not torch.Tensor or held.numel() > FEW or held.layout is not torch.strided:
            return None
        return held

    def _settle(self) -> None:
        """Store what was made and is still wanted."""
        made, self.made = self.made, {}
        for obj_id, (tensor, number) in made.items():
            try:
                if obj_id in self.store.objects:  # somebody was quicker
                    raise IdNotUniqueError(f"Worker {self.worker.id!r} already holds an object with id {obj_id!r}.")
                self.session.keep(obj_id, tensor)
            except Exception as error:
                self._fail(error, number)

    def _fail(self, error: Exception, number: int) -> None:
        if self.failure is None:
            traceback.clear_frames(error.__traceback__)  # the row goes on, and what the call had computed need not stay
            error.syft_step = number  # type: ignore[attr-defined]
            self.failure = error
