"""Checks before calls whose malformed arguments torch does not refuse: recurrent layers over packed sequences."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from syft.exceptions import CommandNotAllowedError
from syft.hook.guards import guard_call

GATES = {"torch.lstm": 4, "torch.gru": 3, "torch.rnn_tanh": 1, "torch.rnn_relu": 1}
FEATURES, HIDDEN = 3, 5

# Sizes of the batch at each step -> number of rows of the data, and size of the batch in the states.
FITTING = {"one step": ([2], 2, 2), "falling": ([2, 2, 1], 5, 2), "equal": ([1, 1, 1], 3, 1)}
# The rows are as many as the sizes add up to, and the sizes never rise, except where that is the mistake.
MALFORMED = {
    "a last size of 0": ([2, 2, 1, 0], 5, 2),
    "a last size of -1": ([2, 2, 2, -1], 5, 2),
    "only a size of 0": ([0], 0, 0),
    "only sizes of 0": ([0, 0], 0, 0),
    "0 and -1 at the end": ([3, 3, 0, -1], 5, 3),
    "no size": ([], 0, 0),
    "rising sizes": ([1, 2, 2], 5, 1),
    "a rise at the end": ([2, 1, 2], 5, 2),
    "more rows than sizes": ([2, 2, 1], 6, 2),
    "fewer rows than sizes": ([2, 2, 1], 4, 2),
}


def packed_call(name: str, sizes: torch.Tensor, rows: int, batch: int) -> tuple[Any, ...]:
    """Return the arguments of a call on a packed sequence, which fit but for the sizes."""
    state: Any = torch.randn(1, batch, HIDDEN)
    if name == "torch.lstm":
        state = (state, torch.randn(1, batch, HIDDEN))
    width = GATES[name] * HIDDEN
    weights = [torch.randn(width, FEATURES), torch.randn(width, HIDDEN), torch.randn(width), torch.randn(width)]
    return torch.randn(rows, FEATURES), sizes, state, weights, True, 1, 0.0, False, False


@pytest.mark.parametrize("case", FITTING)
@pytest.mark.parametrize("name", GATES)
def test_packed_sequences_with_falling_positive_sizes_pass(name: str, case: str) -> None:
    sizes, rows, batch = FITTING[case]
    guard_call(name, packed_call(name, torch.tensor(sizes), rows, batch), {})


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.parametrize("name", GATES)
def test_packed_sequences_with_malformed_sizes_are_refused(name: str, case: str) -> None:
    sizes, rows, batch = MALFORMED[case]
    with pytest.raises(CommandNotAllowedError, match="the shapes of its input or states do not fit"):
        guard_call(name, packed_call(name, torch.tensor(sizes, dtype=torch.int64), rows, batch), {})


@pytest.mark.parametrize("sizes", [torch.tensor([2, 2, 1], dtype=torch.int32), torch.tensor([[2, 2, 1]])], ids=str)
def test_sizes_of_another_dtype_or_dimension_are_refused(sizes: torch.Tensor) -> None:
    with pytest.raises(CommandNotAllowedError, match="the shapes of its input or states do not fit"):
        guard_call("torch.gru", packed_call("torch.gru", sizes, 5, 2), {})


@pytest.mark.parametrize("case", ["a last size of 0", "a last size of -1"])
def test_a_worker_refuses_packed_sequences_with_malformed_sizes(case: str, bob: Any) -> None:
    sizes, rows, batch = MALFORMED[case]
    data, lengths, state, weights, *options = packed_call("torch.gru", torch.tensor(sizes), rows, batch)
    there = [tensor.send(bob) for tensor in (data, lengths, state, *weights)]
    with pytest.raises(CommandNotAllowedError, match="the shapes of its input or states do not fit"):
        torch.gru(*there[:3], there[3:], *options)[0].get()
