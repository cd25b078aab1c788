"""Whether autograd follows the ATen operation that is being run: then its rule may keep what the gradient will need."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


class _AutogradState(threading.local):
    followed = False


_state = _AutogradState()


def is_followed() -> bool:
    """Say whether autograd follows the operation that this thread is running."""
    return _state.followed


@contextmanager
def following(tensors: Iterable[Any]) -> Iterator[None]:
    """Run one operation on some tensors; what it is made of is followed if it is."""
    before = _state.followed
    _state.followed = before or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
    try:
        yield
    finally:
        _state.followed = before
