"""Layers that run on plain, remote and encrypted tensors: recurrent layers, Conv2d, AvgPool2d.

torch's own layers do so too; these have the names, defaults and parameters of PySyft 0.2.
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
