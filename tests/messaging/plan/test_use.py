"""Uses of plans: change weights, switch modes, train remotely and fetch the result."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import PlanBuildError, PlanMismatchError, SpentPointerError, SyftError
from syft.exceptions.remote_traceback import facts_of

ONES = torch.ones(3, 2)


class Net(sy.Plan):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)

    def forward(self, x):
        return self.fc(x)


@pytest.fixture
def net(hook):
    return Net().build(ONES)


def trainer(kind=torch.optim.SGD, **settings):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = kind(model.parameters(), **settings)

    @sy.func2plan()
    def train(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, train.build(torch.randn(4, 2), torch.randn(4, 1))


CHANGES = {
    "in place": lambda net: net.fc.weight.data.fill_(3.0),
    "another memory": lambda net: setattr(net.fc.weight, "data", torch.full((1, 2), 7.0)),
    "by numpy": lambda net: net.fc.weight.detach().numpy().fill(8.0),
    "another parameter": lambda net: setattr(net.fc, "weight", nn.Parameter(torch.full((1, 2), 5.0))),
    "by an optimizer": lambda net: torch.optim.SGD(net.parameters(), lr=1.0).step(
        lambda: net(ONES).sum().backward() or torch.zeros(1)
    ),
    "a flag": lambda net: net.fc.weight.requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_plan_is_sent_again_however_it_was_changed(net, make_worker, kind, change):
    bob = make_worker("bob", kind)
    x = ONES.send(bob)
    before = net.send(bob)
    CHANGES[change](net)
    after = net.send(bob)
    assert after is not before and net.send(bob) is after
    assert torch.equal(net(ONES), net.fc(ONES))
    assert torch.equal(after(x).get(), net(ONES))


def test_sending_again_at_once_does_not_mix_up_ids(hook, make_worker, kind):
    bob = make_worker("bob", kind)
    for number in range(20):
        plan = Net().build(ONES)
        plan.send(bob)
        with torch.no_grad():
            plan.fc.weight.fill_(number)
        result = plan.send(bob)(ONES)
        bob.synchronize()
        assert torch.equal(result.get(), plan(ONES))


def test_a_removed_plan_is_sent_again(net, make_worker, kind):
    bob = make_worker("bob", kind)
    net.tag("#taken")
    net.send(bob)
    bob.search("#taken")[0].get()
    assert torch.equal(net.send(bob)(ONES).get(), net(ONES))
    bob.clear_objects()
    assert torch.equal(net.send(bob)(ONES).get(), net(ONES))


def test_another_shape_needs_another_build(net):
    net.fc.weight = nn.Parameter(torch.ones(4, 2))
    with pytest.raises(PlanMismatchError, match="fc.weight has another shape"):
        net(ONES)


def test_encoded_weights_are_not_replaced_by_plain_ones(net, bob):
    net.state.state_placeholders[0].child = net.fc.weight.detach().send(bob)  # as sharing does
    net.fc.weight = nn.Parameter(torch.zeros(1, 2))
    with pytest.raises(SyftError):
        net(ONES)
    assert isinstance(net.state.tensors()[0].child, sy.PointerTensor)


def test_a_switched_mode_is_noticed_where_it_matters(hook):
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    plan = sy.Plan(forward_func=model).build(ONES)
    model.eval()
    with pytest.raises(PlanMismatchError, match="while Dropout was in train mode"):
        plan(ONES)
    assert torch.equal(plan.build(ONES)(ONES), model(ONES))
    linear = nn.Linear(2, 2)
    plain = sy.Plan(forward_func=linear).build(ONES)
    linear.eval()
    assert torch.equal(plain(ONES), linear(ONES))

    class Dropping(sy.Plan):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x)

    dropping = Dropping().build(ONES)
    assert dropping.eval() is dropping and not dropping.is_built and not dropping.drop.training
    assert torch.equal(dropping.build(ONES)(ONES), ONES)
    assert dropping.eval().is_built


def test_trained_parameters_are_fetched_by_name(make_worker, kind):
    bob = make_worker("bob", kind)
    model, _, train = trainer(torch.optim.Adam, lr=0.1)
    x, y = torch.randn(8, 2), torch.randn(8, 1)
    proxy = copy.deepcopy(model)
    remote = train.send(bob)
    for _ in range(3):
        remote(x, y)
    copied = remote.copy().get()
    assert set(copied.state_dict()) >= {f"model.{name}" for name in model.state_dict()}
    proxy.load_state_dict(copied.state_dict(of="model"))
    train.load_state_dict(remote.get().state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, proxy.state_dict()[name]), name
    for _ in range(2):
        train(x, y)  # goes on from there
    with pytest.raises(PlanMismatchError, match="the names differ"):
        train.load_state_dict({"other": torch.ones(1)})
    before, wrong = train.state_dict()["model.0.weight"].clone(), {k: v + 1 for k, v in train.state_dict().items()}
    with pytest.raises(PlanMismatchError, match="Nothing was changed"):
        train.load_state_dict({**wrong, "model.2.bias": torch.ones(7)})
    assert torch.equal(train.state_dict()["model.0.weight"], before)


def test_a_copy_of_a_remote_plan_stays_apart(net, make_worker, kind):
    bob = make_worker("bob", kind)
    pointer = net.send(bob)
    proxy = pointer.copy()
    with torch.no_grad():
        pointer.parameters()[1].add_(1.0)
    assert torch.equal(proxy(ONES).get(), net(ONES)) and torch.allclose(pointer(ONES).get(), net(ONES) + 1, atol=1e-5)
    proxy.get()
    with pytest.raises(SpentPointerError):
        proxy(ONES)


def test_running_a_plan_does_not_block(make_worker):
    workers = [make_worker(name, "thread") for name in ("alice", "bob", "carol")]
    _, _, train = trainer(torch.optim.Adam, lr=0.1)
    remote, x, y = train.send(*workers), torch.randn(8, 2), torch.randn(8, 1)
    data = [(x.send(worker), y.send(worker)) for worker in workers]
    with sy.count_messages() as counted:
        losses = [remote(*given) for given in data]
    assert (counted.messages, counted.rounds) == (3, 0)
    assert all(loss.shape == () and loss.requires_grad for loss in losses)
    assert len({loss.get().item() for loss in losses}) == 1

    @sy.func2plan(args_shape=[(4,)])
    def depends(x):
        return x[x > 0]  # only the worker knows how many

    with sy.count_messages() as counted:
        found = depends.send(workers[0])(torch.tensor([1.0, -1.0, 2.0, -2.0]).send(workers[0]))
    assert counted.rounds == 1 and found.shape == (2,)


def test_plans_at_several_workers_come_back_as_a_list(make_worker, kind):
    alice, bob = make_worker("alice", kind), make_worker("bob", kind)
    _, _, train = trainer(lr=0.5)
    both = train.send(alice, bob, alice)
    assert both.location == [alice, bob]
    x, y = torch.randn(8, 2), torch.randn(8, 1)
    both(x.send(bob), y.send(bob))
    at_alice, at_bob = both.get()
    start = train.state_dict()["model.0.weight"]
    assert torch.equal(at_alice.state_dict()["model.0.weight"], start)
    assert not torch.equal(at_bob.state_dict()["model.0.weight"], start)
    assert train.get_pointers() == {}


def test_a_multi_pointer_runs_the_plan_at_each_worker(net, make_worker, kind):
    alice, bob = make_worker("alice", kind), make_worker("bob", kind)
    data = ONES.send(alice, bob)
    with sy.count_messages() as counted:
        result = net.send(alice, bob)(data)
    assert counted.messages == 4 and result.shape == (3, 1)  # two to send the plan, two to run it
    assert all(torch.equal(part, net(ONES)) for part in result.get())

    @sy.func2plan(args_shape=[(3, 2)])
    def several(x):
        return {"sum": x.sum(), "rows": [x[0], x[1]]}

    found = several.send(alice, bob)(data)
    assert found["sum"].get(sum_results=True) == 12.0 and len(found["rows"][1].get()) == 2
    with pytest.raises(RuntimeError, match="Send it there too"):
        net.send(alice)(data)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam], ids=lambda kind: kind.__name__)
def test_a_learning_rate_may_be_an_argument(make_worker, kind, optimizer):
    bob = make_worker("bob", kind)
    model = nn.Linear(2, 1)
    mine = optimizer(model.parameters(), lr=0.1)
    proxy = copy.deepcopy(model)
    theirs = optimizer(proxy.parameters(), lr=0.1)

    @sy.func2plan()
    def train(x, lr):
        mine.param_groups[0]["lr"] = lr
        mine.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        mine.step()
        return loss

    train.build(ONES, torch.tensor(0.1))
    assert mine.param_groups[0]["lr"] == 0.1
    remote, x = train.send(bob), torch.randn(5, 2)
    there = x.send(bob)
    for step in range(5):
        rate = torch.tensor(0.1 * 0.5**step)
        theirs.param_groups[0]["lr"] = rate.item()
        theirs.zero_grad()
        loss = proxy(x).pow(2).mean()
        loss.backward()
        theirs.step()
        assert torch.allclose(remote(there, rate).get(), loss, atol=1e-6)


def test_calls_to_other_workers_are_no_part_of_a_plan(net, bob):
    pointer = net.send(bob)
    for function in (lambda x: pointer(x), lambda x: x.send(bob), lambda x: net.send(bob)(x)):
        with pytest.raises(PlanBuildError, match="can't be recorded"):
            sy.func2plan()(function).build(ONES)
    assert torch.equal(pointer(ONES).get(), net(ONES))


def test_an_error_that_the_function_catches_is_refused(hook):
    def reshaped(x):
        try:
            return x.reshape(2, 2)
        except RuntimeError:
            return x

    with pytest.raises(PlanBuildError, match="An error of torch.Tensor.reshape that the function catches"):
        sy.func2plan()(reshaped).build(torch.ones(3))
    assert sy.func2plan()(reshaped).build(torch.ones(4))(torch.ones(4)).shape == (2, 2)


def test_a_gradient_that_is_not_there_is_none(hook):
    layer = nn.Linear(2, 3)

    def count(x):
        return x * sum(parameter.grad is not None for parameter in layer.parameters())

    plan = sy.func2plan()(count).build(ONES)
    assert torch.equal(plan(ONES), count(ONES))
    layer(ONES).sum().backward()
    with pytest.raises(PlanMismatchError, match="has a gradient is False, got True"):
        plan(ONES)
    assert torch.equal(plan.build(ONES)(ONES), count(ONES))


def test_an_error_at_a_worker_names_the_line_of_the_user(net, make_worker, kind):
    bob = make_worker("bob", kind)
    with pytest.raises(RuntimeError) as caught:
        net.send(bob)(torch.ones(3, 5).send(bob)).get()
    notes = facts_of(caught.value)
    assert "operation 0 of the plan" in notes + str(caught.value)
    assert "return self.fc(x)" in notes


def test_a_local_plan_on_remote_data_says_what_to_do(net, bob):
    with pytest.raises(SyftError) as caught:
        net(ONES.send(bob))
    assert any("plan.send(worker)" in note for note in caught.value.__notes__)


def test_deep_copies_and_pickles(net):
    proxy = copy.deepcopy(net)
    assert proxy.id != net.id and torch.equal(proxy(ONES), net(ONES))
    with pytest.raises(TypeError, match=r"sy.serialize\(plan\)"):
        pickle.dumps(net)


def test_the_decorator_without_parentheses(hook):
    @sy.func2plan
    def double(x):
        return x * 2

    assert isinstance(double, sy.Plan) and double.build(ONES)(ONES).sum() == 12
    with pytest.raises(TypeError, match="got a int"):
        sy.func2plan()(5)


def test_names_of_plans_and_of_the_state_of_plans_inside_plans(net):
    assert sy.Plan(forward_func=nn.Linear(2, 1)).name == "Linear"

    @sy.func2plan()
    def twice(x):
        return net(x) * 2

    twice.build(ONES)
    assert sorted(twice.state_dict()) == ["net.fc.bias", "net.fc.weight"]
    assert "net.fc.weight" in twice.code


def test_state_is_encoded_and_shared(hook, workers):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    plan = sy.Plan(forward_func=model).build(x)
    expected = model(x).detach()
    alice, bob, dealer = (sy.VirtualWorker(hook, id=f"plan-party-{number}") for number in range(3))
    precision = {"base": 2, "precision_fractional": 16}
    assert plan.fix_precision(**precision) is plan
    assert torch.allclose(plan(x.fix_precision(**precision)).float_precision(), expected, atol=1e-3)
    assert plan.share(alice, bob, crypto_provider=dealer) is plan
    for given in (x.fix_precision(**precision).share(alice, bob, crypto_provider=dealer), x.fix_precision(**precision)):
        assert torch.allclose(plan(given).get().float_precision(), expected, atol=1e-3)
    plan.get_()
    assert plan.float_precision() is plan
    assert torch.allclose(plan(x), expected, atol=1e-3)


def test_tied_weights_are_followed_together(hook):
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    plan = sy.Plan(forward_func=model).build(ONES)
    for value in (3.0, 4.0):
        first.weight = second.weight = nn.Parameter(torch.full((2, 2), value))
        assert torch.equal(plan(ONES), model(ONES))
    first.weight = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(PlanMismatchError, match="now they hold different tensors"):
        plan(ONES)
    assert torch.equal(plan.build(ONES)(ONES), model(ONES))
    first.weight = second.weight
    with pytest.raises(PlanMismatchError, match="are the same tensor now"):
        plan(ONES)


def test_containers_of_a_result_are_the_callers_own(hook):
    @sy.func2plan(args_shape=[(3, 2)])
    def configured(x):
        return {"cfg": [1, 2], "x": x * 2, "empty": {}}

    first = configured(ONES)
    first["cfg"].append(9)
    first["empty"]["more"] = 1
    assert configured(ONES)["cfg"] == [1, 2] and configured(ONES)["empty"] == {}


def test_a_plan_that_is_built_again_is_sent_again(hook, make_worker, kind):
    bob = make_worker("bob", kind)
    plan = Net().build(ONES)
    kept = plan.send(bob)
    plan.build(ONES[:2])
    again = plan.send(bob)
    assert again is not kept and torch.equal(again(ONES).get(), kept(ONES).get())


def test_an_optimizer_of_parameters_that_are_gone(hook, bob):
    model, optimizer, train = trainer(lr=0.1)
    train.send(bob)
    optimizer.state.clear()
    model[0].weight = nn.Parameter(torch.zeros(3, 2))
    with pytest.raises(PlanMismatchError, match="Make an optimizer of the current parameters"):
        train.send(bob)


def test_memory_queries_are_checked_or_refused(hook):
    def by_format(x):
        return x * (10 if x.is_contiguous(memory_format=torch.channels_last) else 1)

    with pytest.raises(PlanBuildError, match="memory format"):
        sy.func2plan()(by_format).build(torch.ones(1, 2, 3, 4))

    def by_graph(x):
        return x * (10 if x.grad_fn is None else 1)

    leaf = torch.ones(2, requires_grad=True)
    plan = sy.func2plan()(by_graph).build(leaf)
    with pytest.raises(PlanMismatchError, match="is_leaf"):
        plan(leaf * 2)


def test_missing_gradients_are_made_when_asked_for(hook):
    parameter, tensor = nn.Parameter(torch.ones(2)), torch.ones(2)
    sy.State.create_grad_if_missing(parameter)
    sy.State.create_grad_if_missing(tensor)
    assert parameter.grad.tolist() == [0.0, 0.0] and tensor.grad is None


def test_a_build_that_fails_leaves_the_plan_as_it_was(hook, bob):
    weight, refuse = torch.tensor([2.0]), []

    @sy.func2plan()
    def scaled(x):
        return x * weight * (x.sum().item() if refuse else 1.0)

    scaled.build(ONES)
    refuse.append(True)
    with pytest.raises(PlanBuildError, match="item"):
        scaled.build(ONES)
    assert torch.equal(scaled(ONES), ONES * 2)
    assert torch.equal(scaled.send(bob)(ONES).get(), ONES * 2)
    assert torch.equal(sy.deserialize(sy.serialize(scaled))(ONES), ONES * 2)


def test_a_copy_of_a_plan_that_is_not_built_shares_nothing(hook):
    plan = Net()
    proxy = plan.copy()
    proxy.register_obj(torch.ones(1), "kept")
    proxy.add_placeholder(torch.ones(1))
    assert plan._objects == {} and plan.placeholders == {}
    proxy.build(ONES)
    assert not plan.is_built and plan.optimizers is not proxy.optimizers


def test_a_plan_whose_state_is_remote_is_sent_without_questions(make_worker, kind):
    alice, bob = make_worker("alice", kind), make_worker("bob", kind)
    net = Net().build(ONES)
    net.fc.send(alice)
    with sy.count_messages() as counted:
        pointer = net.send(bob)
    assert pointer.inference is None and counted.rounds == 0
    assert len(bob._objects) == 1  # it has arrived: alice is known until then
    net.fc.get()
