"""ClientSampler: chooses the clients of each round, in secret where privacy depends on it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from syft.federated.server.dispatch import Dispatcher
from syft.federated.server.settings import RunSettings


class ClientSampler:
    """Chooses the clients of a run's rounds: in secret by `privacy`, or else publicly.

    Attributes:
        drawn: the round and the indices of the clients drawn in secret for it. They are kept until the round counts:
            with a new draw for each attempt, responsive clients would take part more often than accounted for.
        is_short: whether chosen clients were busy with an earlier call.
    """

    def __init__(self, clients: Sequence[Any], settings: RunSettings, dispatcher: Dispatcher, privacy: Any) -> None:
        self._clients, self._settings, self._dispatcher, self._privacy = clients, settings, dispatcher, privacy
        self.drawn: tuple[int, list[int]] | None = None
        self.is_short = False

    def choose(self, number: int, attempt: int, seed: int, least: int) -> dict[str, Any]:
        """Return the clients of a round by name. A secret draw of fewer than `least` becomes an empty one."""
        count = len(self._clients)
        numbers: Sequence[int]
        if self._privacy is not None:
            if self.drawn is None or self.drawn[0] != number:
                self.drawn = (number, self._privacy.choose(count))
            numbers = self.drawn[1] if len(self.drawn[1]) >= least else []
        else:
            wanted = self._settings.count(count)
            chance = random.Random(f"{seed}:{number}:{attempt}")  # noqa: S311  (chooses, hides nothing)
            numbers = range(count) if wanted == count else sorted(chance.sample(range(count), wanted))
        chosen = [self._clients[number] for number in numbers]
        # A client that is busy with an earlier round is not called.
        free = {client.name: client for client in chosen if not self._dispatcher.is_busy(client.name)}
        self.is_short = len(free) < len(chosen)
        return free
