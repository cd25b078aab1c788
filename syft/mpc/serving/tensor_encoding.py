"""TensorEncoding: the shape and the fixed-point encoding of an input or a result of an encrypted model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeGuard

import torch

from syft.mpc.values.encoding import decode_plain, encode_plain
from syft.tensors.precision import FLOATS

MAX_DIMENSIONS = 64
Shape = tuple[int, ...]
Shares = tuple[torch.Tensor, ...]
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

    def check(self) -> TensorEncoding:
        """Return this encoding, which came from outside; raises ValueError if it is not valid."""
        if len(self.shape) > MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in self.shape):
            raise ValueError("shape")
        if type(self.scale) is not int or not 1 <= self.scale <= 2**40 or type(self.is_integer) is not bool:
            raise ValueError("scale")
        if type(self.field) is not int or not 4 <= self.field <= 2**64 or math.prod(self.shape) > 2**40:
            raise ValueError("field")
        if type(self.dtype) is not str or self.dtype not in _DTYPES:
            raise ValueError("dtype")
        return self


Encodings = tuple[TensorEncoding, ...]


def write_rows(encodings: Encodings) -> tuple[Row, ...]:
    """Return encodings as plain values."""
    return tuple([encoding.to_row() for encoding in encodings])


def read_rows(rows: Iterable[Iterable[Any]]) -> Encodings:
    """Return encodings that came from outside; raises ValueError or TypeError if they are not valid."""
    return tuple([TensorEncoding(tuple(shape), *more).check() for shape, *more in rows])


def shapes_of(encodings: Encodings) -> tuple[Shape, ...]:
    """Return the shapes of encodings."""
    return tuple([encoding.shape for encoding in encodings])


def show_shapes(shapes: Iterable[Shape]) -> str:
    """Return shapes as text for errors."""
    return " and ".join(str(tuple(shape)) for shape in shapes) or "nothing"


def is_share(value: object) -> TypeGuard[torch.Tensor]:
    """Return whether a value from outside can be a share."""
    return type(value) is torch.Tensor and value.dtype is torch.int64
