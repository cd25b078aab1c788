"""Recurrent cells and layers made of Linear layers, for plain, remote and encrypted tensors.

With equal weights they compute the same as those of torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from syft.core.tensor import below
from syft.nn import recurrence
from syft.nn.recurrence import KINDS, CellKind, State, Weights
from syft.tensors.precision import FixedPrecisionTensor

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]


def _zeros(x: Tensor, *shape: int) -> Tensor:
    """Return zeros of the kind of x: shared if x is shared, unlike those of new_zeros."""
    zeros = x.new_zeros(shape)
    link = below(x)
    if isinstance(link, FixedPrecisionTensor) and link.is_shared:
        return zeros + x.detach().sum() * 0
    return zeros


class RNNCellBase(nn.Module):
    """Base class of recurrent cells: one Linear layer for the input and one for the hidden state.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether the Linear layers have a bias.
        num_chunks: the number of gates; the Linear layers compute all of them.
        nonlinearity: "tanh" or "relu", for cells that support it.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, nonlinearity: str | None = None
    ) -> None:
        super().__init__()
        if nonlinearity not in (None, "tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}; use 'tanh' or 'relu'.")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.num_chunks = num_chunks
        self.nonlinearity = nonlinearity
        self.fc_xh = nn.Linear(input_size, num_chunks * hidden_size, bias=bias)
        self.fc_hh = nn.Linear(hidden_size, num_chunks * hidden_size, bias=bias)
        self.reset_parameters()

    @property
    def kind(self) -> CellKind:
        """The kind of this cell, which has its step function."""
        raise NotImplementedError(f"{type(self).__name__} does not define `kind`; use RNNCell, GRUCell or LSTMCell")

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from [-1/sqrt(hidden_size), 1/sqrt(hidden_size)]."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def init_hidden(self, input: Tensor) -> Tensor:
        """Return a state of zeros for a batch of inputs, of their kind: plain, remote, encoded or shared."""
        return _zeros(input, *input.shape[:-1], self.hidden_size)

    def weights(self) -> Weights:
        """Return the parameters of this cell."""
        return Weights(self.fc_xh.weight, self.fc_hh.weight, self.fc_xh.bias, self.fc_hh.bias)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        more = "" if self.nonlinearity in (None, "tanh") else f", nonlinearity={self.nonlinearity}"
        return f"{self.input_size}, {self.hidden_size}{more}"

    def _step(self, x: Tensor, state: State | None) -> State:
        if state is None:
            state = (x.new_zeros((*x.shape[:-1], self.hidden_size)),) * self.kind.states
        return recurrence.cell(self.kind, x, state, self.weights())


class RNNCell(RNNCellBase):
    """h' = tanh(W x + b + V h + c), or with relu instead of tanh.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether there are b and c.
        nonlinearity: "tanh" or "relu".
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, nonlinearity=nonlinearity)

    @property
    def kind(self) -> CellKind:
        """The kind of this cell, which has its step function."""
        return KINDS[self.nonlinearity or "tanh"]

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the next state for inputs [batch, features] and a state, zeros by default."""
        return self._step(x, None if h is None else (h,))[0]


class GRUCell(RNNCellBase):
    """A gated recurrent unit.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether there are biases.
        nonlinearity: ignored.
    """

    kind = KINDS["gru"]
    forward = RNNCell.forward

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, nonlinearity=nonlinearity)


class LSTMCell(RNNCellBase):
    """A long short-term memory.

    Args:
        input_size: features of the input.
        hidden_size: features of the state and of the memory.
        bias: whether there are biases.
        nonlinearity: ignored.
    """

    kind = KINDS["lstm"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, nonlinearity=nonlinearity)

    def reset_parameters(self) -> None:
        """Draw all parameters, then add one to the bias of the forget gate, so that the initial cell remembers."""
        super().reset_parameters()
        if self.bias:
            with torch.no_grad():
                for layer in (self.fc_xh, self.fc_hh):
                    layer.bias[self.hidden_size : 2 * self.hidden_size] += 0.5

    def forward(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return (h, c) for inputs [batch, features] and a state (h, c), zeros by default."""
        h, c = self._step(x, None if hc is None else tuple(hc))
        return h, c


class RNNBase(nn.Module):
    """Layers of recurrent cells, in one direction or two.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: the number of stacked layers.
        bias: whether there are biases.
        batch_first: whether sequences are [batch, time, features] rather than [time, batch, features].
        dropout: the probability of dropping an output of each layer except the last, in training.
        bidirectional: whether there is a second direction, from the end of sequences.
        base_cell: the class of the cells.
        nonlinearity: "tanh" or "relu", for cells that support it.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        base_cell: Callable[..., nn.Module],
        nonlinearity: str | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability from 0 to 1, got {dropout!r}.")
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}.")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.num_directions = 2 if bidirectional else 1
        self.nonlinearity = nonlinearity
        options = {} if nonlinearity is None else {"nonlinearity": nonlinearity}
        widths = [input_size, *[hidden_size * self.num_directions] * (num_layers - 1)]
        self.rnn_forward = nn.ModuleList(base_cell(width, hidden_size, bias, **options) for width in widths)
        self.rnn_backward = nn.ModuleList(
            base_cell(width, hidden_size, bias, **options) for width in widths if bidirectional
        )

    def init_hidden(self, input: Tensor) -> Tensor | State:
        """Return a state of zeros for sequences, of their kind: plain, remote, encoded or shared."""
        batch = input.shape[0 if self.batch_first else 1]
        zeros = _zeros(input, self.num_layers * self.num_directions, batch, self.hidden_size)
        return zeros if self._kind.states == 1 else (zeros,) * self._kind.states

    @property
    def _kind(self) -> CellKind:
        first: Any = self.rnn_forward[0]
        kind: CellKind = first.kind
        return kind

    def _weights(self) -> list[list[Weights]]:
        lists: list[Any] = [self.rnn_forward, self.rnn_backward] if self.bidirectional else [self.rnn_forward]
        return [[cell.weights() for cell in cells] for cells in zip(*lists, strict=True)]

    def forward(self, x: Tensor, h: Tensor | State | None = None) -> tuple[Tensor, Tensor | State]:
        """Run over sequences, from a state of zeros by default.

        Args:
            x: [time, batch, features] or [batch, time, features], or one sequence [time, features].
            h: [layers and directions, batch, features], without a batch for one sequence; (h, c) for an LSTM.

        Returns:
            (output, final state), in the layout of x and h.
        """
        single = x.dim() == 2
        if single:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        state = self._state(x, h, single)
        dropout = self.dropout if self.training else 0.0
        output, ends = recurrence.layers(self._kind, x, state, self._weights(), dropout)
        if single:
            output, ends = output.squeeze(1), tuple(end.squeeze(1) for end in ends)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, ends[0] if len(ends) == 1 else ends

    def _state(self, x: Tensor, h: Tensor | State | None, single: bool) -> State:
        shape = (self.num_layers * self.num_directions, x.shape[1], self.hidden_size)
        if h is None:
            return (x.new_zeros(shape),) * self._kind.states
        state = (h,) if self._kind.states == 1 and isinstance(h, Tensor) else tuple(h)
        state = tuple(part.unsqueeze(1) for part in state) if single else state
        if len(state) != self._kind.states or any(tuple(part.shape) != shape for part in state):
            found = ", ".join(str(tuple(part.shape)) for part in state)
            raise ValueError(f"The state must be {self._kind.states} of shape {shape}, got {found}.")
        return state


class RNN(RNNBase):
    """Layers of `RNNCell`; the signature is torch's.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: the number of stacked layers.
        nonlinearity: "tanh" or "relu".
        bias: whether there are biases.
        batch_first: whether sequences are [batch, time, features].
        dropout: the probability of dropping an output of each layer except the last, in training.
        bidirectional: whether there is a second direction, from the end of sequences.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, RNNCell, nonlinearity
        )


class _Gated(RNNBase):
    """Layers of one kind of cell without a choice of nonlinearity."""

    cell: ClassVar[type[RNNCellBase]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, self.cell)


class GRU(_Gated):
    """Layers of `GRUCell`; arguments as for torch.nn.GRU."""

    cell = GRUCell


class LSTM(_Gated):
    """Layers of `LSTMCell`; arguments as for torch.nn.LSTM; the state is (h, c)."""

    cell = LSTMCell
