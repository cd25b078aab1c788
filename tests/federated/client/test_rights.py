"""Training at a node: results stay in the vault, and no other answer depends on the data."""

import contextlib

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import (
    GetNotPermittedError,
    NotPermittedError,
    ObjectNotFoundError,
    TrainingError,
    WorkerNotFoundError,
)
from syft.messaging import message as m
from syft.workers.access.policy import ALLOW_ALL, DenyAll
from tests.helpers.federated import samples
from tests.helpers.federated.samples import XOR, XOR_TARGET, config, planned
from tests.helpers.nodes import forget
from tests.helpers.nodes import node as node_process
from tests.helpers.rights.users import Peer

DATA = """
from torch.utils.data import TensorDataset
from tests.helpers.federated import samples
node.worker.add_dataset(samples.xor(), "xor")
node.worker.add_dataset(TensorDataset(torch.zeros(0, 2), torch.zeros(0, 1)), "empty")
"""


@pytest.fixture(scope="module")
def place():
    """A node with a data set of its owner."""
    with node_process("hospital", prepare=DATA) as process:
        yield process


@pytest.fixture
def node(place, hook):
    """The node as alice sees it."""
    client = place.connect(hook, "alice")
    yield client
    forget(hook, client)


@pytest.fixture
def owner(place):
    with contextlib.closing(Peer(place, "owner")) as peer:
        yield peer


def approve(owner, pointer):
    owner.ask(m.DecideRequestMessage(pointer.request(reason="to publish it").id, True))


def test_a_trained_model_stays_in_the_vault(node):
    sent = config(epochs=1)
    sent.send(node)
    loss = node.fit("xor")
    assert loss.location is node, "the loss stays there"
    for result in (loss, loss + 1, sent.model_ptr):
        with pytest.raises(GetNotPermittedError):
            result.get()
    with pytest.raises(GetNotPermittedError):
        node.evaluate("xor")
    fresh = config(epochs=1)
    fresh.send(node)
    assert torch.equal(fresh.get_model()(XOR), fresh.model(XOR)), "a model that was not trained is its sender's own"


def test_an_approved_model_is_released(node, owner):
    sent = config()
    sent.send(node)
    loss = node.fit("xor")
    approve(owner, sent.model_ptr)
    assert samples.mean_square(XOR_TARGET, sent.model_ptr.get()(XOR)) < 0.01
    with pytest.raises(GetNotPermittedError):
        loss.get()
    approve(owner, loss)
    assert loss.get() < 0.01


def test_readable_data_is_trained_on_as_anywhere(node, owner):
    owner.share("dataset:xor", "alice")
    try:
        sent = config()
        sent.send(node)
        assert type(node.fit("xor")) is torch.Tensor
        assert node.evaluate("xor")["nr_correct_predictions"] == 4
        assert samples.mean_square(XOR_TARGET, sent.get_model()(XOR)) < 0.01
    finally:
        owner.share("dataset:xor")
    with pytest.raises(GetNotPermittedError):
        node.evaluate("xor")


def test_a_failure_that_values_cause_is_not_reported(node, owner):
    """A model that fails for one target would tell it, one question after the other."""
    table = nn.Embedding(1, 1)
    loss_fn = sy.Plan(forward_func=lambda pred, target: pred.mean() + table(target.long()).mean())
    loss_fn.build(XOR_TARGET, torch.zeros(4, 1))
    sent = config(loss_fn=loss_fn, epochs=1)
    sent.send(node)
    loss = node.fit("xor")  # targets of 1 are not in the table
    assert loss.location is node and loss.shape == ()
    with pytest.raises(GetNotPermittedError):
        loss.get()
    approve(owner, loss)
    with pytest.raises(GetNotPermittedError, match="there is no value"):
        loss.get()


def test_the_model_of_another_user_is_not_trained(node, place):
    sent = config()
    sent.send(node)
    ids = [sent._model_id, sent._loss_fn_id, sent._last.config.id_at_location]
    with contextlib.closing(Peer(place, "bob")) as bob:
        for obj_id in ids:
            assert bob.get(obj_id).contents[0] == ObjectNotFoundError.__name__
        assert bob.call("syft.use_train_config", ids[2]).contents[0] == ObjectNotFoundError.__name__
        assert bob.call("syft.remove_dataset", "xor").contents[0] == NotPermittedError.__name__
        assert "Only the owner" in bob.call("syft.remove_dataset", "xor").contents[1]
    assert node.fit("xor").location is node


def test_mistakes_before_training_are_reported(node):
    with pytest.raises(TrainingError, match="no data set"):
        config(epochs=1).send(node)
        node.fit("nothing")


def test_data_does_not_leave_by_pointers_in_a_model(node, bob):
    class Sends(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, data):
            return data * self.weight

    model = planned(Sends())
    model.state.state_placeholders[0].child = torch.ones(2).send(bob)
    before = set(bob._objects)
    with pytest.raises(WorkerNotFoundError, match=bob.id):
        config(model, epochs=1).send(node)
        node.fit("xor").get()
    assert set(bob._objects) == before


def test_a_policy_of_an_ordinary_worker_is_asked(make_worker):
    bob = make_worker("bob")
    bob.add_dataset(samples.xor(), "xor")
    bob.policy = DenyAll()
    sent = config(epochs=1)
    sent.send(bob)
    for attempt in (lambda: bob.fit("xor").get(), lambda: bob.evaluate("xor"), sent.get_model):
        with pytest.raises(GetNotPermittedError):
            attempt()
    bob.policy = ALLOW_ALL
