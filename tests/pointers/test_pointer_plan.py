"""Pointers to plans: at one worker or several, run, searched, fetched."""

from __future__ import annotations

import pytest
import torch

import syft as sy
from syft.exceptions import GetNotPermittedError, ObjectNotFoundError
from syft.messaging.plan import func2plan
from tests.helpers.plans.models import Net


@pytest.fixture
def net(hook):
    return Net().build(torch.tensor([1.0, 2.0]))


def test_a_run_is_one_message_on_one_worker_and_on_each_of_ten(net, make_worker, kind):
    workers = [make_worker(f"w{number}", kind) for number in range(10)]
    pointer = net.send(*workers)
    inputs = [torch.tensor([float(number), 1.0]).send(worker) for number, worker in enumerate(workers)]
    with sy.count_messages() as counted:
        results = [pointer(x) for x in inputs]
    assert counted.messages == 10
    assert list(counted.by_worker.values()) == [1] * 10
    for number, result in enumerate(results):
        assert torch.equal(result.get(), net(torch.tensor([float(number), 1.0])))
    one = net.send(workers[0])
    x = torch.tensor([5.0, 1.0]).send(workers[0])
    with sy.count_messages() as counted:
        one(x)
    assert counted.messages == 1


def test_local_tensors_travel_along_with_the_call(net, make_worker, kind):
    bob = make_worker("bob", kind)
    pointer = net.send(bob)
    with sy.count_messages() as counted:
        result = pointer(torch.tensor([1.0, 2.0]))
    assert counted.messages == 1
    assert torch.equal(result.get(), net(torch.tensor([1.0, 2.0])))


def test_a_local_tensor_that_the_plan_changes_and_returns(hook, make_worker, kind):
    @func2plan(args_shape=[(2,)])
    def change(x):
        x.add_(1)
        return x

    bob, mine = make_worker("bob", kind), torch.ones(2)
    result = change.send(bob)(mine)
    assert isinstance(result.child, sy.PointerTensor)
    assert result.get().tolist() == [2.0, 2.0] and mine.tolist() == [1.0, 1.0]
    there = torch.ones(2).send(bob)
    assert change.send(bob)(there) is not None and there.get().tolist() == [2.0, 2.0]


def test_a_local_tensor_with_a_gradient_does_not_travel_along(net, bob):
    pointer, x = net.send(bob), torch.ones(2, requires_grad=True)
    with pytest.raises(sy.exceptions.SyftError, match="Pass x.detach()"):
        pointer(x)
    with torch.no_grad():
        assert torch.equal(pointer(x).get(), net(x))


def test_a_call_where_the_plan_is_not(net, bob, alice):
    pointer = net.send(bob)
    with pytest.raises(RuntimeError, match="Send it there too"):
        pointer(torch.tensor([1.0, 2.0]).send(alice))
    with pytest.raises(sy.exceptions.SyftError, match="Pass an argument at one of them"):
        net.send(bob, alice)(torch.tensor([1.0, 2.0]))
    assert torch.equal(
        pointer.request_run_plan(bob, [], torch.tensor([1.0, 2.0]).send(bob)).get(), net(torch.tensor([1.0, 2.0]))
    )
    with pytest.raises(RuntimeError, match="not at"):
        pointer.request_run_plan(alice, [], torch.tensor([1.0, 2.0]).send(alice))


def test_pointers_to_the_parameters_of_a_remote_plan(net, make_worker, kind):
    bob = make_worker("bob", kind)
    pointer = net.send(bob)
    parameters = pointer.parameters()
    assert [tuple(p.shape) for p in parameters] == [(3, 2), (3,), (2, 3), (2,), (1,)]
    with torch.no_grad():
        parameters[3].add_(1.0)
    x = torch.tensor([1.0, 2.0])
    assert torch.allclose(pointer(x.send(bob)).get(), net(x) + 2.0, atol=1e-5)
    with pytest.raises(RuntimeError, match="at several workers"):
        net.send(bob, make_worker("alice", kind)).parameters()


def test_a_fetched_plan_has_its_trained_state(net, make_worker, kind, nothing_left):
    bob = make_worker("bob", kind)
    pointer = net.send(bob)
    fetched = pointer.get()
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(fetched(x), net(x))
    with pytest.raises(sy.exceptions.SpentPointerError):
        pointer(x)
    again = net.send(bob)
    assert again is not pointer and torch.equal(again(x.send(bob)).get(), net(x))
    del again, fetched
    net.pointers.clear()
    nothing_left(bob)


def test_search_finds_plans_by_tag(net, make_worker, kind):
    bob = make_worker("bob", kind)
    net.tag("#classifier").describe("two layers")
    net.send(bob)
    (found,) = bob.search("#classifier")
    assert isinstance(found, sy.PointerPlan) and found.description == "two layers"
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(found(x.send(bob)).get(), net(x))


def test_fetch_plan_with_and_without_a_new_id(net, hook, make_worker, kind):
    bob = make_worker("bob", kind)
    pointer = net.send(bob)
    x = torch.tensor([1.0, 2.0])
    same = hook.local_worker.fetch_plan(net.id, bob)
    other = hook.local_worker.fetch_plan(net.id, bob, copy=True)
    assert same.id == net.id != other.id
    assert torch.equal(same(x), net(x)) and torch.equal(other(x), net(x))
    with torch.no_grad():
        same.parameters()[3].add_(1)
    assert torch.equal(pointer(x.send(bob)).get(), net(x))
    y = torch.ones(1).send(bob)
    with pytest.raises(ObjectNotFoundError, match="not a plan"):
        hook.local_worker.fetch_plan(y.id_at_location, bob)
    bob.policy = sy.workers.access.policy.DenyAll()
    with pytest.raises(GetNotPermittedError):
        hook.local_worker.fetch_plan(net.id, bob)


def test_named_results_of_torch_keep_their_names(hook, make_worker, kind):
    @func2plan(args_shape=[(3, 4)])
    def extremes(x):
        return {"max": x.max(dim=1), "sorted": [torch.sort(x)]}

    bob, x = make_worker("bob", kind), torch.randn(3, 4)
    here, there = extremes(x), extremes.send(bob)(x)
    assert torch.equal(here["max"].values, x.max(dim=1).values)
    assert torch.equal(here["sorted"][0].indices, torch.sort(x).indices)
    assert torch.equal(there["max"].values.get(), x.max(dim=1).values)
    assert torch.equal(there["sorted"][0].indices.get(), torch.sort(x).indices)
