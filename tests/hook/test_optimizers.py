"""Optimizers: each optimizer of torch.optim works remotely, with its state next to the parameters."""

import copy
import inspect

import pytest
import torch
from torch import nn, optim

from syft.exceptions import CommandNotAllowedError

SPECIAL = {
    "SGD momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "RMSprop centered": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "LBFGS wolfe": lambda p: optim.LBFGS(p, lr=0.1, max_iter=4, line_search_fn="strong_wolfe"),
}
# SparseAdam takes sparse gradients only, which do not travel.
NAMES = [
    name
    for name, value in vars(optim).items()
    if inspect.isclass(value) and issubclass(value, optim.Optimizer) and name not in ("Optimizer", "SparseAdam")
]


def make(name, parameters):
    if name in SPECIAL:
        return SPECIAL[name](parameters)
    parameters = list(parameters)
    if name == "Muon":
        parameters = [p for p in parameters if p.dim() == 2]
    return getattr(optim, name)(parameters, lr=0.02)


def train(model, optimizer, batches):
    losses = []
    for data, target in batches:

        def closure(data=data, target=target):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(data), target)
            loss.backward()
            return loss

        if isinstance(optimizer, optim.LBFGS):
            losses.append(optimizer.step(closure))
        else:
            losses.append(closure())
            optimizer.step()
    return losses


@pytest.mark.parametrize("name", NAMES + list(SPECIAL))
def test_same_steps_as_local(name, bob, alice, nothing_left):
    torch.manual_seed(0)
    local = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    remote = copy.deepcopy(local)
    batches = [(torch.randn(6, 4), torch.randn(6, 2)) for _ in range(6)]
    reference = train(local, make(name, local.parameters()), batches)
    optimizer = make(name, remote.parameters())
    losses = []
    for worker, part in ((bob, batches[:3]), (alice, batches[3:])):
        remote.send(worker)
        losses += train(remote, optimizer, [(x.send(worker), y.send(worker)) for x, y in part])
        for state in optimizer.state.values():
            for value in state.values() if name not in ("LBFGS", "LBFGS wolfe") else ():
                if isinstance(value, torch.Tensor) and value.dim():
                    assert value.location is worker
        if name in ("LBFGS", "LBFGS wolfe"):
            break  # its history is a list inside the state of one parameter; it stays with one worker
        remote.get()
    for a, b in zip(losses, reference, strict=False):
        torch.testing.assert_close(a.get().detach(), b.detach(), rtol=1e-4, atol=1e-5)
    if name not in ("LBFGS", "LBFGS wolfe"):
        for a, b in zip(remote.parameters(), local.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    state = value = a = b = None
    del remote, optimizer, losses
    nothing_left(bob, alice)


def test_gradient_clipping_remotely(workers):
    bob, _ = workers
    torch.manual_seed(0)
    local = nn.Linear(4, 3)
    remote = copy.deepcopy(local).send(bob)
    x = torch.randn(5, 4)
    (local(x) * 100).sum().backward()
    (remote(x.send(bob)) * 100).sum().backward()
    expected = nn.utils.clip_grad_norm_(local.parameters(), 1.0)
    norm = nn.utils.clip_grad_norm_(remote.parameters(), 1.0)
    torch.testing.assert_close(norm.get(), expected)
    remote.get()
    torch.testing.assert_close(remote.weight.grad, local.weight.grad)


def test_a_checkpoint_after_the_model_was_fetched(bob, tmp_path):
    model = nn.Linear(2, 1).send(bob)
    optimizer = optim.Adam(model.parameters())
    model(torch.ones(1, 2).send(bob)).sum().backward()
    optimizer.step()
    model.get()
    with pytest.raises(CommandNotAllowedError, match=r"Fetch it first with .get\(\)"):
        torch.save(optimizer.state_dict(), tmp_path / "too early")
    assert optimizer.follow_parameters() is optimizer
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    again = optim.Adam(model.parameters())
    again.load_state_dict(torch.load(tmp_path / "checkpoint", weights_only=True)["optimizer"])
    assert torch.equal(again.state[model.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])


def test_schedulers(bob):
    model = nn.Linear(2, 1).send(bob)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    model(torch.ones(1, 2).send(bob)).sum().backward()
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
