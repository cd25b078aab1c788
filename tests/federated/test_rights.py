"""Training where a policy holds: what comes of it derives from the data set, and nothing else tells of the data."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import syft as sy
from syft.exceptions import (
    GetNotPermittedError,
    NotPermittedError,
    ObjectNotFoundError,
    RemoteError,
    TrainingError,
)
from syft.grid.rights import NodePolicy
from syft.workers.policy import DenyAll
from tests.federated import samples
from tests.federated.samples import XOR, XOR_TARGET, config, planned


@pytest.fixture
def node(make_worker, kind):
    """A worker with the policy of a node, and a data set of its owner's."""
    worker = make_worker("node", kind)
    worker.add_dataset(samples.xor(), "xor")
    worker.policy = NodePolicy(owner="the hospital")
    return worker


def approve(node, pointer, scope):
    request = pointer.request(reason="to publish it")
    node.policy.requests.approve(request.id, scope=scope)


def test_what_was_trained_derives_from_the_data_set(node):
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
    assert torch.equal(fresh.get_model()(XOR), fresh.model(XOR)), "what was not trained is still its sender's own"


def test_what_the_owner_grants_leaves(node):
    sent = config()
    sent.send(node)
    node.fit("xor")
    approve(node, sent.model_ptr, "result")
    model = sent.get_model()
    assert samples.mean_square(XOR_TARGET, model(XOR)) < 0.01
    again = config(model, epochs=1)
    again.send(node)
    loss = node.fit("xor")
    with pytest.raises(GetNotPermittedError):
        loss.get()
    approve(node, loss, "sources")
    assert node.evaluate("xor")["nr_correct_predictions"] == 4
    assert type(node.fit("xor")) is torch.Tensor


def test_tensors_that_are_objects_too_are_the_sources(make_worker):
    node = make_worker("node")
    data, target = XOR.clone(), XOR_TARGET.clone()
    node.load_data([data, target])
    node.add_dataset(TensorDataset(data, target), "xor")
    node.policy = NodePolicy()
    sent = config(epochs=1)
    sent.send(node)
    for tensor in (data, target):
        assert node.fit("xor").location is node
        node.policy.share(node, tensor.id, allowed_users=("me",))
    assert type(node.fit("xor")) is torch.Tensor
    assert node.evaluate("xor").keys() == {"loss", "nr_correct_predictions", "nr_predictions"}


def test_nothing_that_was_there_before_learns_of_the_data(node):
    sent = config(epochs=5)
    sent.send(node)
    parameters = sent.model_ptr.parameters()
    node.fit("xor")
    node.fit("xor")
    for pointer, original in zip(parameters, sent.model.parameters(), strict=True):
        assert torch.equal(pointer.get(), original)


def test_the_optimizer_goes_on_in_copies(make_worker, node):
    free = make_worker("free")
    free.add_dataset(samples.xor(), "xor")
    losses = {}
    for worker in (node, free):
        sent = config(epochs=2, shuffle=False)
        sent.send(worker)
        worker.fit("xor")
        last = worker.fit("xor")
        losses[worker] = node.object_store.get(last.child.id_at_location) if worker is node else last
    assert torch.equal(losses[node], losses[free])


def test_a_failure_that_values_cause_is_not_told(node):
    """A model that fails for one target would tell it, one question after the other."""
    table = nn.Embedding(1, 1)
    loss_fn = sy.Plan(forward_func=lambda pred, target: pred.mean() + table(target.long()).mean())
    loss_fn.build(XOR_TARGET, torch.zeros(4, 1))
    sent = config(loss_fn=loss_fn, epochs=1)
    sent.send(node)
    loss = node.fit("xor")  # targets of 1 are not in the table
    assert loss.location is node and loss.shape == ()
    for result in (loss, sent.model_ptr):
        with pytest.raises(GetNotPermittedError):
            result.get()
    approve(node, loss, "sources")
    for attempt in (loss.get, sent.model_ptr.get, lambda: node.evaluate("xor")):
        with pytest.raises(RemoteError, match=r"syft.fit: IndexError: index out of range"):
            attempt()


def test_mistakes_that_shapes_tell_are_told(node):
    cases = [
        (config(planned(nn.Linear(3, 1), torch.zeros(4, 3)), epochs=1), RuntimeError, "same reduction dim"),
        (config(sy.Plan(forward_func=lambda x: x.mean(1)).build(XOR)), TrainingError, "no parameters"),
        (
            config(loss_fn=sy.Plan(forward_func=lambda pred, target: pred * 1).build(XOR_TARGET, XOR_TARGET)),
            TrainingError,
            "Take its mean",
        ),
    ]
    for sent, kind, text in cases:
        sent.send(node)
        with pytest.raises(kind, match=text):
            node.fit("xor")
    node.add_dataset(TensorDataset(torch.zeros(0, 2), torch.zeros(0, 1)), "empty")
    with pytest.raises(TrainingError, match="no samples"):
        node.fit("empty")


def test_the_model_of_somebody_else_is_not_trained(node, make_worker):
    sent = config()
    sent.send(node)
    stolen = sy.TrainConfig(None, None, model_id=sent._model_id, loss_fn_id=sent._loss_fn_id)
    with sy.acting_as(make_worker("mallory")):
        stolen.send(node)
        for attempt in (lambda: node.fit("xor"), lambda: node.evaluate("xor")):
            with pytest.raises(ObjectNotFoundError):
                attempt()
        ask = sy.local_worker.stream_to(node).run
        with pytest.raises(ObjectNotFoundError):
            ask("syft.use_train_config", (sent._last.config.id_at_location,), {}, None)
        with pytest.raises(NotPermittedError, match="its owner's to add and to remove"):
            ask("syft.remove_dataset", ("xor",), {}, None)
    assert "xor" in node.datasets


def test_a_published_model_of_somebody_else_is_not_trained(node, make_worker):
    with sy.acting_as(make_worker("carol")):
        model = planned().tag("#model").send(node)
        loss = samples.planned_loss().tag("#loss").send(node)
    sent = sy.TrainConfig(None, None, model_id=model.id_at_location, loss_fn_id=loss.id_at_location)
    sent.send(node)
    for attempt in (lambda: node.fit("xor"), lambda: node.evaluate("xor")):
        with pytest.raises(TrainingError, match="of somebody else; send one of your own"):
            attempt()


def test_an_owner_without_a_word_on_release(make_worker):
    bob = make_worker("bob")
    bob.add_dataset(samples.xor(), "xor")
    bob.policy = DenyAll()
    sent = config(epochs=1)
    sent.send(bob)
    assert bob.fit("xor").location is bob
    with pytest.raises(GetNotPermittedError):
        bob.evaluate("xor")


def test_data_does_not_leave_by_pointers_in_a_model(node, alice):
    class Sends(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, data):
            return data * self.weight

    model = planned(Sends())
    model.state.state_placeholders[0].child = torch.ones(2).send(alice)
    sent = config(model, epochs=1)
    sent.send(node)
    with pytest.raises(TrainingError, match="holds pointers"):
        node.fit("xor")
