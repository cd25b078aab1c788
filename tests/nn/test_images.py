"""Convolution and pooling of syft.nn: torch's own with documented defaults, on plain, remote and encrypted tensors."""

import inspect

import pytest
import torch
from torch import nn

import syft as sy

CONVOLUTIONS = {
    "channels": (2, 3, 3),
    "one channel": (1, 2, (2, 3)),
    "stride": (2, 3, 3, 2),
    "padding": (2, 3, 3, 1, (1, 2)),
    "dilation": (2, 3, 3, 1, 2, 2),
    "groups": (2, 4, 3, 1, 0, 1, 2),
    "bias": (2, 3, 3, 2, 1, 1, 1, True),
    "reflect": (2, 3, 3, 1, 1, 1, 1, False, "reflect"),
    "circular": (2, 3, 3, 1, 1, 1, 1, True, "circular"),
    "same": (2, 3, 3, 1, "same"),
}
POOLINGS = {
    "plain": (2,),
    "stride": (3, 1),
    "padding": (3, 2, 1),
    "ceil": (3, 2, 1, True),
    "padding left out": (3, 2, 1, True, False),
    "divisor": ((2, 3), 2, 0, False, True, 5),
}


@pytest.fixture(autouse=True)
def hooked(hook):
    return hook


def check(ours, theirs, x, bob, alice, carol):
    """Compare on plain, remote and shared images."""
    expected = theirs(x)
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours(x[0]), expected[0])
    remote = ours.copy().send(bob) if any(True for _ in ours.parameters()) else ours
    torch.testing.assert_close(remote(x.send(bob)).get(), expected)
    shared = x.fix_precision(base=2, precision_fractional=16).share(bob, alice, crypto_provider=carol)
    torch.testing.assert_close(ours(shared).get().float_precision(), expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name, make_worker):
    args = CONVOLUTIONS[name]
    ours = sy.nn.Conv2d(*args)
    theirs = nn.Conv2d(*args[:7], bias=ours.bias is not None, padding_mode=ours.padding_mode)
    theirs.load_state_dict(ours.state_dict())
    check(ours, theirs, torch.randn(2, args[0], 6, 7), *(make_worker(name) for name in ("bob", "alice", "carol")))


def test_convolutions_have_no_bias_by_default():
    assert sy.nn.Conv2d(1, 2, 3).bias is None
    assert sy.nn.Conv2d(1, 2, 3, bias=True).bias.shape == (2,)


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling(name, make_worker):
    args = POOLINGS[name]
    x = torch.randn(2, 2, 6, 7)
    check(sy.nn.AvgPool2d(*args), nn.AvgPool2d(*args), x, *(make_worker(n) for n in ("bob", "alice", "carol")))


def test_signatures_are_the_documented_ones():
    assert list(inspect.signature(sy.nn.Conv2d).parameters) == [
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias", "padding_mode",
    ]  # fmt: skip
    assert list(inspect.signature(sy.nn.AvgPool2d).parameters) == [
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
    ]  # fmt: skip


def test_documented_paths():
    from syft.frameworks.torch.nn.conv import Conv2d
    from syft.frameworks.torch.nn.pool import AvgPool2d
    from syft.frameworks.torch.nn.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase

    found = [Conv2d, AvgPool2d, GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase]
    assert found == [getattr(sy.nn, one.__name__) for one in found]
    assert sy.frameworks.torch.nn is sy.nn
    assert nn.Conv2d is torch.nn.Conv2d is not sy.nn.Conv2d
