"""The course "Secure and Private AI", the parts about remote execution and a first federated training."""

import pytest
import torch as th
from torch import nn, optim

import syft as sy


def test_basic_remote_execution(make_worker, nothing_left):
    jake = make_worker("jake")
    john = make_worker("john")
    assert jake._objects == {}
    x = th.tensor([1, 2, 3, 4, 5])
    x = x.send(jake)
    assert len(jake._objects) == 1
    assert x.location is jake and x.id_at_location in jake._objects and x.owner is sy.local_worker
    assert sy.local_worker.id == "me"
    x = x.get()
    assert jake._objects == {} and th.equal(x, th.tensor([1, 2, 3, 4, 5]))
    # several workers at once
    x_ptr = x.send(jake, john)
    assert len(x_ptr.child.child) == 2
    assert [t.tolist() for t in x_ptr.get()] == [[1, 2, 3, 4, 5]] * 2
    x_ptr = x.send(jake, john)
    assert x_ptr.get(sum_results=True).tolist() == [2, 4, 6, 8, 10]
    nothing_left(jake, john)


def test_remote_arithmetic_and_learning(bob, nothing_left):
    x = th.tensor([1, 2, 3, 4, 5]).send(bob)
    y = th.tensor([1, 1, 1, 1, 1]).send(bob)
    assert (x + y).get().tolist() == [2, 3, 4, 5, 6]
    assert th.add(x, y).get().tolist() == [2, 3, 4, 5, 6]
    weights = th.tensor([[0.0], [0.0]], requires_grad=True).send(bob)
    data = th.tensor([[1.0, 1], [0, 1], [1, 0], [0, 0]]).send(bob)
    target = th.tensor([[1.0], [1], [0], [0]]).send(bob)
    for _ in range(60):
        prediction = data.mm(weights)
        loss = ((prediction - target) ** 2).sum()
        loss.backward()
        weights.data.sub_(weights.grad * 0.1)
        weights.grad *= 0
    assert loss.get().item() < 1e-3
    learned = weights.data.get()
    th.testing.assert_close(learned, th.tensor([[0.0], [1.0]]), atol=0.05, rtol=0)
    del x, y, weights, data, target, prediction, loss
    nothing_left(bob)


def test_garbage_collection_and_common_errors(bob, alice, nothing_left):
    x = th.tensor([1, 2, 3]).send(bob)
    assert len(bob._objects) == 1 and x.child.garbage_collect_data is True
    x = "asdf"
    assert len(bob._objects) == 0
    for _ in range(1000):
        x = th.tensor([1, 2, 3]).send(bob)
    assert len(bob._objects) == 1
    y = th.tensor([1, 1, 1])
    with pytest.raises(sy.exceptions.TensorsNotCollocatedError):
        x + y
    y = y.send(alice)
    with pytest.raises(sy.exceptions.TensorsNotCollocatedError):
        x + y
    assert bob.clear_objects() is bob and len(bob._objects) == 0
    del x, y
    nothing_left(alice)


def test_toy_federated_learning(bob, alice, nothing_left):
    th.manual_seed(0)
    data = th.tensor([[1.0, 1], [0, 1], [1, 0], [0, 0]])
    target = th.tensor([[1.0], [1], [0], [0]])
    datasets = [
        (data[:2].send(bob), target[:2].send(bob)),
        (data[2:].send(alice), target[2:].send(alice)),
    ]
    model = nn.Linear(2, 1)
    opt = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        for _data, _target in datasets:
            model = model.send(_data.location)
            opt.zero_grad()
            pred = model(_data)
            loss = ((pred - _target) ** 2).sum()
            loss.backward()
            opt.step()
            model = model.get()
    assert loss.get().item() < 0.05
    del datasets, _data, _target, pred, loss
    nothing_left(bob, alice)


def test_pointers_to_pointers(make_worker, nothing_left):
    bob, alice, jon = make_worker("bob"), make_worker("alice"), make_worker("jon")
    x = th.tensor([1, 2, 3, 4, 5]).send(bob).send(alice)
    y = th.tensor([1, 2, 3, 4, 5]).send(bob).send(jon)
    y_at_jon = len(jon._objects)
    assert y_at_jon == 1
    z = x + x
    assert z.get().get().tolist() == [2, 4, 6, 8, 10]
    with pytest.raises(sy.exceptions.TensorsNotCollocatedError):
        x + y
    # the model of a third party: data moves between workers without passing the client
    w = th.tensor([5.0]).send(bob)
    with sy.count_messages() as n:
        w = w.move(alice)
    assert n.by_worker == {("me", bob.id): 1, (bob.id, alice.id): 1}
    v = th.tensor([1, 2]).send(bob)
    v.remote_send(alice)
    assert len(alice._objects) == 3
    v.remote_get()
    assert v.get().tolist() == [1, 2]
    del x, y, z, w, v
    nothing_left(bob, alice, jon)
