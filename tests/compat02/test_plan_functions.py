"""The function of a plan: its forward, traces of it, and the shapes that it is built with."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import PlanBuildError, PlanTranslationError

hook = sy.TorchHook(torch)


def function(x):
    return x * 2 + 1


class Net(sy.Plan):
    def __init__(self):
        super().__init__(name="a net")
        self.fc = nn.Linear(2, 1)

    def forward(self, x):
        return self.fc(x).view(x.shape[0], -1)


def test_pl4_forward_is_the_function_of_a_plan_made_here():
    assert sy.func2plan()(function).forward is function
    assert sy.func2plan(args_shape=[(1,)])(function).forward is function
    model = nn.Linear(2, 1)
    assert sy.Plan(forward_func=model).forward is model
    net = Net()
    assert net.forward.__func__ is Net.forward
    assert torch.equal(net.forward(torch.ones(1, 2)), net(torch.ones(1, 2)))


def test_pl4_forward_is_none_for_a_plan_from_elsewhere(bob):
    plan = sy.func2plan(args_shape=[(1,)])(function)
    plan.send(bob)
    fetched = hook.local_worker.fetch_plan(plan.id, bob)
    for other in (
        fetched,
        sy.deserialize(sy.serialize(plan)),
        sy.deserialize(sy.serialize(Net().build(torch.ones(1, 2)))),
    ):
        assert other.forward is None and other.is_built
    assert fetched(torch.ones(1)).item() == 3
    with pytest.raises(PlanBuildError, match="no function"):
        fetched.build(torch.ones(1))
    with pytest.raises(PlanBuildError, match="no function"):
        sy.Plan()(torch.ones(1))


def test_pl4_a_function_can_be_assigned():
    plan = sy.deserialize(sy.serialize(sy.func2plan(args_shape=[(1,)])(function)))
    plan.forward = lambda x: x * 10
    assert not plan.is_built
    assert plan.build(torch.ones(1))(torch.ones(1)).item() == 10


@pytest.mark.parametrize("shapes", [[(1,)], (), None])
def test_pl5_a_plan_can_be_traced_with_its_state_as_constants(shapes):
    weight = nn.Parameter(torch.tensor([2.0]))

    @sy.func2plan(args_shape=shapes, state=(torch.tensor([3.0]),))
    def linear(x, state):
        (bias,) = state.read()
        return x * weight + bias

    traced = torch.jit.trace(linear, [torch.zeros(1)])
    assert isinstance(traced, torch.jit.ScriptFunction) and traced.name == "linear"
    assert traced(torch.tensor([5.0])).item() == 13
    with torch.no_grad():
        weight.fill_(0.0)
    assert traced(torch.tensor([5.0])).item() == 13 and linear(torch.tensor([5.0])).item() == 3


def test_pl5_sizes_of_a_traced_plan_follow_its_arguments():
    net = Net().build(torch.rand(2, 2))
    traced = torch.jit.trace(net, sy.Plan._create_placeholders([(-1, 2)]))
    x = torch.rand(5, 2)
    assert torch.equal(traced(x), net(x)) and traced.name == "a_net"


def test_pl5_a_module_that_calls_a_plan_can_be_traced():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.plan = Net().build(torch.rand(2, 2))
            self.fc = nn.Linear(1, 1)

        def forward(self, x):
            return self.fc(self.plan(x))

    outer, x = Outer(), torch.rand(3, 2)
    assert torch.equal(torch.jit.trace(outer, x)(x), outer(x))


def test_pl5_traces_refuse_plans_that_train_or_are_encoded():
    weight = nn.Parameter(torch.tensor([2.0]))

    @sy.func2plan(args_shape=[(1,)])
    def train(x):
        (x * weight).sum().backward()
        return weight.grad

    with pytest.raises(PlanTranslationError, match="trains"):
        torch.jit.trace(train, [torch.zeros(1)])
    with pytest.raises(PlanTranslationError, match="encoded"):
        torch.jit.trace(Net().build(torch.rand(1, 2)).fix_precision(), [torch.zeros(1, 2)])


def test_pl5_a_plan_has_the_names_of_a_function():
    plan = sy.func2plan()(function)
    assert (plan.__name__, plan.__qualname__) == ("function", "function")
    assert sy.Plan(name="1 + 1").__name__ == "_1___1"
    assert functools.wraps(plan)(lambda: None).__name__ == "function"


@pytest.mark.parametrize("shapes", [(), []])
def test_pl6_no_shapes_build_nothing(shapes):
    plan = sy.func2plan(args_shape=shapes)(function)
    assert not plan.is_built and len(plan.readable_plan) == 0
    assert plan(torch.ones(1)).item() == 3
    assert plan.build(torch.ones(1)).is_built and len(plan.readable_plan) == 2


@pytest.mark.parametrize("shape", [(-2,), (3, -5), (-1, -20)])
def test_pl7_negative_sizes_are_refused(shape):
    with pytest.raises(ValueError, match="args_shape has the size -"):
        sy.func2plan(args_shape=[shape])(function)
    with pytest.raises(ValueError, match="args_shape has the size -"):
        sy.Plan._create_placeholders([shape])


def test_pl7_sizes_of_minus_one_and_zero_are_fine():
    assert sy.func2plan(args_shape=[(-1, 2)])(function)(torch.ones(7, 2)).shape == (7, 2)
    assert sy.func2plan(args_shape=[(0, 2)])(function).is_built


def test_a_module_as_default_is_no_argument_of_the_plan(bob):
    @sy.func2plan(args_shape=[(2,)])
    def plan(x, torch=torch, *, factor=3):
        return torch.relu(x) * factor

    x = torch.tensor([-1.0, 2.0])
    assert plan(x).tolist() == [0, 6] == plan.send(bob)(x.send(bob)).get().tolist()
    assert [argument.name for argument in plan.program.arguments] == ["x", "factor"]


def test_arguments_after_a_module_are_passed_by_name():
    plan = sy.func2plan()(lambda x, torch=torch, y=None: torch.add(x, y))
    plan.build(torch.ones(1), y=torch.ones(1))
    assert plan(torch.ones(1), y=torch.ones(1)).item() == 2
    with pytest.raises(PlanBuildError, match="type module"):
        sy.func2plan()(lambda x, torch=None: torch.relu(x)).build(torch.ones(1), torch)


@pytest.mark.parametrize("state", [{"bias": torch.ones(1)}, [torch.ones(1), 3], "ab"])
def test_a_state_that_is_no_list_of_tensors_is_refused(state):
    with pytest.raises(TypeError, match=r"list of tensors, got a (str|int) in it"):
        sy.func2plan(args_shape=[(1,)], state=state)(lambda x, state: x)
