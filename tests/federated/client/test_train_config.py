"""TrainConfig: fields, serialization and refused settings."""

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import ObjectNotFoundError, SerdeError, TrainingError
from syft.serde import deserialize, serialize
from tests.helpers.federated import samples
from tests.helpers.federated.samples import XOR, config, planned, planned_loss, scripted_loss, traced


def test_documented_defaults_and_path():
    from syft.federated.train_config import TrainConfig

    assert TrainConfig is sy.TrainConfig
    made = TrainConfig(None, None)
    assert (made.batch_size, made.epochs, made.optimizer, made.optimizer_args) == (32, 1, "SGD", {"lr": 0.1})
    assert (made.max_nr_batches, made.shuffle, made.model_ptr, made.loss_fn_ptr) == (-1, True, None, None)
    made.optimizer_args["lr"] = 2.0
    assert TrainConfig(None, None).optimizer_args == {"lr": 0.1}
    assert "epochs:1" in repr(made)


def test_get_returns_the_settings_that_were_sent(workers, nothing_left):
    bob, _ = workers
    sent = config(epochs=3, max_nr_batches=7, shuffle=False, id="mine")
    pointer = sent.send(bob)
    assert pointer.location is bob and sent.model_ptr.location is bob and sent.loss_fn_ptr.location is bob
    back = sent.get(bob)
    assert (back.epochs, back.max_nr_batches, back.shuffle, back.id) == (3, 7, False, "mine")
    assert back.optimizer_args == {"lr": 0.05} and back.model is None
    assert torch.equal(sent.get_model()(XOR), sent.model(XOR))
    assert sent.get_loss_fn()(samples.XOR_TARGET, samples.XOR_TARGET) == 0
    del pointer
    nothing_left(bob)


def test_sent_objects_are_deleted_with_the_config(workers, nothing_left):
    bob, _ = workers
    sent = config()
    pointer = sent.send(bob)
    assert len(bob._objects) == 3
    del sent, pointer
    nothing_left(bob)


def test_one_config_at_several_workers(workers, nothing_left):
    sent = config(epochs=2)
    for worker in workers:
        worker.add_dataset(samples.xor(), "xor")
        sent.send(worker)
    for worker in workers:
        worker.fit("xor")
    first, second = (sent.get_model(worker) for worker in workers)
    assert not torch.equal(first(XOR), sent.model(XOR))
    assert torch.allclose(first(XOR), second(XOR))
    del sent
    nothing_left(*workers)


def test_sending_again_starts_over(bob):
    bob.add_dataset(samples.xor(), "xor")
    sent = config(epochs=3)
    sent.send(bob)
    once = bob.fit("xor")
    sent.send(bob)
    assert torch.equal(bob.fit("xor"), once)


def test_a_model_that_is_there_already(workers):
    bob, _ = workers
    bob.add_dataset(samples.xor(), "xor")
    model, loss = planned().send(bob), planned_loss().send(bob)
    sent = sy.TrainConfig(None, None, model_id=model.id_at_location, loss_fn_id=loss.id_at_location, epochs=2)
    sent.send(bob)
    bob.fit("xor")
    assert sent.get_model() is None
    assert not torch.equal(model.get()(XOR), planned()(XOR))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"optimizer": "LBFGS"}, "optimizer 'LBFGS' is unknown. Use one of ASGD, Adadelta"),
        ({"optimizer": "__import__"}, "optimizer .* unknown"),
        ({"optimizer_args": {"lr": "0.1"}}, "plain numbers by name"),
        ({"optimizer_args": {"foreach": True}}, "plain numbers by name"),
        ({"batch_size": 0}, "batch_size of a TrainConfig must be an integer of at least 1"),
        ({"epochs": 1.5}, "epochs of a TrainConfig"),
        ({"max_nr_batches": -2}, "max_nr_batches"),
        ({"shuffle": "yes"}, "shuffle"),
    ],
)
def test_settings_that_can_not_train(bob, changes, text):
    with pytest.raises(ValueError, match=text):
        config(**changes).send(bob)
    assert not bob._objects
    with pytest.raises(ValueError, match=text):  # the same from a client that does not look
        deserialize(serialize(config(model_id=1, loss_fn_id=2, **changes), bob), bob)


def test_python_code_does_not_travel(bob):
    with pytest.raises(TrainingError, match=r"model is a Linear.*sy.Plan\(forward_func=model\).build"):
        config(model=nn.Linear(2, 1)).send(bob)
    with pytest.raises(TrainingError, match="loss_fn is a function"):
        config(loss_fn=lambda pred, target: pred).send(bob)
    with pytest.raises(TrainingError, match="not built"):
        config(model=sy.Plan(forward_func=nn.Linear(2, 1))).send(bob)
    bob.add_dataset(samples.xor(), "xor")
    incomplete = sy.TrainConfig(None, planned_loss())
    incomplete.send(bob)  # the settings alone
    with pytest.raises(TrainingError, match=r"The TrainConfig has no model. Pass one, TrainConfig\(model=...\)"):
        bob.fit("xor")
    with pytest.raises(TrainingError, match="was not sent to that worker"):
        config().get_model()


def test_script_modules_where_they_are_trusted(make_worker, kind):
    bob = make_worker("bob", kind)
    sent = config(traced(), scripted_loss())
    sent.send(bob)
    assert sent.get_model().obj(XOR).shape == (4, 1)
    careful = make_worker("careful", "thread")
    careful.trusts_script_modules = False
    with pytest.raises(SerdeError, match=r"does not accept. Send a plan instead"):
        sent.send(careful)
    assert not careful._objects


def test_detail_validates_untrusted_parts(bob):
    good = sy.TrainConfig.simplify(bob, config(model_id=1, loss_fn_id="two", id=3))
    assert good[:2] == (1, "two") and sy.TrainConfig.detail(bob, good).epochs == 150
    for position, wrong in ((0, 1.5), (1, ["x"]), (5, [("lr", 1)]), (8, None)):
        with pytest.raises(SerdeError):
            sy.TrainConfig.detail(bob, (*good[:position], wrong, *good[position + 1 :]))


def test_a_deleted_config_can_not_train(bob):
    bob.add_dataset(samples.xor(), "xor")
    sent = config()
    sent.send(bob)
    sent.get_model()
    with pytest.raises(ObjectNotFoundError, match="it was fetched by 'me'"):
        bob.fit("xor")
