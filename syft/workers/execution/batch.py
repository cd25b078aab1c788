"""Run a batch of small calls for a client.

Most calls of a batch are arithmetic on small tensors, and most results are released before the batch ends: they are
never stored. The conditions are checked for each call (`BatchExecutor._run`); any other call takes the general path
of `execute`, so both paths give the same results and errors, and release the same values.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import torch

from syft.exceptions import IdNotUniqueError
from syft.hook.allowed_functions import function_of
from syft.hook.guards import GUARDS
from syft.messaging.call_batch import HEAD, Step, StepsMessage, operation_of, read_id, read_ids
from syft.workers.execution.execute import execute, run_function
from syft.workers.execution.router import handles
from syft.workers.execution.session import Session

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Calls on one or two tensors that make a new tensor, of their common shape, without side effects or shared memory.
_NAMES = (
    "neg abs exp log sqrt rsqrt square sin cos tanh sigmoid relu sign floor ceil round "
    "add sub mul div multiply subtract divide true_divide pow eq ne lt le gt ge maximum minimum atan2"
).split()
_OPERATORS = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"
).split()
SIDE_EFFECT_FREE = frozenset(f"torch.{name}" for name in _NAMES) | {
    f"torch.Tensor.{name}" for name in _NAMES + _OPERATORS
}
# Elements of a small tensor. Results of side-effect free calls on small tensors need no check of their size before.
MAX_FAST_ELEMENTS = 256


@handles(StepsMessage)
def take_steps(worker: BaseWorker, session: Session, message: StepsMessage) -> None:
    """Run the calls of a batch. All are run; the first error is raised, with the index of its call."""
    BatchExecutor(worker, session).run(message.contents)


class BatchExecutor:
    """A batch of calls, with their results that are not stored yet."""

    def __init__(self, worker: BaseWorker, session: Session) -> None:
        self.worker = worker
        self.session = session
        self.store = worker.object_store
        self.made: dict[int, tuple[torch.Tensor, int]] = {}
        self.failure: Exception | None = None

    def run(self, steps: tuple[Step, ...]) -> None:
        """Run the calls."""
        number = 0
        while number < len(steps):
            number = self._run_fast(steps, number)
            if number < len(steps):
                self._run_general(steps[number], number)
                number += 1
        # No reference to the error may stay here: its frames hold the intermediate values of the call.
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure

    def _run_fast(self, steps: tuple[Step, ...], number: int) -> int:
        """Run calls on the fast path and store the remaining results; returns the first that needs the general path."""
        while number < len(steps):
            step = steps[number]
            if step[0]:
                self._release(step[0])
            if not self._run(step, number):
                break
            number += 1
        self._store_results()
        return number

    def _run_general(self, step: Step, number: int) -> None:
        self.session.check_stay()  # it may take long, and others follow
        try:
            execute(self.worker, self.session, operation_of(step))
        except Exception as error:
            self._fail(error, number)

    def _release(self, written: bytes) -> None:
        for obj_id in read_ids(written):
            if self.made.pop(obj_id, None) is None:
                self.session.release(obj_id)

    def _run(self, step: Step, number: int) -> bool:
        """Run a call on the fast path; False if that is impossible, without any effect."""
        name = step[2]
        if name not in SIDE_EFFECT_FREE or name in GUARDS:
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
            result = run_function(function_of(name), tuple(args), {}, step[1])
        except Exception:  # the general path reports the error: the call has changed nothing
            return False
        if type(result) is not torch.Tensor:
            return False
        self.made[result_id] = (result, number)
        if result.numel() > MAX_FAST_ELEMENTS:
            self._store_results()  # so that it is counted before the next call
        return True

    def _small(self, obj_id: int) -> torch.Tensor | None:
        """Return a small tensor of the store; None for any other object."""
        made = self.made.get(obj_id)
        if made is not None:
            return made[0] if made[0].numel() <= MAX_FAST_ELEMENTS else None
        held = dict.get(self.store.objects, obj_id)
        if type(held) is not torch.Tensor or held.numel() > MAX_FAST_ELEMENTS or held.layout is not torch.strided:
            return None
        return None if held.is_quantized else held

    def _store_results(self) -> None:
        """Store the results that are still claimed."""
        made, self.made = self.made, {}
        for obj_id, (tensor, number) in made.items():
            try:
                if obj_id in self.store.objects:  # stored by another session meanwhile
                    raise IdNotUniqueError(f"Worker {self.worker.id!r} already holds an object with id {obj_id!r}.")
                self.session.keep(obj_id, tensor)
            except Exception as error:
                self._fail(error, number)

    def _fail(self, error: Exception, number: int) -> None:
        if self.failure is None:
            traceback.clear_frames(error.__traceback__)  # releases the intermediate values of the call
            error.syft_step = number  # type: ignore[attr-defined]
            self.failure = error
