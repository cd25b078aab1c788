"""Checking a model before a run: unsupported operations, their location, and alternatives."""

from __future__ import annotations

import gc
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import syft as sy
from syft.exceptions import UnsupportedOperationError
from syft.mpc.rules.names import public_name
from syft.mpc.tools import check
from syft.mpc.tools.check import ModelNotSupportedError, check_before_call
from tests.helpers.mpc.protocols import cast_of

BITS = {"base": 2, "precision_fractional": 16}
aten = torch.ops.aten


@pytest.fixture(scope="module")
def cast():
    yield from cast_of("check", 2)


def shared(cast, thing):
    return thing.fix_precision(**BITS).share(*cast[0], crypto_provider=cast[1])


class Sorted(nn.Module):
    def forward(self, x):
        return x.sort(-1).values


class Halves(nn.Module):
    """Reads a value, and goes on with what can't be done."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Sorted())])

    def forward(self, x):
        x = self.layers[0](x)
        if x.sum() > 0:
            x = x * 2
        x = self.layers[1](x)
        return torch.linalg.svd(x)[0] + x.median()


WANTED = [
    ("", "Halves", "Reading a value"),
    ("layers.1.1", "Sorted", "torch.sort"),
    ("", "Halves", "torch.linalg.svd"),
    ("", "Halves", "torch.median"),
]


def rows(problems):
    return [(problem.path, problem.module, problem.operation) for problem in problems]


def test_all_problems_are_listed(hook):
    model = Halves()
    for report in (sy.mpc.check(model, torch.zeros(4, 4)), sy.mpc.check(model, x=torch.rand(4, 4))):
        assert rows(report) == WANTED and len(report) == 4 and report and not report.ok
        assert all(problem.instead for problem in report.problems)
    lines = repr(report).splitlines()
    assert lines[0] == "4 things in this model do not run on encrypted tensors:" and len(lines) == 6
    assert lines[2].split()[:3] == ["(the", "model)", "Halves"] and "layers.1.1   Sorted  torch.sort" in lines[3]
    assert sorted(rows(sy.mpc.check(model))) == sorted(WANTED)


def test_a_model_that_runs(hook):
    model = nn.Sequential(nn.Conv2d(1, 3, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3 * 12 * 12, 10))
    for report in (sy.mpc.check(model), sy.mpc.check(model, torch.zeros(1, 1, 28, 28))):
        assert report.ok and not report and list(report) == []
        assert repr(report) == "Everything in this model runs on encrypted tensors."


def test_encrypted_or_not(hook, cast):
    model, x = Halves(), torch.rand(4, 4)
    with sy.count_messages() as sent:
        private = shared(cast, x)
        before = sent.messages
        assert rows(sy.mpc.check(model, private)) == WANTED
        assert sent.messages == before
    shared(cast, model)
    with sy.count_messages() as sent:
        assert rows(sy.mpc.check(model, private)) == WANTED and rows(sy.mpc.check(model, x)) == WANTED
    assert sent.messages == 0
    assert torch.allclose(private.get().float_precision(), x, atol=1e-3)
    model.get().float_precision()


def test_modules_of_torch_by_themselves(hook):
    class Unknown(nn.Module):  # takes what nobody can guess
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict({"pool": nn.FractionalMaxPool2d(2, 4), "fine": nn.Sequential(nn.Linear(2, 2))})

        def forward(self, graph):
            return graph.nodes

    report = sy.mpc.check(Unknown())
    assert {problem.path for problem in report} == {"inner.pool"}
    assert report.problems[0].module == "FractionalMaxPool2d" and "F.max_pool2d" in report.problems[0].instead
    assert report.unseen == ["the model (Unknown)"] and repr(report).endswith("Pass one: sy.mpc.check(model, x).")


def test_unchecked_modules_are_reported(hook):
    report = sy.mpc.check(nn.CTCLoss())
    assert not report and not report.ok and report.unseen == ["the model (CTCLoss)"]
    assert repr(report) == (
        "Not checked without an example input: the model (CTCLoss). Pass one: sy.mpc.check(model, x)."
    )


@pytest.mark.filterwarnings("error")
def test_layers_and_losses(hook):
    fine = [nn.LSTM(3, 4), nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16), nn.BatchNorm2d(3),
            nn.LayerNorm(4), nn.Embedding(10, 3), nn.GELU(), nn.Dropout2d(), nn.KLDivLoss(), nn.CrossEntropyLoss()]  # fmt: skip
    for module in fine:
        assert sy.mpc.check(module).ok, module


def test_wrong_shapes_raise_the_error_of_torch(hook):
    with pytest.raises(RuntimeError, match="can't be multiplied|shapes"):
        sy.mpc.check(nn.Linear(3, 2), torch.zeros(2, 4))
    with pytest.raises(sy.exceptions.SyftError, match="takes a module"):
        sy.mpc.check(lambda x: x)
    with pytest.raises(TypeError):
        sy.mpc.check(nn.Linear(3, 2), torch.zeros(2, 3), torch.zeros(2))


class Noted(nn.Module):
    """Changes everything that a module can change when it is called."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.fc = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)
        self.lstm = nn.LSTM(3, 3)
        self.register_buffer("seen", torch.zeros(1))
        self.calls, self.history, self.last = 0, [], None

    def forward(self, x):
        self.calls += 1
        self.history.append(x)
        self.last = x
        self.seen += 1
        random.random()
        torch.rand(1)
        return self.drop(self.norm(self.fc(x)))


def state_of(model):
    numbers = torch.get_rng_state(), random.getstate()
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items() if type(tensor) is torch.Tensor}
    return tensors, numbers, (model.calls, list(model.history), model.last), [id(p) for p in model.parameters()]


def assert_same(model, before):
    tensors, numbers, attributes, ids = state_of(model)
    assert tensors.keys() == before[0].keys() and all(torch.equal(tensors[n], before[0][n]) for n in tensors)
    assert torch.equal(numbers[0], before[1][0]) and numbers[1] == before[1][1]
    assert attributes == before[2] and ids == before[3]
    assert model.lstm._flat_weights[0] is model.lstm.weight_ih_l0


def test_the_model_is_unchanged(hook, cast):
    model, x = Noted(), torch.rand(4, 3)
    before = state_of(model)
    sy.mpc.check(model, x)
    sy.mpc.check(model)
    assert_same(model, before)
    private = shared(cast, x)
    sy.mpc.check(model, private)
    assert_same(model, before)
    shared(cast, model.fc)
    before = state_of(model)
    weight = model.fc.weight.child.child
    sy.mpc.check(model, private)
    assert_same(model, before)
    assert model.fc.weight.child.child is weight
    del weight
    model.fc.get().float_precision()


def test_two_runs_are_the_same_with_and_without_a_check(hook, cast):
    class Random(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.drop = nn.Linear(3, 3), nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(self.fc(x)) + torch.rand(3)

    model, x = shared(cast, Random()), shared(cast, torch.rand(2, 3))
    results = []
    for hooked in (True, False):
        if not hooked:
            model._forward_pre_hooks.clear()
        torch.manual_seed(5)
        with torch.no_grad():
            results.append((model(x).get().float_precision(), torch.rand(1)))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-3) and torch.equal(results[0][1], results[1][1])
    model.get()


# --- encrypted modules are looked at before they run --------------------------------------------------------------


def test_an_encrypted_model_lists_all_problems_before_it_computes(cast):
    model, x = shared(cast, Halves()), shared(cast, torch.rand(4, 4))
    for _ in range(2):
        with (
            sy.count_messages() as sent,
            pytest.raises(ModelNotSupportedError, match="4 things in this model do not") as told,
        ):
            model(x)
        assert sent.messages == 0 and rows(told.value.problems) == WANTED
        assert isinstance(told.value, UnsupportedOperationError) and "layers.1.1" in str(told.value)
    del told
    model.get().float_precision()
    assert check_before_call not in model._forward_pre_hooks.values()
    assert model(torch.rand(4, 4)).shape == (4, 4)


def test_a_model_is_checked_once_for_each_signature(cast, monkeypatch):
    runs = []
    dry_run = check.dry_run
    monkeypatch.setattr(check, "dry_run", lambda *args: runs.append(1) or dry_run(*args))
    model = shared(cast, nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    x = shared(cast, torch.rand(2, 3))
    with torch.no_grad():
        for given, count in ((x, 1), (x, 1), (shared(cast, torch.rand(2, 3)), 1), (torch.rand(2, 3), 2), (x[:1], 3)):
            model(given)
            assert len(runs) == count
        model.eval()
        model(x)
        assert len(runs) == 4
        proxy = model.copy()
        assert torch.allclose(proxy(x).get().float_precision(), model(x).get().float_precision(), atol=1e-3)
        assert len(runs) == 5
        model.get()
        model(x)
        assert len(runs) == 5 and not model._forward_pre_hooks and not model._forward_pre_hooks_with_kwargs
    del proxy


def test_hooks_of_the_user_see_no_outlines(cast):
    seen = []
    model = nn.Sequential(nn.Linear(3, 3), Sorted())
    model[0].register_forward_hook(lambda module, args, result: seen.append(result))
    shared(cast, model)
    with pytest.raises(UnsupportedOperationError, match=r"torch.sort is not supported.*It is called in 1 \(Sorted\)\."):
        model(shared(cast, torch.rand(2, 3)))
    assert len(seen) == 1 and seen[0].get().shape == (2, 3)
    seen.clear()


def test_remote_models_are_not_checked(bob):
    model = nn.Sequential(nn.Linear(3, 3), Sorted())
    x = torch.rand(2, 3).send(bob)
    with pytest.raises(sy.exceptions.SyftError, match="not pointers"):
        sy.mpc.check(model, x)
    model.send(bob)
    with pytest.raises(sy.exceptions.SyftError, match="not pointers"):
        sy.mpc.check(model)
    with torch.no_grad(), sy.count_messages() as sent:
        check.check_before_call(model, (x,), {})  # as it is called for a model that was encoded where it is
    assert not sent.messages


def test_the_check_does_not_disturb_training(cast):
    model, plain = nn.Linear(3, 1), nn.Linear(3, 1)
    plain.load_state_dict(model.state_dict())
    x, y = torch.rand(8, 3), torch.rand(8, 1)
    shared(cast, model)
    private, target = shared(cast, x), shared(cast, y)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]
    for _ in range(3):
        for m, optimizer, a, b in ((model, optimizers[0], private, target), (plain, optimizers[1], x, y)):
            optimizer.zero_grad()
            loss = ((m(a) - b) ** 2).mean()
            loss.backward()
            optimizer.step()
    del loss
    model.zero_grad()
    gc.collect()
    model.get().float_precision()
    assert torch.allclose(model.weight, plain.weight, atol=1e-3)


# --- where, in errors of operations -------------------------------------------------------------------------------


def test_an_error_names_the_operation_and_its_module(cast):
    x = shared(cast, torch.rand(3, 4))
    model = nn.ModuleDict({"layers": nn.Sequential(nn.ReLU(), Sorted())})
    with pytest.raises(
        UnsupportedOperationError, match=r"^torch.sort is not .*It is called in 1 \(Sorted\)\.$"
    ) as told:
        model["layers"](x)
    assert told.value.place == "1 (Sorted)" and told.value.operation == "torch.sort"
    with pytest.raises(UnsupportedOperationError, match=r"It is called in the module Sorted\.$"):
        Sorted()(x)
    with pytest.raises(
        UnsupportedOperationError, match=r"^torch.sort is not supported on FixedPrecisionTensor. Use max"
    ):
        x.sort()


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (aten._log_softmax.default, "F.log_softmax"),
        (aten._softmax.default, "F.softmax"),
        (aten.native_layer_norm.default, "F.layer_norm"),
        (aten.sort.default, "torch.sort"),
        (aten.elu.default, "F.elu"),
        (aten.elu_backward.default, "The gradient of F.elu"),
        (aten._log_softmax_backward_data.default, None),
        (aten.linalg_qr.default, "torch.linalg.qr"),
        (aten.special_bessel_j0.default, "torch.special.bessel_j0"),
        (aten._linalg_svd.default, "torch.linalg.svd"),
        (aten.add_.Tensor, "tensor.add_"),
        (F.relu, None),
    ],
)
def test_names_that_users_know(operation, name):
    found = public_name(operation)
    assert found == name if name is not None else found
