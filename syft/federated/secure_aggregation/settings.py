"""SecureAggregation: the threshold and the number range of secure aggregation."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from syft.display.facts import FactList, Shown
from syft.exceptions import TrainingError
from syft.federated.client.secure_aggregation.packing import check_range
from syft.federated.client.secure_aggregation.participants import MAX_CLIENTS, MIN_CLIENTS

if TYPE_CHECKING:
    from syft.federated.secure_aggregation.collector import SecureCollector


@dataclasses.dataclass(frozen=True, slots=True)
class SecureAggregation(Shown):
    """Lets the server of a run see only the sum of the clients' results.

    Clients mask their results such that masks cancel in the sum. If clients drop out, the others help to remove their
    masks, as long as enough remain (Bonawitz et al., 2017). See docs/how-to/federated.md for the security properties.

    Args:
        threshold: minimum number of clients at the end of a round, or their share of the round's clients. More than
            two thirds by default; always more than half.
        min_clients: minimum number of clients at the start of a round, at least 3.
        timeout: maximum seconds of each step other than training.
        max_update: the largest absolute value in an update; a larger one is an error at the client.
        max_samples: the largest number of samples of a client with such an update.

    Example:
        >>> import torch, syft as sy
        >>> data = torch.linspace(-1, 1, 40).view(-1, 1)
        >>> result = sy.federated.run(
        ...     "fedavg", sy.federated.Simulation((data, 3 * data), 4), 2, model=torch.nn.Linear(1, 1),
        ...     loss_fn=torch.nn.functional.mse_loss, secure=sy.federated.SecureAggregation(), seed=1
        ... )
        >>> result.rounds
        2
    """

    threshold: int | float | None = None
    min_clients: int = MIN_CLIENTS
    timeout: float = 60.0
    max_update: float = 1024.0
    max_samples: int = 2**20

    def __post_init__(self) -> None:
        check_range(self.max_update, self.max_samples)
        given = self.threshold
        is_share = type(given) is float and 0.5 < given <= 1
        if not (given is None or is_share or (type(given) is int and 2 <= given <= MAX_CLIENTS)):
            raise TrainingError(
                "threshold of SecureAggregation must be a number of clients from 2, or a share above 0.5 and up to "
                f"1.0, got {given!r:.50}."
            )
        if type(self.min_clients) is not int or not MIN_CLIENTS <= self.min_clients <= MAX_CLIENTS:
            raise TrainingError(
                f"min_clients of SecureAggregation must be an integer from {MIN_CLIENTS} to {MAX_CLIENTS}: the sum "
                "of fewer clients reveals too much of each."
            )
        if type(self.timeout) not in (int, float) or not 0 < self.timeout < math.inf:
            raise TrainingError("timeout of SecureAggregation must be a positive number of seconds.")

    def _facts(self) -> FactList:
        return ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))

    def threshold_of(self, clients: int) -> int:
        """Return the threshold for a number of clients."""
        if self.threshold is None:
            return 2 * clients // 3 + 1
        if type(self.threshold) is float:
            return max(clients // 2 + 1, math.ceil(self.threshold * clients))
        return int(self.threshold)

    def collector(self, run: str) -> SecureCollector:
        """Return the collector for the results of a run."""
        from syft.federated.secure_aggregation.collector import SecureCollector

        return SecureCollector(self, run)
