"""Whole models as plans: forward and training give the numbers of plain torch, here and on workers."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import syft as sy
from syft.exceptions import PlanBuildError, PlanMismatchError
from tests.messaging.models import CNN, MLP, MODELS

BATCHES = (1, 2, 5, 64)
STEPS = 20


def as_module(model):
    return sy.Plan(forward_func=model)


def as_class(model):
    class Net(sy.Plan):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)

    return Net()


def as_closure(model):
    @sy.func2plan()
    def forward(x):
        return model(x)

    return forward


WAYS = {"module": as_module, "class": as_class, "closure": as_closure}


def pair(name="mlp", train=True):
    """Return a model, a twin of it for plain torch, and what makes its inputs."""
    torch.default_generator.manual_seed(0)
    cls, make = MODELS[name]
    model = cls().train(train)
    return model, copy.deepcopy(model), make


def named(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def close(got, expected, note=""):
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6, msg=lambda text: f"{note}: {text}")


def same_model(model, twin):
    for name, tensor in named(model).items():
        close(tensor.detach(), named(twin)[name].detach(), name)


def same_state(plan, fetched, model, twin):
    """A plan that came back has the tensors of a plain model; it knows them by their place in the state."""
    names = {id(tensor): name for name, tensor in named(model).items()}
    found = 0
    for here, there in zip(plan.state.tensors(), fetched.state.tensors(), strict=True):
        if id(here) in names:
            close(there.detach(), named(twin)[names[id(here)]].detach(), names[id(here)])
            found += 1
    assert found >= len(list(model.parameters()))


def seeded(seed, function, *args):
    torch.default_generator.manual_seed(seed)
    return function(*args)


class TestForward:
    @pytest.mark.parametrize("way", list(WAYS))
    @pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
    @pytest.mark.parametrize("name", list(MODELS))
    def test_here(self, name, train, way, hook):
        model, twin, make = pair(name, train)
        plan = WAYS[way](model).build(make(3))
        for batch in BATCHES:
            x = make(batch)
            close(seeded(1, plan, x), seeded(1, twin, x), batch)
        same_model(model, twin)  # batch norm counts here as there

    @pytest.mark.parametrize("way", list(WAYS))
    @pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
    @pytest.mark.parametrize("name", list(MODELS))
    def test_on_a_worker(self, name, train, way, make_worker, nothing_left):
        for kind in ("inline", "bytes"):
            bob = make_worker("bob", kind)
            model, twin, make = pair(name, train)
            before = copy.deepcopy(model)
            plan = WAYS[way](model).build(make(3))
            pointer = plan.send(bob)
            for batch in BATCHES:
                x = make(batch)
                there = x.send(bob)
                with sy.count_messages() as counted:
                    result = seeded(1, pointer, there)
                assert counted.messages == 1
                close(result.get(), seeded(1, twin, x), (kind, batch))
            same_model(model, before)  # what is here is not what is there
            same_state(plan, pointer.get(), model, twin)
            del pointer, result, there
            plan.pointers.clear()
            nothing_left(bob)

    def test_statistics_really_change(self, hook):
        model, twin, make = pair("cnn")
        plan = as_module(model).build(make(3))
        plan(make(4))
        assert model.norm1.num_batches_tracked.item() == 1
        assert not torch.equal(model.norm1.running_mean, twin.norm1.running_mean)

    def test_mode_is_that_of_the_build(self, hook):
        """Python's `self.training` is decided once: a switch is noticed, a rebuild decides anew."""
        model, twin, make = pair("mlp", train=False)
        plan, x = as_module(model).build(make(3)), make(4)
        close(plan(x), twin(x))
        model.train()
        with pytest.raises(PlanMismatchError, match="in eval mode, and it is in train mode now"):
            plan(x)
        plan.build(x)
        close(seeded(2, plan, x), seeded(2, twin.train(), x))
        assert not torch.equal(seeded(2, plan, x), twin.eval()(x))

    def test_gradients_go_through(self, hook):
        for name in MODELS:
            model, twin, make = pair(name, train=False)
            x = make(4)
            as_module(model).build(make(3))(x).square().sum().backward()
            twin(x).square().sum().backward()
            for p, q in zip(model.parameters(), twin.parameters(), strict=True):
                assert (p.grad is None) == (q.grad is None)
                if q.grad is not None:
                    close(p.grad, q.grad, name)

    def test_changes_of_the_module_are_seen(self, hook):
        model, twin, make = pair("mlp", train=False)
        plan, x = as_module(model).build(make(3)), make(2)
        with torch.no_grad():
            for m in (model, twin):
                m.out.bias.add_(1)
                m.hidden.weight.mul_(0.5)
        close(plan(x), twin(x))


# --- training -------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05),
}


def with_optimizer(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def no_grad_update(model, lr=0.1):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= lr * p.grad
                p.grad = None
        return loss

    return step


def data_update(model, lr=0.1):
    def step(x, y):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for p in model.parameters():
            p.data -= lr * p.grad.data
        return loss

    return step


def autograd_update(model, lr=0.1):
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, gradient in zip(parameters, gradients, strict=True):
                p.sub_(lr * gradient)
        return loss.detach()

    return step


UPDATES = {
    **{
        name: lambda model, make=make: with_optimizer(model, make(model.parameters()))
        for name, make in OPTIMIZERS.items()
    },
    "no_grad": no_grad_update,
    "data": data_update,
    "autograd.grad": autograd_update,
}


def batches(make, count=STEPS, sizes=(5, 8, 3)):
    torch.default_generator.manual_seed(3)
    return [(make(sizes[n % len(sizes)]), torch.randint(0, 3, (sizes[n % len(sizes)],))) for n in range(count)]


def train(step, data, start=0):
    """Train with the same random numbers each time; returns the losses."""
    return torch.stack([seeded(n, step, x, y).detach() for n, (x, y) in enumerate(data, start)])


def train_there(pointer, data, worker, start=0):
    """Train on a worker; each step is one message."""
    sent = [(x.send(worker), y.send(worker)) for x, y in data]
    losses = []
    for n, (x, y) in enumerate(sent, start):
        with sy.count_messages() as counted:
            losses.append(seeded(n, pointer, x, y))
        assert counted.messages == 1
    return torch.stack([loss.get().detach() for loss in losses])


def check_training(make_step, make_worker, name="mlp", count=STEPS, kinds=("inline", "bytes"), falls=True):
    """Train plainly, as a plan here, and on workers: the same losses and the same model after it."""
    model, twin, make = pair(name)
    data = batches(make, count)
    plain = train(make_step(twin), data)
    here = copy.deepcopy(model)
    plan = sy.func2plan()(make_step(here)).build(*data[0])
    same_model(here, model)
    close(train(plan, data), plain, "here")
    same_model(here, twin)
    for kind in kinds:
        worker = make_worker("bob", kind)
        there = copy.deepcopy(model)
        plan = sy.func2plan()(make_step(there)).build(*data[1])
        pointer = plan.send(worker)
        close(train_there(pointer, data, worker), plain, kind)
        fetched = pointer.get()
        same_state(plan, fetched, there, twin)
        same_model(there, model)
    assert not falls or plain[-5:].mean() < plain[:5].mean()  # it trains at all
    return twin


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

        model, twin, make = pair()
        data = batches(make, 6, (4,))
        xs, ys = [x for x, _ in data], [y for _, y in data]
        expected = seeded(0, several(twin), xs, ys)
        for kind in ("inline", "bytes"):
            bob, there = make_worker("bob", kind), copy.deepcopy(model)
            plan = sy.func2plan()(several(there)).build(xs, ys)
            pointer = plan.send(bob)
            with sy.count_messages() as counted:
                losses = seeded(0, pointer, xs, ys)
            assert counted.messages == 1
            close(losses.get(), expected)
            same_state(plan, pointer.get(), there, twin)
        close(seeded(0, sy.func2plan()(several(model)).build(xs, ys), xs, ys), expected)
        same_model(model, twin)

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

        model, twin, make = pair()
        data = batches(make, 10)
        expected = train(clipped(twin), data)
        plan = sy.func2plan()(clipped(model)).build(*data[0])
        close(train(plan, data), expected)
        same_model(model, twin)
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

        model, twin, make = pair()
        data = batches(make, 8)
        plain, optimizer = accumulate_of(twin), optim.Adam(twin.parameters(), lr=0.05)
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
        same_model(model, twin)

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

        twin = check_training(frozen, make_worker, count=6, falls=False)
        assert torch.equal(twin.hidden.weight, pair()[0].hidden.weight)

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

        model, twin, make = pair()
        data, there = batches(make, 6), copy.deepcopy(model)
        rates = [torch.tensor(1 / (n + 1)) for n in range(6)]
        plain, plan = step_of(twin), sy.func2plan()(step_of(model)).build(*data[0], torch.tensor(0.5))
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
        same_model(model, twin)
        same_state(remote, pointer.get(), there, twin)

    @pytest.mark.parametrize("update", ["momentum", "adam", "adamw", "rmsprop", "adagrad"])
    @pytest.mark.parametrize("kind", ["inline", "bytes"], indirect=True)
    def test_optimizer_state_travels(self, update, kind, make_worker):
        model, twin, make = pair()
        data = batches(make, 10)
        expected = train(UPDATES[update](twin), data)
        bob, alice = make_worker("bob", kind), make_worker("alice", kind)
        plan = sy.func2plan()(UPDATES[update](model)).build(*data[0])
        pointer = plan.send(bob)
        first = train_there(pointer, data[:5], bob)
        half = pointer.get()
        close(torch.cat([first, train_there(half.send(alice), data[5:], alice, 5)]), expected)
        # What came back is a plan like any other: it goes on here too.
        close(train(half, data[5:], 5), expected[5:])
        same_state(plan, half, model, twin)

    def test_a_plan_in_the_middle_of_training(self, make_worker):
        """Built and sent after some plain steps, it goes on from there."""
        model, twin, make = pair()
        data = batches(make, 10)
        expected = train(UPDATES["adam"](twin), data)
        step = UPDATES["adam"](model)
        first = train(step, data[:5])
        plan, bob = sy.func2plan()(step).build(*data[0]), make_worker("bob", "bytes")
        second = train_there(plan.send(bob), data[5:], bob, 5)
        close(torch.cat([first, second]), expected)

    def test_copies_train_apart(self, hook):
        model, twin, make = pair()
        data = batches(make, 6)
        expected = train(UPDATES["adam"](twin), data)
        plan = sy.func2plan()(UPDATES["adam"](model)).build(*data[0])
        other = plan.copy()
        close(train(plan, data), expected)
        close(train(other, data), expected)  # from the beginning, with an optimizer of its own

    def test_two_workers_train_apart(self, make_worker):
        model, twin, make = pair()
        data, workers = batches(make, 5), [make_worker("bob"), make_worker("alice", "bytes")]
        expected = train(UPDATES["adam"](twin), data)
        pointer = sy.func2plan()(UPDATES["adam"](model)).build(*data[0]).send(*workers)
        for worker in workers:
            close(train_there(pointer, data, worker), expected)


# --- building leaves no trace -----------------------------------------------------------------------------------


@contextmanager
def unchanged(model, optimizer=None):
    """Check that a block changes nothing: values, memory, gradients, flags, optimizer, random numbers."""

    def snapshot():
        tensors = {
            name: (
                t.detach().clone(), t.data_ptr(), id(t), id(t.grad), None if t.grad is None else t.grad.clone(),
                t.requires_grad, t.is_leaf,
            )
            for name, t in named(model).items()
        }  # fmt: skip
        flags = {name: module.training for name, module in model.named_modules()}
        memory = copy.deepcopy(optimizer.state_dict()) if optimizer else None
        return tensors, flags, memory, torch.get_rng_state(), torch.is_grad_enabled(), torch.initial_seed()

    before = snapshot()
    yield
    after = snapshot()
    assert same_nested(before, after)


def same_nested(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_nested(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(same_nested(*both) for both in zip(one, other, strict=True))
    return one == other


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
    model, twin, make = pair()
    bob, data = make_worker("bob", kind), batches(make, 3)
    optimizer, plain = optim.SGD(model.parameters(), lr=0.5), optim.SGD(twin.parameters(), lr=0.5)
    scheduler, other = (optim.lr_scheduler.StepLR(o, 1, 0.1) for o in (optimizer, plain))
    plan = sy.func2plan()(with_optimizer(model, optimizer)).build(*data[0])
    step = with_optimizer(twin, plain)
    for n, (x, y) in enumerate(data):
        pointer = plan.send(bob)
        far = seeded(n, pointer, x, y)
        close(seeded(n, plan, x, y), seeded(n, step, x, y))
        for (_, mine), theirs in zip(model.named_parameters(), pointer.parameters(), strict=True):
            close(theirs.copy().get().detach(), mine.detach())
        scheduler.step()
        other.step()
        del far
    same_model(model, twin)
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
    model, twin, make = pair()
    x, y = batches(make, 1)[0]

    def step_of(model, **settings):
        return lambda x, y: with_optimizer(model, optim.SGD(model.parameters(), lr=0.1, **settings))(x, y)

    with pytest.raises(PlanBuildError, match="made inside of the function .*Make it outside"):
        sy.func2plan()(step_of(model, momentum=0.5)).build(x, y)
    data = batches(make, 4)
    close(train(sy.func2plan()(step_of(model)).build(x, y), data), train(step_of(twin), data))  # it remembers nothing


def test_parameters_of_a_plan(hook, bob):
    for way, make in WAYS.items():
        model = MLP()
        plan = make(model).build(torch.ones(2, 6))
        assert [id(p) for p in plan.parameters()] == [id(p) for p in model.parameters()], way
        pointers = plan.send(bob).parameters()
        assert [tuple(p.shape) for p in pointers] == [tuple(p.shape) for p in model.parameters()]


def test_an_optimizer_outside_trains_a_plan(hook):
    model, twin, make = pair("cnn")
    plan = as_class(model).build(make(3))
    data = batches(make, 5)
    optimizer, plain = optim.Adam(plan.parameters(), lr=0.01), optim.Adam(twin.parameters(), lr=0.01)
    assert isinstance(model, CNN)
    for x, y in data:
        for forward, opt in ((plan, optimizer), (twin, plain)):
            opt.zero_grad()
            F.cross_entropy(forward(x), y).backward()
            opt.step()
    same_model(model, twin)
