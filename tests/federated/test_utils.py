"""Averages and sums of models, and small helpers."""

import copy

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import TensorsNotCollocatedError
from syft.frameworks.torch.fl import utils
from tests.helpers.federated.samples import scripted, traced


def normed(value, batches):
    """A model with a norm, all of whose numbers are known."""
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        for tensor in (*model.parameters(), model[1].running_mean, model[1].running_var):
            tensor.fill_(value)
        model[1].num_batches_tracked.fill_(batches)
    return model


def values(model):
    found = {name: set(tensor.flatten().tolist()) for name, tensor in model.state_dict().items()}
    count = found.pop("1.num_batches_tracked", None)
    return set().union(*found.values()), count


@pytest.mark.parametrize("form", ["dict", "list", "tuple", "generator"])
def test_mean_of_parameters_and_buffers(form):
    models = [normed(1.0, 10), normed(2.0, 20), normed(6.0, 32)]
    before = copy.deepcopy([model.state_dict() for model in models])
    given = {
        "dict": lambda: dict(zip("abc", models, strict=True)),
        "list": lambda: models,
        "tuple": lambda: tuple(models),
        "generator": lambda: (model for model in models),
    }[form]()
    mean = utils.federated_avg(given)
    assert values(mean) == ({3.0}, {21})  # 62 / 3, rounded
    assert mean[1].num_batches_tracked.dtype is torch.int64
    for model, old in zip(models, before, strict=True):
        assert all(torch.equal(tensor, old[name]) for name, tensor in model.state_dict().items())
    assert all(mean is not model for model in models)
    with torch.no_grad():
        mean[0].weight.zero_()
    assert values(models[0])[0] == {1.0}, "the mean has memory of its own"
    assert mean[0].weight.requires_grad and mean[0].weight.grad is None


def test_weighted_mean():
    models = {"bob": normed(1.0, 10), "alice": normed(5.0, 30)}
    assert values(utils.federated_avg(models, weights={"alice": 3, "bob": 1})) == ({4.0}, {25})
    assert values(utils.federated_avg(list(models.values()), weights=[30, 90])) == ({4.0}, {25})
    assert values(utils.federated_avg(models, weights={"alice": 0, "bob": 2})) == ({1.0}, {10})
    for wrong in ([1], [1, 2, 3], {"bob": 1}, {"bob": 1, "carol": 2}):
        with pytest.raises(ValueError, match="must match"):
            utils.federated_avg(models, weights=wrong)
    for wrong in ([0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]):
        with pytest.raises(ValueError, match="finite"):
            utils.federated_avg(models, weights=wrong)


def test_one_model_is_its_own_mean_to_the_last_bit():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 4))
    proxies = [copy.deepcopy(model) for _ in range(7)]
    mean = utils.federated_avg(proxies)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, mean.state_dict()[name]), name


def test_dtypes_ties_and_frozen_parameters():
    class Odd(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.short = nn.Parameter(torch.full((2,), value, dtype=torch.float16), requires_grad=False)
            self.tied = nn.Linear(2, 2, bias=False)
            self.other = nn.Linear(2, 2, bias=False)
            self.other.weight = self.tied.weight
            self.register_buffer("wave", torch.full((1,), complex(value, value)))
            self.register_buffer("flag", torch.tensor(value > 1))
            nn.init.constant_(self.tied.weight, value)

    mean = utils.federated_avg([Odd(1.0), Odd(2.0), Odd(3.0)])
    assert mean.short.tolist() == [2.0, 2.0] and mean.short.dtype is torch.float16 and not mean.short.requires_grad
    assert mean.other.weight is mean.tied.weight and mean.wave.item() == 2 + 2j
    assert mean.flag.item() is True


def test_script_modules_wrappers_and_plans():
    networks = [nn.Linear(2, 1), nn.Linear(2, 1)]
    expected = (networks[0].weight + networks[1].weight).detach() / 2
    for form in (traced, scripted):
        mean = utils.federated_avg({number: form(model) for number, model in enumerate(networks)})
        assert isinstance(mean, torch.jit.ScriptModule) and torch.allclose(mean.weight, expected)
    mean = utils.federated_avg([sy.ObjectWrapper(scripted(model)) for model in networks])
    assert torch.allclose(mean.weight, expected)
    example = torch.randn(3, 2)
    plans = [sy.Plan(forward_func=model).build(example) for model in networks]
    mean = utils.federated_avg(plans)
    assert isinstance(mean, sy.Plan) and torch.allclose(mean(example), sum(plan(example) for plan in plans) / 2)
    assert mean.id not in (plans[0].id, plans[1].id)


def test_models_at_a_worker_are_averaged_there(workers):
    bob, alice = workers
    models = [normed(1.0, 10), normed(3.0, 20)]
    for model in models:
        model.send(bob)
    mean = utils.federated_avg({"a": models[0], "b": models[1]})
    assert mean.location is bob and models[0].location is bob
    assert values(mean.get()) == ({2.0}, {15}) and values(models[0].get()) == ({1.0}, {10})
    models[0].send(alice)
    with pytest.raises(TensorsNotCollocatedError, match=f"model 0 is on '{alice.id}'; model 1 is on '{bob.id}'"):
        utils.federated_avg(models)
    models[1].get()
    with pytest.raises(TensorsNotCollocatedError, match="model 1 is here. Bring them together"):
        utils.federated_avg(models)


def test_models_that_differ():
    with pytest.raises(ValueError, match=r"Model 'b' has different tensors than 'a': \['bias'\]"):
        utils.federated_avg({"a": nn.Linear(2, 1), "b": nn.Linear(2, 1, bias=False)})
    with pytest.raises(ValueError, match=r"weight has shape \(1, 3\) in model 1, but \(1, 2\) in 0"):
        utils.federated_avg([nn.Linear(2, 1), nn.Linear(3, 1)])
    with pytest.raises(ValueError, match="at least one model"):
        utils.federated_avg({})
    for wrong in (nn.Linear(2, 1), 5, "model"):
        with pytest.raises(TypeError, match="several models"):
            utils.federated_avg(wrong)
    with pytest.raises(TypeError, match="A Tensor is not a model"):
        utils.federated_avg([torch.zeros(1)])


def test_sums_and_multiples_in_place(workers):
    bob, _ = workers
    target, source = normed(1.0, 10), normed(2.0, 20)
    assert utils.add_model(target, source) is target
    assert set(target[0].weight.flatten().tolist()) == {3.0} and target[1].running_mean.tolist() == [1.0] * 3
    assert utils.scale_model(target, 0.5) is target and target[0].bias.tolist() == [1.5] * 3
    target.send(bob)
    source.send(bob)
    utils.scale_model(utils.add_model(target, source), 2)
    assert target.get()[0].bias.tolist() == [7.0] * 3 and source.get()[0].bias.tolist() == [2.0] * 3


def test_accuracy():
    output = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    assert utils.accuracy(output, torch.tensor([0, 1, 1, 1])) == 0.75
    assert utils.accuracy(output, torch.tensor([[0.0], [1.0], [0.0], [1.0]])) == 1.0
    with pytest.raises(ValueError, match="at least one prediction"):
        utils.accuracy(torch.zeros(0, 2), torch.zeros(0))


def test_batches_by_worker(workers):
    bob, alice = workers
    dataset = sy.BaseDataset(torch.arange(5.0), torch.arange(5)).federate(workers)
    for options, rest in (({}, [[2]]), ({"iter_per_worker": True}, [])):
        found = utils.extract_batches_per_worker(sy.FederatedDataLoader(dataset, batch_size=2, **options))
        assert list(found) == [bob, alice]
        assert [target.get().tolist() for _, target in found[bob]] == [[0, 1], *rest]
        assert [data.get().tolist() for data, _ in found[alice]] == [[3.0, 4.0]]


def test_small_data_sets():
    data, labels = utils.create_gaussian_mixture_toy_data(101)
    assert data.shape == (101, 2) and labels.bincount().tolist() == [50, 51]
    assert torch.equal((data.sum(1) > 0).long(), labels)
    data, species = utils.iris_data_partial()
    assert data.shape == (30, 4) and species.bincount().tolist() == [10, 10, 10]
    assert data[0].tolist() == pytest.approx([5.1, 3.5, 1.4, 0.2])
