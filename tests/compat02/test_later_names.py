"""Names of later 0.2 releases, and names that have a replacement."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

import syft as sy
from syft.core.object import AbstractObject
from syft.core.tensor import AbstractTensor
from syft.exceptions import SyftError, UnsupportedOperationError
from syft.execution.translation import PlanTranslatorTorchscript
from tests.helpers.mpc.protocols import cast_of

hook = sy.TorchHook(torch)


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("later", 2)


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("syft.generic.abstract.tensor", "AbstractTensor", AbstractTensor),
        ("syft.generic.abstract.object", "AbstractObject", AbstractObject),
        ("syft.generic.abstract.sendable", "AbstractSendable", AbstractObject),
        ("syft.generic.abstract.syft_serializable", "SyftSerializable", AbstractObject.__bases__[0]),
        ("syft.grid.clients.data_centric_fl_client", "DataCentricFLClient", sy.NodeClient),
        ("syft.grid.clients.dynamic_fl_client", "DynamicFLClient", sy.NodeClient),
        ("syft.grid.clients", "DataCentricFLClient", sy.NodeClient),
        ("syft.execution.plan", "Plan", sy.Plan),
        ("syft.execution.translation.torchscript", "PlanTranslatorTorchscript", PlanTranslatorTorchscript),
        ("syft.execution.translation.abstract", "AbstractPlanTranslator", PlanTranslatorTorchscript.__bases__[0]),
        ("syft.execution.role", "Role", None),
    ],
)
def test_t11_later_paths_can_be_imported(path, name, meant):
    found = getattr(importlib.import_module(path), name)
    assert found is meant or (meant is None and isinstance(found, type))


def test_t11_tensors_of_a_worker(workers):
    bob, _ = workers
    x = torch.ones(2)
    pointer = x.send(bob)
    plan = sy.Plan(forward_func=lambda x: x + 1, name="p").build(x)
    plan.send(bob)
    assert list(bob._tensors) == [x.id] and plan.id in bob._objects
    assert torch.equal(bob._tensors[x.id], x)
    pointer.get()
    assert bob._tensors == {}


def test_t11_models_are_encrypted_and_decrypted(cast):
    parties, dealer = cast
    model, x = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval(), torch.rand(3, 2)
    expected = model(x).detach()
    copied = model.encrypt(False, workers=parties, crypto_provider=dealer, precision_fractional=4)
    assert copied is not model and torch.equal(model(x), expected)
    assert model.encrypt(workers=parties, crypto_provider=dealer, base=2, precision_fractional=16) is model
    for encrypted, options in ((copied, {"precision_fractional": 4}), (model, {"base": 2, "precision_fractional": 16})):
        private = x.encrypt(workers=parties, crypto_provider=dealer, **options)
        assert torch.allclose(encrypted(private).decrypt(), expected, atol=1e-2)
    assert model.decrypt() is model and torch.allclose(model(x), expected, atol=1e-2)
    plain = copied.decrypt(inplace=False)
    assert plain is not copied and torch.allclose(plain(x), expected, atol=1e-2)


def test_t11_a_model_is_encrypted_for_training(cast):
    parties, dealer = cast
    model = nn.Linear(2, 1)
    model.encrypt(workers=parties, crypto_provider=dealer, requires_grad=True)
    model(torch.rand(3, 2).encrypt(workers=parties, crypto_provider=dealer)).sum().backward()
    assert model.weight.grad.shape == (1, 2)


def test_t11_encrypting_a_model_needs_workers_and_a_known_protocol(alice, bob):
    with pytest.raises(SyftError, match=r"encrypt\(\) needs workers"):
        nn.Linear(1, 1).encrypt()
    with pytest.raises(UnsupportedOperationError, match="paillier"):
        nn.Linear(1, 1).encrypt(protocol="paillier", workers=[alice, bob])


def test_t11_make_hook_sets_the_variable():
    variables = {}
    made = sy.make_hook(variables)
    assert type(made) is sy.TorchHook and variables == {"hook": made}
    assert type(sy.make_hook()) is sy.TorchHook
    assert torch.ones(1).owner is sy.local_worker


def loss_and_gradients(x, y, params):
    weight, bias = params
    loss = ((x @ weight + bias - y) ** 2).mean()
    loss.backward()
    return loss.detach(), weight.grad, bias.grad


@pytest.mark.parametrize("kind", [torch.Tensor.detach, nn.Parameter])
def test_t11_arguments_get_gradients_with_trace_autograd(kind, bob):
    x, y = torch.rand(5, 2), torch.rand(5, 1)
    params = [kind(torch.rand(2, 1)), kind(torch.rand(1))]
    plan = sy.func2plan()(loss_and_gradients)
    plan.build(x, y, params, trace_autograd=True)
    leaves = [p.detach().clone().requires_grad_() for p in params]
    expected = loss_and_gradients(x, y, leaves)
    assert all(map(torch.allclose, plan(x, y, params), expected)) and "check" not in plan.code
    if kind is not nn.Parameter:
        assert all(p.grad is None for p in params)
        sent = plan.send(bob)(x.send(bob), y.send(bob), [p.send(bob) for p in params])
        assert all(torch.allclose(a.get(), b) for a, b in zip(sent, expected, strict=True))


def test_t11_parameters_of_a_plan_get_gradients_with_trace_autograd():
    class Net(sy.Plan):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 1)

        def forward(self, x):
            return self.fc(x).sum()

    plan, x = Net(), torch.rand(3, 2)
    plan.build(x, trace_autograd=True)
    plan(x).backward()
    assert torch.allclose(plan.fc.weight.grad, x.sum(0, keepdim=True)) and x.grad is None


def test_t11_without_trace_autograd_arguments_are_as_they_are():
    plan = sy.func2plan()(loss_and_gradients)
    with pytest.raises(RuntimeError, match="does not require grad"):
        plan.build(torch.rand(5, 2), torch.rand(5, 1), [torch.rand(2, 1), torch.rand(1)], trace_autograd=False)


def test_t11_torchscript_of_a_plan():
    plan = sy.func2plan(args_shape=[(2,)])(lambda x: x * 3)
    assert plan.torchscript is None
    plan.add_translation(PlanTranslatorTorchscript)
    assert plan.torchscript(torch.ones(2)).tolist() == [3, 3]
    plan.remove_translation(sy.TranslationTarget.TORCHSCRIPT)
    assert plan.torchscript is None


def test_t11_translation_targets():
    from syft.execution.translation import TranslationTarget

    assert sy.TranslationTarget is TranslationTarget
    plan = sy.func2plan(args_shape=[(2,)])(lambda x: x * 3)
    plan.add_translation(TranslationTarget.TORCHSCRIPT)
    assert plan.get_translation(TranslationTarget.TORCHSCRIPT)(torch.ones(2)).tolist() == [3, 3]
    with pytest.raises(ValueError, match="no translation 'tfjs'"):
        plan.add_translation(TranslationTarget.TENSORFLOW_JS)


@pytest.mark.parametrize("name", ["KerasHook", "TFEWorker", "TFECluster", "NetworkMonitor"])
def test_t11_names_that_are_gone_say_what_to_use(name):
    assert not hasattr(sy, name) and name not in dir(sy)
    with pytest.raises(AttributeError, match=rf"'syft' has no '{name}'.*sy\."):
        getattr(sy, name)
    with pytest.raises(ImportError, match=rf"'syft' has no '{name}'.*sy\."):
        exec(f"from syft import {name}")


@pytest.mark.parametrize(
    "statement",
    [
        "from syft.workers.tfe import TFEWorker, TFECluster",
        "import syft.frameworks.keras",
        "from syft.grid.clients.model_centric_fl_client import ModelCentricFLClient",
        "from syft.grid.clients.static_fl_client import StaticFLClient",
        "from syft.generic.metrics import NetworkMonitor",
    ],
)
def test_t11_imports_of_modules_that_are_gone_say_what_to_use(statement):
    with pytest.raises(ImportError, match=r"Use |Train |Write |Count "):
        exec(statement)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        importlib.import_module("syft.generic.metrics").nothing
