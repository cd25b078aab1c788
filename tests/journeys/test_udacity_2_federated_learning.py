"""The course "Secure and Private AI", section 2: models that travel, chains of pointers, a trusted aggregator.

Its first lessons, on remote tensors and toy training, are in test_udacity_remote.py.
"""

import pytest
import torch as th
import torch.nn.functional as F
from torch import nn, optim

from syft.exceptions import ObjectNotFoundError, SyftError, TensorsNotCollocatedError
from syft.frameworks.torch.fl import utils
from syft.messaging.message import BatchMessage, ObjectRequestMessage

ROUNDS = 4


def test_locations_of_parameters_when_a_model_is_sent(bob, alice, nothing_left):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    opt = optim.SGD(model.parameters(), lr=0.1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    assert model.send(bob) is model and model.location is bob
    assert len(bob._objects) == len(list(model.parameters())) + len(list(model.buffers())) == 9
    assert opt.param_groups[0]["params"][0] is model[0].weight  # the optimizer still knows it

    data, elsewhere = th.randn(4, 2).send(bob), th.randn(4, 2).send(alice)
    for wrong in (elsewhere, th.randn(4, 2)):
        with pytest.raises(TensorsNotCollocatedError):
            model(wrong)
    with pytest.raises(SyftError, match="get"):
        model.send(alice)
    pred = model(data)
    assert pred.location is bob and pred.shape == (4, 1)
    (pred**2).sum().backward()
    opt.step()
    assert model.get() is model and model.location is None
    assert not any(th.equal(now, old) for now, old in zip(model.parameters(), before, strict=True) if now.dim() == 2)
    assert int(model[1].num_batches_tracked) == 1  # what the norm has seen has come along
    del data, elsewhere, pred
    nothing_left(bob, alice)


def test_lifetimes_of_objects_and_pointers(bob, nothing_left):
    x = th.tensor([1, 2, 3]).send(bob)
    x.child.garbage_collect_data = False
    kept = x.id_at_location
    del x
    assert bob._objects[kept].tolist() == [1, 2, 3]  # its pointer is gone, and it is not
    bob.clear_objects()

    x = th.tensor([1, 2, 3]).send(bob)
    y = x + x
    del x
    assert [value.tolist() for value in bob._objects.values()] == [[2, 4, 6]]
    first, y = y, y.get()
    assert y.tolist() == [2, 4, 6] and bob._objects == {}
    with pytest.raises(SyftError, match="fetched"):
        first + first
    x = th.tensor([1.0]).tag("#kept").send(bob)
    (found,) = bob.search(["#kept"])
    del x
    assert found.get().tolist() == [1.0]  # the client that found it has a claim of its own
    nothing_left(bob)


def test_a_chain_of_three_workers(make_worker, nothing_left):
    bob, alice, jon = make_worker("bob"), make_worker("alice", "thread"), make_worker("jon", "bytes")
    x = th.tensor([1.0, 2.0], requires_grad=True).send(bob).send(alice).send(jon)
    assert [len(worker._objects) for worker in (bob, alice, jon)] == [1, 1, 1]
    y = (x * 3).sum()
    assert len(jon._objects) == 2
    y.backward()
    assert x.get().get().grad.copy().get().tolist() == [3.0, 3.0]
    assert y.get().get().get().item() == 9.0
    z = th.tensor([1.0]).send(bob).send(alice)
    assert len(alice._objects) == 1  # it has arrived
    alice.clear_objects()
    with pytest.raises(ObjectNotFoundError):
        z.get()
    del x, y, z
    nothing_left(bob, alice, jon)


def test_only_a_trusted_aggregator_sees_the_models(make_worker, digits, nothing_left):
    hospitals = [make_worker(name) for name in ("bob", "alice", "carol")]
    secure_worker = make_worker("secure")
    data, target, test_data, test_target = digits
    data, test_data = data.flatten(1), test_data.flatten(1)
    parts = [
        (x.send(worker), y.send(worker)) for worker, x, y in zip(hospitals, data.chunk(3), target.chunk(3), strict=True)
    ]
    sizes = [len(x) for x, _ in parts]
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    for worker in (*hospitals, secure_worker):
        worker.log_msgs = True
    for _ in range(ROUNDS):
        models = []
        for worker, (x, y) in zip(hospitals, parts, strict=True):
            theirs = model.copy().send(worker)
            opt = optim.SGD(theirs.parameters(), lr=0.6)
            for start in range(0, len(x), 25):
                opt.zero_grad()
                F.cross_entropy(theirs(x[start : start + 25]), y[start : start + 25]).backward()
                opt.step()
            theirs.move(secure_worker)
            assert theirs.location is secure_worker
            models.append(theirs)
        model = utils.federated_avg(models, weights=sizes)
        assert model.location is secure_worker
        model.get()
    with th.no_grad():
        assert utils.accuracy(model(test_data), test_target) >= 0.8

    asked = {worker.id: _fetched(worker) for worker in (*hospitals, secure_worker)}
    assert all(asked[worker.id] == 0 for worker in hospitals)  # the client got nothing from the holders of the data
    assert asked[secure_worker.id] == ROUNDS * len(list(model.parameters()))  # and from the other the averages alone
    del parts, models, theirs, opt, x, y
    nothing_left(*hospitals, secure_worker)


def _fetched(worker):
    """How many objects left a worker for the client."""
    messages = [part for message in worker.msg_history for part in _parts(message)]
    return sum(isinstance(message, ObjectRequestMessage) for message in messages)


def _parts(message):
    return message.contents if isinstance(message, BatchMessage) else (message,)
