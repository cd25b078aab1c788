"""Optims: one optimizer per worker, with its state at that worker."""

import copy

import pytest
import torch
from torch import nn, optim

import syft as sy
from syft.exceptions import SyftError
from syft.federated.floptimizer import Optims

KINDS = {
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.02),
    "AdamW amsgrad": lambda p: optim.AdamW(p, lr=0.02, amsgrad=True),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.02, momentum=0.5),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
}


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


def samples(count):
    generator = torch.Generator().manual_seed(4)
    return [(torch.randn(6, 4, generator=generator), torch.randn(6, 1, generator=generator)) for _ in range(count)]


def step(model, optimizer, data, target):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), target)
        loss.backward()
        return loss

    return optimizer.step(closure)


def test_documented_paths():
    from syft.frameworks.torch.federated.floptimizer import Optims as older
    from syft.frameworks.torch.fl.floptimizer import Optims as documented

    assert documented is older is Optims is sy.federated.Optims


@pytest.mark.parametrize("name", list(KINDS))
def test_the_steps_of_an_optimizer_for_each_worker(make_worker, name, nothing_left):
    """The same as plain training with one optimizer for each part of the data."""
    workers = make_worker("bob"), make_worker("alice", "thread")
    local, remote = network(), network()
    apart = {worker.id: KINDS[name](local.parameters()) for worker in workers}
    optims = Optims([worker.id for worker in workers], optim=KINDS[name](remote.parameters()))
    batches = samples(6)
    for number, (data, target) in enumerate(batches):
        worker = workers[number % 2]
        step(local, apart[worker.id], data, target)
        remote.send(worker)
        opt = optims.get_optim(worker.id)
        step(remote, opt, data.send(worker), target.send(worker))
        remote.get()
        kept = [v for state in opt.state.values() for v in state.values() if isinstance(v, torch.Tensor) and v.dim()]
        assert kept and all(value.location is worker for value in kept)
    for found, expected in zip(remote.parameters(), local.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not any(int(state.get("step", 0)) for state in optims.optim.state.values())  # the pattern never steps
    del kept
    optims.reset()
    nothing_left(*workers)
    remote.send(worker)
    step(remote, opt, data.send(worker), target.send(worker))
    remote.get()
    del optims, opt
    nothing_left(*workers)


def test_the_state_of_the_others_costs_no_message(bob, alice):
    model = network()
    optims = Optims((bob, alice), optim=optim.Adam(model.parameters()))
    (data, target), *_ = samples(1)
    for worker in (bob, alice, bob):
        model.send(worker)
        with sy.count_messages() as count:
            step(model, optims.get_optim(worker), data.send(worker), target.send(worker))
        assert set(count.by_worker) == {("me", worker.id)}
        model.get()


def test_optims_lists_and_counts_its_optimizers(bob, alice):
    model = network()
    optims = Optims(iter([bob, alice.id]), optim.SGD(model.parameters(), lr=0.3))
    assert optims.count() == len(optims) == 2 and optims.workers == list(optims) == [bob.id, alice.id]
    assert bob in optims and bob.id in optims and "carol" not in optims
    assert optims.get_optim(bob) is optims.get_optim(bob.id) is optims[bob] is not optims[alice]
    assert repr(optims) == f"<Optims of SGD for {bob.id}, {alice.id}>"
    with pytest.raises(KeyError, match="no optimizer for the worker 'carol'"):
        optims.get_optim("carol")


def test_groups_and_settings_are_copies_and_parameters_are_not():
    model = network()
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}]
    pattern = optim.SGD(groups, lr=0.1, momentum=0.9)
    optims = Optims(["bob", "alice"], pattern)
    first, second = optims.optimizers.values()
    assert type(first) is optim.SGD and [group["lr"] for group in first.param_groups] == [0.5, 0.1]
    assert first.param_groups[0]["params"][0] is second.param_groups[0]["params"][0] is model[0].weight
    first.param_groups[0]["lr"] = 7.0
    assert second.param_groups[0]["lr"] == pattern.param_groups[0]["lr"] == 0.5
    first.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    assert len(second.param_groups) == 2


def test_a_pattern_that_has_been_used(bob, alice):
    """Each starts with the state of the original, and nothing else."""
    model = network()
    pattern = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = optim.lr_scheduler.StepLR(pattern, step_size=1, gamma=0.5)
    (data, target), *_ = samples(1)
    step(model, pattern, data, target)
    schedule.step()
    memory = pattern.state[model[0].weight]["momentum_buffer"].clone()
    optims = Optims([bob, alice], pattern)
    for worker in (bob, alice):
        copied = optims[worker].state[model[0].weight]["momentum_buffer"]
        assert torch.equal(copied, memory) and copied is not pattern.state[model[0].weight]["momentum_buffer"]
        assert optims[worker].param_groups[0]["lr"] == 0.05
    model.send(bob)
    step(model, optims[bob], data.send(bob), target.send(bob))
    model.get()
    assert torch.equal(pattern.state[model[0].weight]["momentum_buffer"], memory)
    assert torch.equal(optims[alice].state[model[0].weight]["momentum_buffer"], memory)
    optims[bob].follow_parameters()
    assert not torch.equal(optims[bob].state[model[0].weight]["momentum_buffer"], memory)


def test_lbfgs_and_optimizers_of_the_users_own(bob):
    class Signs(optim.Optimizer):
        def __init__(self, params, rate):
            super().__init__(params, {"rate": rate})
            self.taken = [0]

        def step(self, closure):
            loss = closure()
            self.taken[0] += 1
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter.sub_(self.param_groups[0]["rate"] * parameter.grad.sign())
            return loss

    (data, target), *_ = samples(1)
    for make in (lambda p: Signs(p, 0.01), lambda p: optim.LBFGS(p, lr=0.1, max_iter=3)):
        local, model = network(), network()
        plain, pattern = make(local.parameters()), make(model.parameters())
        mine = Optims([bob], pattern)[bob]
        step(local, plain, data, target)
        model.send(bob)
        step(model, mine, data.send(bob), target.send(bob))
        model.get()
        torch.testing.assert_close(model[0].weight, local[0].weight, rtol=1e-4, atol=1e-5)
        assert getattr(pattern, "taken", [0]) == [0] and getattr(mine, "taken", [1]) == [1]


def test_forgetting(bob, alice, nothing_left):
    model = network()
    optims = Optims([bob, alice], optim.Adam(model.parameters(), lr=0.07))
    (data, target), *_ = samples(1)
    for worker in (bob, alice):
        model.send(worker)
        step(model, optims[worker], data.send(worker), target.send(worker))
        model.get()
    optims.reset(bob)
    assert not optims[bob].state and optims[alice].state and optims[bob].param_groups[0]["lr"] == 0.07
    nothing_left(bob)
    optims.reset()
    nothing_left(bob, alice)
    model.send(bob)
    step(model, optims[bob], data.send(bob), target.send(bob))
    assert int(optims[bob].state[model[0].weight]["step"]) == 1
    model.get()


def test_the_optimizer_of_one_worker_is_not_for_another(bob, alice):
    model = network()
    optims = Optims([bob, alice], optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    (data, target), *_ = samples(1)
    model.send(bob)
    step(model, optims[bob], data.send(bob), target.send(bob))
    model.get()
    before = copy.deepcopy(model.state_dict())
    model.send(alice)
    held = len(alice._objects)
    with pytest.raises(SyftError, match=f"is for '{bob.id}', and the model is at '{alice.id}'"):
        optims[bob].step()
    assert len(alice._objects) == held  # nothing of bob's went there
    model.get()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    step(model, optims[bob], data, target)  # here is where it may be, too: the client has asked for it


def test_optims_refuses_invalid_arguments():
    model = network()
    good = optim.SGD(model.parameters(), lr=0.1)
    for wrong in (optim.SGD, model, None):
        with pytest.raises(TypeError, match="needs an optimizer to copy"):
            Optims(["bob"], wrong)
    for wrong in ("bob", 5):
        with pytest.raises(TypeError, match="one after the other"):
            Optims(wrong, good)
    with pytest.raises(ValueError, match="listed twice"):
        Optims(["bob", "bob"], good)
    with pytest.raises(ValueError, match="at least one"):
        Optims([], good)
