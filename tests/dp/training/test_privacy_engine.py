"""sy.dp.PrivacyEngine: Opacus with noise and batches of the cryptographic generator."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import syft as sy
from syft.exceptions import DependencyError, TrainingError
from tests.helpers.dp.noise import distance, keyed

torch.set_num_threads(1)


def make(noise=1.0, norm=1.0, size=60, batch=20, accountant="rdp", width=3, **options):
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
    data = TensorDataset(torch.rand(size, 4), torch.randint(0, 2, (size,)))
    engine = sy.dp.PrivacyEngine(accountant=accountant)
    given = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(data, batch_size=batch),
        "max_grad_norm": norm,
        **options,
    }
    if "target_epsilon" in options:
        return engine, *engine.make_private_with_epsilon(**given)
    return engine, *engine.make_private(noise_multiplier=noise, **given)


def train(engine, model, optimizer, *rest):
    criterion = rest[0] if len(rest) == 2 else nn.CrossEntropyLoss()
    for samples, targets in rest[-1]:
        optimizer.zero_grad()
        criterion(model(samples), targets).backward()
        optimizer.step()
    return engine


OPTIONS = {
    "flat": {},
    "functorch": {"grad_sample_mode": "functorch"},
    "expanded": {"grad_sample_mode": "ew"},
    "per_layer": {"clipping": "per_layer", "norm": [0.6, 0.8, 1e-6, 1e-6]},
    "ghost": {"grad_sample_mode": "ghost"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_noise_is_normal_with_the_stated_scale_whichever_optimizer_adds_it(name):
    _, _, optimizer, *_ = make(noise=2.0, width=500, **OPTIONS[name])
    for parameter in optimizer.params:
        parameter.summed_grad = torch.zeros_like(parameter)
    before = torch.get_rng_state()
    with keyed():
        optimizer.add_noise()
    noise = torch.cat([parameter.grad.reshape(-1) for parameter in optimizer.params])
    assert distance(noise, 2.0) < 1.6
    assert distance(noise, 2.2) > 1.6
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", OPTIONS)
def test_a_seed_of_torch_repeats_neither_noise_nor_batches(name):
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        made = make(**OPTIONS[name])
        train(*made)
        found.append(torch.cat([p.detach().reshape(-1) for p in made[1].parameters()]))
    assert not torch.allclose(found[0], found[1], atol=1e-4)


def test_batches_are_poisson_samples_that_a_key_repeats_and_a_seed_does_not():
    loader = make(size=300, batch=30)[-1]
    draws = []
    for key in (b"0" * 16, b"0" * 16, b"1" * 16):
        with keyed(key):
            draws.append([rows for _ in range(10) for rows in loader.batch_sampler])
    assert draws[0] == draws[1] != draws[2]
    sizes = torch.tensor([len(rows) for rows in draws[0]], dtype=torch.float64)
    assert len(draws[0]) == 100 and abs(sizes.mean() - 30) < 2 and 3.5 < sizes.std() < 7
    torch.manual_seed(3)
    first = list(loader.batch_sampler)
    torch.manual_seed(3)
    assert first != list(loader.batch_sampler)


def test_an_empty_batch_is_a_step_with_noise_only():
    engine, model, optimizer, loader = make(size=8, batch=1, noise=1.0)
    loader.batch_sampler.sample_rate = 1e-12
    before = [p.detach().clone() for p in model.parameters()]
    train(engine, model, optimizer, loader)
    assert engine.steps == 8
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", ["flat", "functorch", "ghost"])
def test_no_sample_changes_the_sum_by_more_than_its_norm(name):
    engine, model, optimizer, *rest = make(noise=0.0, norm=0.1, size=1, batch=1, **OPTIONS[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(50)
    train(engine, model, optimizer, *rest)
    total = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    assert 0.099 < float(total.norm()) <= 0.1
    assert engine.get_epsilon(1e-5) == float("inf")


@pytest.mark.parametrize(("kind", "most"), [("rdp", 1.15), ("prv", 1.02)])
def test_epsilon_lies_above_that_of_dp_accounting_and_near_it(kind, most):
    engine = make(accountant=kind)[0]
    engine.load_state_dict({"history": [[1.1, 0.01, 1000], [1.1, 0.02, 50]]})
    oracle = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3)
    for noise, rate, steps in ((1.1, 0.01, 1000), (1.1, 0.02, 50)):
        oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    assert 0.99 * oracle.get_epsilon(1e-5) <= engine.get_epsilon(1e-5) <= most * oracle.get_epsilon(1e-5)
    assert engine.steps == 1050


def test_steps_that_were_made_are_counted_at_the_rate_of_the_loader():
    engine = train(*make(noise=1.3, size=60, batch=15))
    oracle = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3)
    oracle.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.25, GaussianDpEvent(1.3)), 4))
    assert oracle.get_epsilon(1e-4) <= engine.get_epsilon(1e-4) <= 1.15 * oracle.get_epsilon(1e-4)
    assert f"4 steps, epsilon <= {engine.get_epsilon(1e-4):.4g} at delta=0.0001" in repr(engine)
    other = sy.dp.PrivacyEngine(accountant="rdp")
    other.load_state_dict(engine.state_dict())
    assert other.get_epsilon(1e-4) == engine.get_epsilon(1e-4)


def test_a_target_epsilon_is_met_when_the_epochs_are_done():
    made = make(size=40, batch=4, target_epsilon=3.0, target_delta=1e-3, epochs=2)
    for _ in range(2):
        train(*made)
    assert 2.9 < made[0].get_epsilon(1e-3) <= 3.0
    with pytest.raises(TrainingError, match="Make a new one"):
        made[0].make_private_with_epsilon(
            module=made[1], optimizer=made[2], data_loader=made[3], max_grad_norm=1.0,
            target_epsilon=3.0, target_delta=1e-3, epochs=1,
        )  # fmt: skip


def test_a_target_is_met_with_little_more_noise_than_a_tight_accountant_needs():
    engine, _, optimizer, _ = make(accountant="prv", size=400, batch=4, target_epsilon=2.0, target_delta=1e-4, epochs=1)
    engine.load_state_dict({"history": [[optimizer.noise_multiplier, 0.01, 100]]})
    assert 1.9 < engine.get_epsilon(1e-4) <= 2.0


@pytest.mark.parametrize(
    "options",
    [
        {"poisson_sampling": False},
        {"rand_on_empty": True},
        {"noise_generator": torch.Generator()},
        {"clipping": "adaptive"},
        {"clipping": "none"},
        {"grad_sample_mode": "ghost_fsdp"},
        {"grad_sample_mode": "ghost", "clipping": "per_layer", "norm": [1.0] * 4},
        {"noise": -1.0},
        {"noise": float("nan")},
        {"noise": True},
        {"norm": float("inf")},
        {"norm": 0.0},
        {"accountant": "gdp"},
        {"target_epsilon": -1.0, "target_delta": 1e-5, "epochs": 1},
        {"target_epsilon": 1.0, "target_delta": 1e-5, "epochs": 0},
    ],
    ids=lambda options: str(options).partition("<")[0],
)
def test_options_without_a_proof_are_refused(options):
    with pytest.raises(TrainingError):
        make(**options)


def test_layers_that_mix_samples_are_refused_and_replaced():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    assert not sy.dp.PrivacyEngine.is_compatible(model)
    with pytest.raises(TrainingError, match="fix"):
        sy.dp.PrivacyEngine.validate(model)
    fixed = sy.dp.PrivacyEngine.fix(model)
    assert isinstance(fixed[1], nn.GroupNorm) and isinstance(model[1], nn.BatchNorm2d)
    assert sy.dp.PrivacyEngine.validate(fixed) == []


def test_batch_norm_without_parameters_mixes_samples_too():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 2))
    with pytest.raises(TrainingError, match=r"batch norm \(1\)"):
        sy.dp.PrivacyEngine.validate(model)
    assert sy.dp.PrivacyEngine.is_compatible(sy.dp.PrivacyEngine.fix(model))
    model[1].eval()  # with the statistics that it has, it is a layer like others
    assert sy.dp.PrivacyEngine.is_compatible(model)


NORMS = {  # batch norm, what a sample is like, and the groups that take its place
    "few features": (nn.BatchNorm1d(8), (8,), 1),
    "features": (nn.BatchNorm1d(64), (64,), 8),
    "a prime number": (nn.BatchNorm1d(13), (13,), 1),
    "three features": (nn.BatchNorm1d(3), (3,), 1),
    "channels": (nn.BatchNorm2d(16), (16, 1, 1), 4),
    "many channels": (nn.BatchNorm2d(512), (512, 2, 2), 32),
    "one channel": (nn.BatchNorm2d(1), (1, 5, 5), 1),
    "volumes": (nn.BatchNorm3d(8), (8, 1, 1, 1), 2),
}


@pytest.mark.parametrize("name", NORMS)
def test_the_replacement_of_batch_norm_is_not_constant(name):
    norm, shape, groups = NORMS[name]
    fixed = sy.dp.PrivacyEngine.fix(norm)
    assert isinstance(fixed, nn.GroupNorm) and fixed.num_groups == groups
    samples = torch.rand(5, *shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    output = fixed(samples)
    assert output.std(0).max() > 0.1
    weights = torch.rand(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weights).sum().backward()
    assert samples.grad.abs().amax() > 1e-2


@pytest.mark.parametrize("count", [1, 2])
def test_batch_norm_of_hardly_any_features_has_no_replacement(count):
    with pytest.raises(TrainingError, match=f"at 'body.1' has {count} features"):
        sy.dp.PrivacyEngine.fix(nn.ModuleDict({"body": nn.Sequential(nn.Linear(4, count), nn.BatchNorm1d(count))}))


def test_a_shared_batch_norm_becomes_one_group_norm_with_its_weights():
    norm = nn.BatchNorm1d(8)
    nn.init.constant_(norm.weight, 3.0)
    norm.bias.requires_grad_(False)
    fixed = sy.dp.PrivacyEngine.fix(nn.Sequential(nn.Linear(8, 8), norm, nn.Linear(8, 8), norm))
    assert fixed[1] is fixed[3] and bool((fixed[1].weight == 3).all())
    assert fixed[1].weight.requires_grad and not fixed[1].bias.requires_grad


def test_digits_are_learned_by_a_model_that_was_fixed():
    from sklearn.datasets import load_digits

    found = load_digits()
    x, y = torch.tensor(found.data / 16, dtype=torch.float32), torch.tensor(found.target)
    torch.manual_seed(0)
    model = sy.dp.PrivacyEngine.fix(nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)))

    def accuracy(model):
        return float((model(x[1500:]).argmax(1) == y[1500:]).float().mean())

    trained = copy.deepcopy(model)
    engine = sy.dp.PrivacyEngine(accountant="rdp")
    loader = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=100)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.5)
    made = engine.make_private(
        module=trained, optimizer=optimizer, data_loader=loader, noise_multiplier=0.8, max_grad_norm=1.0
    )
    given = {"model": model, "loss_fn": nn.functional.cross_entropy, "optimizer_args": {"lr": 0.5}, "seed": 1}
    with keyed():  # the same noise each time
        for _ in range(6):
            train(engine, *made)
        assert accuracy(trained) > 0.75
        few, many = (sy.federated.Simulation((x[:1500], y[:1500]), count) for count in (4, 50))
        sample = sy.dp.SamplePrivacy(noise_multiplier=0.8, max_grad_norm=1.0, delta=1e-4)
        assert accuracy(sy.federated.run("fedavg", few, 5, local_privacy=sample, **given).model) > 0.65
        user = sy.dp.UserPrivacy(noise_multiplier=0.1, clip=1.0, delta=1e-2)
        result = sy.federated.run("fedavg", many, 12, privacy=user, batch_size=8, epochs=2, **given)
        assert accuracy(result.model) > 0.65


def test_remote_modules_and_data_are_refused_with_an_alternative(make_worker):
    bob = make_worker("bob")
    x, y = torch.rand(20, 4), torch.arange(20) % 2
    far = sy.FederatedDataLoader(sy.BaseDataset(x, y).federate((bob,)), batch_size=4)
    near = DataLoader(TensorDataset(x, y), batch_size=4)
    refused = {
        "DataLoader of local data": (nn.Linear(4, 2), far),
        "PointerTensor": (nn.Linear(4, 2).send(bob), near),
        "got a Plan": (sy.Plan(forward_func=nn.Linear(4, 2)), near),
    }
    for text, (module, loader) in refused.items():
        given = {"module": module, "optimizer": None, "data_loader": loader, "max_grad_norm": 1.0}
        engine = sy.dp.PrivacyEngine(accountant="rdp")
        with pytest.raises(TrainingError, match=f"{text}.*local_privacy=sy.dp.SamplePrivacy.*TrainConfig"):
            engine.make_private(noise_multiplier=1.0, **given)
        with pytest.raises(TrainingError, match=text):
            engine.make_private_with_epsilon(target_epsilon=1.0, target_delta=1e-3, epochs=1, **given)


def test_opacus_does_not_set_up_the_log_of_the_process():
    code = (
        "import logging, syft as sy; sy.dp.PrivacyEngine(); sy.dp.Accountant('prv').epsilon(1e-5); "
        "assert not logging.getLogger().handlers"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_gradient_that_is_not_finite_is_an_error_and_no_step():
    engine, model, optimizer, loader = make(size=20, batch=20)
    loader.dataset.tensors[0].fill_(float("inf"))
    with pytest.raises(TrainingError, match="not finite"):
        train(engine, model, optimizer, loader)
    assert engine.steps == 0


def test_without_opacus_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "syft.dp.training.opacus_secure", raising=False)
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(DependencyError, match=r"pip install 'opacus>=1\.6'"):
        sy.dp.PrivacyEngine()
