"""Count what workers say to each other.

Example:
    >>> import torch, syft as sy
    >>> hook = sy.TorchHook(torch)
    >>> bob = sy.VirtualWorker(hook, id="metrics-bob")
    >>> with sy.count_messages() as n:
    ...     value = torch.ones(2).send(bob).get()
    >>> n.messages, n.rounds
    (2, 1)
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from syft._later_names import refuse

_active: list[MessageCount] = []
_lock = threading.Lock()
# Renders a count as HTML; filled by `syft.display`.
render_html: list[Callable[[MessageCount], str]] = []
# Streams that gather calls before they are a message: what was gathered goes before counting begins or ends.
gathering: weakref.WeakSet[Any] = weakref.WeakSet()


class MessageCount:
    """Messages, rounds and bytes since a `count_messages()` block began.

    Attributes:
        messages: messages sent (a message that carries deletions along is one).
        rounds: how often somebody waited for an answer.
        bytes: bytes of messages and answers as they are, or would be, on a wire.
        by_worker: messages by (sender id, receiver id).
    """

    def __init__(self) -> None:
        self.messages = 0
        self.rounds = 0
        self.bytes = 0
        self.by_worker: dict[tuple[object, object], int] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        counts = (("message", self.messages), ("round", self.rounds), ("byte", self.bytes))
        return f"<{', '.join(f'{count} {noun}' + 's' * (count != 1) for noun, count in counts)}>"

    def _repr_html_(self) -> str | None:
        return render_html[0](self) if render_html else None

    def _add(self, sender: object, receiver: object, size: int, waited: bool) -> None:
        with self._lock:
            self.messages += 1
            self.rounds += waited
            self.bytes += size
            pair = (sender, receiver)
            self.by_worker[pair] = self.by_worker.get(pair, 0) + 1


@contextmanager
def count_messages() -> Iterator[MessageCount]:
    """Count messages, rounds and bytes of every worker of this process inside a `with` block."""
    count = MessageCount()
    _hand_over()
    with _lock:
        _active.append(count)
    try:
        yield count
    finally:
        _hand_over()
        with _lock:
            _active[:] = [other for other in _active if other is not count]


def _hand_over() -> None:
    for stream in list(gathering):
        stream.send_batched()


def counting() -> bool:
    """Say whether anybody counts now."""
    return bool(_active)


def record(sender: object, receiver: object, size: int, waited: bool) -> None:
    """Note one message from a worker to another."""
    for count in list(_active):
        count._add(sender, receiver, size, waited)


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name == "NetworkMonitor":
            refuse(__name__, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
