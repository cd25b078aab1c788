"""Functions on pointers."""

from __future__ import annotations

from typing import Any

from syft.pointers.multi_pointer import MultiPointerTensor


def combine_pointers(*pointers: object) -> Any:
    """Group pointers at different workers into one multi-pointer.

    Args:
        *pointers: pointers to tensors of one shape, each at another worker.
    """
    return MultiPointerTensor(children=pointers).wrap()
