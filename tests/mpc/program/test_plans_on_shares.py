"""Plans on shares: weights shared straight from a plan, and one message to each party for a whole call."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.exceptions import PlanMismatchError, UnsupportedOperationError
from tests.helpers.mpc.protocols import cast_of

BITS, DECIMALS = {"base": 2, "precision_fractional": 16}, {"base": 10, "precision_fractional": 3}
TOLERANCE = {2: 2e-3, 10: 3e-2}


@pytest.fixture(scope="module", params=[2, 3])
def cast(request):
    yield from cast_of("plan", request.param)


def shared(cast, tensor, options=BITS, **more):
    return tensor.fix_precision(**options).share(*cast[0], crypto_provider=cast[1], **more)


def value(tensor):
    return tensor.get().float_precision()


def messages(cast, plan, *args, **kwargs):
    """Call a plan; returns its result and how many messages each party got."""
    with sy.count_messages() as sent:
        result = plan(*args, **kwargs)
    return result, {sent.by_worker.get(("me", party.id), 0) for party in cast[0]}


class Net(sy.Plan):
    def __init__(self):
        super().__init__(id="convnet")
        self.conv = nn.Conv2d(1, 2, 3)
        self.fc = nn.Linear(18, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return self.fc(x.view(x.shape[0], -1))


@pytest.mark.parametrize("options", [BITS, DECIMALS], ids=["bits", "decimals"])
def test_weights_shared_straight_from_a_plan(cast, options):
    net, close = Net(), TOLERANCE[options["base"]]
    net.build(torch.rand(2, 1, 8, 8))
    x = torch.rand(2, 1, 8, 8)
    expected = net(x).detach()
    assert net.fix_precision_(**options).share_(*cast[0], crypto_provider=cast[1]) is net
    for given in (x, x.flip(0), torch.cat([x, x]), x[:1]):
        result, counts = messages(cast, net, shared(cast, given, options))
        proxy = torch.stack([expected[0] if torch.equal(row, x[0]) else expected[1] for row in given])
        assert counts == {1} and not result.requires_grad and torch.allclose(value(result), proxy, atol=close)
    result, counts = messages(cast, net, x.fix_precision(**options))
    assert counts == {1} and torch.allclose(value(result), expected, atol=close)
    result, counts = messages(cast, net, x)
    assert counts == {1} and torch.allclose(value(result), expected, atol=close)
    net.get_().float_precision_()
    assert torch.allclose(net(x), expected, atol=close) and all(p.requires_grad for p in net.parameters())


def test_a_public_plan_on_private_data(cast):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    x = torch.rand(5, 4)
    plan = sy.Plan(forward_func=model).build(x)
    private = shared(cast, x)
    with torch.no_grad():
        for _ in range(2):
            result, counts = messages(cast, plan, private)
            assert counts == {1} and torch.allclose(value(result), model(x), atol=2e-3)
        model[0].weight.mul_(-1)
        result, counts = messages(cast, plan, private)
        assert counts == {1} and torch.allclose(value(result), model(x), atol=2e-3)
        model[2].bias.data += 1  # moves no version counter
        assert torch.allclose(value(plan(private)), model(x), atol=2e-3)
        model[0].weight = nn.Parameter(torch.ones(3, 4))
        assert torch.allclose(value(plan(private)), model(x), atol=2e-3)


def test_public_and_private_inputs_and_several_results(cast):
    @sy.func2plan(args_shape=[(3, 2), (3, 2), (1,)])
    def mixed(x, y, scale):
        z = x * y + scale
        return {"sum": z.sum(0), "both": [z @ y.t(), (x > y) * scale]}, y * scale

    x, y, scale = torch.rand(3, 2), torch.rand(3, 2), torch.tensor([2.0])
    for a, b in ((shared(cast, x), y), (x, shared(cast, y)), (shared(cast, x), shared(cast, y))):
        for factor in (scale, scale * 3, scale * 3, shared(cast, scale)):
            plain = factor if type(factor) is torch.Tensor else scale
            result, counts = messages(cast, mixed, a, b, factor)
            expected = mixed(x, y, plain)
            assert counts == {1}
            assert torch.allclose(value(result[0]["sum"]), expected[0]["sum"], atol=5e-3)
            for mine, theirs in zip(result[0]["both"], expected[0]["both"], strict=True):
                assert torch.allclose(value(mine), theirs, atol=5e-3)
            last = result[1] if type(result[1]) is torch.Tensor else value(result[1])
            assert torch.allclose(last, expected[1], atol=5e-3)


def test_nested_plans_and_state(cast):
    @sy.func2plan(args_shape=[(2, 2)], state=(torch.tensor([1.0, -2.0]),))
    def shifted(x, state):
        (shift,) = state.read()
        return x + shift

    net = nn.Linear(2, 2)

    @sy.func2plan()
    def twice(x, times=2):
        return shifted(net(shifted(x))) * times

    x = torch.rand(2, 2)
    twice.build(x)
    expected = twice(x).detach()
    twice.fix_precision_(**BITS).share_(*cast[0], crypto_provider=cast[1])
    for _ in range(2):
        result, counts = messages(cast, twice, shared(cast, x))
        assert counts == {1} and torch.allclose(value(result), expected, atol=2e-3)
    with pytest.raises(PlanMismatchError):
        twice(shared(cast, x), times=3)


def test_random_numbers_are_drawn_at_each_call(cast):
    drop = nn.Dropout(0.5)

    @sy.func2plan(args_shape=[(100,)])
    def noisy(x):
        return drop(x) + torch.rand(100) * 0.1

    x = shared(cast, torch.ones(100))
    seen = []
    for _ in range(3):
        result, counts = messages(cast, noisy, x)
        assert counts == {1}
        seen.append(value(result))
    assert not torch.allclose(seen[0], seen[1], atol=0.2) and not torch.allclose(seen[1], seen[2], atol=0.2)


def test_a_plan_may_change_its_arguments_in_place(cast):
    @sy.func2plan(args_shape=[(2,)], state=(torch.zeros(2),))
    def running(x, state):
        (total,) = state.read()
        total.add_(x)
        return total * 2

    running.fix_precision_(**BITS).share_(*cast[0], crypto_provider=cast[1])
    x = shared(cast, torch.tensor([1.0, 2.0]))
    for count in (1, 2, 3):
        result, counts = messages(cast, running, x)
        assert counts == {1} and value(result).tolist() == [2.0 * count, 4.0 * count]


def test_gradients(cast):
    model = nn.Linear(2, 1)
    x = torch.tensor([[1.0, 2.0]])
    plan = sy.Plan(forward_func=model).build(x)
    expected, public = model(x).detach(), model.weight.detach().clone()
    plan.fix_precision_(**BITS).share_(*cast[0], crypto_provider=cast[1], requires_grad=True)
    result, counts = messages(cast, plan, shared(cast, x))
    assert result.requires_grad and counts != {1}
    result.sum().backward()
    weight = next(p for p in plan.parameters() if p.shape == (1, 2))
    assert torch.allclose(value(weight.grad.copy()), x, atol=1e-3)
    with torch.no_grad():
        result, counts = messages(cast, plan, shared(cast, x))
    assert counts == {1} and torch.allclose(value(result), expected, atol=2e-3)
    private = shared(cast, x, requires_grad=True)
    plan(private).sum().backward()
    assert torch.allclose(value(private.grad), public, atol=1e-3)


def test_a_training_plan(cast):
    @sy.func2plan(args_shape=[(2, 1), (2, 1)])
    def slope(x, y):
        w = torch.zeros(1, 1, requires_grad=True)
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        return w.grad

    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [4.0]])
    expected = slope(x, y)
    try:
        found = slope(shared(cast, x), shared(cast, y))
    except (UnsupportedOperationError, RuntimeError):  # the gradient of a plain tensor can't be private
        return
    assert torch.allclose(value(found), expected, atol=1e-2)


def test_refusals_name_the_operation_of_the_plan(cast):
    @sy.func2plan(args_shape=[(4,)])
    def ordered(x):
        return (x * 2).sort().values

    with (
        sy.count_messages() as sent,
        pytest.raises(UnsupportedOperationError, match="torch.sort is not supported") as told,
    ):
        private = shared(cast, torch.rand(4))
        sent.messages = 0
        ordered(private)
    assert sent.messages == 0 and any("operation" in note for note in told.value.__notes__)


def test_observed_plans_run_operation_by_operation(cast):
    plan = sy.Plan(forward_func=nn.Linear(2, 2)).build(torch.rand(1, 2))
    plan.fix_precision_(**BITS).share_(*cast[0], crypto_provider=cast[1])
    x = shared(cast, torch.rand(3, 2))
    assert messages(cast, plan, x)[1] == {1}
    with sy.mpc.op_by_op():
        assert messages(cast, plan, x)[1] != {1}
    assert messages(cast, plan, x)[1] == {1}


def test_copies_of_plans_and_plans_that_were_sent_and_fetched(cast, make_worker):
    net = Net()
    net.build(torch.rand(2, 1, 8, 8))
    x = torch.rand(2, 1, 8, 8)
    expected = net(x).detach()
    host = make_worker("host")
    net.fix_precision_(**BITS).share_(*cast[0], crypto_provider=cast[1])
    private = shared(cast, x)
    proxy = net.copy()
    for plan in (proxy, net):
        assert torch.allclose(value(plan(private)), expected, atol=2e-3)
    remote = net.send(host)
    fetched = host._objects[remote.id_at_location]
    assert torch.allclose(value(fetched(private)), expected, atol=2e-3)
    del fetched, remote
