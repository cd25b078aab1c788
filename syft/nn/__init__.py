"""Layers of the documented line that run on plain, remote and encrypted tensors.

torch's own layers do so too; these keep the documented names, defaults and parameters.
"""

from syft.nn.conv import Conv2d
from syft.nn.pool import AvgPool2d
from syft.nn.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AvgPool2d",
    "Conv2d",
    "GRUCell",
    "LSTMCell",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
]
