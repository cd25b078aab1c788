"""Traffic: how many bytes the calls of a round carry, to the clients and back, whichever way they go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from syft.federated.server.dispatch import Job, Outcome
from syft.messaging.plan.plan import Plan
from syft.serde import serialize

# What a number, and the head of anything else, takes.
_PLAIN = 8


class Traffic:
    """Counts what goes along with calls and what comes back: tensors, plans, keys, shares and numbers.

    Clients of this process get nothing as bytes, and those on Ray share memory, so what a call carries is counted, not
    how it travels: the same run costs the same everywhere. What messages and encryption add is not in it.

    Attributes:
        out: bytes to the clients.
        back: bytes from them.
    """

    def __init__(self) -> None:
        self.out = self.back = 0
        # By identity: the plan, and its size, which stays when its values change.
        self._plans: dict[int, tuple[Plan, int]] = {}

    def begin(self) -> None:
        """Begin a round: nothing was sent."""
        self.out = self.back = 0

    def follow(self, jobs: Sequence[Job], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """Count calls, and what becomes of them."""
        self.out += sum(self.size_of(job.payload) for job in jobs)
        for name, outcome in outcomes:
            if not isinstance(outcome, Exception):
                self.back += self.size_of(outcome)
            yield name, outcome

    def size_of(self, value: object) -> int:
        """Return how many bytes a value takes."""
        if isinstance(value, torch.Tensor):
            return _PLAIN + value.numel() * value.element_size()
        if isinstance(value, bytes | bytearray | str):
            return len(value)
        if isinstance(value, dict):
            return sum(len(str(name)) + self.size_of(item) for name, item in value.items())
        if isinstance(value, list | tuple):
            return sum(map(self.size_of, value))
        if isinstance(value, Plan):
            found = self._plans.get(id(value))
            if found is None:
                found = self._plans[id(value)] = (value, len(serialize(value)))
            return found[1]
        return _PLAIN
