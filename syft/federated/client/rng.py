"""Exclusive access to torch's default generator, which all threads share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_TURN = threading.RLock()


@contextlib.contextmanager
def own_generator() -> Iterator[None]:
    """Hold torch's generator exclusively; its state is restored at exit."""
    with _TURN, torch.random.fork_rng(devices=[]):
        yield


class GeneratorLock:
    """A random state of its own for one user of torch's default generator."""

    def __init__(self, seed: int) -> None:
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Continue from the state at the end of the last turn; the generator's own state is restored at exit."""
        with _TURN:
            before = torch.get_rng_state()
            torch.set_rng_state(self._state)
            try:
                yield
            finally:
                self._state = torch.get_rng_state()
                torch.set_rng_state(before)


def undisturbed() -> contextlib.AbstractContextManager[object]:
    """Return a context manager that keeps other threads from changing torch's generator, e.g. while recording."""
    return _TURN
