"""Layers that run on plain, remote and encrypted tensors: recurrent layers, Conv2d, AvgPool2d.

torch's own layers do so too; these have the names, defaults and parameters of PySyft 0.2.
"""

from typing import TYPE_CHECKING

from syft._lazy import missing_name as _missing_name
from syft._suggestions import suggest_in_constructor as _suggest_in_constructor
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

for _name in __all__:
    _suggest_in_constructor(globals()[_name])

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = _missing_name(__name__)
