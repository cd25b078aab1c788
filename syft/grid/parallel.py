"""Call several workers concurrently, with a timeout."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syft.workers.base import BaseWorker

# Seconds that a grid waits for the slowest of its workers.
TIMEOUT = 20.0


def ask_all(
    workers: Iterable[Any], question: Callable[[Any], Any], timeout: float = TIMEOUT
) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Exception]]]:
    """Call a function for all workers, each in its own thread, and wait for all of them together.

    Returns:
        (worker, result) of the successful calls, and (worker, error) of the others, both in the order of the workers.
    """
    asked = list(workers)
    answers: dict[int, Any] = {}
    errors: dict[int, Exception] = {}

    def ask(number: int, worker: BaseWorker) -> None:
        try:
            answers[number] = question(worker)
        except Exception as error:
            errors[number] = error

    threads = []
    for number, worker in enumerate(asked):
        # In the caller's context, which contains the acting worker and the limits.
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(ask, number, worker), name="syft grid", daemon=True)
        thread.start()
        threads.append(thread)
    end = time.monotonic() + timeout
    for number, thread in enumerate(threads):
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive() and number not in answers:
            errors.setdefault(number, TimeoutError(f"it did not answer within {timeout:g} s"))
    done = [(worker, answers[number]) for number, worker in enumerate(asked) if number in answers]
    failed = [(w, errors[number]) for number, w in enumerate(asked) if number in errors and number not in answers]
    return done, failed
