"""Recurrent layers, step by step: the same code for plain, remote and encrypted tensors.

It uses only calls that all of them support, none in place. Encrypted products and functions cost rounds, so the input
part of all steps is computed before the first step, and both directions and several gates are computed together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

State = tuple[Tensor, ...]
# (gates of the input, gates of the hidden state, state) -> the next state
Step = Callable[[Tensor, Tensor, State], State]


# --- steps of cells; the last dimension has the gates in torch's order -------------------------------------------


def lstm_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    """One step of a long short-term memory: gates for input, forget, cell (doubled) and output."""
    size = state[1].shape[-1]
    keep, cell, output = torch.split(torch.sigmoid(inputs + hidden), [2 * size, size, size], -1)
    # tanh(x) = 2 sigmoid(2 x) - 1, so one sigmoid computes all gates. Both products run together.
    added, remembered = (keep * torch.cat([2 * cell - 1, state[1]], -1)).chunk(2, -1)
    memory = added + remembered
    return output * torch.tanh(memory), memory


def gru_step(inputs: Tensor, hidden: Tensor, state: State) -> State:
    """One step of a gated recurrent unit: gates for reset and update, and the new state."""
    size = state[0].shape[-1]
    gates, new = torch.split(inputs, [2 * size, size], -1)
    hidden_gates, hidden_new = torch.split(hidden, [2 * size, size], -1)
    reset, update = torch.sigmoid(gates + hidden_gates).chunk(2, -1)
    new = torch.tanh(new + reset * hidden_new)
    return (new + update * (state[0] - new),)


@dataclasses.dataclass(frozen=True, slots=True)
class CellKind:
    """A kind of cell.

    Attributes:
        step: the step function.
        gates: the number of gates.
        states: the number of state tensors.
        doubled: the index of the gate that the step function takes doubled.
    """

    step: Step
    gates: int
    states: int = 1
    doubled: int | None = None


KINDS = {
    "tanh": CellKind(lambda inputs, hidden, state: (torch.tanh(inputs + hidden),), 1),
    "relu": CellKind(lambda inputs, hidden, state: (torch.relu(inputs + hidden),), 1),
    "lstm": CellKind(lstm_step, 4, 2, 2),
    "gru": CellKind(gru_step, 3),
}


# --- a layer -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """The parameters of one direction of one layer, in torch's shapes; biases and the projection are optional."""

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    projection: Tensor | None = None

    def prepared(self, kind: CellKind) -> Weights:
        """Return the parameters that the step function of a kind of cell takes."""
        if kind.doubled is None:
            return self
        names = ("inputs", "hidden", "input_bias", "hidden_bias")
        given = {name: weight for name in names if (weight := getattr(self, name)) is not None}
        doubled = {name: _doubled(weight, kind.gates, kind.doubled) for name, weight in given.items()}
        return dataclasses.replace(self, **doubled)


def _doubled(weight: Tensor, count: int, gate: int) -> Tensor:
    """Double the rows of one gate."""
    parts = list(weight.chunk(count))
    parts[gate] = 2 * parts[gate]
    return torch.cat(parts)


def cell(kind: CellKind, x: Tensor, state: State, weights: Weights) -> State:
    """Return the state of one cell after one step."""
    weights = weights.prepared(kind)
    inputs = F.linear(x, weights.inputs, weights.input_bias)
    hidden = F.linear(state[0], weights.hidden, weights.hidden_bias)
    return kind.step(inputs, hidden, state)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(list(parts))


def _joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """Reverses the sequences of a batch for the second direction, each from its own end."""

    lengths: torch.Tensor | None = None

    def backwards(self, x: Tensor) -> Tensor:
        """Reverse sequences [time, batch, ...]; padding stays at the end."""
        if self.lengths is None:
            return x.flip(0)
        times = torch.arange(x.shape[0]).unsqueeze(1)
        sources = torch.where(times < self.lengths, self.lengths - 1 - times, times)
        return torch.gather(x, 0, sources.unsqueeze(-1).expand(x.shape))

    def select(self, time: int, new: State, old: State) -> State:
        """Return the state after a step: the old one for sequences that have ended."""
        if self.lengths is None or bool((self.lengths > time).all()):
            return new
        alive = (self.lengths > time).view(-1, 1)
        return tuple(torch.where(alive.expand(n.shape), n, o) for n, o in zip(new, old, strict=True))


def _gates(x: Tensor, weights: Sequence[Weights], turn: Turn) -> list[Tensor]:
    """Return the input part of the gates for each step, in the order of each direction: [direction, batch, gates]."""
    biases = [one.input_bias for one in weights if one.input_bias is not None]
    bias = _joined(biases, 0) if biases else None
    made = F.linear(x, _joined([one.inputs for one in weights], 0), bias)
    if len(weights) == 1:
        return list(made.unsqueeze(1).unbind(0))
    forwards, backwards = made.chunk(2, -1)
    return list(torch.stack([forwards, turn.backwards(backwards)], 1).unbind(0))


def layer(
    kind: CellKind, x: Tensor, state: State, weights: Sequence[Weights], turn: Turn | None = None
) -> tuple[Tensor, State]:
    """Run one layer over sequences [time, batch, features], with the weights of one direction, or of two.

    States are [direction, batch, features] each. Returns (outputs [time, batch, features of all directions], state).
    """
    if not x.shape[0]:
        raise RuntimeError("A recurrent layer needs sequences of at least one step.")
    turn = turn or Turn()
    weights = [one.prepared(kind) for one in weights]
    hidden_weights = _stacked([one.hidden for one in weights]).transpose(1, 2)
    biases = [one.hidden_bias for one in weights if one.hidden_bias is not None]
    hidden_bias = _stacked(biases).unsqueeze(1) if biases else None
    projections = [one.projection for one in weights if one.projection is not None]
    projection = _stacked(projections).transpose(1, 2) if projections else None
    outputs = []
    for time, inputs in enumerate(_gates(x, weights, turn)):
        hidden = torch.matmul(state[0], hidden_weights)
        new = kind.step(inputs, hidden if hidden_bias is None else hidden + hidden_bias, state)
        if projection is not None:
            new = (torch.matmul(new[0], projection), *new[1:])
        state = turn.select(time, new, state)
        outputs.append(new[0])
    made = torch.stack(outputs)
    parts = [made.select(1, 0)]
    if len(weights) == 2:
        parts.append(turn.backwards(made.select(1, 1)))
    return _joined(parts, -1), state


def layers(
    kind: CellKind,
    x: Tensor,
    state: State,
    weights: Sequence[Sequence[Weights]],
    dropout: float = 0.0,
    turn: Turn | None = None,
) -> tuple[Tensor, State]:
    """Run stacked layers over sequences [time, batch, features]; states are [layer and direction, batch, features].

    `weights` are of each layer those of each direction; outputs of each layer except the last are dropped at random.
    """
    ends: list[State] = []
    for at, both in enumerate(weights):
        if at and dropout:
            x = F.dropout(x, dropout, True)
        start = tuple(part.narrow(0, at * len(both), len(both)) for part in state)
        x, end = layer(kind, x, start, both, turn)
        ends.append(end)
    return x, tuple(_joined(parts, 0) for parts in zip(*ends, strict=True))
