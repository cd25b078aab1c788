"""torch's recurrent layers and cells on encrypted tensors: composed step by step, as syft.nn does.

torch uses one kernel for a layer, or writes in place to hidden states that are initially plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from syft.core.tensor import below
from syft.exceptions import UnsupportedOperationError
from syft.hook.composed import composed
from syft.mpc.rules.operands import is_link
from syft.nn import recurrence
from syft.nn.recurrence import KINDS, CellKind, State, Turn, Weights

# torch's calls -> the kind of cell.
LAYERS: dict[Any, str] = {torch.rnn_tanh: "tanh", torch.rnn_relu: "relu", torch.gru: "gru", torch.lstm: "lstm"}
CELLS: dict[Any, str] = {
    torch.rnn_tanh_cell: "tanh",
    torch.rnn_relu_cell: "relu",
    torch.gru_cell: "gru",
    torch.lstm_cell: "lstm",
}


def _weights(flat: Sequence[Tensor], biases: bool, projected: bool, directions: int) -> list[list[Weights]]:
    """Group torch's list of parameters by layer and direction."""
    names = ["inputs", "hidden", *["input_bias", "hidden_bias"] * biases, *["projection"] * projected]
    ordered = [
        Weights(**dict(zip(names, flat[at : at + len(names)], strict=True))) for at in range(0, len(flat), len(names))
    ]
    return [ordered[at : at + directions] for at in range(0, len(ordered), directions)]


def _run(
    kind: CellKind, x: Tensor, state: State, flat: Sequence[Tensor], biases: bool, dropout: float, both: bool,
    turn: Turn | None = None,
) -> tuple[Tensor, State]:  # fmt: skip
    projected = kind.states == 2 and state[0].shape[-1] != state[1].shape[-1]
    return recurrence.layers(kind, x, state, _weights(flat, biases, projected, 1 + both), dropout, turn)


def _layer(kind: CellKind) -> Callable[..., Any]:
    def padded(
        x: Tensor, hx: torch.Tensor | Sequence[torch.Tensor], params: Sequence[torch.Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        x = x.transpose(0, 1) if batch_first else x
        state = tuple(hx) if kind.states > 1 else (hx,)
        dropout = dropout if train else 0.0
        output, ends = _run(kind, x, state, params, has_biases, dropout, bidirectional)
        return (output.transpose(0, 1) if batch_first else output, *ends)

    def packed(
        data: Tensor, batch_sizes: torch.Tensor, hx: torch.Tensor | Sequence[torch.Tensor],
        params: Sequence[torch.Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool,
    ) -> Any:  # fmt: skip
        state = tuple(hx) if kind.states > 1 else (hx,)
        dropout = dropout if train else 0.0
        lengths, rows = _lengths(batch_sizes), _rows(batch_sizes)
        x = _unpacked(data, batch_sizes)
        output, ends = _run(kind, x, state, params, has_biases, dropout, bidirectional, Turn(lengths))
        return (output.reshape(-1, output.shape[-1]).index_select(0, rows), *ends)

    def run(*args: Any, **kwargs: Any) -> Any:
        """Dispatch to the padded or the packed call, which has batch sizes as its second tensor."""
        is_packed = isinstance(args[1] if kind.states > 1 else args[2], torch.Tensor)
        return (packed if is_packed else padded)(*args, **kwargs)

    return run


def _cell(kind: CellKind) -> Callable[..., Any]:
    def run(
        x: Tensor, hx: torch.Tensor | Sequence[torch.Tensor], w_ih: Tensor, w_hh: Tensor,
        b_ih: torch.Tensor | None = None, b_hh: torch.Tensor | None = None,
    ) -> Any:  # fmt: skip
        state = tuple(hx) if kind.states > 1 else (hx,)
        made = recurrence.cell(kind, x, state, Weights(w_ih, w_hh, b_ih, b_hh))
        return made if kind.states > 1 else made[0]

    return run


for _function, _name in LAYERS.items():
    composed(_function)(_layer(KINDS[_name]))
for _function, _name in CELLS.items():
    composed(_function)(_cell(KINDS[_name]))


# --- packed sequences: the sizes of batches are public -------------------------------------------------------


def _lengths(batch_sizes: torch.Tensor) -> torch.Tensor:
    """Return the length of each sequence, the longest first."""
    return (batch_sizes.unsqueeze(1) > torch.arange(int(batch_sizes[0]))).sum(0)


def _rows(batch_sizes: torch.Tensor) -> torch.Tensor:
    """Return the flat positions in [time, batch] of the rows of a pack."""
    inside = torch.arange(int(batch_sizes[0])) < batch_sizes.unsqueeze(1)
    return inside.reshape(-1).nonzero().view(-1)


def _unpacked(data: Tensor, batch_sizes: torch.Tensor, value: float = 0.0) -> Tensor:
    """Return packed rows as [time, batch, ...], padded with a number."""
    steps, count = batch_sizes.numel(), int(batch_sizes[0])
    empty = data.new_full((steps * count, *data.shape[1:]), value)
    return empty.index_copy(0, _rows(batch_sizes), data).view(steps, count, *data.shape[1:])


def _public(what: str, tensor: torch.Tensor) -> torch.Tensor:
    if is_link(below(tensor)):
        raise UnsupportedOperationError(
            f"{what} with encrypted lengths",
            "encrypted tensors",
            "Lengths must be public. To hide them, pad all sequences to one length and multiply by a private mask.",
        )
    found: torch.Tensor = torch.as_tensor(tensor)
    return found


@composed(torch._pack_padded_sequence)
def pack_padded_sequence(x: Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[Tensor, torch.Tensor]:
    """Pack the rows of sequences step by step, without padding."""
    lengths = _public("pack_padded_sequence", lengths)
    x = x.transpose(0, 1) if batch_first else x
    if lengths.numel() != x.shape[1] or bool((lengths < 1).any()) or int(lengths.max()) > x.shape[0]:
        raise RuntimeError(
            f"pack_padded_sequence needs one length from 1 to {x.shape[0]} for each of {x.shape[1]} sequences."
        )
    if bool((lengths[1:] > lengths[:-1]).any()):
        raise RuntimeError(
            "pack_padded_sequence needs lengths in descending order. Sort them, or pass enforce_sorted=False."
        )
    batch_sizes = (lengths > torch.arange(int(lengths[0])).unsqueeze(1)).sum(1)
    used = x.narrow(0, 0, batch_sizes.numel())
    return used.reshape(-1, *x.shape[2:]).index_select(0, _rows(batch_sizes)), batch_sizes


@composed(torch._pad_packed_sequence)
def pad_packed_sequence(
    data: Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int = -1
) -> tuple[Tensor, torch.Tensor]:
    """Unpack sequences, padded with a number."""
    batch_sizes = _public("pad_packed_sequence", batch_sizes)
    steps = batch_sizes.numel()
    if total_length > 0:
        if total_length < steps:
            raise ValueError(f"total_length is {total_length}, but the longest sequence has {steps} steps.")
        batch_sizes = torch.cat([batch_sizes, batch_sizes.new_zeros(total_length - steps)])
    made = _unpacked(data, batch_sizes, padding_value)
    return made.transpose(0, 1) if batch_first else made, _lengths(batch_sizes)
