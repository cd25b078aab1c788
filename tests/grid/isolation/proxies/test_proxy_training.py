"""Programs on private data, by pointers: after each call all proxies look like the objects at the worker."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import GetNotPermittedError, SyftError
from syft.grid.isolation.proxies.moves import detach_moved, plan_move
from syft.grid.isolation.proxies.objects import PlanProxy, Proxy, proxy_of, walk
from syft.messaging.plan.plan import Plan
from tests.grid.isolation.proxies.test_proxies import call
from tests.helpers.proxy_worker import ShadowWorker


@pytest.fixture
def bob(hook):
    worker = ShadowWorker(hook, id="shadow-bob")
    yield worker
    worker.stop()


@pytest.fixture
def private(bob):
    """Send a tensor and make it private."""

    def send(tensor):
        pointer = tensor.send(bob)
        bob.shadow.hide(pointer)
        return pointer

    return send


def proxy(bob, pointer):
    """Return the proxy of what a pointer points at."""
    return bob.shadow.proxies.get(pointer.child.id_at_location)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(6, 4)


def cnn():
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(36, 3)), torch.randn(6, 1, 8, 8)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", [mlp, cnn])
def test_training_on_private_data(bob, private, make, optimizer):
    model, data = make()
    x, y = private(data), private(torch.randint(0, 3, (6,)))
    model.send(bob)
    steps = OPTIMIZERS[optimizer](model.parameters())
    for set_to_none in (True, False, True):
        steps.zero_grad(set_to_none=set_to_none)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)
        steps.step()
    assert len(bob.shadow.calls) > 30
    for parameter in model.parameters():
        assert "autograd" in bob.shadow.moved[parameter.child.id_at_location]
        assert proxy(bob, parameter).grad is not None
    model.eval()
    with torch.no_grad():
        assert model(x).shape == (6, 3)


def test_gradients_and_graphs(bob, private):
    x, w = private(torch.randn(4, 3)), private(torch.randn(4, 3, requires_grad=True))
    hidden = w * 2
    total = (hidden * x).sum()
    hidden.retain_grad()
    total.backward()
    assert proxy(bob, hidden).grad is not None
    assert proxy(bob, w).grad is not None
    assert walk([proxy(bob, total)])[0] == {proxy(bob, w)}
    w.grad.zero_()
    w.grad = None
    assert proxy(bob, w).grad is None
    first, missing = torch.autograd.grad(
        (w * x).sum(), [w, private(torch.ones(2, requires_grad=True))], allow_unused=True
    )
    assert first.shape == (4, 3)
    assert missing is None
    (gradient,) = torch.autograd.grad((w**3).sum(), [w], create_graph=True)
    (gradient**2).sum().backward()
    assert proxy(bob, w).grad is not None
    hidden.detach_()
    x.requires_grad_()
    (w * x).sum().backward(inputs=[x])
    w.data = private(torch.zeros(2, 2))
    w.data.add_(1)


def test_calls_that_change_views_change_what_they_view(bob, private):
    u, base = private(torch.randn(3, requires_grad=True)), private(torch.zeros(4, 3))
    row, flat = base[0], base.view(12)
    row.add_(u)
    assert all(proxy(bob, one).requires_grad for one in (row, flat, base))
    flat.sum().backward()
    assert proxy(bob, u).grad is not None


def test_mistakes_about_gradients(bob, private):
    x, w = private(torch.randn(4, 3)), private(torch.randn(4, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        w.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        w[0].add_(1)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (w * x).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(w.sum(), [private(torch.ones(1, requires_grad=True))])
    with pytest.raises(RuntimeError, match="different size"):
        w.grad = private(torch.ones(1))
    with pytest.raises(RuntimeError, match="detach views"):
        (w * 1)[0].detach_()


def test_own_tensors_stay_unless_they_are_written_or_connected(bob, private):
    x = private(torch.randn(4, 3))
    own, target = torch.ones(4, 3).send(bob), torch.zeros(4, 3).send(bob)
    result = x + own
    assert proxy(bob, own) is None
    assert proxy(bob, result) is not None
    target.add_(x)
    assert "writes" in bob.shadow.moved[target.child.id_at_location]
    weight = torch.ones(4, 3, requires_grad=True).send(bob)
    with torch.no_grad():
        weight * x
    assert proxy(bob, weight) is None
    (weight * x).sum().backward()
    assert proxy(bob, weight).grad is not None


def test_views_of_own_tensors_are_copies(bob, private):
    x, own = private(torch.randn(4, 3)), torch.zeros(4, 3).send(bob)
    view = own.view_as(x)
    with pytest.raises(SyftError, match="clone"):
        view.add_(1)
    view + 1
    own.add_(1)
    with pytest.raises(SyftError, match="again"):
        view + 1


def test_graphs_do_not_move(bob, private):
    x, own = private(torch.randn(4, 3)), torch.ones(4, 3, requires_grad=True).send(bob)
    computed = own * 2
    with pytest.raises(SyftError, match="detach"):
        computed * x
    assert (computed.detach() * x).shape == (4, 3)
    with torch.no_grad():
        assert (computed * x).shape == (4, 3)


def test_tensors_that_share_memory_do_not_move_alone(bob, private):
    x, base = private(torch.randn(3)), torch.zeros(4, 3).send(bob)
    row = base[0]
    with pytest.raises(SyftError, match="shares memory"):
        row.add_(x)
    assert proxy(bob, row) is None


# --- plans ------------------------------------------------------------------------------------------------------


def plan_of(model, size=4):
    plan = Plan(forward_func=model)
    plan.build(torch.ones(2, size))
    return plan


def test_plans_on_private_data(bob, private):
    x = private(torch.randn(6, 4))
    pointer = plan_of(nn.Linear(4, 1)).send(bob)
    result = pointer(x)
    assert isinstance(bob.shadow.proxies[pointer.id_at_location], PlanProxy)
    parameters = pointer.parameters()
    result.sum().backward()
    assert all(proxy(bob, parameter).grad is not None for parameter in parameters)
    assert pointer.copy()(x).shape == (6, 1)
    with pytest.raises(RuntimeError):
        pointer(private(torch.ones(2, 5)))
    with pytest.raises(TypeError):
        pointer(x, x)


def test_plans_move_only_if_they_change_or_are_connected(bob, private):
    x = private(torch.randn(6, 4))
    frozen = plan_of(nn.Linear(4, 4).requires_grad_(False)).send(bob)
    frozen(x)
    normed = plan_of(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).requires_grad_(False)).send(bob)
    normed(x)
    trained = plan_of(nn.Linear(4, 4)).send(bob)
    with torch.no_grad():
        trained(x)
    assert set(bob.shadow.moved) == {normed.id_at_location}


def test_plans_that_train(bob, private):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @sy.func2plan(args_shape=[(2, 4), (2, 1)])
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x, y = private(torch.randn(6, 4)), private(torch.randn(6, 1))
    pointer = step.send(bob)
    for _ in range(3):
        pointer(x, y)
    assert "writes" in bob.shadow.moved[pointer.id_at_location]
    assert all(one.grad is not None for one in bob.shadow.proxies[pointer.id_at_location].parameters())


def test_plans_whose_results_values_decide_are_refused(bob, private):
    @sy.func2plan(args_shape=[(4,)])
    def positive(x):
        return x.abs().unique()

    with pytest.raises(GetNotPermittedError, match="positive"):
        positive.send(bob)(private(torch.randn(4)))


# --- moving -----------------------------------------------------------------------------------------------------


def test_a_plan_moves_with_its_parameters():
    plan = plan_of(nn.Linear(4, 1))
    weight = plan.parameters()[0]
    entries = {entry.obj_id: entry for entry in plan_move(2, {1: plan, 2: weight, 3: torch.ones(1)})}
    assert set(entries) == {1, 2}
    assert isinstance(entries[1].proxy, PlanProxy)
    assert entries[2].proxy is entries[1].proxy.state[entries[2].part]
    assert entries[2].whole_id == 1


def test_gradients_move_with_their_tensors():
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    first, second = plan_move(1, {1: weight, 2: weight.grad})
    assert isinstance(first.proxy, Proxy)
    assert first.proxy.grad is second.proxy
    assert second.part == "grad"


def test_backward_passes_to_what_has_moved_fail():
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    detach_moved(weight)
    with pytest.raises(SyftError, match="moved into the vault"):
        loss.backward()


def test_plans_that_moved_keep_their_program_only():
    plan = plan_of(nn.Linear(4, 1))
    (entry,) = plan_move(1, {1: plan})
    detach_moved(plan)
    assert plan.state.tensors() == [None, None]
    assert call("syft.run_plan", entry.proxy, proxy_of(torch.ones(5, 4))).result.shape == (5, 1)
