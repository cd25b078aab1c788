"""ReleaseTime: the result of a private training is released at a time fixed before the first sample is read.

Sizes do not depend on values (`check_fixed_sizes`), but kernels may still be faster for some values. So the
result is held until the planned duration is over. The plan is the owner's `step_seconds`, or several times the
duration of the same steps on synthetic samples. If training takes longer, the result is released after twice the
planned duration, or four times, and so on: the number of doublings is all that a client can learn from the time.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator

import torch

logger = logging.getLogger("syft.dp")

# The planned duration in units of that on synthetic samples: a busy machine must not exceed it.
MARGIN = 4.0
# Minimum planned seconds of a private training.
LEAST_SECONDS = 0.5
# Seconds between two checks whether the client is still connected.
_LOOK = 0.25

Clock = Callable[[], float]


class ReleaseTime:
    """The times at which a training that starts now may return.

    The planned duration, `seconds`, must not depend on the data.
    """

    def __init__(self, seconds: float, clock: Clock = time.monotonic, sleep: Callable[[float], None] = time.sleep):
        self.seconds, self._clock, self._sleep = seconds, clock, sleep
        self._began = clock()

    def due(self) -> float:
        """Return the next time, by the clock, at which the result may be released."""
        spent = self._clock() - self._began
        doublings = max(0, math.ceil(math.log2(spent / self.seconds))) if spent > self.seconds else 0
        return self._began + self.seconds * 2.0**doublings

    def wait(self, check_cancelled: Callable[[], None]) -> None:
        """Wait until the result may be released. `check_cancelled` is called regularly."""
        due = self.due()
        if due > self._began + self.seconds:
            logger.warning(
                "A private training took longer than the planned %.3g seconds, which a client can observe. "
                "Set a larger step_seconds of the policy.", self.seconds,
            )  # fmt: skip
        while (left := due - self._clock()) > 0:
            check_cancelled()
            self._sleep(min(left, _LOOK))


def duration(run: Callable[[int], object], times: int, clock: Clock = time.monotonic) -> float:
    """Return the median duration of some runs of a function of their index; run 0 is a warm-up and not counted."""
    run(0)
    found = []
    for number in range(1, times + 1):
        began = clock()
        run(number)
        found.append(clock() - began)
    return sorted(found)[times // 2]


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero in this thread: processors are much slower for them."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
