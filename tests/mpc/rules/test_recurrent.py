"""torch's own recurrent layers and cells, and those of syft.nn, on encrypted tensors: results and gradients."""

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn as packs

import syft as sy
from syft.exceptions import UnsupportedOperationError
from tests.helpers.mpc.agreement import DECIMALS, MIXES, check, near, opened, proxy_of, shared
from tests.helpers.mpc.protocols import cast_of

LAYERS = {
    "tanh": lambda **options: nn.RNN(3, 4, **options),
    "relu": lambda **options: nn.RNN(3, 4, nonlinearity="relu", **options),
    "gru": lambda **options: nn.GRU(3, 4, **options),
    "lstm": lambda **options: nn.LSTM(3, 4, **options),
}
CELLS = {
    "tanh": lambda **options: nn.RNNCell(3, 4, **options),
    "relu": lambda **options: nn.RNNCell(3, 4, nonlinearity="relu", **options),
    "gru": lambda **options: nn.GRUCell(3, 4, **options),
    "lstm": lambda **options: nn.LSTMCell(3, 4, **options),
}
ALL = {"num_layers": 2, "bidirectional": True, "batch_first": True}


@pytest.fixture(scope="module")
def cast():
    """Three parties and a crypto provider; they must be empty at the end."""
    yield from cast_of("recurrent", 3)


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


# --- layers and cells -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, mix, cast):
    check(LAYERS[name](), [torch.randn(3, 2, 3)], cast, mix)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_both_ways_on_top_of_each_other(name, cast):
    check(LAYERS[name](**ALL), [torch.randn(2, 3, 3)], cast, "both", 3, units=120)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", CELLS)
def test_cells(name, mix, cast):
    check(CELLS[name](), [torch.randn(2, 3)], cast, mix)


@pytest.mark.parametrize("mix", ["data", "both"])
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_state_to_start_from(name, mix, cast):
    model = LAYERS[name](bias=False)
    state = [torch.randn(1, 2, 4) for _ in range(1 if name == "gru" else 2)]

    def call(model, x, *state):
        return model(x, state[0] if len(state) == 1 else state)

    check(model, [torch.randn(2, 2, 3), *state], cast, mix, call=call)
    check(LAYERS[name](), [torch.randn(2, 2, 3), *state], cast, mix, call=call, private=[False] + [True] * len(state))


def test_projections(cast):
    check(LAYERS["lstm"](proj_size=2, **ALL), [torch.randn(2, 3, 3)], cast, "both")


def test_one_sequence_without_a_batch(cast):
    check(LAYERS["gru"](), [torch.randn(3, 3)], cast, "data")
    check(CELLS["lstm"](), [torch.randn(3)], cast, "both")


def test_decimals(cast):
    check(LAYERS["lstm"](), [torch.randn(3, 2, 3)], cast, "both", form=DECIMALS, units=20)


def test_dropout_between_layers(cast):
    model = LAYERS["gru"](num_layers=2, dropout=1.0)
    check(model, [torch.randn(3, 2, 3)], cast, "data")  # nothing of the first layer is left: no need to guess masks
    model = LAYERS["gru"](num_layers=2, dropout=0.5)
    proxy = proxy_of(model).eval()
    x = torch.randn(3, 2, 3)
    secret = shared(x, cast[0][:2], cast[1])
    near("without dropout", [model.eval()(secret)[0]], [proxy(x.double())[0]], 1e-3)
    made = opened(model.train()(secret)[0])
    assert float((made - proxy(x.double())[0].detach()).abs().max()) > 1e-2


@pytest.mark.parametrize("protocol", ["snn", "fss"])
def test_other_ways_to_compare(protocol, cast):
    model, x = LAYERS["gru"](), torch.randn(2, 1, 3)
    secret = shared(x, cast[0][:2], cast[1], protocol=protocol)
    near("a result", [model(secret)[0]], [model(x)[0]], 1e-3)


def test_an_empty_batch(cast):
    secret = shared(torch.zeros(2, 0, 3), cast[0][:2], cast[1])
    assert opened(LAYERS["lstm"]()(secret)[0]).shape == (2, 0, 4)
    secret = shared(torch.zeros(0, 2, 3), cast[0][:2], cast[1])
    with pytest.raises(RuntimeError, match="one step"):
        LAYERS["lstm"]()(secret)
    del secret


def test_encoded_but_not_shared():
    model, x = LAYERS["lstm"](**ALL), torch.randn(2, 3, 3)
    expected = proxy_of(model)(x.double())[0]
    made = model.fix_precision(base=2, precision_fractional=16)(x.fix_precision(base=2, precision_fractional=16))[0]
    near("a result", [made], [expected], 1e-3)


# --- those of syft.nn -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_layers_of_linear_layers(name, mix, cast):
    check(getattr(sy.nn, name)(3, 4, bidirectional=True), [torch.randn(2, 2, 3)], cast, mix)


@pytest.mark.parametrize("name", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells_of_linear_layers(name, cast):
    cell = getattr(sy.nn, name)(3, 4)
    check(cell, [torch.randn(2, 3)], cast, "both", 3)


def test_a_cell_with_its_own_first_state(cast):
    cell = sy.nn.GRUCell(3, 4)
    x = torch.randn(2, 3)
    secret = shared(x, cast[0][:2], cast[1])
    near("a result", [cell(secret, cell.init_hidden(secret))], [cell(x)], 1e-3)


# --- packed sequences: lengths are public -----------------------------------------------------------------------


def packed(model, x):
    made, state = model(packs.pack_padded_sequence(x, torch.tensor([3, 1, 2]), enforce_sorted=False))
    return packs.pad_packed_sequence(made, padding_value=0.25)[0], state


@pytest.mark.parametrize(("name", "mix"), [("gru", "data"), ("lstm", "both")])
def test_packed_sequences(name, mix, cast):
    check(LAYERS[name](num_layers=2, bidirectional=True), [torch.randn(4, 3, 3)], cast, mix, call=packed)


def test_packed_sequences_that_are_public(cast):
    model, x = LAYERS["relu"](num_layers=2, bidirectional=True), torch.randn(4, 3, 3)
    expected = packed(proxy_of(model), x.double())
    near("a result", packed(shared(model, cast[0][:2], cast[1]), x), expected, 1e-3)


def test_packing_and_back(cast):
    x = torch.randn(3, 4, 2)
    secret = shared(x, cast[0][:2], cast[1])
    pack = packs.pack_padded_sequence(secret, [4, 3, 1], batch_first=True)
    expected = packs.pack_padded_sequence(x, [4, 3, 1], batch_first=True)
    assert torch.equal(pack.batch_sizes, expected.batch_sizes)
    near("a pack", [pack.data], [expected.data], 1e-4)
    made, lengths = packs.pad_packed_sequence(pack, batch_first=True, padding_value=-1.0, total_length=5)
    assert lengths.tolist() == [4, 3, 1]
    near("sequences", [made], [packs.pad_packed_sequence(expected, True, -1.0, 5)[0]], 1e-4)


def test_lengths_that_do_not_fit(cast):
    secret = shared(torch.randn(4, 2, 3), cast[0][:2], cast[1])
    with pytest.raises(RuntimeError, match="descending order"):
        packs.pack_padded_sequence(secret, [1, 4])
    with pytest.raises(RuntimeError, match="from 1 to 4"):
        packs.pack_padded_sequence(secret, [5, 1])
    lengths = torch.tensor([4, 1]).share(*cast[0][:2], crypto_provider=cast[1])
    with pytest.raises(UnsupportedOperationError, match="Lengths must be public"):
        packs.pack_padded_sequence(secret, lengths)
    del secret, lengths
