"""The attributes of a plan are its state: encoded, shared, fetched and copied together."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import syft as sy
from tests.helpers.mpc.protocols import cast_of

hook = sy.TorchHook(torch)
NUMBERS = st.floats(-50, 50, width=32)


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("plan-state", 2)


class Net(sy.Plan):
    """Nested modules, tied parameters, buffers of floats and of integers, and a plain tensor."""

    def __init__(self):
        super().__init__(name="net")
        self.body = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
        self.body[1][1].weight = self.body[0].weight
        self.body.eval()
        self.shift = torch.tensor([1.0, -1.0])

    def forward(self, x):
        return self.body(x) + self.shift

    def by_modules(self, x):
        return self.body(x) + self.shift


@pytest.fixture
def x():
    return torch.tensor([[1.0, 2.0]])


@pytest.fixture
def net(x):
    return Net().build(x)


def encrypted(plan, cast):
    return plan.fix_precision(base=2, precision_fractional=16).share(*cast[0], crypto_provider=cast[1])


def decoded(tensor):
    return tensor.get().float_precision()


def attributes(net):
    return [*net.body.parameters(), net.body[1][0].running_mean, net.shift]


def assert_bound(net):
    held = {id(tensor) for tensor in net.state.tensors()}
    assert all(id(tensor) in held for tensor in attributes(net))
    assert net.body[0].weight is net.body[1][1].weight


@given(value=NUMBERS)
def test_pl1_module_and_plan_agree_after_encoding_and_decoding(value):
    class OneLayer(sy.Plan):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 1)

        def forward(self, x):
            return self.fc(x)

    x, plan = torch.ones(1, 2), OneLayer()
    plan.build(x)
    assert plan.fix_precision().float_precision() is plan
    plan.fc.weight.data.fill_(value)
    assert torch.equal(plan(x), plan.fc(x))
    plan.fc.weight = nn.Parameter(torch.full((1, 2), value + 1))
    assert torch.equal(plan(x), plan.fc(x))


def test_pl1_attributes_are_the_encoded_shared_and_decoded_state(net, x, cast):
    expected = net(x).detach()
    net.fix_precision(base=2, precision_fractional=16)
    assert all(isinstance(tensor.child, sy.FixedPrecisionTensor) for tensor in attributes(net))
    assert_bound(net)
    net.share(*cast[0], crypto_provider=cast[1])
    assert all(tensor.child.is_shared for tensor in attributes(net))
    assert_bound(net)
    assert torch.allclose(decoded(net(x)), expected, atol=1e-2)
    net.get().float_precision()
    assert_bound(net)
    assert isinstance(net.body[0].weight, nn.Parameter) and net.body[0].weight.requires_grad
    assert not net.shift.requires_grad and net.body[1][0].num_batches_tracked.dtype == torch.int64
    assert torch.allclose(net(x), expected, atol=1e-3) and torch.equal(net(x), net.by_modules(x))


@pytest.mark.parametrize("underscore", ["", "_"])
def test_pl1_methods_with_and_without_underscore_are_the_same(net, x, cast, underscore):
    expected = net(x).detach()
    getattr(net, f"fix_precision{underscore}")()
    getattr(net, f"share{underscore}")(*cast[0], crypto_provider=cast[1])
    assert_bound(net)
    getattr(net, f"get{underscore}")()
    getattr(net, f"float_precision{underscore}")()
    assert_bound(net)
    assert torch.allclose(net(x), expected, atol=1e-2)


def test_pl1_tensors_decoded_through_an_attribute_reach_the_plan(net, x, cast):
    expected = net(x).detach()
    encrypted(net, cast)
    for tensor in attributes(net):
        tensor.get_()
        tensor.float_prec_()
    net.body[1][0].running_var.get_().float_prec_()
    assert torch.allclose(net(x), expected, atol=1e-2)
    net.shift.fill_(100.0)
    assert net(x).min() > 90
    net.body[0].bias.fix_prec_()
    net.float_precision()  # decodes what is encoded
    assert torch.equal(net(x), net.by_modules(x))


def test_pl1_an_undifferentiated_result_does_not_break_the_bond(net, x, cast):
    results = [net(x), net.by_modules(x), net.body[0].weight.T]
    encrypted(net, cast)
    assert_bound(net)
    assert torch.allclose(decoded(net(x)), results[0], atol=1e-2)
    net.get().float_precision()
    assert_bound(net)
    net.body[0].weight.data.fill_(7.0)
    assert torch.equal(net(x), net.by_modules(x))
    with pytest.raises(sy.exceptions.SyftError, match="Compute the prediction"):
        results[0].sum().backward()


def test_pl1_an_optimizer_trains_the_decoded_parameters(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.fix_precision().float_precision()
    before = net.body[0].bias.detach().clone()
    net(x).sum().backward()
    optimizer.step()
    assert not torch.equal(net.body[0].bias, before)


def test_pl1_gradients_are_encoded_and_decoded_with_their_parameters(net, x):
    net(x).sum().backward()
    before = net.body[0].bias.grad.clone()
    net.fix_precision(precision_fractional=5)
    assert isinstance(net.body[0].bias.grad.child, sy.FixedPrecisionTensor)
    net.float_precision()
    assert torch.allclose(net.body[0].bias.grad, before, atol=1e-4)


def test_pl1_declared_state_changes_in_place(cast):
    shift = torch.tensor([1.0, 2.0])

    @sy.func2plan(args_shape=[(2,)], state=(shift,))
    def shifted(x, state):
        (inner,) = state.read()
        return x + inner

    encrypted(shifted, cast)
    assert shift.child.is_shared and shifted.state.tensors()[0] is shift
    assert decoded(shifted(torch.zeros(2))).tolist() == [1.0, 2.0]
    shifted.get().float_precision()
    shift.fill_(5.0)
    assert shifted(torch.zeros(2)).tolist() == [5.0, 5.0]


def test_pl1_a_plan_around_a_module_encodes_the_module(x, cast):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    plan = sy.Plan(forward_func=model).build(x)
    expected = model(x).detach()
    encrypted(plan, cast)
    assert all(parameter.child.is_shared for parameter in model.parameters())
    private = x.fix_precision(base=2, precision_fractional=16).share(*cast[0], crypto_provider=cast[1])
    assert torch.allclose(decoded(plan(private)), expected, atol=1e-2)
    assert torch.allclose(decoded(model(private)), expected, atol=1e-2)
    plan.get().float_precision()
    model[0].weight.data.fill_(2.0)
    assert torch.equal(plan(x), model(x))


def test_pl1_a_module_that_a_function_uses_stays_bound(x, cast):
    layer = nn.Linear(2, 1)

    @sy.func2plan()
    def use(value):
        return layer(value) * 2

    use.build(x)
    encrypted(use, cast).get().float_precision()
    layer.weight.data.fill_(3.0)
    assert torch.equal(use(x), layer(x) * 2)


def test_pl1_recurrent_layers_stay_bound():
    class Recurrent(sy.Plan):
        def __init__(self):
            super().__init__()
            self.rnn = sy.nn.GRU(2, 3)

        def forward(self, x):
            return self.rnn(x)[0]

    x, plan = torch.rand(4, 1, 2), Recurrent()
    plan.build(x)
    plan.fix_precision(base=2, precision_fractional=20).float_precision()
    with torch.no_grad():
        for parameter in plan.rnn.parameters():
            parameter.fill_(0.25)
    assert torch.allclose(plan(x), plan.rnn(x)[0])


@pytest.mark.parametrize("copied", [sy.Plan.copy, copy.deepcopy])
def test_pl1_copies_are_independent_and_bound_to_their_own_state(net, x, cast, copied):
    other = copied(net)
    assert type(other) is Net and other.id != net.id and torch.equal(other(x), net(x))
    assert_bound(other)
    assert not {id(t) for t in other.state.tensors()} & {id(t) for t in net.state.tensors()}
    other.body[0].weight.data.fill_(7.0)
    assert torch.equal(other(x), other.by_modules(x)) and not torch.equal(other(x), net(x))
    encrypted(other, cast)
    assert_bound(other)
    assert torch.equal(net(x), net.by_modules(x))
    other.get().float_precision()
    other.build(x)
    assert torch.equal(other(x), other.by_modules(x))


def test_pl1_copies_of_plans_that_are_not_built(x):
    net = Net()
    other = net.copy()
    other.shift.fill_(9.0)
    assert net.shift.tolist() == [1.0, -1.0] and other.body[0].weight is other.body[1][1].weight
    assert torch.equal(other.build(x)(x), other.by_modules(x))


def test_pl1_tensors_replaced_before_the_build_are_not_part_of_the_state(x):
    net = Net()
    net.body[0].weight = nn.Parameter(torch.ones(2, 2))
    net.build(x)
    names = list(net.state.state_dict())
    assert len(names) == len(set(names)) and net.body[0].weight in set(net.state.tensors())
    assert {id(t) for t in net.parameters()} == {id(t) for t in (*net.body.parameters(), net.shift)}


def test_pl1_sending_a_plan_leaves_its_attributes_alone(net, x, bob):
    pointer = net.send(bob)
    assert_bound(net)
    net.body[0].weight.data.fill_(1.0)
    assert torch.equal(net(x), net.by_modules(x))
    assert torch.equal(net.send(bob)(x.send(bob)).get(), net(x))
    assert pointer.get().state.state_dict().keys() == net.state.state_dict().keys()
