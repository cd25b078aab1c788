"""A worker whose calls also run on proxies: the prediction must equal the result of torch."""

from __future__ import annotations

import time
import warnings

import torch

from syft.core.references import Ref, SameAs
from syft.core.trees import map_tensors
from syft.grid.isolation.proxies.calls import attribute, call_on_proxies
from syft.grid.isolation.proxies.moves import plan_move
from syft.grid.isolation.proxies.objects import PlanProxy, Proxy, describe, proxy_of
from syft.messaging.plan.plan import Plan
from syft.pointers.remote_call import following_id
from syft.workers.transport.stream import InlineStream
from syft.workers.virtual import VirtualWorker


def look(obj):
    """All that can be compared of a tensor and its proxy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about gradients of results
        grad = obj.grad
    return tuple(obj.shape), obj.dtype, obj.requires_grad, obj.is_leaf, None if grad is None else tuple(grad.shape)


class Shadow:
    """The proxies of a worker's private objects, and the calls on them.

    Args:
        worker: the worker.
    """

    def __init__(self, worker):
        self.worker = worker
        self.proxies = {}
        self.calls = []
        self.seconds = 0.0
        self.moved = {}

    def hide(self, *pointers):
        """Make objects private."""
        for pointer in pointers:
            obj_id = getattr(pointer, "child", pointer).id_at_location
            self.proxies[obj_id] = proxy_of(self.worker.object_store.objects[obj_id])

    def resolve(self, leaf):
        """Return the proxy that a reference names, or the object itself."""
        if type(leaf) is not Ref:
            return leaf
        held = self.proxies.get(leaf.id)
        if held is not None:
            return held if leaf.attribute is None else attribute(held, leaf.attribute)
        held = self.worker.object_store.get(leaf.id)
        for name in (leaf.attribute or "").split(".") if leaf.attribute else ():
            held = getattr(held, name)
        return held

    def expect(self, operation):
        """Work out a call on proxies; None if it names nothing that is private."""
        named = []
        map_tensors(lambda leaf: named.append(leaf.id in self.proxies) if type(leaf) is Ref else None,
                    (operation.cmd_args, operation.cmd_kwargs))  # fmt: skip
        if not any(named):
            return None
        held = {one: obj for one, obj in self.worker.object_store.objects.items() if one not in self.proxies}
        for _ in range(8):
            args, kwargs = map_tensors(self.resolve, (operation.cmd_args, operation.cmd_kwargs))
            start = time.process_time()
            found = call_on_proxies(operation, args, kwargs)
            self.seconds += time.process_time() - start
            if not found.moves:
                return found
            for move in found.moves:
                if move.ref.id not in self.proxies:
                    self.moved[move.ref.id] = move.reason
                    self.proxies.update((entry.obj_id, entry.proxy) for entry in plan_move(move.ref.id, held))
        raise AssertionError("moves never end")

    def check(self, operation, expected, response):
        """Compare the result of a call and all private objects with their proxies."""
        self.calls.append(operation)
        result_id = operation.return_ids[0] if operation.return_ids else None
        for proxy in expected.new:
            self.proxies[result_id] = proxy
            result_id = following_id(result_id)
        if isinstance(response, SameAs):
            assert expected.result == response, operation.cmd_name
        elif isinstance(response, torch.Tensor):
            assert isinstance(expected.result, Proxy), operation.cmd_name
        elif response is None or isinstance(response, bool | int | torch.Size):
            assert expected.result == response, operation.cmd_name
        self.compare(operation.cmd_name)

    def compare(self, name):
        """Compare all private objects with their proxies."""
        objects = self.worker.object_store.objects
        for obj_id in list(self.proxies):
            if obj_id not in objects:
                del self.proxies[obj_id]
                continue
            obj, proxy = objects[obj_id], self.proxies[obj_id]
            if isinstance(obj, torch.Tensor):
                assert look(proxy) == look(obj), name
                assert describe(proxy).shape == obj.shape
            elif isinstance(obj, Plan):
                assert isinstance(proxy, PlanProxy)
                assert [look(one) for one in proxy.state] == [look(one) for one in obj.state.tensors()], name


class ShadowStream(InlineStream):
    """A stream whose calls are worked out on proxies first."""

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
