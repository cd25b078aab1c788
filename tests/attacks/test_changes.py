"""Under a policy a stranger computes on what the owner published, and changes no bit of it, by any name or alias."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.messaging import message as m
from syft.workers.policy import DenyAll
from tests.attacks.hostile import Mallory

NN = "torch.nn.functional"
DIRECT = {
    "method": ("torch.Tensor.zero_", (Ref(1),), {}),
    "function": ("torch.relu_", (Ref(1),), {}),
    "function by keyword": ("torch.relu_", (), {"input": Ref(1)}),
    "dropout by keyword": ("torch.dropout_", (), {"input": Ref(1), "p": 1.0, "train": True}),
    "inplace": (f"{NN}.relu", (Ref(1), True), {}),
    "inplace by keyword": (f"{NN}.relu", (Ref(1),), {"inplace": True}),
    "all by keyword": (f"{NN}.relu", (), {"input": Ref(1), "inplace": True}),
    "inplace by a truthy value": (f"{NN}.hardtanh", (Ref(1), 0.0, 0.5), {"inplace": 1}),
    "initialiser": ("torch.nn.init.constant_", (Ref(1), 0.0), {}),
    "initialiser by keyword": ("torch.nn.init.constant_", (), {"tensor": Ref(1), "val": 0.0}),
    "operator": ("torch.Tensor.__iadd__", (Ref(1), 1), {}),
    "attribute": ("torch.Tensor.zero_", (Ref(1, "data"),), {}),
    "part of it": ("torch.Tensor.zero_", (Ref(1, "real"),), {}),
    "item": ("torch.Tensor.__setitem__", (Ref(1), 0, 9.0), {}),
    "data": ("torch.Tensor.data.__set__", (Ref(1), Ref(2)), {}),
    "gradient": ("torch.Tensor.grad.__set__", (Ref(1), Ref(2)), {}),
    "requires_grad": ("torch.Tensor.requires_grad.__set__", (Ref(1), True), {}),
    "requires_grad_": ("torch.Tensor.requires_grad_", (Ref(1),), {}),
    "out": ("torch.neg", (Ref(2),), {"out": Ref(1)}),
    "out in a tuple": ("torch.sort", (Ref(2),), {"out": (Ref(1), Ref(4))}),
    "out in a list": ("torch.max", (Ref(2), 0), {"out": [Ref(5), Ref(4)]}),
    "embedding that renormalises": (f"{NN}.embedding", (Ref(4), Ref(3)), {"max_norm": 0.001}),
    "the same by position": (f"{NN}.embedding", (Ref(4), Ref(3), None, 0.001), {}),
    "the same by keyword": (f"{NN}.embedding", (), {"input": Ref(4), "weight": Ref(3), "max_norm": 0.001}),
    "batch norm": (f"{NN}.batch_norm", (Ref(3), Ref(1), Ref(2)), {"training": True}),
    "batch norm by keyword": (f"{NN}.batch_norm", (Ref(3),), {"running_mean": Ref(1), "running_var": Ref(2), "training": True}),
    "instance norm": ("torch.instance_norm", (Ref(6), None, None, Ref(1), Ref(2), True, 0.9, 1e-5, False), {}),
    "labels": ("syft.tag", (Ref(1), "#mine"), {}),
    "description": ("syft.describe", (Ref(1), "mine"), {}),
    "in place over several": ("torch.Tensor.copy_", (Ref(3, "T"), 0), {}),
}  # fmt: skip

ALIASES = {
    "view": ("torch.Tensor.view", (Ref(1), -1)),
    "data": ("torch.Tensor.data.__get__", (Ref(1),)),
    "detach": ("torch.Tensor.detach", (Ref(1),)),
    "item": ("torch.Tensor.__getitem__", (Ref(1), 0)),
    "slice": ("torch.Tensor.__getitem__", (Ref(1), slice(0, 2))),
    "transposed": ("torch.Tensor.T.__get__", (Ref(3),)),
    "reshaped": ("torch.reshape", (Ref(3), (6,))),
    "contiguous": ("torch.Tensor.contiguous", (Ref(1),)),
    "same type": ("torch.Tensor.to", (Ref(1), torch.float32)),
    "float": ("torch.Tensor.float", (Ref(1),)),
    "cpu": ("torch.Tensor.cpu", (Ref(1),)),
    "as tensor": ("torch.as_tensor", (Ref(1),)),
    "expanded": ("torch.Tensor.expand", (Ref(1), 2, 3)),
    "at least": ("torch.functional.atleast_2d", (Ref(1),)),
    "split": ("torch.functional.split", (Ref(1), 1)),
    "unbound": ("torch.unbind", (Ref(1),)),
    "chunks": ("torch.chunk", (Ref(1), 3)),
    "in a list": ("torch.functional.broadcast_tensors", (Ref(1), Ref(3))),
    "diagonal": ("torch.diagonal", (Ref(3),)),
    "unfolded": ("torch.Tensor.unfold", (Ref(1), 0, 2, 1)),
    "through two views": ("torch.Tensor.view", (Ref(3, "data.T.T"), -1)),
    "real": ("torch.real", (Ref(1),)),
    "dropout in evaluation": (f"{NN}.dropout", (Ref(1), 0.5, False)),
}


def _state(store):
    return {
        key: (
            obj.detach().clone().tolist(), obj.requires_grad, None if obj.grad is None else obj.grad.tolist(),
            frozenset(obj.tags or ()), obj.description,
        )
        for key, obj in store.items()
        if key < 100
    }  # fmt: skip


@pytest.fixture
def owned(bob):
    tensors = [
        torch.tensor([-1.0, 2.0, 3.0]), torch.ones(3), torch.tensor([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]),
        torch.tensor([0, 1, 1]), torch.tensor(5.0), torch.randn(2, 3, 4),
    ]  # fmt: skip
    for number, tensor in enumerate(tensors, 1):
        tensor.id = number
    bob.load_data(tensors)
    before = _state(bob._objects)
    bob.policy = DenyAll()
    mallory = Mallory(bob)
    yield mallory
    assert _state(bob._objects) == before
    bob.policy = sy.workers.policy.ALLOW_ALL


@pytest.mark.parametrize("way", list(DIRECT))
def test_a_stranger_changes_nothing_by_name(owned, way):
    name, args, kwargs = DIRECT[way]
    owned.ask(m.Operation(name, None, args, kwargs, (10**6,)))


@pytest.mark.parametrize("way", list(ALIASES))
def test_a_stranger_changes_nothing_through_an_alias(owned, way):
    name, args = ALIASES[way]
    response = owned.call(name, *args)
    assert not isinstance(response, m.ErrorMessage), response
    first = owned.next_id
    for obj_id in (first, first + 1, first + 2):
        for change in ("torch.Tensor.zero_", "torch.Tensor.neg_"):
            owned.call(change, Ref(obj_id))
            owned.call(change, Ref(obj_id, "data"))
        owned.call("torch.Tensor.__setitem__", Ref(obj_id), ..., 77.0)
        owned.call("torch.neg", Ref(5), out=Ref(obj_id))


SHARING = {
    "data": lambda p, own: p.call("torch.Tensor.data.__set__", own, Ref(1)),
    "gradient": lambda p, own: p.call("torch.Tensor.grad.__set__", own, Ref(1)),
    "part of a gradient": lambda p, own: p.call("torch.Tensor.grad.__set__", own, Ref(1, "data")),
    "set_": lambda p, own: p.call("torch.Tensor.set_", own, Ref(1)),
    "a gradient passed back": lambda p, own: p.call(
        "torch.Tensor.backward", p.keep("torch.Tensor.view", own, -1), Ref(1)
    ),
    "a gradient by keyword": lambda p, own: p.call(
        "torch.Tensor.backward", p.keep("torch.Tensor.view", own, -1), gradient=Ref(1)
    ),
    "gradients passed back": lambda p, own: p.call(
        "torch.autograd.backward", [p.keep("torch.Tensor.view", own, -1)], [Ref(1)]
    ),
    "a gradient of a leaf": lambda p, own: p.call("torch.Tensor.backward", own, Ref(1)),
}


@pytest.mark.parametrize("way", list(SHARING))
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_stranger_does_not_make_its_own_share_memory_with_others(owned, way, requires_grad):
    own = owned.keep("torch.zeros", 3, requires_grad=requires_grad)
    SHARING[way](owned, own)
    for ref in (own, Ref(own.id, "data"), Ref(own.id, "grad")):
        owned.call("torch.Tensor.fill_", ref, 77.0)
        owned.call("torch.Tensor.__setitem__", ref, 0, 78.0)


def test_a_stranger_leaves_no_gradients_behind(bob):
    weight = torch.ones(3, requires_grad=True)
    weight.id = 1
    bob.load_data([weight])
    bob.policy = DenyAll()
    mallory = Mallory(bob)
    loss = mallory.keep("torch.sum", Ref(1))
    mallory.call("torch.Tensor.backward", loss)
    mallory.call("torch.autograd.backward", [mallory.keep("torch.sum", Ref(1))])
    bob.policy = sy.workers.policy.ALLOW_ALL
    assert weight.grad is None


def test_a_stranger_trains_its_own_model_on_what_is_published(bob):
    """The policy refuses changes to what is the owner's, not honest work."""
    data = torch.randn(8, 3)
    data.id = 1
    bob.load_data([data])
    bob.policy = DenyAll()
    peer = Mallory(bob)
    weight = peer.keep("torch.zeros", 1, 3)
    assert not isinstance(peer.call("torch.Tensor.requires_grad_", weight), m.ErrorMessage)
    loss = peer.keep("torch.sum", peer.keep(f"{NN}.linear", Ref(1), weight))
    assert peer.call("torch.Tensor.backward", loss) is None
    peer.call("torch.Tensor.sub_", Ref(weight.id, "data"), Ref(weight.id, "grad"))
    assert torch.allclose(bob._objects[weight.id].detach(), -data.sum(0, keepdim=True))
    bob.policy = sy.workers.policy.ALLOW_ALL
