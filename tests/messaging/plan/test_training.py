"""Training plans: forward, loss, backward and update give the losses of plain torch, here and on workers."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import syft as sy
from tests.helpers.plans.models import MODELS
from tests.helpers.plans.plan_models import (
    STEPS,
    UPDATES,
    batches,
    check_training,
    close,
    pair,
    same_model,
    same_state,
    seeded,
    train,
    train_there,
    with_optimizer,
)


class TestTraining:
    @pytest.mark.parametrize("update", list(UPDATES))
    def test_one_message_a_step(self, update, make_worker):
        check_training(UPDATES[update], make_worker, falls=False)

    @pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
    def test_every_model(self, name, make_worker):
        check_training(UPDATES["adam"], make_worker, name, count=8, falls=False)

    def test_it_learns(self, make_worker):
        model, _, make = pair("mlp", train=False)
        (x, y), bob = batches(make, 1, (16,))[0], make_worker("bob", "bytes")
        pointer = sy.func2plan()(UPDATES["adam"](model)).build(x, y).send(bob)
        losses = train_there(pointer, [(x, y)] * STEPS, bob)
        assert losses[-1] < losses[0] - 0.05

    def test_several_steps_in_one_message(self, make_worker):
        def several(model):
            step = UPDATES["momentum"](model)

            def steps(xs, ys):
                return torch.stack([step(x, y) for x, y in zip(xs, ys, strict=True)])

            return steps

        model, proxy, make = pair()
        data = batches(make, 6, (4,))
        xs, ys = [x for x, _ in data], [y for _, y in data]
        expected = seeded(0, several(proxy), xs, ys)
        for kind in ("inline", "bytes"):
            bob, there = make_worker("bob", kind), copy.deepcopy(model)
            plan = sy.func2plan()(several(there)).build(xs, ys)
            pointer = plan.send(bob)
            with sy.count_messages() as counted:
                losses = seeded(0, pointer, xs, ys)
            assert counted.messages == 1
            close(losses.get(), expected)
            same_state(plan, pointer.get(), there, proxy)
        close(seeded(0, sy.func2plan()(several(model)).build(xs, ys), xs, ys), expected)
        same_model(model, proxy)

    def test_a_loop_over_one_batch(self, make_worker):
        def several(model):
            step = UPDATES["adamw"](model)

            def steps(x, y):
                for _ in range(4):
                    loss = step(x, y)
                return loss

            return steps

        check_training(several, make_worker, count=4, falls=False)

    def test_functional(self, make_worker):
        """Parameters as arguments, new ones as results; nothing of the model is kept at the worker."""

        def step(x, y, lr, *parameters):
            weight, bias = parameters
            loss = F.cross_entropy(F.linear(x, weight, bias), y)
            gradients = torch.autograd.grad(loss, parameters)
            return loss, [(p - lr * g).detach().requires_grad_() for p, g in zip(parameters, gradients, strict=True)]

        def run(function, worker=None):
            torch.default_generator.manual_seed(0)
            parameters = [torch.randn(3, 6, requires_grad=True), torch.zeros(3, requires_grad=True)]
            data, lr = batches(MODELS["mlp"][1]), torch.tensor(0.2)
            if worker is not None:
                parameters, lr = [p.send(worker) for p in parameters], lr.send(worker)
                data = [(x.send(worker), y.send(worker)) for x, y in data]
            losses = []
            for x, y in data:
                with sy.count_messages() as counted:
                    loss, parameters = function(x, y, lr, *parameters)
                assert worker is None or counted.messages == 1
                losses.append(loss)
            if worker is not None:
                losses, parameters = [t.get() for t in losses], [p.get() for p in parameters]
            return torch.stack([t.detach() for t in losses]), parameters

        expected, after = run(step)
        x, y = batches(MODELS["mlp"][1], 1)[0]
        example = (torch.randn(3, 6, requires_grad=True), torch.randn(3, requires_grad=True))
        plan = sy.func2plan()(step).build(x, y, torch.tensor(1.0), *example)
        results = [run(plan)]
        for kind in ("inline", "bytes"):
            bob = make_worker("bob", kind)
            results.append(run(plan.send(bob), bob))
        for losses, parameters in results:
            close(losses, expected)
            for p, q in zip(parameters, after, strict=True):
                close(p.detach(), q.detach())

    @pytest.mark.parametrize("order", ["zero first", "zero last", "never read", "kept zeros"])
    def test_clipping(self, order, make_worker):
        def clipped(model):
            model.extra = nn.Linear(2, 2)  # nothing uses it
            torch.nn.init.ones_(model.extra.weight)
            torch.nn.init.ones_(model.extra.bias)
            optimizer = optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.2)

            def step(x, y):
                if order in ("zero first", "kept zeros"):
                    optimizer.zero_grad(set_to_none=order == "zero first")
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if order != "never read":
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
                optimizer.step()
                if order in ("zero last", "never read"):
                    optimizer.zero_grad()
                return loss

            return step

        model, proxy, make = pair()
        data = batches(make, 10)
        expected = train(clipped(proxy), data)
        plan = sy.func2plan()(clipped(model)).build(*data[0])
        close(train(plan, data), expected)
        same_model(model, proxy)
        assert torch.equal(model.extra.weight, torch.ones(2, 2))  # no gradient, no decay
        for kind in ("inline", "bytes"):
            there, _, _ = pair()
            bob = make_worker("bob", kind)
            plan = sy.func2plan()(clipped(there)).build(*data[0])
            close(train_there(plan.send(bob), data, bob), expected, kind)

    def test_clipping_by_value_and_norm_as_result(self, make_worker):
        def clipped(model):
            optimizer = optim.SGD(model.parameters(), lr=0.1)

            def step(x, y):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
                norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
                optimizer.step()
                return norm

            return step

        check_training(clipped, make_worker, count=6, falls=False)

    def test_keeping_zeros(self, make_worker):
        def step_of(model):
            optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

            def step(x, y):
                optimizer.zero_grad(set_to_none=False)
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss

            return step

        check_training(step_of, make_worker, count=8, falls=False)

    def test_gradient_accumulation(self, make_worker):
        """Gradients pile up over calls; another plan of the same model steps."""

        def accumulate_of(model):
            def accumulate(x, y):
                loss = F.cross_entropy(model(x), y) / 2
                loss.backward()
                return loss

            return accumulate

        model, proxy, make = pair()
        data = batches(make, 8)
        plain, optimizer = accumulate_of(proxy), optim.Adam(proxy.parameters(), lr=0.05)
        expected = []
        for n, (x, y) in enumerate(data):
            expected.append(seeded(n, plain, x, y).detach())
            if n % 2:
                optimizer.step()
                optimizer.zero_grad()
        plan, mine = sy.func2plan()(accumulate_of(model)).build(*data[0]), optim.Adam(model.parameters(), lr=0.05)
        for n, (x, y) in enumerate(data):
            close(seeded(n, plan, x, y).detach(), expected[n], n)
            if n % 2:
                mine.step()
                mine.zero_grad()
        same_model(model, proxy)

    def test_gradient_accumulation_in_one_plan(self, make_worker):
        def step_of(model):
            optimizer = optim.Adam(model.parameters(), lr=0.05)

            def step(x, y):
                optimizer.zero_grad()
                total = torch.zeros(())
                for part in range(2):
                    loss = F.cross_entropy(model(x[part::2]), y[part::2]) / 2
                    loss.backward()
                    total += loss.detach()
                optimizer.step()
                return total

            return step

        check_training(step_of, make_worker, count=6, falls=False)

    @pytest.mark.parametrize("update", ["adamw", "no_grad", "data"])
    def test_frozen_parameters(self, update, make_worker):
        def frozen(model):
            for p in model.hidden.parameters():
                p.requires_grad_(False)
            if update == "adamw":
                return UPDATES[update](model)
            trainable = nn.ParameterList([p for p in model.parameters() if p.requires_grad])

            class Part(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.trainable = trainable

                def forward(self, x):
                    return model(x)

            return UPDATES[update](Part())

        proxy = check_training(frozen, make_worker, count=6, falls=False)
        assert torch.equal(proxy.hidden.weight, pair()[0].hidden.weight)

    def test_groups(self, make_worker):
        def step_of(model):
            groups = [
                {"params": model.hidden.parameters(), "lr": 0.01},
                {"params": model.out.parameters(), "weight_decay": 0.2},
            ]
            return with_optimizer(model, optim.SGD(groups, lr=0.2, momentum=0.3))

        check_training(step_of, make_worker, count=6, falls=False)

    def test_two_optimizers(self, make_worker):
        def step_of(model):
            first, second = optim.Adam(model.hidden.parameters()), optim.SGD(model.out.parameters(), lr=0.1)

            def step(x, y):
                first.zero_grad()
                second.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                second.step()
                first.step()
                return loss

            return step

        check_training(step_of, make_worker, count=6, falls=False)

    def test_learning_rate_as_an_argument(self, make_worker):
        def step_of(model):
            def step(x, y, lr):
                model.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p -= lr * p.grad
                return loss

            return step

        model, proxy, make = pair()
        data, there = batches(make, 6), copy.deepcopy(model)
        rates = [torch.tensor(1 / (n + 1)) for n in range(6)]
        plain, plan = step_of(proxy), sy.func2plan()(step_of(model)).build(*data[0], torch.tensor(0.5))
        bob = make_worker("bob", "bytes")
        remote = sy.func2plan()(step_of(there)).build(*data[0], torch.tensor(0.5))
        pointer = remote.send(bob)
        for n, ((x, y), lr) in enumerate(zip(data, rates, strict=True)):
            expected = seeded(n, plain, x, y, lr)
            close(seeded(n, plan, x, y, lr), expected)
            with sy.count_messages() as counted:
                loss = seeded(n, pointer, x, y, lr)
            assert counted.messages == 1
            close(loss.get(), expected)
        same_model(model, proxy)
        same_state(remote, pointer.get(), there, proxy)

    @pytest.mark.parametrize("update", ["momentum", "adam", "adamw", "rmsprop", "adagrad"])
    @pytest.mark.parametrize("kind", ["inline", "bytes"], indirect=True)
    def test_optimizer_state_travels(self, update, kind, make_worker):
        model, proxy, make = pair()
        data = batches(make, 10)
        expected = train(UPDATES[update](proxy), data)
        bob, alice = make_worker("bob", kind), make_worker("alice", kind)
        plan = sy.func2plan()(UPDATES[update](model)).build(*data[0])
        pointer = plan.send(bob)
        first = train_there(pointer, data[:5], bob)
        half = pointer.get()
        close(torch.cat([first, train_there(half.send(alice), data[5:], alice, 5)]), expected)
        # What came back is a plan like any other: it goes on here too.
        close(train(half, data[5:], 5), expected[5:])
        same_state(plan, half, model, proxy)

    def test_a_plan_in_the_middle_of_training(self, make_worker):
        """Built and sent after some plain steps, it goes on from there."""
        model, proxy, make = pair()
        data = batches(make, 10)
        expected = train(UPDATES["adam"](proxy), data)
        step = UPDATES["adam"](model)
        first = train(step, data[:5])
        plan, bob = sy.func2plan()(step).build(*data[0]), make_worker("bob", "bytes")
        second = train_there(plan.send(bob), data[5:], bob, 5)
        close(torch.cat([first, second]), expected)

    def test_copies_train_apart(self, hook):
        model, proxy, make = pair()
        data = batches(make, 6)
        expected = train(UPDATES["adam"](proxy), data)
        plan = sy.func2plan()(UPDATES["adam"](model)).build(*data[0])
        other = plan.copy()
        close(train(plan, data), expected)
        close(train(other, data), expected)  # from the beginning, with an optimizer of its own

    def test_two_workers_train_apart(self, make_worker):
        model, proxy, make = pair()
        data, workers = batches(make, 5), [make_worker("bob"), make_worker("alice", "bytes")]
        expected = train(UPDATES["adam"](proxy), data)
        pointer = sy.func2plan()(UPDATES["adam"](model)).build(*data[0]).send(*workers)
        for worker in workers:
            close(train_there(pointer, data, worker), expected)
