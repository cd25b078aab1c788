"""A worker whose calls are also worked out on twins, and compared: what the twins say must be what torch does."""

from __future__ import annotations

import time
import warnings

import torch

from syft.core.references import Ref, SameAs
from syft.core.trees import map_tensors
from syft.messaging.plan.plan import Plan
from syft.pointers.remote_call import following_id
from syft.workers.stream import InlineStream
from syft.workers.twin_moves import enter
from syft.workers.twins import PlanTwin, Twin, attribute, call_on_twins, describe, twin_of
from syft.workers.virtual import VirtualWorker


def look(obj):
    """All that can be compared of a tensor and its twin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about gradients of results
        grad = obj.grad
    return tuple(obj.shape), obj.dtype, obj.requires_grad, obj.is_leaf, None if grad is None else tuple(grad.shape)


class Shadow:
    """The twins of a worker's private objects, and the calls on them.

    Args:
        worker: the worker.
    """

    def __init__(self, worker):
        self.worker = worker
        self.twins = {}
        self.calls = []
        self.seconds = 0.0
        self.moved = {}

    def hide(self, *pointers):
        """Make objects private."""
        for pointer in pointers:
            obj_id = getattr(pointer, "child", pointer).id_at_location
            self.twins[obj_id] = twin_of(self.worker.object_store.objects[obj_id])

    def resolve(self, leaf):
        """Return the twin that a reference names, or the object itself."""
        if type(leaf) is not Ref:
            return leaf
        held = self.twins.get(leaf.id)
        if held is not None:
            return held if leaf.attribute is None else attribute(held, leaf.attribute)
        held = self.worker.object_store.get(leaf.id)
        for name in (leaf.attribute or "").split(".") if leaf.attribute else ():
            held = getattr(held, name)
        return held

    def expect(self, operation):
        """Work out a call on twins; None if it names nothing that is private."""
        named = []
        map_tensors(lambda leaf: named.append(leaf.id in self.twins) if type(leaf) is Ref else None,
                    (operation.cmd_args, operation.cmd_kwargs))  # fmt: skip
        if not any(named):
            return None
        held = {one: obj for one, obj in self.worker.object_store.objects.items() if one not in self.twins}
        for _ in range(8):
            args, kwargs = map_tensors(self.resolve, (operation.cmd_args, operation.cmd_kwargs))
            start = time.process_time()
            found = call_on_twins(operation, args, kwargs)
            self.seconds += time.process_time() - start
            if not found.moves:
                return found
            for move in found.moves:
                if move.ref.id not in self.twins:
                    self.moved[move.ref.id] = move.reason
                    self.twins.update((entry.obj_id, entry.twin) for entry in enter(move.ref.id, held))
        raise AssertionError("moves never end")

    def check(self, operation, expected, response):
        """Compare the result of a call and all private objects with their twins."""
        self.calls.append(operation)
        result_id = operation.return_ids[0] if operation.return_ids else None
        for twin in expected.new:
            self.twins[result_id] = twin
            result_id = following_id(result_id)
        if isinstance(response, SameAs):
            assert expected.result == response, operation.cmd_name
        elif isinstance(response, torch.Tensor):
            assert isinstance(expected.result, Twin), operation.cmd_name
        elif response is None or isinstance(response, bool | int | torch.Size):
            assert expected.result == response, operation.cmd_name
        self.compare(operation.cmd_name)

    def compare(self, name):
        """Compare all private objects with their twins."""
        objects = self.worker.object_store.objects
        for obj_id in list(self.twins):
            if obj_id not in objects:
                del self.twins[obj_id]
                continue
            obj, twin = objects[obj_id], self.twins[obj_id]
            if isinstance(obj, torch.Tensor):
                assert look(twin) == look(obj), name
                assert describe(twin).shape == obj.shape
            elif isinstance(obj, Plan):
                assert isinstance(twin, PlanTwin)
                assert [look(one) for one in twin.state] == [look(one) for one in obj.state.tensors()], name


class ShadowStream(InlineStream):
    """A stream whose calls are worked out on twins first."""

    def run(self, name, args, kwargs, base, originals=None):
        operation = self._operation(name, args, kwargs, base)
        shadow = self.location.shadow
        expected = shadow.expect(operation)
        response = super().run(name, args, kwargs, base, originals)
        if expected is not None:
            shadow.check(operation, expected, response)
        return response


class ShadowWorker(VirtualWorker):
    """A worker of this process with a shadow."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._stream_type = ShadowStream
        self.shadow = Shadow(self)
