"""Training and evaluating at a worker: by its owner, by clients of any kind, and by several at once."""

import asyncio
import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import syft as sy
from syft.exceptions import SerdeError, TrainingError
from syft.federated.federated_client import FederatedClient
from syft.federated.utils import iris_data_partial
from tests.helpers import processes
from tests.helpers.federated import samples
from tests.helpers.federated.samples import (
    XOR,
    XOR_TARGET,
    config,
    network,
    planned,
    planned_loss,
    scripted,
    scripted_loss,
    traced,
)


def iris():
    return TensorDataset(*iris_data_partial())


def iris_config(**changes):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    data, target = iris_data_partial()
    loss = sy.Plan(forward_func=nn.CrossEntropyLoss()).build(torch.randn(30, 3), target)
    settings = {"optimizer": "Adam", "optimizer_args": {"lr": 0.02}, "epochs": 40, "batch_size": 10, **changes}
    return model, sy.TrainConfig(sy.Plan(forward_func=model).build(data), loss, **settings)


# The documented class by itself ---------------------------------------------------------------------------


def test_data_sets_by_key():
    client = FederatedClient(datasets={"xor": samples.xor()})
    assert client.train_config is None and client.optimizer is None
    client.add_dataset(iris(), "iris")
    assert set(client.datasets) == {"xor", "iris"}
    with pytest.raises(ValueError, match="'xor' already exists"):
        client.add_dataset(iris(), "xor")
    client.remove_dataset("xor")
    client.remove_dataset("xor")
    assert set(client.datasets) == {"iris"}
    with pytest.raises(ValueError, match="has no TrainConfig"):
        client.fit("iris")


def test_a_client_trains_the_config_that_was_set():
    client = FederatedClient(datasets={"xor": samples.xor()})
    model, loss = sy.ObjectWrapper(traced(), id="model"), sy.ObjectWrapper(scripted_loss(), id="loss")
    client.set_obj(model)
    client.set_obj(loss)
    assert client._objects == {"model": model, "loss": loss}
    settings = {"optimizer": "Adam", "optimizer_args": {"lr": 0.05}, "batch_size": 4}
    client.set_obj(sy.TrainConfig(None, None, model_id="model", loss_fn_id="loss", epochs=150, **settings))
    assert "epochs:150" in repr(client.train_config) and len(client._objects) == 2
    assert client.fit(dataset_key="xor") < 0.01
    optimizer = client.optimizer
    client.fit("xor")
    assert client.optimizer is optimizer, "a second call goes on with the first one's momentum"
    client.set_obj(client.train_config)
    assert client.optimizer is None
    with pytest.raises(ValueError, match="optimizer 'Bogus' is unknown"):
        client.set_obj(sy.TrainConfig(None, None, optimizer="Bogus"))
    with pytest.raises(ValueError, match="has no data set 'and'; it has: 'xor'"):
        client.fit("and")


def test_modules_and_functions_that_do_not_travel():
    client, model = FederatedClient(datasets={"xor": samples.xor()}), network()
    client.set_obj(config(model, samples.mean_square))
    assert client.fit("xor") < 0.01 and samples.mean_square(XOR_TARGET, model(XOR)) < 0.01


# From a client ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["plan", "script"])
def test_learns_with_one_message_out_and_one_back(workers, form, nothing_left):
    bob, _ = workers
    bob.add_dataset(samples.xor(), "xor")
    sent = config() if form == "plan" else config(traced(), scripted_loss())
    before = float(samples.mean_square(XOR_TARGET, sent.model(XOR)).detach())
    sent.send(bob)
    with sy.count_messages() as count:
        loss = bob.fit("xor")
    assert (count.messages, count.rounds) == (1, 1)
    assert type(loss) is torch.Tensor and loss < 0.01 < before
    with sy.count_messages() as count:
        found = bob.evaluate("xor", return_histograms=True)
    assert (count.messages, count.rounds) == (1, 1)
    model = sent.get_model()
    model = model.obj if form == "script" else model
    assert found["loss"] == pytest.approx(float(samples.mean_square(XOR_TARGET, model(XOR)).detach()), rel=1e-4)
    assert (found["nr_correct_predictions"], found["nr_predictions"]) == (4, 4)
    assert found["histogram_predictions"].tolist() == found["histogram_target"].tolist() == [2, 2]
    assert samples.mean_square(XOR_TARGET, sent.model(XOR)) == before, "the model here is as it was"
    del sent
    nothing_left(bob)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_the_same_numbers_as_a_plain_loop(workers, name):
    bob, _ = workers
    data, target = iris_data_partial()
    bob.add_dataset(TensorDataset(data, target), "iris")
    model, sent = iris_config(optimizer=name, optimizer_args={"lr": 0.01}, epochs=2, batch_size=8, shuffle=False)
    sent.send(bob)
    losses = [bob.fit("iris"), bob.fit("iris")]  # the second call goes on with what the optimizer remembers
    proxy = copy.deepcopy(model)
    optimizer = getattr(torch.optim, name)(proxy.parameters(), lr=0.01)
    for number in range(4):
        for start in range(0, 30, 8):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(proxy(data[start : start + 8]), target[start : start + 8])
            loss.backward()
            optimizer.step()
        if number % 2:
            torch.testing.assert_close(losses[number // 2], loss.detach())
    torch.testing.assert_close(sent.get_model().state_dict(), dict(proxy.state_dict()))


@pytest.mark.parametrize(("limit", "epochs", "steps"), [(-1, 3, 12), (0, 1, 4), (2, 1, 2), (6, 3, 6), (100, 2, 8)])
def test_max_nr_batches_cuts_the_whole_training(bob, limit, epochs, steps):
    bob.add_dataset(iris(), "iris")
    seen = sy.Plan(forward_func=Steps()).build(torch.randn(8, 4))
    zero = sy.Plan(forward_func=lambda pred, target: pred.sum()).build(torch.randn(8), torch.zeros(8).long())
    sent = sy.TrainConfig(seen, zero, batch_size=8, epochs=epochs, max_nr_batches=limit, optimizer_args={"lr": 1.0})
    sent.send(bob)
    bob.fit("iris")
    assert sent.get_model().state_dict()["count"].tolist() == [-float(steps)]


class Steps(nn.Module):
    """Its parameter becomes one less with each step of SGD with a rate of 1."""

    def __init__(self):
        super().__init__()
        self.count = nn.Parameter(torch.zeros(1))

    def forward(self, data):
        return self.count + 0 * data.sum()


def test_shuffling_goes_through_everything_once(bob):
    bob.add_dataset(TensorDataset(torch.arange(10.0).view(10, 1), torch.zeros(10)), "numbers")

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = nn.Parameter(torch.zeros(1))

        def forward(self, data):
            return self.total * data.sum()

    loss = sy.Plan(forward_func=lambda pred, target: pred.sum()).build(torch.zeros(3), torch.zeros(3))
    sent = sy.TrainConfig(
        sy.Plan(forward_func=Sum()).build(torch.randn(3, 1)), loss, batch_size=3, optimizer_args={"lr": 1.0}
    )
    sent.send(bob)
    bob.fit("numbers")
    assert sent.get_model().state_dict()["total"].item() == -45


def test_the_data_set_stays_as_it_is(bob):
    data = XOR.clone()
    bob.add_dataset(TensorDataset(data, XOR_TARGET.clone()), "xor")

    class Spoils(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 1)

        def forward(self, given):
            found = self.inner(given)
            given.zero_()
            return found

    model = sy.Plan(forward_func=Spoils())
    model.build(XOR.clone())
    for shuffle in (True, False):
        sent = config(model, epochs=1, shuffle=shuffle)
        sent.send(bob)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            bob.fit("xor")
        bob.evaluate("xor")
        assert torch.equal(data, XOR)


class Squares(Dataset):
    """A data set of the user's own."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.0]), np.float32(index * 2 + 1)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(Squares()[index] for index in range(5))


@pytest.mark.parametrize("dataset", [Squares(), Stream(), sy.BaseDataset(XOR, XOR_TARGET, transform=lambda a: a * 1.0)])
def test_data_sets_of_any_kind(bob, dataset):
    bob.add_dataset(dataset, "own")
    sent = config(epochs=2, batch_size=2)
    sent.send(bob)
    assert bob.fit("own") >= 0
    assert bob.evaluate("own")["nr_predictions"] in (4, 5)


def test_modes_are_those_of_training_and_of_evaluating(bob):
    bob.add_dataset(samples.xor(), "xor")
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    sent = config(scripted(model), scripted_loss(), epochs=3)
    sent.send(bob)
    bob.fit("xor")
    first = bob.evaluate("xor")
    assert bob.evaluate("xor") == first
    assert sent.get_model().obj.state_dict()["1.num_batches_tracked"] == 3
    plan = config(planned(model), epochs=3)
    plan.send(bob)
    bob.fit("xor")
    bob.evaluate("xor")
    assert plan.get_model().state_dict()["1.num_batches_tracked"] == 3


def test_losses_receive_output_and_target_by_argument_name():
    from syft.federated.client.training_loop import loss_caller

    def order(loss):
        return loss_caller(loss)("pred", "target")

    assert order(lambda pred, target: (pred, target)) == ("pred", "target")
    assert order(lambda target, pred: (pred, target)) == ("pred", "target")
    assert order(lambda target, output: (output, target)) == ("pred", "target")
    assert order(lambda a, b: (a, b)) == ("pred", "target")
    for loss in (scripted_loss(), planned_loss()):
        assert loss_caller(loss)(XOR_TARGET, XOR_TARGET + 1) == 1
    assert order(lambda *args: args) == ("pred", "target")


# --- errors --------------------------------------------------------------------------------------------------


def test_missing_parts_are_named_in_the_error(workers):
    bob, _ = workers
    with pytest.raises(ValueError, match=f"Worker '{bob.id}' has no TrainConfig of yours"):
        bob.fit("xor")
    sent = config()
    sent.send(bob)
    with pytest.raises(ValueError, match="has no data set 'xor'; it has: none. Its owner adds one"):
        bob.fit("xor")
    with pytest.raises(ValueError, match="has no data set"):
        bob.evaluate("xor")
    with pytest.raises(ValueError, match="has no data set"):
        bob.evaluate(["xor"])
    bob.add_dataset(TensorDataset(torch.zeros(0, 2), torch.zeros(0, 1)), "empty")
    with pytest.raises(ValueError, match="no samples to train"):
        bob.fit("empty")
    with pytest.raises(ValueError, match="no samples to evaluate"):
        bob.evaluate("empty")
    bob.add_dataset(samples.xor(), "xor")
    for device in ("meta", "cuda:77", "bogus", "cpu; rm"):
        with pytest.raises(ValueError, match="The device"):
            bob.fit("xor", device=device)
    with pytest.raises(ValueError, match="nr_bins"):
        bob.evaluate("xor", nr_bins=2**40)
    bob.add_dataset(TensorDataset(XOR, XOR_TARGET, XOR), "three")
    with pytest.raises(ValueError, match="pairs of a sample and its target"):
        bob.fit("three")
    assert bob.fit("xor") < 0.01, "nothing of that is left"


def test_models_and_losses_that_do_not_fit(workers):
    bob, _ = workers
    bob.add_dataset(samples.xor(), "xor")
    cases = [
        (
            config(loss_fn=sy.Plan(forward_func=lambda pred, target: pred).build(XOR_TARGET, XOR_TARGET)),
            "Use its mean",
        ),
        (config(sy.Plan(forward_func=lambda x: x.mean(1)).build(XOR)), "no trainable parameters"),
        (config(optimizer_args={"lr": -1.0}), "torch rejected the optimizer_args of Adam: Invalid learning rate"),
        (config(optimizer_args={"momentum": 1.0}), "torch rejected the optimizer_args of Adam"),
    ]
    for sent, text in cases:
        sent.send(bob)
        with pytest.raises(TrainingError, match=text):
            bob.fit("xor")
    with pytest.raises(TrainingError, match="has no TrainConfig|The object is not a TrainConfig"):
        sy.local_worker.stream_to(bob).run("syft.use_train_config", (cases[0][0].model_ptr.id_at_location,), {}, None)


def test_accuracy_needs_predictions_that_compare(bob):
    bob.add_dataset(TensorDataset(XOR, torch.zeros(4, 3)), "wide")
    sent = config(loss_fn=sy.Plan(forward_func=lambda pred, target: pred.mean()).build(XOR_TARGET, torch.zeros(4, 3)))
    sent.send(bob)
    with pytest.raises(TrainingError, match="return_raw_accuracy=False"):
        bob.evaluate("wide")
    assert bob.evaluate("wide", return_raw_accuracy=False).keys() == {"loss"}


# What evaluate tells --------------------------------------------------------------------------------------


def test_evaluate_returns_the_requested_results(workers):
    bob, _ = workers
    data, target = iris_data_partial()
    bob.add_dataset(iris(), "iris")
    bob.add_dataset(TensorDataset(data, nn.functional.one_hot(target).float()), "columns")
    model, sent = iris_config(batch_size=7)
    sent.send(bob)
    with torch.no_grad():
        output = model(data)
        expected = float(nn.functional.cross_entropy(output, target))
    counts = np.bincount(output.argmax(1).numpy(), minlength=3)
    found = bob.evaluate("iris", return_histograms=True)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)  # however the batches are cut
    assert found["nr_correct_predictions"] == int((output.argmax(1) == target).sum())
    assert found["nr_predictions"] == 30
    assert found["histogram_predictions"].tolist() == counts.tolist()
    assert found["histogram_target"].tolist() == [10, 10, 10]
    assert bob.evaluate("iris", True, 5, False, False).keys() == {"histogram_predictions", "histogram_target"}
    assert bob.evaluate("iris", return_histograms=True, nr_bins=5)["histogram_target"].tolist() == [10, 10, 10, 0, 0]
    assert bob.evaluate("iris", return_loss=False).keys() == {"nr_correct_predictions", "nr_predictions"}
    assert bob.evaluate("columns", return_loss=False)["nr_correct_predictions"] == found["nr_correct_predictions"]
    bob.fit("iris")
    better = bob.evaluate("iris")
    assert better["loss"] < expected / 2 and better["nr_correct_predictions"] > 25


# Several at once ------------------------------------------------------------------------------------------


def test_clients_do_not_overwrite_each_others_configs(make_worker, kind, hook):
    bob, other = make_worker("bob", kind), make_worker("other")
    bob.add_dataset(samples.xor(), "xor")
    mine = config(epochs=1)
    mine.send(bob)
    with sy.acting_as(other):
        with pytest.raises(ValueError, match="no TrainConfig of yours"):
            bob.evaluate("xor")
        theirs = config(planned(nn.Linear(2, 1)), optimizer="SGD", epochs=1, optimizer_args={"lr": 0.1})
        theirs.send(bob)
        bob.fit("xor")
    first = bob.fit("xor")
    torch.testing.assert_close(first, samples.mean_square(XOR_TARGET, mine.model(XOR)).detach())
    assert set(mine.get_model().state_dict()) != set(theirs.model.state_dict())
    assert bob.train_config.id == mine.id and theirs.id != mine.id
    with sy.acting_as(other):
        assert bob.train_config.id == theirs.id


def test_async_fit_runs_at_the_same_time(make_worker, kind):
    """Each training waits for the other to begin: one after the other they would never end."""
    barrier = threading.Barrier(3, timeout=60)

    class Meets(Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            barrier.wait()
            return XOR[0], XOR_TARGET[0]

    several = [make_worker(name, kind) for name in ("bob", "alice", "carol")]
    configs = [config(epochs=1) for _ in several]
    for worker, sent in zip(several, configs, strict=True):
        worker.add_dataset(Meets(), "xor")
        sent.send(worker)

    async def rounds():
        return await asyncio.gather(*(worker.async_fit("xor", [0]) for worker in several))

    losses = asyncio.run(rounds())
    assert len(losses) == 3 and all(torch.equal(loss, losses[0]) for loss in losses)


def test_async_fit_raises_the_workers_error(bob):
    async def one():
        await bob.async_fit("xor")

    with pytest.raises(ValueError, match="no TrainConfig of yours"):
        asyncio.run(one())


def test_a_training_ends_when_its_client_disconnects(make_worker):
    bob = make_worker("bob", "thread")
    begun, check_cancelled = threading.Event(), threading.Event()

    class Waits(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            begun.set()
            check_cancelled.wait(60)
            return XOR[index], XOR_TARGET[index]

    bob.add_dataset(Waits(), "slow")
    sent = config(epochs=10**6, batch_size=1)
    sent.send(bob)
    session = bob.session_of("me")
    failed = []

    def fit():
        try:
            bob.fit("slow")
        except TrainingError as error:
            failed.append(str(error))

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    assert begun.wait(60)
    session.close()
    check_cancelled.set()
    thread.join(60)
    assert failed == ["The client that requested this training has disconnected."]


# In a process of its own ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sam():
    worker = processes.start("sam")
    yield worker
    processes.end(worker)


def test_a_worker_in_a_process(sam, nothing_left):
    with pytest.raises(SerdeError, match="Send a plan instead"):
        config(traced(), scripted_loss()).send(sam)
    sam.add_dataset(samples.xor(), "xor")
    sam.add_dataset(Squares(), "squares")
    with pytest.raises(ValueError, match="'xor' already exists"):
        sam.add_dataset(samples.xor(), "xor")
    with pytest.raises(AttributeError, match="another process"):
        sam.datasets
    sent = config()
    sent.send(sam)
    with sy.count_messages() as count:
        loss = sam.fit("xor")
    assert (count.messages, count.rounds) == (1, 1) and loss < 0.01
    found = sam.evaluate("xor", return_histograms=True)
    assert found["nr_correct_predictions"] == 4 and found["histogram_target"].tolist() == [2, 2]
    assert samples.mean_square(XOR_TARGET, sent.get_model()(XOR)) < 0.01
    with pytest.raises(ValueError, match="has no data set 'and'; it has: 'xor', 'squares'"):
        sam.fit("and")
    sam.remove_dataset("xor")
    sam.remove_dataset("xor")
    with pytest.raises(ValueError, match="it has: 'squares'"):
        sam.fit("xor")
    del sent
    nothing_left(sam)
