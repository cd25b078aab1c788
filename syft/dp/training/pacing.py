"""When the result of a private training leaves: at a time that was fixed before the first sample was read.

Sizes do not depend on values (`syft.dp.training.fixed_sizes`), but kernels may still be quicker for some values than
for others.
The result is therefore held until the planned duration is over. The plan is the owner's `step_seconds`, or several
times the duration of the same steps on made-up samples. If training takes longer, the result leaves after twice the
planned duration, or four times, and so on: how often that doubles is all that a client can learn from the time.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator

import torch

logger = logging.getLogger("syft.dp")

# The planned duration, in units of the duration on made-up samples: a busy machine must not exceed it.
MARGIN = 4.0
# Seconds that a private training is planned to take at least.
LEAST_SECONDS = 0.5
# Seconds between two looks at whether the client is still there.
_LOOK = 0.25

Clock = Callable[[], float]


class ReleaseTime:
    """The moments at which a training that begins now may be answered.

    Args:
        seconds: the planned duration; it must not depend on the data.
        clock: gives seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(self, seconds: float, clock: Clock = time.monotonic, sleep: Callable[[float], None] = time.sleep):
        self.seconds, self._clock, self._sleep = seconds, clock, sleep
        self._began = clock()

    def due(self) -> float:
        """Return the next moment, by the clock, at which the result may leave."""
        spent = self._clock() - self._began
        doublings = max(0, math.ceil(math.log2(spent / self.seconds))) if spent > self.seconds else 0
        return self._began + self.seconds * 2.0**doublings

    def wait(self, go_on: Callable[[], None]) -> None:
        """Wait until the result may leave.

        Args:
            go_on: called now and then; raises if nobody wants the result any more.
        """
        due = self.due()
        if due > self._began + self.seconds:
            logger.warning(
                "A private training took longer than the %.3g seconds that were planned, which a client can notice. "
                "Set a larger step_seconds of the policy.", self.seconds,
            )  # fmt: skip
        while (left := due - self._clock()) > 0:
            go_on()
            self._sleep(min(left, _LOOK))


def duration(run: Callable[[int], object], times: int, clock: Clock = time.monotonic) -> float:
    """Return the median duration of some runs; the first one is not counted, as it may load things.

    Args:
        run: what to run, given the number of the run.
        times: the number of runs that count.
        clock: gives seconds.
    """
    run(0)
    found = []
    for number in range(1, times + 1):
        began = clock()
        run(number)
        found.append(clock() - began)
    return sorted(found)[times // 2]


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Let this thread count the tiniest numbers as zero: a processor takes many times as long for them."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
