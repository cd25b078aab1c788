"""torch's own generator, which all threads share: who sets it, or puts it back, does so alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_TURN = threading.RLock()


@contextlib.contextmanager
def own_generator() -> Iterator[None]:
    """Have torch's generator to oneself for a while; it is afterwards as it was before."""
    with _TURN, torch.random.fork_rng(devices=[]):
        yield


class GeneratorLock:
    """What torch's generator is for one user of it, who takes turns with others.

    Args:
        seed: what it begins with.
    """

    def __init__(self, seed: int) -> None:
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Go on where the last turn ended; the generator is afterwards as it was before."""
        with _TURN:
            before = torch.get_rng_state()
            torch.set_rng_state(self._state)
            try:
                yield
            finally:
                self._state = torch.get_rng_state()
                torch.set_rng_state(before)


def undisturbed() -> contextlib.AbstractContextManager[object]:
    """Return what keeps others from setting torch's generator for a while, such as while something is recorded."""
    return _TURN
