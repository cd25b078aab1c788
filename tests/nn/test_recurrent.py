"""Recurrent cells and layers of syft.nn: what torch's own compute, on plain, remote and encrypted tensors."""

import pytest
import torch
from torch import nn

import syft as sy

CELLS = {
    "tanh": (sy.nn.RNNCell, nn.RNNCell, {}),
    "relu": (sy.nn.RNNCell, nn.RNNCell, {"nonlinearity": "relu"}),
    "gru": (sy.nn.GRUCell, nn.GRUCell, {}),
    "lstm": (sy.nn.LSTMCell, nn.LSTMCell, {}),
}
LAYERS = {
    "tanh": (sy.nn.RNN, nn.RNN, {}),
    "relu": (sy.nn.RNN, nn.RNN, {"nonlinearity": "relu"}),
    "gru": (sy.nn.GRU, nn.GRU, {}),
    "lstm": (sy.nn.LSTM, nn.LSTM, {}),
}
SHAPES = {
    "one layer": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "both ways": {"bidirectional": True, "batch_first": True},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3},
}


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def flat(result):
    """All tensors of a result, one after the other."""
    return [result] if isinstance(result, torch.Tensor) else [leaf for part in result for leaf in flat(part)]


def cell_pair(name, bias=True):
    """A cell of ours and torch's own with the same weights, in float64."""
    ours, theirs, options = CELLS[name]
    mine, model = ours(3, 4, bias, **options).double(), theirs(3, 4, bias, **options).double()
    with torch.no_grad():
        model.weight_ih.copy_(mine.fc_xh.weight)
        model.weight_hh.copy_(mine.fc_hh.weight)
        if bias:
            model.bias_ih.copy_(mine.fc_xh.bias)
            model.bias_hh.copy_(mine.fc_hh.bias)
    return mine, model


def layer_pair(name, double=True, **options):
    """Layers of ours and torch's own with the same weights."""
    ours, theirs, more = LAYERS[name]
    mine, model = ours(3, 4, **more, **options), theirs(3, 4, **more, **options)
    with torch.no_grad():
        for suffix, cells in (("", mine.rnn_forward), ("_reverse", mine.rnn_backward)):
            for at, cell in enumerate(cells):
                for kind in ("weight", "bias") if mine.bias else ("weight",):
                    getattr(model, f"{kind}_ih_l{at}{suffix}").copy_(getattr(cell.fc_xh, kind))
                    getattr(model, f"{kind}_hh_l{at}{suffix}").copy_(getattr(cell.fc_hh, kind))
    return (mine.double(), model.double()) if double else (mine, model)


# --- plain ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_cells_are_torchs(name, bias):
    mine, model = cell_pair(name, bias)
    x = torch.randn(2, 3, dtype=torch.float64)
    torch.testing.assert_close(flat(mine(x)), flat(model(x)))
    state = mine(x)
    torch.testing.assert_close(flat(mine(x, state)), flat(model(x, state)))
    torch.testing.assert_close(flat(mine(x[0])), flat(model(x[0])))  # without a batch


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_torchs(name, shape):
    mine, model = layer_pair(name, **SHAPES[shape])
    mine.eval(), model.eval()
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(flat(mine(x)), flat(model(x)))
    state = mine(x)[1]
    torch.testing.assert_close(flat(mine(x, state)), flat(model(x, state)))
    torch.testing.assert_close(flat(mine(x[0])), flat(model(x[0])))  # one sequence, without a batch


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_torchs(name):
    mine, model = layer_pair(name, num_layers=2, bidirectional=True)
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(mine(x)[0].square().sum(), [x])
    (expected,) = torch.autograd.grad(model(x)[0].square().sum(), [x])
    torch.testing.assert_close(grad, expected)


def test_dropout_is_between_layers():
    layers = sy.nn.GRU(3, 4, num_layers=2, dropout=1.0)
    x = torch.randn(5, 2, 3)
    expected = layers.rnn_forward[1]
    output = layers(x)[0]
    torch.testing.assert_close(output[0], expected(torch.zeros(2, 4)))  # all of the first layer's output is dropped
    assert not torch.equal(layers.eval()(x)[0], output)
    single = sy.nn.GRU(3, 4, dropout=1.0)
    assert single(x)[0].abs().sum() > 0  # there is nothing after the only layer


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="'tanh' or 'relu'"):
        sy.nn.RNNCell(3, 4, nonlinearity="sine")
    with pytest.raises(ValueError, match="from 0 to 1"):
        sy.nn.RNN(3, 4, dropout=2)
    with pytest.raises(ValueError, match="num_layers must be at least 1"):
        sy.nn.LSTM(3, 4, num_layers=0)
    with pytest.raises(ValueError, match=r"2 of shape \(1, 2, 4\)"):
        sy.nn.LSTM(3, 4)(torch.zeros(5, 2, 3), (torch.zeros(1, 2, 4), torch.zeros(1, 3, 4)))
    with pytest.raises(RuntimeError, match="one step"):
        sy.nn.LSTM(3, 4)(torch.zeros(0, 2, 3))


def test_a_memory_starts_by_not_forgetting():
    cell = sy.nn.LSTMCell(3, 4)
    forget = (cell.fc_xh.bias + cell.fc_hh.bias).view(4, 4)[1]
    assert bool((forget >= 0).all()) and bool((forget <= 2).all())
    assert sy.nn.LSTMCell(3, 4, bias=False).fc_xh.bias is None


def test_repr_shows_settings():
    assert repr(sy.nn.RNNCell(3, 4, nonlinearity="relu")).startswith("RNNCell(\n  3, 4, nonlinearity=relu")
    assert repr(sy.nn.GRUCell(3, 4)).startswith("GRUCell(\n  3, 4\n")


# --- remote -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_cells_on_a_worker(name, workers):
    bob, _ = workers
    mine, model = cell_pair(name)
    x = torch.randn(2, 3, dtype=torch.float64)
    mine.send(bob)
    made = flat(mine(x.send(bob)))
    assert all(part.location is bob for part in made)
    torch.testing.assert_close([part.get() for part in made], flat(model(x)))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_a_worker(name, workers):
    bob, _ = workers
    mine, model = layer_pair(name, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    mine.send(bob)
    output, state = mine(x.send(bob))
    output.square().sum().backward()
    expected, ends = model(x)
    expected.square().sum().backward()
    torch.testing.assert_close([part.get() for part in flat((output, state))], flat((expected, ends)))
    grad = mine.get().rnn_backward[1].fc_hh.weight.grad
    torch.testing.assert_close(grad, model.weight_hh_l1_reverse.grad)


def test_zeros_are_where_the_input_is(workers):
    bob, alice = workers
    cell = sy.nn.RNNCell(3, 4)
    x = torch.randn(2, 3)
    assert cell.init_hidden(x).shape == (2, 4)
    remote = cell.init_hidden(x.send(bob))
    assert remote.location is bob and remote.shape == (2, 4)
    encoded = cell.init_hidden(x.fix_precision())
    assert isinstance(encoded.child, sy.FixedPrecisionTensor) and not encoded.child.is_shared
    shared = cell.init_hidden(x.fix_precision().share(bob, alice))
    assert shared.child.is_shared and set(shared.child.child.child) == {bob.id, alice.id}
    torch.testing.assert_close(shared.get().float_precision(), torch.zeros(2, 4))
    both = sy.nn.LSTM(3, 4, 2, batch_first=True).init_hidden(x.view(2, 1, 3).send(bob))
    assert [(part.location.id, tuple(part.shape)) for part in both] == [(bob.id, (2, 2, 4))] * 2
