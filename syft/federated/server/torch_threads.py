"""The number of threads that torch uses for clients in this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_LOCK = threading.Lock()
_depth = threading.local()  # how many blocks this thread is in
_users = 0  # threads that are in a block
_base = 1  # torch's number before the first of them
_last = 0  # the number set by the last of them


@contextlib.contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use a number of threads in a block; None changes nothing. Blocks may be nested, and run in threads.

    A thread that torch meets for the first time takes the number of the last call in any thread, so the number from
    before the first of concurrent blocks is the one to restore.
    """
    global _users, _base, _last
    if count is None:
        yield
        return
    depth = getattr(_depth, "value", 0)
    with _LOCK:
        before = torch.get_num_threads()
        if not depth:
            if not _users:
                _base = before
            elif before == _last:
                before = _base
            _users += 1
        torch.set_num_threads(count)
        _last = count
    _depth.value = depth + 1
    try:
        yield
    finally:
        _depth.value = depth
        with _LOCK:
            _users -= not depth
            torch.set_num_threads(before)
