"""Traffic: counts the bytes that the calls of a round carry, for every kind of client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from syft.federated.server.dispatch import Job, Outcome
from syft.messaging.plan.plan import Plan
from syft.serde import serialize

# Size of a number, and overhead of any other value.
_PLAIN = 8


class Traffic:
    """Counts the bytes of arguments and results of calls: tensors, plans, keys, shares and numbers.

    Local clients receive no bytes, and those on Ray share memory, so the size of the values is counted, not the
    transport: the same run has the same traffic everywhere. Overhead of messages and encryption is not included.

    Attributes:
        out: bytes sent to the clients.
        back: bytes received from them.
    """

    def __init__(self) -> None:
        self.out = self.back = 0
        # By identity: the plan, and its size, which does not depend on its values.
        self._plans: dict[int, tuple[Plan, int]] = {}

    def begin(self) -> None:
        """Reset the counts for a new round."""
        self.out = self.back = 0

    def follow(self, jobs: Sequence[Job], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """Count calls and their outcomes."""
        self.out += sum(self.size_of(job.payload) for job in jobs)
        for name, outcome in outcomes:
            if not isinstance(outcome, Exception):
                self.back += self.size_of(outcome)
            yield name, outcome

    def size_of(self, value: object) -> int:
        """Return the size of a value in bytes."""
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
