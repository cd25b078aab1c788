"""Building a plan has no side effects; other uses of plans by models."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import syft as sy
from syft.exceptions import PlanBuildError
from tests.helpers.plans.models import CNN, MLP, MODELS
from tests.helpers.plans.plan_models import (
    UPDATES,
    WAYS,
    as_class,
    batches,
    check_training,
    close,
    pair,
    same_model,
    seeded,
    train,
    unchanged,
    with_optimizer,
)


class TestNoTrace:
    @pytest.mark.parametrize("name", list(MODELS))
    @pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
    def test_of_a_training_plan(self, name, trained, hook):
        model, _, make = pair(name)
        optimizer = optim.Adam(model.parameters())
        step = with_optimizer(model, optimizer)
        x, y = batches(make, 1)[0]
        if trained:
            step(x, y)
        with unchanged(model, optimizer):
            plan = sy.func2plan()(step).build(x, y)
        with pytest.raises(AssertionError), unchanged(model, optimizer):  # the check can fail
            plan(x, y)

    @pytest.mark.parametrize("update", ["no_grad", "data", "autograd.grad"])
    def test_of_updates_by_hand(self, update, hook):
        model, _, make = pair()
        x, y = batches(make, 1)[0]
        with unchanged(model):
            sy.func2plan()(UPDATES[update](model)).build(x, y)

    def test_of_a_function_that_fails(self, hook):
        model, _, make = pair()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = with_optimizer(model, optimizer)

        def broken(x, y):
            loss = step(x, y)
            with torch.no_grad():
                raise ZeroDivisionError(loss.shape)

        x, y = batches(make, 1)[0]
        with unchanged(model, optimizer), pytest.raises(ZeroDivisionError):
            sy.func2plan()(broken).build(x, y)

    def test_of_flags_set_in_the_function(self, hook):
        model, _, make = pair()

        def tamper(x):
            model.hidden.weight.requires_grad_(False)
            model.out.weight.grad = torch.ones_like(model.out.weight)
            model.out.bias.data = torch.zeros(3)
            model.hidden.bias.data.fill_(2)
            return model(x)

        x = make(2)
        with unchanged(model):
            sy.func2plan()(tamper).build(x)

    def test_of_the_examples(self, hook):
        x = torch.ones(3, requires_grad=True)
        y = torch.ones(3)

        def change(x, y):
            y.add_(1)
            (x * y).sum().backward()
            return x.grad

        plan = sy.func2plan()(change).build(x, y)
        assert x.grad is None and torch.equal(y, torch.ones(3))
        assert torch.equal(plan(x, y), torch.full((3,), 2.0))

    def test_of_views_of_the_state(self, hook):
        """Tensors that share memory would be apart elsewhere, so they are refused; and put back even so."""
        base = torch.zeros(4)
        part = base[1:3]

        def change(x):
            part.add_(x)
            return base * 1

        with pytest.raises(PlanBuildError, match="share memory"):
            sy.func2plan()(change).build(torch.ones(2))
        assert torch.equal(base, torch.zeros(4))
        plan = sy.func2plan()(lambda x: base[:2] * x + part).build(torch.ones(2))  # only read: no harm
        assert torch.equal(plan(torch.ones(2)), torch.zeros(2))

    def test_of_a_scheduler(self, hook):
        """Its step is Python's, and the plan would lose it."""
        model, _, make = pair()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        step = with_optimizer(model, optimizer)

        def decaying(x, y):
            loss = step(x, y)
            scheduler.step()
            return loss

        def between(x, y):
            step(x, y)
            optimizer.param_groups[0]["lr"] *= 0.5
            return step(x, y)

        x, y = batches(make, 1)[0]
        for function in (decaying, between):
            with unchanged(model, optimizer):
                with pytest.raises(PlanBuildError, match=r"settings .*with lr an argument"):
                    sy.func2plan()(function).build(x, y)
            assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("kind", ["inline", "bytes"], indirect=True)
def test_a_scheduler_between_calls(kind, make_worker):
    """A new learning rate here is seen by the plan here, and travels with the next send."""
    model, proxy, make = pair()
    bob, data = make_worker("bob", kind), batches(make, 3)
    optimizer, plain = optim.SGD(model.parameters(), lr=0.5), optim.SGD(proxy.parameters(), lr=0.5)
    scheduler, other = (optim.lr_scheduler.StepLR(o, 1, 0.1) for o in (optimizer, plain))
    plan = sy.func2plan()(with_optimizer(model, optimizer)).build(*data[0])
    step = with_optimizer(proxy, plain)
    for n, (x, y) in enumerate(data):
        pointer = plan.send(bob)
        far = seeded(n, pointer, x, y)
        close(seeded(n, plan, x, y), seeded(n, step, x, y))
        for (_, mine), theirs in zip(model.named_parameters(), pointer.parameters(), strict=True):
            close(theirs.copy().get().detach(), mine.detach())
        scheduler.step()
        other.step()
        del far
    same_model(model, proxy)
    unchanged_pointer = plan.send(bob)
    assert plan.send(bob) is unchanged_pointer
    optimizer.param_groups[0]["lr"] = 7.0
    assert plan.send(bob) is not unchanged_pointer


def test_parameters_in_one_piece_of_memory(make_worker):
    """After vector_to_parameters they are views of one vector, but do not overlap."""

    def step_of(model):
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) * 1, model.parameters())
        return UPDATES["adam"](model)

    check_training(step_of, make_worker, count=4, falls=False)


def test_an_optimizer_made_in_the_function(hook):
    model, proxy, make = pair()
    x, y = batches(make, 1)[0]

    def step_of(model, **settings):
        return lambda x, y: with_optimizer(model, optim.SGD(model.parameters(), lr=0.1, **settings))(x, y)

    with pytest.raises(PlanBuildError, match="made inside of the function .*Make it once, outside"):
        sy.func2plan()(step_of(model, momentum=0.5)).build(x, y)
    data = batches(make, 4)
    close(train(sy.func2plan()(step_of(model)).build(x, y), data), train(step_of(proxy), data))  # it remembers nothing


def test_parameters_of_a_plan(hook, bob):
    for way, make in WAYS.items():
        model = MLP()
        plan = make(model).build(torch.ones(2, 6))
        assert [id(p) for p in plan.parameters()] == [id(p) for p in model.parameters()], way
        pointers = plan.send(bob).parameters()
        assert [tuple(p.shape) for p in pointers] == [tuple(p.shape) for p in model.parameters()]


def test_an_optimizer_outside_trains_a_plan(hook):
    model, proxy, make = pair("cnn")
    plan = as_class(model).build(make(3))
    data = batches(make, 5)
    optimizer, plain = optim.Adam(plan.parameters(), lr=0.01), optim.Adam(proxy.parameters(), lr=0.01)
    assert isinstance(model, CNN)
    for x, y in data:
        for forward, opt in ((plan, optimizer), (proxy, plain)):
            opt.zero_grad()
            F.cross_entropy(forward(x), y).backward()
            opt.step()
    same_model(model, proxy)
