"""clip_grad_norm_ and clip_grad_value_ on remote parameters: what torch does, where the gradients are."""

import copy

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import TensorsNotCollocatedError

OPTIONS = {
    "default": {},
    "sum": {"norm_type": 1},
    "largest": {"norm_type": float("inf")},
    "largest, by name": {"norm_type": "inf"},
    "any power": {"norm_type": 3.5},
    "foreach": {"foreach": True},
    "one by one": {"foreach": False},
    "checked": {"error_if_nonfinite": True},
}
DATA = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2, bias=False), nn.Linear(2, 2))


def pair(worker, scale=100.0):
    """A network here and the same one at a worker, both with gradients; the last layer has none."""
    local = network()
    remote = copy.deepcopy(local).send(worker)
    for model, data in ((local, DATA), (remote, DATA.send(worker))):
        (model[:3](data) * scale).sum().backward()
    return local, remote


def check_same(remote, local):
    for found, expected in zip(remote.get().parameters(), local.parameters(), strict=True):
        assert (found.grad is None) == (expected.grad is None)
        if found.grad is not None:
            torch.testing.assert_close(found.grad, expected.grad)


@pytest.mark.parametrize("max_norm", [1.0, 1e6])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_norm(make_worker, name, max_norm, nothing_left):
    for kind in ("inline", "thread") if name == "default" else ("thread",):
        worker = make_worker("bob", kind)
        local, remote = pair(worker)
        expected = nn.utils.clip_grad_norm_(local.parameters(), max_norm, **OPTIONS[name])
        norm = nn.utils.clip_grad_norm_(remote.parameters(), max_norm, **OPTIONS[name])
        assert norm.location is worker and norm.shape == ()
        torch.testing.assert_close(norm.get(), expected)
        check_same(remote, local)
        nothing_left(worker)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}])
def test_value(workers, options, nothing_left):
    local, remote = pair(workers[0])
    nn.utils.clip_grad_value_(local.parameters(), 20.0, **options)
    assert nn.utils.clip_grad_value_(remote.parameters(), 20.0, **options) is None
    assert float(local[0].weight.grad.abs().max()) == 20.0
    check_same(remote, local)
    nothing_left(workers[0])


def test_parts_of_torch_s_function(bob):
    local, remote = pair(bob)
    for model in (local, remote):
        norm = nn.utils.get_total_norm([p.grad for p in model[:3].parameters()], norm_type=1.0)
        nn.utils.clip_grads_with_norm_(model.parameters(), 2.0, norm)
    check_same(remote, local)


def test_one_tensor_mixed_dtypes_and_nothing_to_clip(bob):
    weight = torch.tensor([3.0, 4.0], requires_grad=True).send(bob)
    assert nn.utils.clip_grad_norm_(weight, 1.0) == 0.0  # no gradient yet: as torch says
    (weight * weight).sum().backward()
    half = torch.tensor([2.0], dtype=torch.float64, requires_grad=True).send(bob)
    half.sum().backward()
    norm = nn.utils.clip_grad_norm_([weight, half], 1.0)
    assert norm.get().item() == pytest.approx(101**0.5)
    assert half.grad.dtype is torch.float64 and half.grad.copy().get().item() == pytest.approx(101**-0.5, rel=1e-5)


def test_a_norm_that_is_not_finite(make_worker, kind):
    bob = make_worker("bob", kind)
    _, remote = pair(bob, scale=float("inf"))
    before = remote[0].weight.grad.copy().get()
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(remote.parameters(), 1.0, error_if_nonfinite=True)
    torch.testing.assert_close(remote[0].weight.grad.copy().get(), before, equal_nan=True)
    assert not nn.utils.clip_grad_norm_(remote.parameters(), 1.0).get().isfinite()


def test_parameters_at_several_workers(bob, alice):
    """No norm leaves its worker without being asked to; values are clipped where they are."""
    (_, first), (expected, second) = pair(bob), pair(alice)
    both = [*first.parameters(), *second.parameters()]
    before = first[0].weight.grad.copy().get()
    with pytest.raises(TensorsNotCollocatedError, match=f"is on '{bob.id}'.* is on '{alice.id}'"):
        nn.utils.clip_grad_norm_(both, 1.0)
    assert torch.equal(first[0].weight.grad.copy().get(), before)
    nn.utils.clip_grad_value_(both, 20.0)
    nn.utils.clip_grad_value_(expected.parameters(), 20.0)
    check_same(first, expected)
    check_same(second, expected)


def test_one_round_however_many_parameters(make_worker):
    """Over a line that is slow, waiting is what costs: once for the gradients of all parameters."""
    bob = make_worker("bob", "thread")
    for layers in (1, 6):
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)]).send(bob)
        model(DATA.send(bob)).sum().backward()
        with sy.count_messages() as count:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        # for each parameter its norm and its multiplication; and the norm of norms, the factor, its bound
        assert count.rounds == 1 and count.messages <= 4 * layers + 7
        model.get()
