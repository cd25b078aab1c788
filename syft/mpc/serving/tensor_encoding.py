"""TensorEncoding: the shape and the fixed-point encoding of an input or a result of an encrypted model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from syft.mpc.serving.shared_program import Shape
from syft.mpc.values.encoding import decode_plain, encode_plain
from syft.tensors.precision import FLOATS

MAX_DIMENSIONS = 64
Row = tuple[Any, ...]
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in FLOATS}


@dataclasses.dataclass(frozen=True, slots=True)
class TensorEncoding:
    """The encoding of one tensor.

    Attributes:
        shape: its shape.
        scale: the integer that stands for 1.0; 1 for integers.
        field: the size of the ring of integers.
        is_integer: whether the values are integers as such, for example the index of a maximum.
        dtype: the name of the dtype that values are decoded to.
    """

    shape: Shape
    scale: int
    field: int
    is_integer: bool = False
    dtype: str = "float32"

    def encode(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a plain tensor as integers."""
        return encode_plain(tensor, self.scale, self.field)

    def decode(self, encoded: torch.Tensor) -> torch.Tensor:
        """Return the values that integers stand for."""
        return encoded if self.is_integer else decode_plain(encoded, self.scale, _DTYPES[self.dtype])

    def to_row(self) -> Row:
        """Return the fields; float32 is left out, as in invitations of earlier releases."""
        fields = (self.shape, self.scale, self.field, self.is_integer)
        return fields if self.dtype == "float32" else (*fields, self.dtype)


Encodings = tuple[TensorEncoding, ...]


def read_encoding(
    shape: Iterable[object], scale: object, field: object, is_integer: object, dtype: object = "float32"
) -> TensorEncoding:
    """Return an encoding that came from outside; raises ValueError or TypeError if it is not valid."""
    dimensions = tuple(shape)
    sizes = tuple([size for size in dimensions if type(size) is int and size >= 0])
    if len(sizes) != len(dimensions) or len(sizes) > MAX_DIMENSIONS:
        raise ValueError("shape")
    if type(scale) is not int or not 1 <= scale <= 2**40 or type(is_integer) is not bool:
        raise ValueError("scale")
    if type(field) is not int or not 4 <= field <= 2**64 or math.prod(sizes) > 2**40:
        raise ValueError("field")
    if type(dtype) is not str or dtype not in _DTYPES:
        raise ValueError("dtype")
    return TensorEncoding(sizes, scale, field, is_integer, dtype)


def write_rows(encodings: Encodings) -> tuple[Row, ...]:
    """Return encodings as plain values."""
    return tuple([encoding.to_row() for encoding in encodings])


def read_rows(rows: Iterable[Sequence[Any]]) -> Encodings:
    """Return encodings that came from outside; raises ValueError or TypeError if they are not valid."""
    return tuple([read_encoding(*row) for row in rows])


def shapes_of(encodings: Encodings) -> tuple[Shape, ...]:
    """Return the shapes of encodings."""
    return tuple([encoding.shape for encoding in encodings])
