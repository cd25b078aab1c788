"""StateLayout: the state of a model as one flat vector, parameters first, then buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from syft.exceptions import TrainingError

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


class StateLayout:
    """The layout of a flat state vector: names, shapes and dtypes of a model's tensors, in order.

    Integer buffers, such as counts of batches, are stored as floats in the vector and rounded when read.

    Args:
        parameters: the parameters by name.
        buffers: the buffers by name.
    """

    __slots__ = ("_sizes", "_specs", "dtype", "names", "parameters", "size")

    def __init__(
        self, parameters: Iterable[tuple[str, torch.Tensor]], buffers: Iterable[tuple[str, torch.Tensor]]
    ) -> None:
        first, second = list(parameters), list(buffers)
        self.names = [name for name, _ in (*first, *second)]
        tensors = [tensor for _, tensor in (*first, *second)]
        if any(tensor.dtype.is_complex for tensor in tensors):
            raise TrainingError("Models with complex tensors can't be trained by federated learning yet.")
        self._specs = [(tensor.shape, tensor.dtype) for tensor in tensors]
        self._sizes = [tensor.numel() for tensor in tensors]
        self.parameters = sum(tensor.numel() for _, tensor in first)
        self.size = sum(self._sizes)
        is_single = all(dtype in _FLOATS or not dtype.is_floating_point for _, dtype in self._specs)
        self.dtype = torch.float32 if is_single else torch.float64

    def flatten(self, tensors: Sequence[torch.Tensor], dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return tensors as one vector."""
        dtype = dtype or self.dtype
        if not tensors:
            return torch.zeros(0, dtype=dtype)
        flat = [tensor.detach().reshape(-1) for tensor in tensors]
        return torch.cat([piece if piece.dtype is dtype else piece.to(dtype) for piece in flat])

    def unflatten(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of a vector in their shapes and dtypes; views where no conversion is needed."""
        pieces = torch.split(vector, self._sizes)
        return [
            (piece if dtype.is_floating_point else piece.round()).to(dtype).view(shape)
            for piece, (shape, dtype) in zip(pieces, self._specs, strict=True)
        ]

    def load(self, tensors: Sequence[torch.Tensor], vector: torch.Tensor) -> None:
        """Copy a vector into tensors, in place."""
        with torch.no_grad():
            for tensor, piece in zip(tensors, self.unflatten(vector), strict=True):
                tensor.copy_(piece)

    def fingerprint(self) -> list[Any]:
        """Return plain values that identify this layout."""
        rows = zip(self.names, self._specs, strict=True)
        return [[name, list(shape), str(dtype)] for name, (shape, dtype) in rows]

    def places(self) -> dict[str, tuple[int, int]]:
        """Return the start and end index of each tensor in the vector, by name."""
        ends = list(itertools.accumulate(self._sizes, initial=0))
        return {name: (ends[i], ends[i + 1]) for i, name in enumerate(self.names)}
