"""GradientCache: the metadata of gradients at a worker, cached by its client.

Optimizers and `clip_grad_norm_` read the gradient of every parameter several times a step, and each read would be a
round trip. The spec of a gradient holds until a call that may change it, so responses are cached until then, and
parameters that were sent with one message are queried with one message. The absence of a gradient is cached for one
read only: any client that has the tensor may add one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syft.core.id_provider import ObjectId
from syft.core.references import Ref, TensorMeta
from syft.exceptions import SyftError
from syft.messaging import message as m

SET_GRAD = "torch.Tensor.grad.__set__"
# Calls that write to a tensor and preserve its spec and its gradient.
WRITING = frozenset(
    "add_ sub_ mul_ div_ pow_ neg_ abs_ sign_ sqrt_ rsqrt_ exp_ log_ square_ reciprocal_ clamp_ clamp_min_ clamp_max_ "
    "lerp_ addcmul_ addcdiv_ addmm_ addmv_ addr_ zero_ fill_ copy_ nan_to_num_ relu_ tanh_ "
    "sigmoid_ normal_ uniform_ bernoulli_ hypot_ logical_not_ true_divide_ multiply_ subtract_ divide_".split()
)
# Messages that change no gradient; all others may.
QUIET = frozenset(
    {
        m.GetShapeMessage,
        m.IsNoneMessage,
        m.RetainMessage,
        m.ClaimMessage,
        m.PublishMessage,
        m.SearchMessage,
        m.RequestReleaseMessage,
        m.RequestStatusMessage,
    }
)
# Tensors that are queried with one message, at most.
MOST = 1024
# Replaced whenever a request may change gradients at any worker: a worker can pass a call on.
_time: list[object] = [object()]


@functools.lru_cache(maxsize=4096)
def leaves_gradients(name: str) -> bool:
    """Return whether a call certainly preserves all gradients and their specs."""
    if not name.startswith("torch."):
        return False
    last = name.rpartition(".")[2]
    if last.endswith("__"):
        return last != "__set__"
    return last in WRITING if last.endswith("_") else last != "backward"


class GradientCache:
    """The metadata of gradients at one worker, as far as a client knows it."""

    def __init__(self) -> None:
        self._at = _time[0]
        self._known: dict[ObjectId, TensorMeta] = {}
        # Tensors that were just reported to have no gradient; dropped when they are read.
        self._missing: dict[ObjectId, None] = {}
        # Tensors that are queried together: they were sent together, or had gradients before.
        self._together: dict[ObjectId, None] = {}

    def meta_of(self, obj_id: ObjectId, ask: Callable[[m.Message], Any]) -> TensorMeta | None:
        """Return the metadata of a tensor's gradient; None if it has none."""
        now = _time[0]
        if self._at is not now:
            self._known.clear()
            self._missing.clear()
            self._at = now
        found = self._known.get(obj_id)
        if found is not None:
            return found
        if obj_id in self._missing:
            self._missing.pop(obj_id, None)
            return None
        answers = self._ask(obj_id, ask)
        if now is _time[0]:
            self._keep(obj_id, answers)
        return answers[obj_id]

    def _ask(self, obj_id: ObjectId, ask: Callable[[m.Message], Any]) -> dict[ObjectId, TensorMeta | None]:
        others = [one for one in list(self._together) if one not in self._known and one != obj_id]
        ids = [obj_id, *others] if obj_id in self._together else [obj_id]
        if len(ids) > 1:
            try:
                found = ask(m.BatchMessage(tuple([m.GetShapeMessage(Ref(one, "grad")) for one in ids])))
                return dict(zip(ids, found, strict=True))
            except SyftError:
                self._together.clear()  # another one is gone or invisible; only the requested one counts
        return {obj_id: ask(m.GetShapeMessage(Ref(obj_id, "grad")))}

    def _keep(self, obj_id: ObjectId, answers: dict[ObjectId, TensorMeta | None]) -> None:
        for one, meta in answers.items():
            if meta is not None:
                self._known[one] = meta
                self._join(one)
            elif one != obj_id:
                self._missing[one] = None

    def _join(self, obj_id: ObjectId) -> None:
        if len(self._together) >= MOST:
            self._together.clear()
        self._together[obj_id] = None

    def learn(self, obj_id: ObjectId, meta: TensorMeta) -> None:
        """Record the spec of a gradient that this client has just set."""
        if self._at is _time[0]:
            self._known[obj_id] = meta
            self._join(obj_id)

    def forget(self, obj_id: ObjectId) -> None:
        """Drop a tensor that is gone; finalizers of any thread call this."""
        self._together.pop(obj_id, None)
        self._known.pop(obj_id, None)

    def _forget_all(self, obj_id: ObjectId | None) -> None:
        if obj_id is not None:
            self.forget(obj_id)
            self._missing.pop(obj_id, None)

    def note(self, message: m.Message) -> None:
        """Update the cache for a message that was sent to the worker."""
        kind = type(message)
        if isinstance(message, m.Operation):
            self._note_call(message)
        elif kind is m.BatchMessage:
            for part in message.contents:
                self.note(part)
                if (
                    type(part) is m.ObjectMessage
                    and isinstance(part.contents, torch.Tensor)
                    and part.contents.requires_grad
                    and part.obj_id is not None
                ):
                    self._join(part.obj_id)
        elif isinstance(message, m.ObjectMessage):
            self._forget_all(message.obj_id)  # an earlier object had the same id
        elif kind is m.ObjectRequestMessage:
            self.forget(message.contents[0])
        elif kind not in QUIET:
            _time[0] = object()

    def _note_call(self, call: m.Operation) -> None:
        if call.cmd_name == SET_GRAD and type(call.cmd_args[0]) is Ref and call.cmd_args[0].attribute is None:
            # Only this tensor has changed, so the entries of others stay valid here; other clients query again.
            was = _time[0]
            _time[0] = object()
            if self._at is was:
                self._at = _time[0]
            self._known.pop(call.cmd_args[0].id, None)
            self._missing.pop(call.cmd_args[0].id, None)
        elif not leaves_gradients(call.cmd_name):
            _time[0] = object()
