"""How plans run: gradient modes, threads, plans in plans, errors."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.exceptions.remote_traceback import facts_of
from tests.helpers.plans.plan_models import planned

pytestmark = pytest.mark.usefixtures("hook")
THIS_FILE = "test_execution.py"


# --- gradient modes ------------------------------------------------------------------------------------------------


@torch.no_grad()
def decorated(x):
    return x * 2


@torch.enable_grad()
def decorated_to_enable(x):
    return x * 2


class Quiet:
    @torch.no_grad()
    def method(self, x):
        return x * 2


def by_functions(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(before)
    return y, x * 3


def by_contexts(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            with torch.set_grad_enabled(False):
                c = x * 4
            d = x * 5
        e = x * 6
    return a, b, c, d, e, x * 7


def set_and_left(x):
    torch.set_grad_enabled(False)
    return x * 2


def by_decorators(x):
    return decorated(x), decorated_to_enable(x), Quiet().method(x), x * 2


def by_inner_contexts(x):
    with torch.set_grad_enabled(True):
        y = x * 2
    try:
        with torch.no_grad():
            raise KeyError
    except KeyError:
        pass
    return y, x * 3


def flags(result):
    return [t.requires_grad for t in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("built", [True, False], ids=["built with", "built without"])
@pytest.mark.parametrize("called", [True, False], ids=["called with", "called without"])
@pytest.mark.parametrize(
    "function", [by_functions, by_contexts, by_decorators, by_inner_contexts, set_and_left], ids=lambda f: f.__name__
)
def test_gradient_modes(function, built, called, make_worker):
    """A recording keeps what the function sets, and leaves the rest to the caller."""
    bob = make_worker("bob", "bytes")
    x = torch.ones(2, requires_grad=True)
    with torch.set_grad_enabled(built):
        plan = planned(function, x)
        assert torch.is_grad_enabled() is built
    if function is by_functions and built is not called:
        return  # what torch.is_grad_enabled() says can't be seen, so it is what it was at the build
    with torch.set_grad_enabled(called):
        expected = flags(function(x))
    with torch.set_grad_enabled(called):
        assert flags(plan(x)) == expected
        assert torch.is_grad_enabled() is called or function is set_and_left
    outer = planned(lambda x: plan(x), x)
    with torch.set_grad_enabled(called):
        assert flags(outer(x)) == expected
    far, rebuilt = torch.ones(2, requires_grad=True).send(bob), sy.deserialize(sy.serialize(plan))
    with torch.set_grad_enabled(called):
        assert flags(rebuilt(x)) == expected
        assert flags(plan.send(bob)(far)) == expected
    assert torch.is_grad_enabled()


def test_an_error_leaves_the_mode_as_it_was():
    def breaks(x):
        with torch.no_grad():
            return x.view(2, -1)

    plan = planned(breaks, torch.ones(4))
    with pytest.raises(RuntimeError):
        plan(torch.ones(3))
    assert torch.is_grad_enabled()


# --- running -------------------------------------------------------------------------------------------------------


def test_an_error_names_the_operation_and_the_line(make_worker, kind):
    def product(x, y):
        z = x * 2
        return torch.matmul(z, y)

    plan = planned(product, torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught_error:
        plan(torch.ones(2, 3), torch.ones(4, 2))
    notes = "\n".join(caught_error.value.__notes__)
    assert "operation 1 of the plan: torch.matmul" in notes
    assert THIS_FILE in notes and "return torch.matmul(z, y)" in notes
    bob = make_worker("bob", kind)
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught_error:
        plan.send(bob)(torch.ones(2, 3).send(bob), torch.ones(4, 2))
    text = facts_of(caught_error.value)
    assert "operation 1 of the plan: torch.matmul" in text


def test_on_pointers_op_by_op(make_worker, kind):
    """A plan that is here, called with what is there: each operation is one message."""
    bob = make_worker("bob", kind)
    scale = torch.tensor([3.0])

    def function(x, y):
        a, b = (x @ y).chunk(2)
        with torch.no_grad():
            c = torch.relu(a - b) * x.shape[0]
        return c.sum(), {"max": x.max(dim=1)[0] * 2}

    plan = planned(function, torch.rand(4, 3), torch.rand(3, 2))
    x, y = torch.rand(6, 3), torch.rand(3, 2)
    total, rest = plan(x.send(bob), y.send(bob))
    expected, other = function(x, y)
    assert torch.equal(total.get(), expected) and torch.equal(rest["max"].get(), other["max"])
    plan = planned(lambda x: x * 2 + 1, scale)
    assert plan(scale.send(bob)).get() == 7


def test_built_with_pointers(bob):
    x = torch.arange(4.0).send(bob)
    plan = planned(lambda x: x * 2 + 1, x)
    assert torch.equal(plan(torch.arange(3.0)), torch.arange(3.0) * 2 + 1)
    assert torch.equal(plan(x).get(), torch.arange(4.0) * 2 + 1)
    assert torch.equal(plan.send(bob)(torch.ones(1).send(bob)).get(), torch.full((1,), 3.0))


def test_plans_run_and_are_built_in_threads_at_the_same_time():
    barrier = threading.Barrier(4)
    weight = torch.rand(3, requires_grad=True)
    shared = planned(lambda x: (x * weight).sum(), torch.ones(3))

    def work(number):
        def function(x):
            y = x * number
            with torch.no_grad():
                y = y + x.shape[0]
            for _ in range(number):
                y = torch.sin(y)
            return y, torch.zeros(x.shape[0], number)

        barrier.wait()
        for _ in range(10):
            plan = planned(function, torch.ones(3))
            x = torch.rand(5 + number)
            for got, expected in zip(plan(x), function(x), strict=True):
                assert torch.equal(got, expected)
            y = torch.rand(3)
            assert torch.equal(shared(y), (y * weight).sum())
        return len(plan.operations)

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(work, range(1, 5)))
    assert counts == [counts[0] + n for n in range(4)]  # nobody recorded for somebody else


def test_other_threads_are_not_recorded():
    """While one thread records, what another one computes is no part of it."""
    inside, done = threading.Event(), threading.Event()

    def elsewhere():
        inside.wait(30)
        torch.ones(2).add(1).sum().item()  # a value, which a recording would refuse
        done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()

    def function(x):
        inside.set()
        done.wait(30)
        return x * 2

    plan = planned(function, torch.ones(2))
    thread.join()
    assert done.is_set() and [o.cmd_name for o in plan.operations] == ["torch.Tensor.mul"]


def test_plans_in_plans_in_plans(make_worker):
    bob = make_worker("bob", "bytes")
    weight = torch.tensor([2.0])
    inner = planned(lambda x: x * weight + x.shape[0], torch.ones(3))
    middle = planned(lambda x: {"y": inner(x), "z": inner(x * 2)}, torch.ones(3))
    outer = planned(lambda x: middle(x)["y"] - middle(x)["z"] + torch.arange(x.shape[0]), torch.ones(3))
    for size in (1, 3, 8):
        x = torch.rand(size)
        expected = (x * 2 + size) - (x * 4 + size) + torch.arange(size)
        torch.testing.assert_close(outer(x), expected)
        torch.testing.assert_close(outer.send(bob)(x.send(bob)).get(), expected)
    with torch.no_grad():
        weight.mul_(0)
    assert torch.equal(inner(torch.ones(1)), torch.ones(1))
    torch.testing.assert_close(outer(torch.ones(2)), torch.arange(2).float())


def test_a_plan_that_is_not_built_inside_of_one():
    inner = sy.func2plan()(lambda x: x * 3)
    plan = planned(lambda x: inner(x) + 1, torch.ones(2))
    assert torch.equal(plan(torch.ones(3)), torch.full((3,), 4.0)) and not inner.is_built


def test_training_of_a_plan_inside_of_one():
    layer = nn.Linear(2, 1)
    proxy = copy.deepcopy(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(3, 2)
    inner = planned(step, x)
    outer = planned(lambda x: inner(x) + inner(x * 2), x)
    losses = outer(x)
    other = torch.optim.SGD(proxy.parameters(), lr=0.1)
    expected = torch.zeros(())
    for factor in (1, 2):
        other.zero_grad()
        loss = proxy(x * factor).square().sum()
        loss.backward()
        other.step()
        expected = expected + loss.detach()
    torch.testing.assert_close(losses.detach(), expected)
    torch.testing.assert_close(layer.weight, proxy.weight)


def test_in_place_on_an_input_reaches_the_caller(make_worker, kind):
    bob = make_worker("bob", kind)

    def change(x):
        x[0] = 7
        x.add_(1)

    plan = planned(change, torch.zeros(2))
    x = torch.zeros(2)
    assert plan(x) is None and torch.equal(x, torch.tensor([8.0, 1.0]))
    far = torch.zeros(2).send(bob)
    assert plan.send(bob)(far) is None and torch.equal(far.get(), torch.tensor([8.0, 1.0]))


def test_gradients_of_inputs():
    def function(x, y):
        loss = (x * y).sum()
        loss.backward()
        return x.grad * 2, y.grad

    plan = planned(function, torch.ones(2, requires_grad=True), torch.ones(2))
    x, y = torch.rand(2, requires_grad=True), torch.rand(2)
    doubled, none = plan(x, y)
    assert none is None and torch.equal(doubled, y * 2) and torch.equal(x.grad, y)


def test_second_derivatives():
    def function(x):
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return first, second

    plan = planned(function, torch.ones(3, requires_grad=True))
    x = torch.rand(5, requires_grad=True)
    for got, expected in zip(plan(x), function(x), strict=True):
        assert torch.equal(got, expected)


def test_random_numbers_are_drawn_at_each_run():
    plan = planned(lambda x: x + torch.rand(x.shape) + F.dropout(x, 0.5), torch.ones(64))
    before = torch.get_rng_state()
    first, second = plan(torch.ones(64)), plan(torch.ones(64))
    assert not torch.equal(first, second)
    torch.set_rng_state(before)
    assert torch.equal(plan(torch.ones(64)), first)
