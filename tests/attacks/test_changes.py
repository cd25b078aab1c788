"""Published data: other users compute on it and can't change it, by id or alias."""

from __future__ import annotations

import contextlib

import pytest
import torch

import syft as sy
from syft.core.references import Ref
from syft.messaging import message as m
from syft.pointers.pointer_plan import COPY_PLAN, PLAN_PARAMETERS, RUN_PLAN
from syft.workers.transport.request_codec import write_request
from tests.helpers.attacks.hostile_peer import error_name
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import Peer

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
    "module_load": ("torch.Tensor.module_load", (Ref(1), Ref(2)), {}),
    "module_load that does not assign": ("torch.Tensor.module_load", (Ref(1), Ref(2)), {"assign": 0}),
    "module_load that assigns by a value": ("torch.Tensor.module_load", (Ref(1), Ref(2), Ref(4)), {}),
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
    "module_load that assigns": ("torch.Tensor.module_load", (Ref(2), Ref(1), True)),
    "dropout in evaluation": (f"{NN}.dropout", (Ref(1), 0.5, False)),
}


TENSORS = {
    1: torch.tensor([-1.0, 2.0, 3.0]), 2: torch.ones(3), 3: torch.tensor([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]),
    4: torch.tensor([0, 1, 1]), 5: torch.tensor(5.0), 6: torch.linspace(-1, 1, 24).view(2, 3, 4),
    7: torch.ones(3, requires_grad=True),
}  # fmt: skip


@pytest.fixture(scope="module", params=["private", "readable"])
def place(request):
    """A node whose data users may compute with, or read."""
    with node_process(f"kept-{request.param}") as process:
        with contextlib.closing(Peer(process, "owner")) as owner:
            for number, tensor in TENSORS.items():
                owner.send_tensor(tensor, number, published=True)
                if request.param == "readable":
                    assert owner.share(number, public=True) is None
        yield process


@pytest.fixture
def owned(place, hook):
    """A hostile user; afterwards the data is as it was, for the owner and for the user."""
    with contextlib.closing(Peer(place, "owner")) as owner, contextlib.closing(Peer(place, "bob")) as user:
        yield user
        for peer in (owner, user) if "readable" in place.id else (owner,):
            for number, tensor in TENSORS.items():
                found = peer.get(number)
                assert torch.equal(found, tensor) and found.grad is None and found.requires_grad == tensor.requires_grad
        for obj_id, _, tags, description in owner.ask(m.SearchMessage([])):
            assert obj_id not in TENSORS or (tags, description) == (set(), None)


@pytest.mark.parametrize("way", list(DIRECT))
def test_other_users_change_no_objects_by_id(owned, way):
    name, args, kwargs = DIRECT[way]
    owned.ask(m.Operation(name, None, args, kwargs, (10**6,)))


@pytest.mark.parametrize("way", list(ALIASES))
def test_other_users_change_no_objects_through_an_alias(owned, way):
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
def test_objects_of_other_users_do_not_share_memory(owned, way, requires_grad):
    own = owned.keep("torch.zeros", 3, requires_grad=requires_grad)
    SHARING[way](owned, own)
    for ref in (own, Ref(own.id, "data"), Ref(own.id, "grad")):
        owned.call("torch.Tensor.fill_", ref, 77.0)
        owned.call("torch.Tensor.__setitem__", ref, 0, 78.0)


HARM = {
    "delete": lambda p: p.ask(m.ForceObjectDeleteMessage(1)),
    "release": lambda p: p.ask(m.ReleaseMessage((1,))),
    "release on the way": lambda p: p.send(write_request(None, (1,), m.SearchMessage([]), True)),
    "retain and claim": lambda p: (p.ask(m.RetainMessage(1)), p.ask(m.ClaimMessage(1)), p.ask(m.ReleaseMessage((1,)))),
    "publish": lambda p: p.ask(m.PublishMessage(1)),
    "send in its place": lambda p: p.ask(m.ObjectMessage(torch.zeros(3), 1, True)),
    "result in its place": lambda p: (p.call("torch.zeros", 3, return_id=1), p.ask(m.ForceObjectDeleteMessage(1))),
    "move": lambda p: p.ask(m.HandOverMessage(1, "me", 77, True)),
}


@pytest.mark.parametrize("way", list(HARM))
def test_other_users_do_not_remove_data(owned, way):
    HARM[way](owned)


def test_a_plan_changes_nothing_of_others(owned, hook):
    @sy.func2plan(args_shape=[(3,)])
    def meddle(x):
        x.zero_()
        y = x.view(3, 1)
        y.add_(1)
        return x, y, {"x": x}

    @sy.func2plan(args_shape=[(3,)])
    def views(x):
        return [x, x.view(3, 1), x[1:]]

    for plan in (meddle, views):
        owned.next_id += 1000
        assert owned.ask(m.ObjectMessage(plan, owned.next_id)) is None
        owned.call(RUN_PLAN, Ref(owned.next_id), Ref(1))
        for place in range(4):
            owned.call("torch.Tensor.fill_", Ref(owned.next_id + place), 9.0)


def refused(response, error, text):
    """Whether a call was refused, with an error and a text, and not for another reason."""
    return error_name(response) == error and text in response.contents[1]


def parameters_seen_by(peer, name):
    """The parameters of a readable plan, as somebody gets them who fetches a copy of it."""
    fetched = peer.ask(m.PlanCommandMessage((name, True), "fetch_plan"))
    assert isinstance(fetched, sy.Plan), fetched
    return fetched.state.tensors()


def unchanged(before, after):
    return all(torch.equal(a, b) and b.grad is None for a, b in zip(before, after, strict=True))


def test_a_plan_of_others_is_not_changed(owned, place, hook):
    """Neither its batch statistics nor its parameters, nor are gradients left on them."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    plan = sy.Plan(forward_func=model).build(torch.randn(4, 3))
    before = [tensor.clone() for tensor in plan.state.tensors()]
    with contextlib.closing(Peer(place, "owner")) as owner:
        name = f"plan of {owned.next_id}"
        assert owner.ask(m.ObjectMessage(plan, name, True)) is None
        if "private" in place.id:
            for call in (RUN_PLAN, PLAN_PARAMETERS, COPY_PLAN):
                args = (torch.randn(8, 3),) if call == RUN_PLAN else ()
                assert error_name(owned.call(call, Ref(name), *args)) == "CommandNotAllowedError"
            fetched = owned.ask(m.PlanCommandMessage((name, True), "fetch_plan"))
            assert error_name(fetched) == "GetNotPermittedError"
        else:
            assert owner.share(name, public=True) is None
            result = owned.keep(RUN_PLAN, Ref(name), torch.randn(8, 3))
            assert owned.call("torch.Tensor.backward", result, torch.ones(8, 1)) is None
            assert not isinstance(owned.call(PLAN_PARAMETERS, Ref(name)), m.ErrorMessage)
            for number in range(4):
                owned.call("torch.Tensor.fill_", Ref(owned.next_id + number), 9.0)
            assert unchanged(before, parameters_seen_by(owned, name))
        assert unchanged(before, owner.get(name).state.tensors())


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
}


def training_plan(make_optimizer):
    model = torch.nn.Linear(3, 1)
    optimizer = make_optimizer(model.parameters())

    class Training(sy.Plan):
        def __init__(self):
            super().__init__(name="training")
            self.model = model

        def forward(self, x):
            optimizer.zero_grad()
            loss = self.model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

    return Training().build(torch.randn(2, 3))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_published_training_plan_is_not_trained_by_other_users(owned, place, hook, optimizer):
    """The plan is readable, so anybody may run it: on data of their own a copy of it trains, not the plan itself."""
    plan = training_plan(OPTIMIZERS[optimizer])
    before = [tensor.clone() for tensor in plan.state.tensors()]
    x = torch.randn(2, 3)
    with contextlib.closing(Peer(place, "owner")) as owner, contextlib.closing(Peer(place, "alice")) as alice:
        name = f"training of {owned.next_id}"
        assert owner.ask(m.ObjectMessage(plan, name, True)) is None
        assert owner.share(name, public=True) is None
        losses = [owned.get(owned.keep(RUN_PLAN, Ref(name), x).id) for _ in range(3)]
        own = owned.keep("torch.ones", 2, 3)
        owned.keep(RUN_PLAN, Ref(name), own)
        assert losses[0] == losses[1] == losses[2], "each run begins with the same parameters"
        if "private" in place.id:
            # A plan that trains on private data has to move to where that is, with its parameters.
            for data in (Ref(3), owned.keep("torch.Tensor.mul", Ref(3), 2)):
                response = owned.call(RUN_PLAN, Ref(name), data)
                assert refused(response, "GetNotPermittedError", "it belongs to another user. Work on a copy"), response
                assert error_name(owned.get(owned.next_id)) == "ObjectNotFoundError"
        else:
            owned.keep(RUN_PLAN, Ref(name), Ref(3))
        for peer in (owned, alice):
            assert unchanged(before, parameters_seen_by(peer, name))
        copy = owned.keep(COPY_PLAN, Ref(name))
        owned.keep(RUN_PLAN, copy, Ref(3))  # a copy of one's own may be trained
        for peer in (owned, alice):
            assert unchanged(before, parameters_seen_by(peer, name))
        assert unchanged(before, owner.get(name).state.tensors())


def test_other_users_leave_no_gradients(owned):
    loss = owned.keep("torch.sum", Ref(7))
    owned.call("torch.Tensor.backward", loss)
    owned.call("torch.autograd.backward", [owned.keep("torch.sum", Ref(7))])


def test_another_user_trains_a_model_on_published_data(owned, place):
    """The node refuses changes to data of the owner, not honest work; and what one user wrote concerns nobody else."""
    owned.call("torch.Tensor.zero_", owned.keep("torch.Tensor.view", Ref(3), -1))
    with contextlib.closing(Peer(place, "owner")) as owner, contextlib.closing(Peer(place, "alice")) as alice:
        weight = alice.keep("torch.zeros", 1, 3)
        assert not isinstance(alice.call("torch.Tensor.requires_grad_", weight), m.ErrorMessage)
        loss = alice.keep("torch.sum", alice.keep(f"{NN}.linear", Ref(3), weight))
        assert alice.call("torch.Tensor.backward", loss) is None
        alice.call("torch.Tensor.sub_", Ref(weight.id, "data"), Ref(weight.id, "grad"))
        if "private" in place.id:
            owner.approve(alice.request(weight.id))
        assert torch.allclose(alice.get(weight.id).detach(), -TENSORS[3].sum(0, keepdim=True))
