"""FederatedClient and TrainConfig: assigned state, float histograms, and configs without a model."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import syft as sy
from syft.exceptions import TrainingError
from syft.federated.client.federated_client import FederatedClient
from syft.federated.utils import create_gaussian_mixture_toy_data, iris_data_partial
from syft.pointers.object_wrapper import ObjectWrapper
from tests.helpers.federated import samples
from tests.helpers.federated.samples import config


class Net(nn.Module):
    def __init__(self, inputs=2, outputs=2):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs, 16), nn.Linear(16, outputs)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def cross_entropy(pred, target):
    return F.cross_entropy(input=pred, target=target)


def client_of(data, target, key, model, **settings):
    """A client with a model and a loss in its store, as programs of 0.2 set it up by hand."""
    client = FederatedClient()
    client.add_dataset(sy.BaseDataset(data, target), key=key)
    client.set_obj(ObjectWrapper(model, id=0))
    client.set_obj(ObjectWrapper(cross_entropy, id=1))
    client.set_obj(sy.TrainConfig(model=None, loss_fn=None, model_id=0, loss_fn_id=1, batch_size=8, **settings))
    return client


@pytest.fixture
def client():
    data, target = create_gaussian_mixture_toy_data(nr_samples=100)
    return client_of(data, target, "mixture", Net(), optimizer_args={"lr": 0.1})


# --- assigned state -------------------------------------------------------------------------------------------


def test_f1_optimizer_none_makes_fit_build_a_new_one(client):
    assert client.optimizer is None
    client.fit(dataset_key="mixture")
    first = client.optimizer
    client.fit(dataset_key="mixture")
    assert client.optimizer is first and isinstance(first, torch.optim.SGD)
    client.optimizer = None
    assert client.optimizer is None
    loss = client.fit(dataset_key="mixture")
    assert client.optimizer is not first and loss < 0.7


def test_f1_setting_a_config_resets_the_optimizer(client):
    client.fit(dataset_key="mixture")
    other = sy.TrainConfig(None, None, model_id=0, loss_fn_id=1, optimizer="Adam", optimizer_args={"lr": 0.01})
    client.train_config = other
    assert client.train_config is other and client.optimizer is None
    client.fit(dataset_key="mixture")
    assert isinstance(client.optimizer, torch.optim.Adam)
    client.set_obj(sy.TrainConfig(None, None, model_id=0, loss_fn_id=1))
    assert client.optimizer is None and client.train_config is not other
    client.train_config = None
    assert client.train_config is None
    with pytest.raises(ValueError, match="no TrainConfig"):
        client.fit(dataset_key="mixture")


def test_f1_an_assigned_optimizer_is_used(client):
    model = client.object_store.get(0).obj
    mine = torch.optim.SGD(model.fc2.parameters(), lr=0.1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    client.optimizer = mine
    client.fit(dataset_key="mixture")
    assert client.optimizer is mine
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert changed == [False, False, True, True]


def test_f1_datasets_are_assigned(client):
    data = sy.BaseDataset(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long))
    client.datasets = {"zeros": data}
    assert client.datasets == {"zeros": data}
    client.fit(dataset_key="zeros")
    with pytest.raises(ValueError, match="no data set 'mixture'"):
        client.fit(dataset_key="mixture")
    client.datasets = None
    assert client.datasets == {}
    client.datasets["again"] = data
    client.fit(dataset_key="again")


def test_f1_wrong_values_are_refused(client):
    for name, wrong in (("optimizer", "SGD"), ("train_config", {"epochs": 3})):
        with pytest.raises(TrainingError, match=f"{name} must be a .* or None, got a"):
            setattr(client, name, wrong)
    bare = FederatedClient()
    bare.optimizer = None
    with pytest.raises(TrainingError, match=r"Assign client.train_config first"):
        bare.optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def test_f1_a_virtual_worker_uses_what_is_assigned(make_worker, kind):
    bob = make_worker("bob", kind)
    bob.datasets = {"xor": samples.xor()}
    sent = config(epochs=1)
    sent.send(bob)
    bob.fit("xor")
    bob.optimizer = None
    assert bob.optimizer is None and torch.isfinite(bob.fit("xor"))
    other = sy.TrainConfig(None, None, model_id=sent._model_id, loss_fn_id=sent._loss_fn_id, optimizer="Adam")
    bob.train_config = other
    bob.fit("xor")
    assert bob.train_config is other and isinstance(bob.optimizer, torch.optim.Adam)
    assert torch.isfinite(bob.fit("xor"))
    third = config(epochs=2)
    third.send(bob)
    assert bob.train_config.id == third.id and bob.optimizer is None


def test_f1_workers_in_other_processes_say_where_the_state_is(hook):
    worker = sy.ProcessWorker(hook, id="f1-process")
    try:
        with pytest.raises(AttributeError, match=r"config.send\(worker\)"):
            worker.train_config = config()
        with pytest.raises(AttributeError, match="optimizer='Adam'"):
            worker.optimizer = None
        with pytest.raises(AttributeError, match=r"worker.add_dataset"):
            worker.datasets = {}
    finally:
        worker.close()
        hook.local_worker._known_workers.pop("f1-process", None)


# --- histograms -----------------------------------------------------------------------------------------------


def test_f2_histograms_are_float_arrays():
    data, target = iris_data_partial()
    client = client_of(data, target, "iris", Net(4, 3), epochs=20, optimizer_args={"lr": 0.1})
    before = client.evaluate(dataset_key="iris", return_histograms=True, nr_bins=3)
    for _ in range(5):
        client.fit(dataset_key="iris")
    after = client.evaluate(dataset_key="iris", return_histograms=True, nr_bins=3)
    for found in (before, after):
        for name in ("histogram_predictions", "histogram_target"):
            assert isinstance(found[name], np.ndarray) and found[name].dtype == np.float64
            assert found[name].shape == (3,) and found[name].sum() == len(target)
    wrong = [torch.norm(torch.tensor(f["histogram_target"] - f["histogram_predictions"])) for f in (before, after)]
    assert wrong[1] <= wrong[0] and after["nr_correct_predictions"] > before["nr_correct_predictions"]


def test_f2_histograms_of_workers_arrive_as_float_arrays(workers):
    for worker in workers:
        worker.add_dataset(samples.xor(), "xor")
        sent = config()
        sent.send(worker)
        found = worker.evaluate("xor", return_histograms=True, nr_bins=5)
        assert found["histogram_target"].dtype == np.float64 and found["histogram_target"].tolist() == [2, 2, 0, 0, 0]


# --- configs without ids --------------------------------------------------------------------------------------


def test_f3_settings_are_sent_alone(workers):
    for worker in workers:
        worker.add_dataset(samples.xor(), "xor")
        sent = sy.TrainConfig(model=None, loss_fn=None, batch_size=4, epochs=3, optimizer="Adam")
        pointer = sent.send(worker)
        assert pointer.location is worker and sent.model_ptr is None and sent.loss_fn_ptr is None
        with pytest.raises(ValueError, match="The TrainConfig has no model"):
            worker.fit("xor")
        with pytest.raises(ValueError, match="The TrainConfig has no model"):
            worker.evaluate("xor")
        assert sent.get_model() is None and sent.get_loss_fn() is None


@pytest.mark.parametrize("has_model", [False, True])
def test_f3_the_config_of_a_worker_is_the_one_that_was_sent(workers, has_model):
    names = (
        "id _model_id _loss_fn_id batch_size epochs optimizer optimizer_args max_nr_batches shuffle location".split()
    )
    for worker in workers:
        assert worker.train_config is None
        made = config if has_model else lambda **settings: sy.TrainConfig(None, None, **settings)
        sent = made(batch_size=3, epochs=5, optimizer="Adam", optimizer_args={"lr": 0.5})
        assert sent.location is None
        sent.send(worker)
        found = worker.train_config
        assert {name: getattr(found, name) for name in names} == {name: getattr(sent, name) for name in names}
        assert sent.location is worker and (sent._model_id is not None) is has_model


def test_f3_ids_of_objects_that_were_sent_before(bob, hook):
    """The loss and the model are sent by hand, and the config names them."""
    me = hook.local_worker
    bob.add_dataset(samples.xor(), "xor")
    model, loss = me.send(samples.planned(), bob), me.send(samples.planned_loss(), bob)
    ids = {"model_id": model.id_at_location, "loss_fn_id": loss.id_at_location}
    sent = sy.TrainConfig(model=None, loss_fn=None, batch_size=4, epochs=200, **ids)
    sent.send(bob)
    assert (bob.train_config._model_id, bob.train_config._loss_fn_id) == (ids["model_id"], ids["loss_fn_id"])
    first = bob.fit("xor")
    assert bob.fit("xor") < first


def test_f3_the_last_config_counts_and_is_forgotten_with_its_client(make_worker):
    bob = make_worker("bob")
    for epochs in (1, 2):
        sent = config(epochs=epochs)
        sent.send(bob)
        assert bob.train_config.epochs == epochs
    sy.local_worker.stream_to(bob).close()
    sy.local_worker._streams.pop(bob.id, None)
    assert bob.train_config is None


# --- sent parts stay ------------------------------------------------------------------------------------------


def test_pl3_a_worker_trains_with_a_config_that_its_sender_no_longer_holds(workers):
    for worker in workers:
        worker.add_dataset(samples.xor(), "xor")
        config(epochs=1).send(worker)
        gc.collect()
        first = worker.fit("xor")
        assert worker.fit("xor") < first


def test_pl3_a_config_that_is_sent_again_replaces_its_parts(workers):
    for worker in workers:
        sent = config()
        sent.send(worker)
        earlier = [sent.model_ptr.id_at_location, sent.loss_fn_ptr.id_at_location]
        sent.send(worker)
        gc.collect()
        torch.ones(1).send(worker).get()  # carries the ids that were released
        assert [worker.search([key]) for key in earlier] == [[], []]
        kept = sent._model_id
        assert len(worker.search([kept])) == 1
        sent.get_model()
        assert worker.search([kept]) == []
