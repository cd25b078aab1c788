"""Options of approximations, `add_(factor, t)`, and the zero gradients of sent modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SyftError


@pytest.fixture
def cast(make_worker):
    return [make_worker(name) for name in ("alice", "bob", "carol", "dealer")]


def _encodings(cast):
    alice, bob, carol, dealer = cast
    return [
        lambda t: t.fix_prec(),
        lambda t: t.fix_prec().share(alice, bob, crypto_provider=dealer),
        lambda t: t.fix_prec().share(alice, bob, carol, crypto_provider=dealer),
        lambda t: t.fix_prec().share(alice, bob, crypto_provider=dealer, requires_grad=True),
        lambda t: t.fix_prec().send(alice),
    ]


def read(x):
    while x.is_wrapper:
        link = x.child.child if isinstance(x.child, sy.AutogradTensor) else x.child
        x = x.get() if isinstance(link, sy.PointerTensor) or link.is_shared else x.float_prec()
    return x.detach()


def test_x1_options_of_approximations_are_accepted(cast):
    x = torch.tensor([-2.0, 0.5, 3.0])
    matrix = torch.tensor([[2.0, 0.5], [0.25, 1.0]])
    calls = [
        (lambda t: t.sigmoid(method="exp"), x, x.sigmoid()),
        (lambda t: t.sigmoid(method="maclaurin"), x, x.sigmoid()),
        (lambda t: t.tanh(method="chebyshev"), x, x.tanh()),
        (lambda t: t.exp(iterations=8), x, x.exp()),
        (lambda t: t.log(iterations=2, exp_iterations=8), x.abs(), x.abs().log()),
        (lambda t: t.reciprocal(method="NR", nr_iters=3), x, x.reciprocal()),
        (lambda t: t.inverse(iterations=8), matrix, matrix.inverse()),
    ]
    for make in _encodings(cast):
        for call, inputs, expected in calls:
            assert torch.allclose(read(call(make(inputs))), expected, atol=2e-2)
            assert torch.allclose(read(call(make(inputs).child).wrap()), expected, atol=2e-2)


def test_x1_wrong_options_are_refused(cast):
    for make in _encodings(cast):
        for x in (make(torch.ones(2)), make(torch.ones(2)).child):
            with pytest.raises(SyftError, match=r"sigmoid\(method='magic'\) is not known. Use one of exp"):
                x.sigmoid(method="magic")
            with pytest.raises(SyftError, match="positive number of iterations, got '0'"):
                x.exp(iterations=0)
            with pytest.raises(TypeError):
                x.exp(steps=3)


def test_x1_options_keep_the_gradient(cast):
    alice, bob, _, dealer = cast
    x = torch.tensor([0.5]).fix_prec().share(alice, bob, crypto_provider=dealer, requires_grad=True)
    x.sigmoid(method="maclaurin").backward()
    assert x.grad.get().float_prec().item() == pytest.approx(0.235, abs=1e-2)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_x2_a_factor_scales_what_is_added(cast, shape):
    for make in _encodings(cast):
        factor = torch.full(shape, 0.5)
        for name, expected in (("add", [0.15, 0.3]), ("sub", [0.05, 0.1])):
            x = make(torch.tensor([0.1, 0.2]))
            assert read(getattr(x, name)(make(factor), x)).tolist() == pytest.approx(expected, abs=2e-3)
            x = make(torch.tensor([0.1, 0.2])).detach()
            assert getattr(x, f"{name}_")(make(factor), x) is x
            assert read(x).tolist() == pytest.approx(expected, abs=2e-3)


def test_x2_links_and_public_factors_work_too(cast):
    x, t = (torch.tensor([0.1, 0.2]).fix_prec() for _ in range(2))
    x.child.sub_(torch.tensor(0.5).fix_prec().child, t.child)
    assert x.float_prec().tolist() == pytest.approx([0.05, 0.1])
    x.add_(torch.tensor(0.5), t)
    assert x.float_prec().tolist() == pytest.approx([0.1, 0.2])


def test_x2_a_factor_has_one_element(hook):
    x = torch.tensor([0.1, 0.2]).fix_prec()
    with pytest.raises(SyftError, match=r"add_\(factor, t\) needs a factor with one element, got shape \(2,\)"):
        x.add_(x, x)


class _HalfUsed(nn.Module):
    """A module with a layer that takes no part in the result."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        return self.used(x)


@pytest.mark.parametrize("options", [{}, {"local_autograd": True}, {"preinitialize_grad": True}])
def test_x3_parameters_of_sent_modules_have_a_gradient(workers, nothing_left, options):
    bob, alice = workers
    model, x = _HalfUsed().send(bob, **options), torch.ones(3, 2).send(bob)
    before = [p.copy().get().detach() for p in model.parameters()]
    assert torch.equal(model.used.weight.grad.copy().get(), torch.zeros(1, 2))
    for _ in range(2):
        model.zero_grad()
        model(x).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.data.sub_(0.1 * parameter.grad.data)
    model.move(alice)
    assert torch.equal(model.unused.bias.grad.copy().get(), torch.zeros(1))
    model.get()
    used, unused = before[:2], before[2:]
    assert torch.allclose(model.used.weight, used[0] - 0.6)
    assert torch.equal(model.unused.weight, unused[0]) and torch.equal(model.unused.bias, unused[1])
    del x, parameter
    nothing_left(bob, alice)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_x3_optimizers_do_not_step_unused_parameters(bob, optimizer):
    torch.manual_seed(2)
    model = _HalfUsed()
    local = _HalfUsed()
    local.load_state_dict(model.state_dict())
    model.send(bob)
    for net, x in ((model, torch.ones(3, 2).send(bob)), (local, torch.ones(3, 2))):
        steps = optimizer(net.parameters(), lr=0.1, weight_decay=0.1)
        for _ in range(2):
            steps.zero_grad()
            net(x).sum().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            steps.step()
    model.get()
    for ours, theirs in zip(model.parameters(), local.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_x3_other_tensors_and_frozen_parameters_have_none(bob):
    assert torch.ones(2, requires_grad=True).send(bob).grad is None
    model = nn.Linear(2, 1)
    model.weight.requires_grad_(False)
    model.send(bob)
    assert model.weight.grad is None and model.bias.grad is not None
