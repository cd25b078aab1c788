"""The cached metadata of gradients at a worker: few round trips per step, and never a missing gradient."""

import copy

import pytest
import torch
from torch import nn, optim

import syft as sy
from syft.hook.allowed_functions import allowed
from syft.workers.transport.gradient_cache import leaves_gradients

DATA = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def bob(make_worker):
    return make_worker("bob", "thread")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def rounds_of(call):
    with sy.count_messages() as count:
        call()
    return count.rounds


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.1)])
def test_a_step_waits_once(bob, make):
    model, data = network().send(bob), DATA.send(bob)
    optimizer = make(model.parameters())
    for _ in range(3):
        assert rounds_of(optimizer.zero_grad) <= 1
        loss = (model(data) ** 2).mean()
        assert rounds_of(loss.backward) == 0
        assert rounds_of(optimizer.step) == 1
    # and so with a model that comes and goes
    for _ in range(2):
        model.get()
        model.send(bob)
        assert rounds_of(optimizer.zero_grad) == 1
        (model(data) ** 2).mean().backward()
        assert rounds_of(lambda: (nn.utils.clip_grad_value_(model.parameters(), 0.1), optimizer.step())) == 1


def test_one_message_for_all_gradients_of_a_model(bob):
    model = network().send(bob)
    model(DATA.send(bob)).sum().backward()
    with sy.count_messages() as count:
        found = [parameter.grad for parameter in model.parameters()]
        again = [parameter.grad for parameter in model.parameters()]
    assert count.messages == count.rounds == 1
    assert [grad.shape for grad in found] == [parameter.shape for parameter in model.parameters()]
    assert all(one is other for one, other in zip(found, again, strict=True))


def with_remote_parameters(model, worker):
    """Send the parameters one by one: the gradients of a sent module read as zeros where there are none."""
    for parameter in model.parameters():
        parameter.send_(worker)
    return model


def test_the_same_training_as_at_once(bob, make_worker, nothing_left):
    """With parameters that are not used in every step, and gradients that are written by hand."""
    results = []
    for worker in (bob, make_worker("alice")):
        model = with_remote_parameters(network(), worker)
        data = DATA.send(worker)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        for number in range(4):
            optimizer.zero_grad(set_to_none=number != 2)
            used = model if number % 2 else model[:3]
            (used(data) ** 2).mean().backward()
            assert (model[4].weight.grad is None) == (number == 0)
            if number == 3:
                model[0].bias.grad = None
                model[2].bias.grad = torch.ones(4).send(worker)
                assert model[0].bias.grad is None
            optimizer.step()
        results.append([parameter.detach() for parameter in model.get().parameters()])
        del model, data, used, optimizer
        nothing_left(worker)
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_cached_gradients_are_dropped_when_they_may_change(bob):
    x = torch.ones(3, requires_grad=True).send(bob)
    assert x.grad is None and x.grad is None
    (x * 2).sum().backward()
    assert x.grad.shape == (3,)
    x.grad = None
    assert x.grad is None
    torch.autograd.backward([(x * 2).sum()])
    assert x.grad is not None
    x.grad.unsqueeze_(0)
    assert x.grad.shape == (1, 3)
    x.grad.squeeze_(0)
    x.grad.zero_()
    assert x.grad.copy().get().tolist() == [0.0] * 3
    x.requires_grad_(False)
    assert x.grad is not None


def test_a_gradient_that_another_client_made_or_removed(hook, bob, make_worker):
    alice = make_worker("alice", "thread")
    x = torch.ones(3, requires_grad=True).send(bob)
    assert x.grad is None
    through = x.send(alice)  # a pointer that alice holds: what is asked of alice changes what is at bob
    (through * 2).sum().backward()
    back = through.get()
    assert back.grad.copy().get().tolist() == [2.0] * 3
    back.grad = None
    assert back.grad is None
    bob._objects[back.id_at_location].grad = torch.ones(3)  # its owner, without any message
    assert back.grad.copy().get().tolist() == [1.0] * 3


def test_a_missing_gradient_is_cached_once(bob):
    first, second = (model := with_remote_parameters(nn.Linear(3, 1), bob)).parameters()
    assert rounds_of(lambda: (first.grad, second.grad)) == 2
    bob._objects[second.id_at_location].grad = torch.ones(1)
    assert second.grad.shape == (1,) and first.grad is None
    model.get()


def test_missing_gradients_of_a_sent_module_are_queried_together(bob):
    model = network().send(bob)
    with sy.count_messages() as count:
        gradients = [parameter.grad for parameter in model.parameters()]  # zeros, made when they are read
    assert count.rounds == 1
    assert [grad.shape for grad in gradients] == [parameter.shape for parameter in model.parameters()]
    assert all(not grad.copy().get().any() for grad in gradients)
    model(DATA.send(bob)).sum().backward()
    assert model[4].bias.grad.copy().get().tolist() == [6.0]
    model.get()


def test_the_spec_of_a_gradient_set_by_hand_follows_later_calls(bob):
    x = torch.ones(3, requires_grad=True).send(bob)
    gradient = torch.ones(3).send(bob)
    x.grad = gradient
    assert rounds_of(lambda: x.grad) == 0 and x.grad.shape == (3,)
    gradient.unsqueeze_(0)
    assert x.grad.shape == (1, 3)
    x.grad = None
    assert x.grad is None


def test_plans_that_train_and_models_that_are_copied(bob):
    model = network()
    plan = sy.Plan(forward_func=model).build(DATA).send(bob)
    data = DATA.send(bob)
    plan(data).sum().backward()
    proxy = with_remote_parameters(network(), bob)
    proxy(data).sum().backward()
    assert all(parameter.grad is not None for parameter in proxy.parameters())
    other = copy.deepcopy(proxy)
    assert all(parameter.grad is None for parameter in other.parameters())
    assert all(parameter.grad is not None for parameter in proxy.parameters())
    (parameters := list(plan.parameters()))[0].grad
    assert len(parameters) == 6


def test_a_parameter_that_is_gone_does_not_hide_the_others(bob):
    model = network().send(bob)
    model(DATA.send(bob)).sum().backward()
    del bob._objects[model[2].weight.id_at_location]
    assert model[0].weight.grad.shape == (4, 3)
    with pytest.raises(sy.exceptions.ObjectNotFoundError):
        _ = model[2].weight.grad
    assert model[4].bias.grad.shape == (1,)


def test_every_call_that_writes_is_looked_at():
    """Calls that write in place are harmless by name only if they are in the list; all of those exist."""
    from syft.workers.transport.gradient_cache import WRITING

    names = {name.rpartition(".")[2] for name in allowed()}
    assert not {"backward", "set_", "resize_", "t_", "transpose_", "squeeze_", "requires_grad_", "detach_"} & WRITING
    assert names >= WRITING
    for name in ("torch.Tensor.backward", "torch.autograd.backward", "torch.Tensor.grad.__set__", "syft.run_plan"):
        assert not leaves_gradients(name)
    for name in ("torch.Tensor.add", "torch.Tensor.__iadd__", "torch.Tensor.addcdiv_", "torch.nn.functional.linear"):
        assert leaves_gradients(name)
