"""Runs of raw bytes inside messages, and the checks that a received run fits the shape it comes with."""

from __future__ import annotations

import numpy as np

from syft.exceptions import SerdeError


class Buffer:
    """Bytes that a simplifier wants to travel outside the header, without a copy.

    Detailers get a memoryview instead: read-only unless the reader may keep the message's memory.
    `owner` is kept alive as long as this object, for views that do not keep their memory alive themselves.
    """

    __slots__ = ("owner", "view")

    def __init__(self, data: bytes | bytearray | memoryview, owner: object = None) -> None:
        """Keep a flat byte view of the data."""
        self.owner = owner
        view = memoryview(data)
        if view.nbytes == 0:
            view = memoryview(b"")  # a view with a zero in its shape can't be cast
        elif view.ndim != 1 or view.format != "B" or not view.c_contiguous:
            view = view.cast("B")
        self.view = view

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self.view)


def as_view(part: object) -> memoryview:
    """Return a received part as a view of bytes; anything but bytes is refused."""
    if type(part) is memoryview:
        return part
    if type(part) is bytes:
        return memoryview(part)
    if type(part) is Buffer:  # of a simplifier in this process; decoded messages hold none
        return part.view
    raise SerdeError(f"The message holds {type(part).__name__} where bytes are needed.")


def element_count(shape: object, max_dimensions: int) -> int:
    """Return the number of elements of a received shape, in exact arithmetic."""
    if not isinstance(shape, tuple) or len(shape) > max_dimensions:
        raise SerdeError(f"The message holds a shape that is not a tuple of at most {max_dimensions} sizes.")
    total = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < 2**63:
            raise SerdeError("The message holds a shape with a size that is not a non-negative integer.")
        total *= size
    return total


def refuse_bad_bools(view: memoryview) -> None:
    """Refuse bytes other than 0 and 1 as booleans: later arithmetic on them is undefined."""
    if len(view) and int(np.frombuffer(view, dtype=np.uint8).max()) > 1:
        raise SerdeError("The message holds booleans that are neither 0 nor 1.")
