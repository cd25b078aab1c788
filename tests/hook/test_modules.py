"""Whole modules travel, with buffers; any module of torch.nn gives the same numbers remotely."""

import copy
import weakref

import pytest
import torch
from torch import nn

import syft as sy
from syft.exceptions import SyftError, TensorsNotCollocatedError


class Tied(nn.Module):
    """Two names for one parameter."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def first_of(result):
    return result[0] if isinstance(result, tuple) else result


MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), (5, 6)),
    "batchnorm1d": (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Sigmoid()), (5, 6)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
        ),
        (3, 1, 8, 8),
    ),
    "layernorm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.GELU()), (5, 6)),
    "groupnorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "instancenorm": (lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), (2, 3, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2), (1, 2, 4, 4)),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, groups=2, bias=False), (2, 2, 7)),
    "rnn": (lambda: nn.RNN(4, 5), (6, 2, 4)),
    "lstm": (lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True), (6, 2, 4)),
    "gru": (lambda: nn.GRU(4, 5, batch_first=True), (2, 6, 4)),
    "lstm cell": (lambda: nn.LSTMCell(4, 5), (3, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "bilinear pool": (lambda: nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), (2, 3, 6, 6)),
    "prelu": (lambda: nn.Sequential(nn.Linear(6, 6), nn.PReLU(), nn.Softmax(dim=1)), (5, 6)),
    "tied": (Tied, (5, 4)),
    "inplace relu": (lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)), (5, 6)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", list(MODULES))
def test_remote_equals_local(name, training, kind, make_worker, nothing_left):
    bob = make_worker("bob", kind)
    torch.manual_seed(0)
    make, shape = MODULES[name]
    local = make().train(training)
    remote = copy.deepcopy(local)
    x = torch.randn(shape)
    expected = first_of(local(x))
    parameters = list(remote.parameters())
    assert remote.send(bob) is remote
    result = first_of(remote(x.send(bob)))
    assert result.shape == expected.shape and result.dtype == expected.dtype
    if expected.requires_grad:
        expected.pow(2).sum().backward()
        result.pow(2).sum().backward()
    torch.testing.assert_close(result.copy().get(), expected)
    assert remote.get() is remote
    assert all(a is b for a, b in zip(parameters, remote.parameters(), strict=True))
    for (key, a), (_, b) in zip(local.state_dict().items(), remote.state_dict().items(), strict=True):
        torch.testing.assert_close(b, a, msg=key)
    for a, b in zip(local.parameters(), remote.parameters(), strict=True):
        assert isinstance(b, nn.Parameter)
        torch.testing.assert_close(b.grad, a.grad)
    del result
    nothing_left(bob)


def test_embedding(bob):
    layer = nn.Embedding(10, 3, padding_idx=0)
    proxy = copy.deepcopy(layer).send(bob)
    index = torch.tensor([[1, 2], [0, 9]])
    torch.testing.assert_close(proxy(index.send(bob)).get(), layer(index))


def test_buffers_travel(bob):
    model = nn.BatchNorm1d(3).send(bob)
    model(torch.randn(8, 3).send(bob))
    assert model.running_mean.location is bob
    model.get()
    assert model.num_batches_tracked.item() == 1
    assert not torch.equal(model.running_mean, torch.zeros(3))


def test_one_message_each_way(bob, alice):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with sy.count_messages() as n:
        model.send(bob)
    assert (n.messages, n.rounds) == (1, 0)
    with sy.count_messages() as n:
        model.get()
    assert (n.messages, n.rounds) == (1, 1)
    assert n.bytes > sum(t.nbytes for t in model.state_dict().values())


def test_move_copy_location(workers, nothing_left):
    bob, alice = workers
    model = nn.Linear(3, 2)
    proxy = model.copy()
    assert proxy.weight is not model.weight
    model.send(bob)
    assert model.location is bob and model.owner is sy.local_worker
    other = model.copy()
    assert other.location is bob and other.weight.id_at_location != model.weight.id_at_location
    assert isinstance(other.weight, nn.Parameter)
    model.move(alice)
    assert model.location is alice
    torch.testing.assert_close(model.get().weight, proxy.weight)
    torch.testing.assert_close(other.get().weight, proxy.weight)
    nothing_left(bob, alice)


def test_errors_say_what_to_do(bob, alice):
    model = nn.Linear(3, 2)
    with pytest.raises(SyftError, match="nothing to get. Send it first"):
        model.get()
    with pytest.raises(SyftError, match="nothing to move"):
        model.move(bob)
    with pytest.raises(SyftError, match="one worker"):
        model.send(bob, alice)
    model.send(bob)
    assert model.send(bob) is model
    with pytest.raises(SyftError, match=f"on '{bob.id}' already.*model.move"):
        model.send(alice)
    with pytest.raises(TensorsNotCollocatedError, match="argument 0 is a local tensor of shape"):
        model(torch.randn(1, 3))
    with pytest.raises(TensorsNotCollocatedError, match=f"argument 0 is on '{alice.id}'.*argument 1 is on '{bob.id}'"):
        model(torch.randn(1, 3).send(alice))


def test_a_send_that_fails_changes_nothing(bob, nothing_left):
    model = nn.Linear(3, 2)
    held = weakref.ref(model.bias)
    with pytest.raises(SyftError, match="weak reference.*Nothing was changed"):
        model.send(bob)
    assert model.location is None and type(model.weight) is nn.Parameter and type(model.bias) is nn.Parameter
    nothing_left(bob)
    del held
    model.send(bob)
    assert model.weight.location is bob and model.bias.location is bob
    held = weakref.ref(model.weight)
    with pytest.raises(SyftError, match="weak reference"):
        model.get()
    assert len(bob._objects) == 2
    del held
    assert model.get().location is None


@pytest.mark.parametrize(
    "change", [lambda m: m.double(), lambda m: m.to(torch.float64), lambda m: m.to("cpu").double()]
)
def test_conversions_of_a_remote_model(workers, change):
    bob, _ = workers
    torch.manual_seed(0)
    local = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    remote = copy.deepcopy(local).send(bob)
    weight = remote[0].weight
    assert change(remote) is remote and remote[0].weight is weight and weight.dtype is torch.float64
    change(local)
    x = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(remote(x.send(bob)).get(), local(x).detach())
    assert remote.get()[0].weight.dtype is torch.float64
    remote.send(bob)
    remote(x.send(bob)).sum().backward()
    assert remote.float()[0].weight.grad.dtype is torch.float32


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script_modules_are_sent_whole(bob):
    model = torch.jit.script(nn.Linear(3, 2))
    x = torch.ones(1, 3)
    remote = model.send(bob)
    torch.testing.assert_close(remote(x.send(bob)).get(), model(x).detach())
    assert torch.equal(model(x), remote.get().obj(x))


def test_weight_norm_and_noise(bob):
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    x = torch.ones(1, 3)
    expected = model(x).detach()
    model.send(bob)
    torch.testing.assert_close(model(x.send(bob)).get(), expected)
    p = x.send(bob)
    for make in (torch.randn_like, torch.rand_like, lambda t: torch.randint_like(t, 5)):
        torch.manual_seed(3)
        local = make(x)
        torch.manual_seed(3)
        assert torch.equal(make(p).get(), local)
    score = torch.distributions.Normal(p, p.exp()).log_prob(p)
    torch.testing.assert_close(score.get(), torch.distributions.Normal(x, x.exp()).log_prob(x))
    assert torch._is_any_true(p > 0).item() is True


def test_state_dict_and_freezing(bob):
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    model.send(bob)
    assert not model.bias.requires_grad and model.weight.requires_grad
    model(torch.randn(2, 3).send(bob)).sum().backward()
    model.get()
    assert model.bias.grad is None and model.weight.grad is not None
