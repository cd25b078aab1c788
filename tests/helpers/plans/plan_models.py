"""Models as plans, proxies of them for plain torch, and ways to train both. Shared by the tests of plans."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import optim

import syft as sy
from tests.helpers.plans.models import MODELS

BATCHES = (1, 2, 5, 64)
STEPS = 20


def planned(function, *examples, **named):
    return sy.Plan(forward_func=function).build(*examples, **named)


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
    """Return a model, a proxy of it for plain torch, and what makes its inputs."""
    torch.default_generator.manual_seed(0)
    cls, make = MODELS[name]
    model = cls().train(train)
    return model, copy.deepcopy(model), make


def named(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def close(got, expected, note=""):
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6, msg=lambda text: f"{note}: {text}")


def same_model(model, proxy):
    for name, tensor in named(model).items():
        close(tensor.detach(), named(proxy)[name].detach(), name)


def same_state(plan, fetched, model, proxy):
    """A plan that came back has the tensors of a plain model; it knows them by their place in the state."""
    names = {id(tensor): name for name, tensor in named(model).items()}
    found = 0
    for here, there in zip(plan.state.tensors(), fetched.state.tensors(), strict=True):
        if id(here) in names:
            close(there.detach(), named(proxy)[names[id(here)]].detach(), names[id(here)])
            found += 1
    assert found >= len(list(model.parameters()))


def seeded(seed, function, *args):
    torch.default_generator.manual_seed(seed)
    return function(*args)


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
    model, proxy, make = pair(name)
    data = batches(make, count)
    plain = train(make_step(proxy), data)
    here = copy.deepcopy(model)
    plan = sy.func2plan()(make_step(here)).build(*data[0])
    same_model(here, model)
    close(train(plan, data), plain, "here")
    same_model(here, proxy)
    for kind in kinds:
        worker = make_worker("bob", kind)
        there = copy.deepcopy(model)
        plan = sy.func2plan()(make_step(there)).build(*data[1])
        pointer = plan.send(worker)
        close(train_there(pointer, data, worker), plain, kind)
        fetched = pointer.get()
        same_state(plan, fetched, there, proxy)
        same_model(there, model)
    assert not falls or plain[-5:].mean() < plain[:5].mean()  # it trains at all
    return proxy


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
