"""Gradients flow back through `move(..., requires_grad=True)` and `send(..., requires_grad=True)`."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import GetNotPermittedError, SpentPointerError, SyftError, UnsupportedOperationError
from syft.pointers.moves import ALIVE
from syft.workers.access.policy import DenyAll


@pytest.fixture
def three(make_worker, kind):
    return [make_worker(name, kind) for name in ("alice", "bob", "carol")]


@pytest.fixture(autouse=True)
def no_moves_left():
    """Check that moves are forgotten with the pointers that carry them."""
    others = {
        each().number for each in tuple(ALIVE) if each() is not None
    }  # of tests in other files, whose garbage is frozen
    yield
    gc.collect()
    assert {each().number for each in tuple(ALIVE) if each() is not None} <= others


def parts():
    torch.manual_seed(3)
    return [
        nn.Sequential(nn.Linear(4, 5), nn.Tanh()),
        nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.ReLU()),
        nn.Linear(3, 1),
    ]


def train_split(workers, make_optimizer, x, y, steps=4):
    """Train a net whose parts are at three workers; the data is at the first, the targets are at the last."""
    models = [part.send(worker) for part, worker in zip(parts(), workers, strict=True)]
    optimizers = [make_optimizer(model.parameters()) for model in models]
    x, y = x.send(workers[0]), y.send(workers[-1])
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        hidden = models[0](x)
        for model, worker in zip(models[1:], workers[1:], strict=True):
            hidden = model(hidden.move(worker, requires_grad=True))
        loss = (hidden - y).pow(2).mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return [model.get() for model in models]


def train_whole(make_optimizer, x, y, steps=4):
    models = parts()
    optimizers = [make_optimizer(model.parameters()) for model in models]
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        (models[2](models[1](models[0](x))) - y).pow(2).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    return models


def same(models, others):
    pairs = zip(nn.ModuleList(models).state_dict().items(), nn.ModuleList(others).state_dict().values(), strict=True)
    return all(torch.equal(value, other) for (_, value), other in pairs)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.05),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_t1_split_net_trains_exactly_like_the_whole_net(three, optimizer):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    expected = train_whole(OPTIMIZERS[optimizer], x, y)
    assert same(train_split(three, OPTIMIZERS[optimizer], x, y), expected)


def test_t1_split_net_trains_in_separate_processes(hook, make_worker):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    first, last = (sy.ProcessWorker(hook, id=f"t1-{name}") for name in ("first", "last"))
    try:
        expected = train_whole(OPTIMIZERS["sgd"], x, y)
        assert same(train_split([first, make_worker("middle"), last], OPTIMIZERS["sgd"], x, y), expected)
    finally:
        first.stop()
        last.stop()


def test_t1_sent_tensor_receives_its_gradient(workers):
    bob, _ = workers
    x = torch.tensor([1.0, 2.0])
    pointer = x.send(bob, requires_grad=True)
    assert pointer.requires_grad and not x.requires_grad
    (pointer * pointer).sum().backward()
    assert x.grad.tolist() == [2, 4] and pointer.grad.copy().get().tolist() == [2, 4]


def test_t1_local_graph_is_differentiated_further_back(workers):
    bob, _ = workers
    model, x = nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    expected = torch.autograd.grad(model(x).tanh().sum(), [x, *model.parameters()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the history is not lost, so nothing warns of that
        hidden = model(x)
        hidden.send(bob, requires_grad=True).tanh().sum().backward()
    for tensor, gradient in zip([x, *model.parameters()], expected, strict=True):
        assert torch.equal(tensor.grad, gradient)
    assert hidden.grad is not None, "a result keeps its gradient too"


def test_t1_moved_tensor_stays_and_receives_its_gradient(workers):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0]).send(alice)
    moved = x.move(bob, requires_grad=True)
    assert moved.location is bob and moved.requires_grad and not x.requires_grad
    (moved * 3).sum().backward()
    assert x.grad.copy().get().tolist() == [3, 3]
    (moved * 3).sum().backward()
    assert x.grad.copy().get().tolist() == [6, 6] == moved.grad.copy().get().tolist()
    assert x.get().tolist() == [1, 2]


def test_t1_only_the_new_gradient_flows_back(workers):
    bob, alice = workers
    w = torch.tensor([2.0, 3.0], requires_grad=True).send(alice)
    hidden = w * w
    moved = hidden.move(bob, requires_grad=True)
    loss = moved.sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.copy().get().tolist() == [8, 12]
    assert hidden.grad.copy().get().tolist() == [2, 2]
    assert moved.grad.copy().get().tolist() == [2, 2]


def test_t1_gradient_arguments_reach_the_source(workers):
    bob, alice = workers
    w = torch.tensor([2.0, 3.0], requires_grad=True).send(alice)
    result = w.move(bob, requires_grad=True) * 2
    result.backward(gradient=torch.tensor([1.0, 10.0]).send(bob))
    assert w.grad.copy().get().tolist() == [2, 20]
    result = w.move(bob, requires_grad=True) * 2
    torch.autograd.backward([result], [torch.tensor([1.0, 10.0]).send(bob)])
    assert w.grad.copy().get().tolist() == [4, 40]


def test_t1_copies_at_two_workers_add_their_gradients(three):
    alice, bob, carol = three
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    hidden = w * w
    at_bob, at_carol = (hidden.move(worker, requires_grad=True) for worker in (bob, carol))
    (at_bob * 3).sum().backward()
    (at_carol * 5).sum().backward()
    assert w.grad.copy().get().tolist() == [16, 32]
    assert hidden.grad.copy().get().tolist() == [8, 8]


def test_t1_paths_over_several_workers_meet_again(three):
    alice, bob, carol = three
    values = torch.tensor([0.3, -0.7])
    local = values.clone().requires_grad_()
    hidden = local.exp()
    (hidden.sin() * (hidden * 2) + hidden.tanh()).sum().backward()

    w = values.clone().requires_grad_().send(alice)
    hidden = w.exp()
    by_carol = (hidden.move(carol, requires_grad=True) * 2).move(bob, requires_grad=True)
    at_bob = hidden.move(bob, requires_grad=True)
    back = (at_bob.sin() * by_carol).move(alice, requires_grad=True)
    (back + hidden.tanh()).sum().backward()
    assert torch.allclose(w.grad.copy().get(), local.grad, rtol=1e-6)


def test_t1_two_outputs_of_one_model_go_back_in_one_pass(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    first, second = (w * w).unbind()
    total = first.move(bob, requires_grad=True) * 3 + second.move(bob, requires_grad=True) * 5
    total.backward()
    assert w.grad.copy().get().tolist() == [6, 20]


def test_t1_copy_lives_as_long_as_results_computed_from_it(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    result = [(w * 2).move(bob, requires_grad=True)]
    result.append(result.pop() * 3)
    target = torch.zeros(2).send(bob)
    target += result.pop()
    held = torch.zeros(3).send(bob)
    held[1:] = target
    del target
    gc.collect()
    held.sum().backward()
    assert w.grad.copy().get().tolist() == [6, 6]


def test_t1_multi_pointers_send_gradients_back(workers):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0])
    (x.send(bob, alice, requires_grad=True) * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_t1_gradients_flow_back_from_the_local_worker(hook, workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    here = (w * w).move(bob, requires_grad=True).move(hook.local_worker, requires_grad=True)
    assert type(here) is torch.Tensor and here.is_leaf
    (here * 3).sum().backward()
    assert here.grad.tolist() == [3, 3] and w.grad.copy().get().tolist() == [6, 12]


def test_t1_move_in_place_keeps_the_way_back(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    x = w * 2
    assert x.move_(bob, requires_grad=True) is x and x.location is bob
    x.sum().backward()
    assert w.grad.copy().get().tolist() == [2, 2]
    bare = (w * 2).child
    assert bare.move_(bob, requires_grad=True) is bare and bare.location is bob
    bare.sum().backward()
    assert w.grad.copy().get().tolist() == [4, 4]
    local = torch.tensor([1.0, 2.0], requires_grad=True)
    y = local * 3
    y.send_(bob, requires_grad=True)
    y.sum().backward()
    assert local.grad.tolist() == [3, 3]


def test_t1_move_to_the_same_worker_requires_a_gradient(bob):
    x = torch.tensor([1.0]).send(bob)
    assert x.move(bob, requires_grad=True) is x and x.requires_grad
    (x * 2).backward()
    assert x.grad.copy().get().tolist() == [2]


def test_t1_requires_grad_false_is_the_default(workers):
    bob, alice = workers
    x = torch.tensor([1.0], requires_grad=True).send(alice)
    moved = x.move(bob, requires_grad=False)
    assert moved.requires_grad
    (moved * 2).backward()
    with pytest.raises(SpentPointerError):
        x.get()


def test_t1_failed_pass_leaves_earlier_gradients(workers):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0]).send(alice)
    moved = x.move(bob, requires_grad=True)
    loss = (moved * moved).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
        bob.synchronize()
    assert moved.grad.copy().get().tolist() == [2, 4] == x.grad.copy().get().tolist()


def test_t1_sources_that_are_gone_are_reported_before_the_pass(workers):
    bob, alice = workers
    w = torch.tensor([1.0], requires_grad=True).send(bob)
    x = torch.tensor([1.0]).send(alice)
    loss = x.move(bob, requires_grad=True) * w
    x.get()
    with pytest.raises(SpentPointerError, match="fetched"):
        loss.backward()
    assert w.grad is None


def test_t1_impossible_moves_are_refused(workers):
    bob, alice = workers
    with pytest.raises(UnsupportedOperationError, match="Only floats"):
        torch.tensor([1]).send(bob, requires_grad=True)
    with pytest.raises(UnsupportedOperationError, match="Only floats"):
        torch.tensor([1]).send(bob).move(alice, requires_grad=True)
    with pytest.raises(UnsupportedOperationError, match=r"move\(\)"):
        torch.ones(1).send(bob).send(alice, requires_grad=True)
    result = torch.ones(1).send(alice).move(bob, requires_grad=True).pow(3)
    with pytest.raises(SyftError, match="create_graph"):
        result.backward(create_graph=True)


def test_t1_policy_of_the_worker_decides_about_gradients(make_worker):
    alice, bob = make_worker("alice"), make_worker("bob")
    x = torch.tensor([1.0, 2.0]).send(alice)
    loss = x.move(bob, requires_grad=True).sum()
    bob.policy = DenyAll()
    with pytest.raises(GetNotPermittedError):
        loss.backward()
    assert x.grad is None
    bob.policy = sy.workers.policy.ALLOW_ALL


def test_t1_writes_to_the_source_after_a_move_have_no_part_in_its_gradient(workers, hook):
    bob, alice = workers
    for destination in (bob, hook.local_worker):
        w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
        hidden = w * 3
        moved = hidden.move(destination, requires_grad=True)
        hidden.mul_(2)
        (moved * moved).sum().backward()
        assert w.grad.copy().get().tolist() == [18, 36]
    local = torch.tensor([1.0, 2.0], requires_grad=True)
    hidden = local * 3
    sent = hidden.send(bob, requires_grad=True)
    hidden.mul_(2)
    (sent * sent).sum().backward()
    assert local.grad.tolist() == [18, 36]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_t1_source_without_a_graph_gets_none_by_later_writes(workers):
    bob, alice = workers
    w, x = torch.tensor([1.0, 2.0], requires_grad=True).send(alice), torch.ones(2).send(alice)
    moved = x.move(bob, requires_grad=True)
    x.mul_(w)
    moved.sum().backward()
    assert w.grad is None


def test_t1_source_that_a_later_move_is_added_to(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    hidden = w * 3
    back = (hidden.move(bob, requires_grad=True) * 2).move(alice, requires_grad=True)
    hidden.add_(back)
    del back
    hidden.sum().backward()
    assert w.grad.copy().get().tolist() == [9, 9]


def test_t1_a_move_without_grad_mode_keeps_the_way_back(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    hidden = w * 3
    with torch.no_grad():
        moved = hidden.move(bob, requires_grad=True)
    (moved * moved).sum().backward()
    assert w.grad.copy().get().tolist() == [18, 36]


WRITES = {
    "an item of the tensor": lambda x, new: x[0].add_(new),
    "a view of a view": lambda x, new: x.t().t()[:1].squeeze(0).copy_(new),
    "the tensor itself": lambda x, new: x.add_(new),
    "augmented assignment": lambda x, new: x.__setitem__(0, x[0].add_(new)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", ["tensor", "view made before"])
def test_t1_moves_written_through_views_lead_back(workers, write, read):
    bob, alice = workers
    values, local = torch.tensor([1.0, 2.0]), torch.zeros(2, 2)
    leaf = values.clone().requires_grad_()
    view = local.view(4)
    WRITES[write](local, leaf * 3)
    weights = torch.tensor([1.0, 10.0, 100.0, 1000.0])
    ((local.view(4) if read == "tensor" else view) * weights).sum().backward()

    w = values.clone().requires_grad_().send(alice)
    x, weights = torch.zeros(2, 2).send(bob), weights.send(bob)
    view = x.view(4)
    WRITES[write](x, (w * 3).move(bob, requires_grad=True))
    gc.collect()
    ((x.view(4) if read == "tensor" else view) * weights).sum().backward()
    assert torch.equal(w.grad.copy().get(), leaf.grad)


def test_t1_writes_to_detached_tensors_lead_nowhere(workers):
    bob, alice = workers
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    x = torch.zeros(2, requires_grad=True).send(bob)
    x.detach().add_(w.move(bob, requires_grad=True))
    (x * 3).sum().backward()
    assert w.grad is None and x.grad.copy().get().tolist() == [3, 3]


def test_t1_autograd_links_over_moved_tensors_keep_the_way_back(workers):
    bob, alice = workers
    x = torch.tensor([1.0, 2.0])
    linked = x.send(bob, requires_grad=True, local_autograd=True)
    (linked * linked).sum().backward()
    assert x.grad.tolist() == [2, 4]
    w = torch.tensor([1.0, 2.0], requires_grad=True).send(alice)
    linked = sy.AutogradTensor().on(w.move(bob, requires_grad=True))
    (linked * linked).sum().backward()
    assert w.grad.copy().get().tolist() == [2, 4]


def test_t2_an_autograd_link_over_a_private_pointer_shows_that_it_is_private(workers):
    pointer = torch.tensor([1.0]).send(workers[0])
    pointer.child.private = True
    assert sy.AutogradTensor().on(pointer).child.child.private
